//! Several users in one directory: whose sidecars are used, and who may lock what (G13, races 58
//! and 63).
//!
//! The users act only through `tenure`, unless a test says that one of them plants a file.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use tenure_proof::Tally;
use tenure_proof::bounded::{self, Ended};
use tenure_proof::live::Live;
use tenure_proof::machine::allows_root;

use crate::RING;
use crate::place::{ALICE, BOB, MALLORY, Place, mode, set_mode};

/// As `/tmp` is: every user may create names, and remove only their own.
const STICKY: u32 = 0o1777;
/// A group that ALICE and BOB share in some tests.
const TEAM: u32 = 64_444;

const HELD: &str = "echo ready; read -r go; echo done";

/// A shell script of one user, in the shared directory.
fn script(place: &Place, user: u32, text: &str) -> Ended {
    let mut command = place.as_user(user);
    command.args(["sh", "-c", text]);
    bounded::run(command)
}

/// `tenure` as a member of the team.
fn as_member(place: &Place, user: u32, args: &[&str]) -> Ended {
    let mut command = place.as_member(user, TEAM);
    command.arg(place.path("tenure")).args(args);
    bounded::run(command)
}

/// A user that holds a lock until its input is closed.
fn holder(place: &Place, user: u32, target: &str) -> Live {
    let holder = Live::start(place.command(
        user,
        "tenure",
        &["run", "--wait", "0", target, "--", "sh", "-c", HELD],
    ));
    assert_eq!(holder.line().as_deref(), Some("ready"), "user {user} on {target}");
    holder
}

/// Everything below a directory.
fn all_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() && !entry.is_symlink() {
                todo.push(entry.clone());
            }
            found.push(entry);
        }
    }
    found
}

/// Every sidecar of a target, wherever its directory is.
fn sidecars_of(place: &Place, target: &str) -> Vec<PathBuf> {
    let mut found = all_below(&place.shared());
    let is_its = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.strip_prefix(target).is_some_and(|rest| rest.starts_with('.'))
    };
    found.retain(|path| is_its(path));
    assert!(!found.is_empty(), "{target} has no sidecars");
    found
}

#[track_caller]
fn refused(ended: &Ended, code: i32) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
}

/// A sticky directory in which root was the first to use tenure.
fn sticky() -> Place {
    let place = Place::new(STICKY);
    assert!(place.tenure(0, &["run", "of-root", "--", "true"]).is_done());
    place
}

/// MALLORY makes the directory of the sidecars if there is none, and a file in it that every user may write.
fn plant(place: &Place, name: &str, content: &str) {
    let text = format!(
        "for side in .tenure .tenure-{ALICE}; do
           mkdir -m 777 $side; printf %s '{content}' > $side/{name} && chmod 666 $side/{name}
         done 2>/dev/null; true"
    );
    assert!(script(place, MALLORY, &text).is_done());
}

#[test]
fn race_58_g13_a_planted_log_shows_its_planter_nothing() {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "race_58_g13_a_planted_log_shows_its_planter_nothing");
    for suffix in ["wal", "index", "torn", "events", "commit", "hold", "sync0"] {
        let place = sticky();
        // Her own directory exists before: she can always use what bears her own number.
        assert!(place.tenure(ALICE, &["run", "of-alice", "--", "true"]).is_done());
        plant(&place, &format!("log.jsonl.{suffix}"), "");
        let appended = place.tenure(ALICE, &["journal", "append", "log.jsonl", "a secret"]);
        assert!(appended.is_done(), "{suffix}: {appended:?}");
        assert_eq!(mode(&place.shared().join("log.jsonl")), 0o600);
        let found = script(&place, MALLORY, "grep -rls 'a secret' . || true");
        assert_eq!(found.stdout, "", "{suffix}: MALLORY reads it");
        tally.tried(1, "logs planted in a sticky directory");
    }
}

