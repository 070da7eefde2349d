//! Races with an attacker that swaps sidecars and data while others work.
//!
//! An attack that ends soon, or that blocks all commands, proves nothing: in each quarter of the
//! run every kind of swap must have been made, and every command must have succeeded, often enough.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use tenure_proof::live::Live;
use tenure_proof::machine::allows_root;
use tenure_proof::{Form, Tally, seed};

use crate::RING;
use crate::place::{ALICE, MALLORY, Place, set_mode};

/// What they work on.
const DATA: [(&str, &str); 2] = [("state.json", "{\"n\":0}\n"), ("log.jsonl", "0\n")];

/// What the others do meanwhile.
const WORK: [&[&str]; 8] = [
    &["doc", "update", "state.json", ".n += 1", "--init", "{\"n\":0}"],
    &["doc", "get", "state.json"],
    &["journal", "append", "log.jsonl", "1", "2"],
    &["journal", "read", "log.jsonl"],
    &["run", "--wait", "1s", "state.json", "--", "true"],
    &["who"],
    &["doc", "set", "state.json", "{\"n\":0}", "--no-sync", "--wait", "1s"],
    // Held for a short time only, so that in a sticky directory the attacker can be the first.
    &["doc", "set", "loose.json", "1"],
];

/// What the attacker can swap for others' files in a directory that all users may write.
const OPEN: [&str; 13] = [
    "data: a second name",
    "data: a pipe",
    "data: a file",
    "directory: a link to a secret",
    "directory: a link to a directory",
    "directory: a second name",
    "directory: a pipe",
    "directory: a file",
    "sidecar: a link to a secret",
    "sidecar: a link to a directory",
    "sidecar: a second name",
    "sidecar: a pipe",
    "sidecar: a file",
];
/// In a sticky one it can only come first, and not in an existing sidecar directory; a link to data
/// is an attack as well.
const STICKY: [&str; 10] = [
    "data: a link to a secret",
    "data: a link to a directory",
    "data: a second name",
    "data: a pipe",
    "data: a file",
    "directory: a link to a secret",
    "directory: a link to a directory",
    "directory: a second name",
    "directory: a pipe",
    "directory: a file",
];

/// A quarter that takes longer than this will not see enough of everything.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often things happened, by their names.
type Counts = BTreeMap<String, u64>;

/// A running attacker, and the commands beside it.
struct Attack {
    place: Place,
    attacker: Live,
    done: Counts,
    /// The last error of each command that failed.
    errors: BTreeMap<String, String>,
    runs: u64,
}

impl Attack {
    /// In a directory of this mode, with data that all users may write.
    fn start(mode: u32, seed: u64) -> Self {
        let place = Place::new(mode);
        let (dir, victim) = (place.shared(), place.path("vault"));
        for data in &DATA {
            put_data(&place, data);
        }
        // The first command makes the directory; in a sticky one it stays root's.
        for args in &WORK[..7] {
            assert_eq!(place.tenure(0, args).code, Some(0), "{args:?}");
        }
        let [dir, victim] = [&dir, &victim].map(|path| path.to_str().unwrap().to_owned());
        let attacker = place.command(MALLORY, "attacker", &[dir, victim, seed.to_string()]);
        let attacker = Live::start(attacker);
        Self { place, attacker, done: Counts::new(), errors: BTreeMap::new(), runs: 0 }
    }

    /// Every command once, as root and as another user.
    fn round(&mut self) {
        for args in WORK {
            for user in [0, ALICE] {
                let ended = self.place.tenure(user, args);
                self.runs += 1;
                *self.done.entry(args.join(" ")).or_default() += u64::from(ended.is_done());
                if !ended.is_done() {
                    self.errors.insert(args.join(" "), format!("{ended:?}"));
                }
            }
        }
        self.free_loose_name();
        self.place.vault_is_untouched();
        // A swap of a temporary file may be published as the document.
        let lost = DATA.iter().filter(|(name, _)| !is_data(&self.place.shared().join(name)));
        lost.for_each(|data| put_data(&self.place, data));
    }

