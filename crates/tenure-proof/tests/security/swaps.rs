//! Races with somebody hostile who swaps sidecars and data while others work.

use std::time::{Duration, Instant};

use tenure_proof::live::Live;
use tenure_proof::machine::allows_root;
use tenure_proof::{Form, Tally, seed};

use crate::RING;
use crate::place::{ALICE, MALLORY, Place};

/// What the others do meanwhile.
const WORK: [&[&str]; 7] = [
    &["doc", "update", "state.json", ".n += 1", "--init", "{\"n\":0}"],
    &["doc", "get", "state.json"],
    &["journal", "append", "log.jsonl", "1", "2"],
    &["journal", "read", "log.jsonl"],
    &["run", "--wait", "1s", "state.json", "--", "true"],
    &["who"],
    &["doc", "set", "state.json", "{\"n\":0}", "--no-sync", "--wait", "1s"],
];

/// Works as root and as somebody else while an attacker swaps files in a directory of this mode.
fn attack(test: &str, mode: u32) {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, test);
    let place = Place::new(mode);
    let seed = seed(RING, test);
    let (dir, victim) = (place.shared(), place.path("vault"));
    let [dir, victim] = [&dir, &victim].map(|path| path.to_str().unwrap().to_owned());
    let start = Instant::now();
    let long = Form::asked().pick(Duration::from_secs(5), Duration::from_secs(120));
    let mut runs = 0;
    // The first to come makes the directory; in a sticky one it stays root's.
    assert_eq!(place.tenure(0, WORK[0]).code, Some(0));
    let attacker =
        Live::start(place.command(MALLORY, "attacker", &[dir, victim, seed.to_string()]));
    while start.elapsed() < long {
        for args in WORK {
            for user in [0, ALICE] {
                place.tenure(user, args);
                runs += 1;
            }
        }
        place.vault_is_untouched();
    }
    let swaps: u64 = attacker.end().stdout.trim().parse().unwrap();
    place.vault_is_untouched();
    assert!(swaps > 500, "only {swaps} swaps");
    tally.tried(swaps, "swaps of files by another user");
    tally.tried(runs, "commands meanwhile");
}

#[test]
fn g13_swaps_in_a_directory_that_everybody_may_write() {
    attack("g13_swaps_in_a_directory_that_everybody_may_write", 0o777);
}

#[test]
fn g13_swaps_in_a_sticky_directory() {
    attack("g13_swaps_in_a_sticky_directory", 0o1777);
}