#[test]
fn race_58_g13_a_planted_copy_is_never_restored() {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "race_58_g13_a_planted_copy_is_never_restored");
    for suffix in ["good", "tmp.0000000000000000"] {
        let place = sticky();
        assert!(place.tenure(ALICE, &["doc", "set", "state.json", "{\"n\":1}"]).is_done());
        plant(&place, &format!("state.json.{suffix}"), "{\"forged\":true}");
        assert!(script(&place, ALICE, "echo '{' > state.json").is_done());
        place.tenure(ALICE, &["doc", "restore", "state.json"]);
        let text = std::fs::read_to_string(place.shared().join("state.json")).unwrap();
        assert!(!text.contains("forged"), "{suffix}: {text}");
        tally.tried(1, "copies planted in a sticky directory");
    }
}

#[test]
fn race_58_g1_a_planted_lock_file_makes_no_second_holder() {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "race_58_g1_a_planted_lock_file_makes_no_second_holder");
    for exists in [false, true] {
        let place = sticky();
        assert!(place.tenure(ALICE, &["run", "of-alice", "--", "true"]).is_done());
        if exists {
            assert!(script(&place, ALICE, "echo 1 > x").is_done());
        }
        plant(&place, "x.hold", "");
        let held = holder(&place, ALICE, "x");
        script(&place, MALLORY, "rm -f .tenure*/x.hold 2>/dev/null; true");
        let second = place.tenure(ALICE, &["run", "--wait", "0", "x", "--", "true"]);
        refused(&second, 75);
        drop(held);
        tally.tried(1, "lock files planted, and unlinked during a hold");
    }
}

#[test]
fn race_58_g13_who_may_not_write_a_document_cannot_lease_it() {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "race_58_g13_who_may_not_write_a_document_cannot_lease_it");
    let place = Place::new(STICKY);
    assert!(place.tenure(ALICE, &["doc", "set", "state.json", "1"]).is_done());
    assert!(place.tenure(ALICE, &["journal", "append", "log.jsonl", "1"]).is_done());
    for name in ["state.json", "log.jsonl"] {
        for path in sidecars_of(&place, name) {
            assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
        }
        for args in [
            &["lease", "acquire", name, "--ttl", "30d", "--wait", "0"][..],
            &["run", "--wait", "0", name, "--", "true"],
        ] {
            let ended = place.tenure(MALLORY, args);
            assert!(!ended.is_done(), "{args:?}: {ended:?}");
            tally.tried(1, "leases and locks on a file of another user");
        }
    }
    assert!(place.tenure(ALICE, &["doc", "set", "state.json", "2", "--wait", "0"]).is_done());
    assert!(place.tenure(ALICE, &["journal", "append", "log.jsonl", "2", "--wait", "0"]).is_done());
}

#[test]
fn race_58_g13_one_user_locks_no_other_out_of_their_own_files() {
    if !allows_root() {
        return;
    }
    let test = "race_58_g13_one_user_locks_no_other_out_of_their_own_files";
    let mut tally = Tally::new(RING, test);
    let place = Place::new(STICKY);
    for user in [ALICE, BOB, 0, MALLORY] {
        let (document, lock) = (format!("{user}.json"), format!("{user}.lock"));
        for args in [
            &["run", &lock, "--", "true"][..],
            &["doc", "set", &document, "1"],
            &["doc", "set", &document, "2"],
            &["lease", "acquire", &document, "--ttl", "1ms"],
        ] {
            let ended = place.tenure(user, args);
            assert!(ended.is_done(), "{args:?} as {user}: {ended:?}");
            tally.tried(1, "commands on one's own files beside other users");
        }
        assert_eq!(mode(&place.shared().join(&document)), 0o600);
    }
}