    /// Removes `loose.json`, and its sidecars in a sticky directory, so that the attacker can be
    /// the first there again. This includes those of the attacker: once root has met the
    /// attacker's file at this name, the name is the attacker's, and every later command is
    /// refused.
    fn free_loose_name(&self) {
        let shared = self.place.shared();
        let _ = std::fs::remove_file(shared.join("loose.json"));
        let _ = std::fs::remove_dir_all(shared.join(format!(".tenure-{ALICE}")));
        let _ = std::fs::remove_dir_all(shared.join(format!(".tenure-{MALLORY}")));
    }

    /// The swaps that were made so far, by kind.
    fn swaps(&mut self) -> Counts {
        self.attacker.say("how many");
        serde_json::from_str(&self.attacker.line().unwrap()).unwrap()
    }

    /// Runs for this long, and longer until each kind of swap was made, and each command has
    /// succeeded, `enough` times more than before.
    fn quarter(&mut self, number: u32, kinds: &[&str], long: Duration, enough: u64) {
        let (start, done, swaps) = (Instant::now(), self.done.clone(), self.swaps());
        loop {
            self.round();
            let made = self.swaps();
            let commands = self.done.keys().map(String::as_str);
            let mut few = too_few(commands, &done, &self.done, enough);
            few.extend(too_few(kinds.iter().copied(), &swaps, &made, enough));
            if few.is_empty() && start.elapsed() >= long {
                return;
            }
            let counts = format!("{:?}; {made:?}; errors: {:#?}", self.done, self.errors);
            let in_time = start.elapsed() < long + PATIENCE;
            assert!(in_time, "quarter {number}: too few of {few:?}; {counts}");
        }
    }
}

/// Whether this is a document or a journal that all users may write, as JSON. The file is opened
/// once and judged by its handle: a pipe swapped in between a check and a read would block for
/// ever.
fn is_data(path: &Path) -> bool {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let is_ours = |file: &File| {
        let found = file.metadata();
        found.is_ok_and(|it| it.is_file() && it.nlink() == 1 && it.mode() & 0o666 == 0o666)
    };
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let ours = opened.ok().filter(is_ours);
    ours.and_then(|file| std::io::read_to_string(file).ok())
        .is_some_and(|text| text.starts_with(['{', '0']))
}

/// Replaces whatever is there by data that all users may write.
fn put_data(place: &Place, (name, text): &(&str, &str)) {
    let new = place.path("new");
    std::fs::write(&new, text).unwrap();
    set_mode(&new, 0o666);
    std::fs::rename(&new, place.shared().join(name)).unwrap();
}

/// Which of these happened less than `enough` times between two counts.
fn too_few<'n>(
    names: impl Iterator<Item = &'n str>,
    before: &Counts,
    after: &Counts,
    enough: u64,
) -> Vec<String> {
    let count = |counts: &Counts, name: &str| counts.get(name).copied().unwrap_or(0);
    let few = names.filter(|name| count(after, name) - count(before, name) < enough);
    few.map(str::to_owned).collect()
}

/// Works as root and as another user while an attacker swaps files in a directory of this mode.
fn attack(test: &str, mode: u32, kinds: &[&str]) {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, test);
    let mut attack = Attack::start(mode, seed(RING, test));
    let (seconds, enough) = Form::asked().pick((1, 2), (30, 20));
    for number in 1..=4 {
        attack.quarter(number, kinds, Duration::from_secs(seconds), enough);
    }
    let swaps: u64 = attack.swaps().values().sum();
    let done: u64 = attack.done.values().sum();
    attack.place.vault_is_untouched();
    tally.tried(swaps, "swaps of files by another user");
    tally.tried(attack.runs, "commands meanwhile");
    tally.tried(done, "commands that did their work all the same");
}

#[test]
fn g13_swaps_in_a_directory_that_everybody_may_write() {
    attack("g13_swaps_in_a_directory_that_everybody_may_write", 0o777, &OPEN);
}

#[test]
fn g13_swaps_in_a_sticky_directory() {
    attack("g13_swaps_in_a_sticky_directory", 0o1777, &STICKY);
}
