//! What this ring must find: scripts as people write them, under the same attacks and judges.

use std::process::Command;

use tenure_proof::bounded;
use tenure_proof::live::Live;
use tenure_proof::machine::allows_root;
use tenure_proof::{Tally, seed};

use crate::RING;
use crate::modes::for_others;
use crate::place::{ALICE, MALLORY, Place, set_mode};

/// Many more than needed.
const ATTEMPTS: u64 = 1_000;

/// A shell script, run by some user in the shared directory.
fn script(place: &Place, user: u32, text: &str) -> Command {
    let mut command = place.as_user(user);
    command.args(["sh", "-c", text]);
    command
}

#[test]
fn a_temporary_file_by_a_known_name_leads_outside() {
    if !allows_root() {
        return;
    }
    let test = "a_temporary_file_by_a_known_name_leads_outside";
    let mut tally = Tally::new(RING, test);
    let place = Place::new(0o777);
    let side = place.shared().join(".tenure");
    std::fs::create_dir(&side).unwrap();
    set_mode(&side, 0o777);
    let (dir, victim) = (place.shared(), place.path("vault"));
    let [dir, victim] = [&dir, &victim].map(|path| path.to_str().unwrap().to_owned());
    let seed = seed(RING, test).to_string();
    let attacker = Live::start(place.command(MALLORY, "attacker", &[dir, victim, seed]));
    // A pipe that was swapped in would block it for ever; that is not the point here.
    let save = "timeout 1 sh -c 'for turn in 1 2 3 4 5 6 7 8 9; do echo {} > \"$0\"; done' \
                .tenure/script.tmp 2>/dev/null";
    let mut attempts = 0..ATTEMPTS;
    let led_outside = attempts.any(|_| {
        bounded::run(script(&place, 0, save));
        place.vault_was_touched().is_some()
    });
    assert!(led_outside, "a script that follows links was not found out");
    drop(attacker);
    tally.caught("a temporary file by a known name: a link of another user is followed");
}

#[test]
fn flock_does_not_tell_its_holder_that_the_lock_file_is_gone() {
    if !allows_root() {
        return;
    }
    let test = "flock_does_not_tell_its_holder_that_the_lock_file_is_gone";
    let mut tally = Tally::new(RING, test);
    let place = Place::new(0o777);
    let held = "exec flock state.lock sh -c 'echo ready; read -r go; echo wrote'";
    let mut holder = Live::start(script(&place, ALICE, held));
    assert_eq!(holder.line().as_deref(), Some("ready"));
    std::fs::remove_file(place.shared().join("state.lock")).unwrap();
    let other = bounded::run(script(&place, ALICE, "exec flock -n state.lock true"));
    holder.say("go");
    let wrote = holder.line();
    let late = other.is_done() && wrote.as_deref() == Some("wrote");
    assert!(late && holder.end().code == Some(0), "two holders were not found out");
    tally.caught("flock(1): the lock file is removed, and a holder who is not told writes late");
}

#[test]
fn a_save_by_rename_opens_what_was_closed() {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "a_save_by_rename_opens_what_was_closed");
    let place = Place::new(0o755);
    std::os::unix::fs::chown(place.shared(), Some(ALICE), Some(ALICE)).unwrap();
    let path = place.shared().join("state.json");
    let save = "umask 022; echo {} > state.tmp && mv state.tmp state.json";
    assert!(bounded::run(script(&place, ALICE, save)).is_done());
    set_mode(&path, 0o600);
    assert!(bounded::run(script(&place, ALICE, save)).is_done());
    assert_ne!(for_others(&path), 0, "wider permissions were not found out");
    tally.caught("a temporary file with the mode of the umask: a closed file is open after a save");
}