#[test]
fn race_63_g1_two_users_never_both_hold_what_is_not_there() {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "race_63_g1_two_users_never_both_hold_what_is_not_there");
    let place = Place::new(STICKY);
    let held = holder(&place, ALICE, "x");
    let run = ["run", "--wait", "0", "x", "--", "true"];
    for user in [BOB, 0] {
        let other = place.tenure(user, &run);
        refused(&other, 6);
        assert!(other.stderr.contains("create the file first"), "{other:?}");
    }
    refused(&place.tenure(ALICE, &run), 75);
    // Her record is closed to BOB; root sees the owner of the hold.
    let who = place.tenure(0, &["who", "x", "--json"]);
    assert!(who.stdout.contains("\"kind\":\"lock\""), "{who:?}");
    drop(held);
    // The refused users have left nothing that blocks her.
    assert!(place.tenure(ALICE, &["run", "x", "--", "true"]).is_done());
    // Once there is a file, it belongs to its owner.
    assert!(script(&place, BOB, "echo 1 > x").is_done());
    assert!(place.tenure(BOB, &run).is_done());
    assert!(place.tenure(0, &run).is_done());
    refused(&place.tenure(ALICE, &run), 1);
    tally.tried(8, "locks of several users on a name without a file");
}

#[test]
fn race_63_g1_a_hold_without_a_file_is_compromised_by_the_file_of_another_user() {
    if !allows_root() {
        return;
    }
    let test = "race_63_g1_a_hold_without_a_file_is_compromised_by_the_file_of_another_user";
    let mut tally = Tally::new(RING, test);
    let place = Place::new(STICKY);
    let mut held = holder(&place, ALICE, "x");
    assert!(script(&place, BOB, "echo 1 > x").is_done());
    held.say("go");
    assert_eq!(held.line().as_deref(), Some("done"));
    assert_eq!(held.end().code, Some(4));
    tally.tried(1, "files that another user made during a hold");
}

#[test]
fn race_63_g1_a_wait_starts_over_when_the_file_gets_another_owner() {
    if !allows_root() {
        return;
    }
    let test = "race_63_g1_a_wait_starts_over_when_the_file_gets_another_owner";
    let mut tally = Tally::new(RING, test);
    let place = Place::new(STICKY);
    assert!(script(&place, ALICE, "echo 1 > x").is_done());
    let mut held = holder(&place, ALICE, "x");
    // Root waits for the lock of ALICE's file; then the file is BOB's, whose lock is another one.
    let mut waiter = Live::start(place.command(
        0,
        "tenure",
        &["run", "--wait", "30s", "x", "--", "sh", "-c", HELD],
    ));
    let waits = || place.tenure(0, &["who", "x", "--json"]).stdout.contains("\"waiters\":[{");
    let mut looks = 0..1000;
    assert!(looks.any(|_| waits()), "root does not wait");
    chown(place.shared().join("x"), Some(BOB), Some(BOB)).unwrap();
    held.say("go");
    assert_eq!(waiter.line().as_deref(), Some("ready"));
    refused(&place.tenure(BOB, &["run", "--wait", "0", "x", "--", "true"]), 75);
    waiter.say("go");
    waiter.end();
    assert!(place.tenure(BOB, &["run", "--wait", "0", "x", "--", "true"]).is_done());
    tally.tried(1, "files that changed their owner during a wait");
}

#[test]
fn g13_in_a_sticky_directory_the_owner_comes_first() {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "g13_in_a_sticky_directory_the_owner_comes_first");
    let place = Place::new(STICKY);
    assert!(script(&place, ALICE, "echo 1 > open.json; chmod 666 open.json").is_done());
    let run = ["run", "--wait", "0", "open.json", "--", "true"];
    let early = place.tenure(BOB, &run);
    refused(&early, 6);
    assert!(early.stderr.contains("owner"), "{early:?}");
    assert!(place.tenure(ALICE, &run).is_done());
    assert!(place.tenure(BOB, &run).is_done(), "a second user who may write it may lock it");
    let lease = ["lease", "acquire", "open.json", "--ttl", "1ms"];
    assert!(place.tenure(BOB, &lease).is_done());
    let held = holder(&place, BOB, "open.json");
    refused(&place.tenure(ALICE, &run), 75);
    drop(held);
    for path in sidecars_of(&place, "open.json") {
        assert_eq!(mode(&path), 0o666, "{}", path.display());
        assert_eq!(mode(path.parent().unwrap()) & 0o022, 0, "others may create there");
    }
    tally.tried(6, "commands of two users on one file");
}

#[test]
fn g13_a_directory_that_bears_the_number_of_another_user_is_refused() {
    if !allows_root() {
        return;
    }
    let test = "g13_a_directory_that_bears_the_number_of_another_user_is_refused";
    let mut tally = Tally::new(RING, test);
    let place = sticky();
    assert!(script(&place, MALLORY, &format!("mkdir -m 777 .tenure-{ALICE}")).is_done());
    for args in [
        &["run", "x", "--", "true"][..],
        &["doc", "set", "state.json", "1"],
        &["journal", "append", "log.jsonl", "1"],
        &["lease", "acquire", "x", "--ttl", "1s"],
    ] {
        refused(&place.tenure(ALICE, args), 6);
        tally.tried(1, "commands that met a planted directory");
    }
    let inside = place.shared().join(format!(".tenure-{ALICE}"));
    assert_eq!(std::fs::read_dir(inside).unwrap().count(), 0);
    assert!(!place.shared().join("state.json").exists());
}

/// A directory of the team, with ALICE's document.
fn team(document: u32) -> Place {
    let place = Place::new(0o2770);
    chown(place.shared(), Some(ALICE), Some(TEAM)).unwrap();
    set_mode(&place.shared(), 0o2770);
    let path = place.shared().join("state.json");
    std::fs::write(&path, "{\"n\":0}\n").unwrap();
    chown(&path, Some(ALICE), Some(TEAM)).unwrap();
    set_mode(&path, document);
    place
}

const COUNT: [&str; 5] = ["doc", "update", "state.json", ".n += 1", "--json"];

fn count(place: &Place) -> u64 {
    let text = std::fs::read_to_string(place.shared().join("state.json")).unwrap();
    serde_json::from_str::<serde_json::Value>(&text).unwrap()["n"].as_u64().unwrap()
}

#[test]
fn g13_members_of_a_group_share_a_document_whoever_comes_first() {
    if !allows_root() {
        return;
    }
    let test = "g13_members_of_a_group_share_a_document_whoever_comes_first";
    let mut tally = Tally::new(RING, test);
    for order in [[ALICE, BOB], [BOB, ALICE]] {
        let place = team(0o660);
        for turn in 0..6 {
            let ended = as_member(&place, order[turn % 2], &COUNT);
            assert!(ended.is_done(), "turn {turn} of {order:?}: {ended:?}");
            tally.tried(1, "updates by members of a group");
        }
        assert_eq!(count(&place), 6);
        // And a lock on a name without a file.
        for user in order {
            assert!(as_member(&place, user, &["run", "build", "--", "true"]).is_done());
        }
    }
}

#[test]
fn g13_a_lock_that_another_user_made_first_keeps_nobody_out_of_a_file_of_their_own() {
    if !allows_root() {
        return;
    }
    let test = "g13_a_lock_that_another_user_made_first_keeps_nobody_out_of_a_file_of_their_own";
    let mut tally = Tally::new(RING, test);
    let place = team(0o660);
    std::fs::remove_file(place.shared().join("state.json")).unwrap();
    let lease = ["lease", "acquire", "state.json", "--ttl", "1ms", "--json"];
    let fence = |ended: &Ended| {
        let told: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        told["fence"].as_u64().unwrap()
    };
    let before = fence(&as_member(&place, BOB, &lease));
    // A document that only ALICE may write, where BOB has a lock that he may write.
    for args in [&["doc", "set", "state.json", "{\"n\":0}"][..], &COUNT, &COUNT] {
        let ended = as_member(&place, ALICE, args);
        assert!(ended.is_done(), "{args:?}: {ended:?}");
    }
    assert_eq!(count(&place), 2);
    assert!(fence(&as_member(&place, ALICE, &lease)) > before, "fences grow");
    // The same for a journal.
    assert!(as_member(&place, BOB, &["lease", "acquire", "log.jsonl", "--ttl", "1ms"]).is_done());
    for line in ["one", "two"] {
        let ended = as_member(&place, ALICE, &["journal", "append", "log.jsonl", line]);
        assert!(ended.is_done(), "{ended:?}");
    }
    tally.tried(5, "changes of new files under a lock of another user");
}

/// ALICE's document was closed, and is opened to the team.
#[test]
fn g13_after_chmod_the_second_user_changes_a_document_and_never_by_half() {
    if !allows_root() {
        return;
    }
    let test = "g13_after_chmod_the_second_user_changes_a_document_and_never_by_half";
    let mut tally = Tally::new(RING, test);
    let place = team(0o660);
    std::fs::remove_file(place.shared().join("state.json")).unwrap();
    let set = ["doc", "set", "state.json", "{\"n\":0}"];
    assert!(as_member(&place, ALICE, &set).is_done());
    assert!(as_member(&place, ALICE, &COUNT).is_done());
    assert!(!as_member(&place, BOB, &COUNT).is_done(), "it is closed");
    set_mode(&place.shared().join("state.json"), 0o660);
    for turn in 0..4 {
        let user = [BOB, ALICE][turn % 2];
        let ended = as_member(&place, user, &COUNT);
        assert!(ended.is_done(), "{user}: {ended:?}");
    }
    assert_eq!(count(&place), 5);
    tally.tried(5, "updates after a change of the mode");
}

/// The same in a directory that only ALICE may write: BOB can lock what he may write.
#[test]
fn g13_after_chmod_the_owners_next_call_opens_the_locks() {
    if !allows_root() {
        return;
    }
    let test = "g13_after_chmod_the_owners_next_call_opens_the_locks";
    let mut tally = Tally::new(RING, test);
    let place = team(0o600);
    set_mode(&place.shared(), 0o755);
    let lock = ["run", "--wait", "0", "state.json", "--", "true"];
    assert!(as_member(&place, ALICE, &lock).is_done());
    set_mode(&place.shared().join("state.json"), 0o660);
    let early = as_member(&place, BOB, &lock);
    refused(&early, 1);
    assert!(early.stderr.contains("let its owner use tenure on it once more"), "{early:?}");
    for (document, is_open) in [(0o660, true), (0o600, false), (0o660, true)] {
        set_mode(&place.shared().join("state.json"), document);
        assert!(as_member(&place, ALICE, &lock).is_done());
        for path in sidecars_of(&place, "state.json") {
            assert_eq!(mode(&path), document, "{}", path.display());
        }
        assert_eq!(as_member(&place, BOB, &lock).is_done(), is_open, "{document:o}");
        tally.tried(1, "changes of the mode");
    }
}

#[test]
fn g13_after_chmod_nothing_of_a_closed_document_can_be_read() {
    if !allows_root() {
        return;
    }
    let test = "g13_after_chmod_nothing_of_a_closed_document_can_be_read";
    let mut tally = Tally::new(RING, test);
    let place = team(0o660);
    for _ in 0..2 {
        assert!(as_member(&place, ALICE, &COUNT).is_done());
    }
    set_mode(&place.shared().join("state.json"), 0o600);
    for _ in 0..2 {
        assert!(as_member(&place, ALICE, &COUNT).is_done());
    }
    for path in sidecars_of(&place, "state.json") {
        let is_lock = ["hold", "commit", "sync0", "sync1"]
            .iter()
            .any(|suffix| path.extension().is_some_and(|found| found == *suffix));
        assert!(is_lock || mode(&path) == 0o600, "{} {:o}", path.display(), mode(&path));
    }
    tally.tried(1, "documents that were closed");
}

/// A user who may write a directory may move another user's closed file to the name of a sidecar.
/// It must not be opened there like a sidecar.
#[test]
fn race_58_g13_a_closed_file_that_was_moved_among_the_sidecars_stays_closed() {
    if !allows_root() {
        return;
    }
    let test = "race_58_g13_a_closed_file_that_was_moved_among_the_sidecars_stays_closed";
    let mut tally = Tally::new(RING, test);
    for suffix in ["hold", "commit", "sync0", "sync1", "good", "events", "damaged", "wal"] {
        for user in [ALICE, 0] {
            let place = team(0o600);
            chown(place.shared(), Some(BOB), Some(TEAM)).unwrap();
            set_mode(&place.shared(), 0o2770);
            let [diary, state] = ["diary", "state.json"].map(|name| place.shared().join(name));
            for path in [&diary, &state] {
                std::fs::write(path, "{\"n\":0,\"x\":\"a secret\"}").unwrap();
                chown(path, Some(user), Some(TEAM)).unwrap();
                set_mode(path, 0o600);
            }
            as_member(&place, user, &COUNT);
            as_member(&place, user, &COUNT);
            set_mode(&state, 0o660);
            let moved = format!("mv -f diary .tenure/state.json.{suffix}");
            let mut bob = place.as_member(BOB, TEAM);
            bob.args(["sh", "-c", &moved]);
            assert!(bounded::run(bob).is_done());
            std::fs::write(&state, "{\"n\":0}").unwrap();
            for args in [&COUNT[..], &["run", "state.json", "--", "true"], &COUNT] {
                as_member(&place, user, args);
            }
            let mut bob = place.as_member(BOB, TEAM);
            bob.args(["sh", "-c", "grep -rls 'a secret' . || true"]);
            assert_eq!(bounded::run(bob).stdout, "", "{suffix} of {user}: BOB reads it");
            tally.tried(1, "closed files moved among the sidecars");
        }
    }
}

#[test]
fn race_58_g13_outside_sticky_directories_a_planted_sidecar_is_refused() {
    if !allows_root() {
        return;
    }
    let test = "race_58_g13_outside_sticky_directories_a_planted_sidecar_is_refused";
    let mut tally = Tally::new(RING, test);
    for suffix in ["hold", "commit", "good", "log"] {
        let place = Place::new(0o777);
        assert!(place.tenure(ALICE, &["doc", "set", "state.json", "{\"n\":1}"]).is_done());
        assert!(place.tenure(ALICE, &["journal", "append", "log.jsonl", "1"]).is_done());
        for target in ["state.json", "log.jsonl"] {
            let name = place.shared().join(".tenure").join(format!("{target}.{suffix}"));
            let _ = std::fs::remove_file(&name);
            std::fs::write(&name, "{\"forged\":true}\n").unwrap();
            chown(&name, Some(MALLORY), Some(MALLORY)).unwrap();
            set_mode(&name, 0o666);
        }
        let args: [&[&str]; 2] = match suffix {
            "good" => {
                assert!(script(&place, ALICE, "echo '{' > state.json").is_done());
                [&["doc", "restore", "state.json"], &["doc", "get", "state.json"]]
            }
            "log" => [&["journal", "append", "log.jsonl", "2"], &["journal", "read", "log.jsonl"]],
            _ => [&["run", "state.json", "--", "true"], &["doc", "set", "state.json", "2"]],
        };
        let ended = place.tenure(ALICE, args[0]);
        refused(&ended, 6);
        assert!(ended.stderr.contains(&MALLORY.to_string()), "{ended:?}");
        assert!(!place.tenure(ALICE, args[1]).is_done(), "{suffix}");
        tally.tried(2, "sidecars planted outside sticky directories");
    }
}
