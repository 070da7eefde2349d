//! What the mode of a target forbids, tenure forbids (G13): in directories that are open to other
//! users, after a `chmod`, and where a sidecar cannot be created.

use std::os::unix::fs::chown;

use tenure_proof::Tally;
use tenure_proof::bounded::{self, Ended};
use tenure_proof::machine::allows_root;

use crate::RING;
use crate::place::{ALICE, BOB, MALLORY, Place, set_mode};

const STICKY: u32 = 0o1777;
/// A group that ALICE and BOB share in some tests.
const TEAM: u32 = 64_444;

fn as_member(place: &Place, user: u32, args: &[&str]) -> Ended {
    let mut command = place.as_member(user, TEAM);
    command.arg(place.path("tenure")).args(args);
    bounded::run(command)
}

#[track_caller]
fn done(ended: &Ended) {
    assert!(ended.is_done(), "{ended:?}");
}

/// Everything that needs the lock of a document or of a journal.
const CHANGES: [&[&str]; 9] = [
    &["run", "--wait", "0", "state.json", "--", "true"],
    &["lease", "acquire", "state.json", "--ttl", "30d", "--wait", "0"],
    &["lease", "take-over", "state.json", "--ttl", "1h", "--reason", "test"],
    &["doc", "set", "state.json", "7", "--wait", "0"],
    &["doc", "restore", "state.json"],
    &["run", "--wait", "0", "log.jsonl", "--", "true"],
    &["lease", "acquire", "log.jsonl", "--ttl", "30d", "--wait", "0"],
    &["journal", "append", "log.jsonl", "7", "--wait", "0"],
    &["journal", "rotate", "log.jsonl"],
];

/// ALICE works on her document and her journal, without waiting for another user.
#[track_caller]
fn alice_works(place: &Place) {
    done(&as_member(place, ALICE, &["doc", "set", "state.json", "{\"n\":1}", "--wait", "0"]));
    done(&as_member(place, ALICE, &["journal", "append", "log.jsonl", "1", "--wait", "0"]));
}

#[test]
fn race_58_g13_who_may_write_the_directory_may_not_lock_a_closed_file_in_it() {
    if !allows_root() {
        return;
    }
    let test = "race_58_g13_who_may_write_the_directory_may_not_lock_a_closed_file_in_it";
    let mut tally = Tally::new(RING, test);
    for (directory, file, first) in [
        (0o777, 0o600, ALICE),
        (0o777, 0o644, ALICE),
        (0o2777, 0o600, ALICE),
        (0o2770, 0o600, ALICE),
        (0o2770, 0o640, ALICE),
        // The locks were made by BOB, before the files.
        (0o2770, 0o600, BOB),
    ] {
        let place = Place::new(directory);
        chown(place.shared(), None, Some(TEAM)).unwrap();
        set_mode(&place.shared(), directory);
        for name in ["state.json", "log.jsonl"] {
            done(&as_member(&place, first, &["run", name, "--", "true"]));
        }
        alice_works(&place);
        for name in ["state.json", "log.jsonl"] {
            set_mode(&place.shared().join(name), file);
        }
        alice_works(&place);
        for args in CHANGES {
            let ended = as_member(&place, BOB, args);
            assert_eq!(ended.code, Some(1), "{file:o} in {directory:o}, {args:?}: {ended:?}");
            assert!(ended.stderr.contains("ermission denied"), "{args:?}: {ended:?}");
            tally.tried(1, "changes of a closed file in an open directory");
        }
        alice_works(&place);
        // What BOB may write, BOB may lock.
        for name in ["state.json", "log.jsonl"] {
            set_mode(&place.shared().join(name), 0o666);
        }
        alice_works(&place);
        done(&as_member(&place, BOB, CHANGES[0]));
    }
}

/// A lease on a name without a file gives no permission for a file that its owner creates later.
#[test]
fn race_58_g13_a_lease_on_a_missing_name_is_not_renewed_on_a_closed_file() {
    if !allows_root() {
        return;
    }
    let test = "race_58_g13_a_lease_on_a_missing_name_is_not_renewed_on_a_closed_file";
    let mut tally = Tally::new(RING, test);
    let place = Place::new(0o777);
    // The locks are ALICE's, so they stay in use when the file is there.
    done(&place.tenure(ALICE, &["run", "state.json", "--", "true"]));
    let lease = ["lease", "acquire", "state.json", "--ttl", "1h", "--json"];
    let leased = place.tenure(MALLORY, &lease);
    done(&leased);
    let told: serde_json::Value = serde_json::from_str(&leased.stdout).unwrap();
    let (token, fence) = (told["token"].as_str().unwrap(), told["fence"].to_string());
    let path = place.shared().join("state.json");
    std::fs::write(&path, "{\"n\":1}\n").unwrap();
    set_mode(&path, 0o600);
    chown(&path, Some(ALICE), Some(ALICE)).unwrap();
    for args in [
        &["lease", "renew", "state.json", "--token", token][..],
        &["doc", "set", "state.json", "7", "--fence", &fence],
    ] {
        let ended = place.tenure(MALLORY, args);
        assert!(!ended.is_done(), "{args:?}: {ended:?}");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"n\":1}\n");
    tally.tried(2, "uses of a lease that is older than the file");
}

#[test]
fn g13_a_lease_of_another_user_is_never_shown_as_free() {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "g13_a_lease_of_another_user_is_never_shown_as_free");
    let place = Place::new(STICKY);
    done(&place.tenure(ALICE, &["doc", "set", "state.json", "1"]));
    for name in ["missing", "state.json"] {
        done(&place.tenure(ALICE, &["lease", "acquire", name, "--ttl", "1h", "--owner", "her"]));
        for verb in [&["lease", "show", name][..], &["who", name]] {
            let closed = place.tenure(BOB, verb);
            assert_eq!(closed.code, Some(6), "{verb:?}: {closed:?}");
            assert!(closed.stderr.contains(&ALICE.to_string()), "{verb:?}: {closed:?}");
            let seen = place.tenure(0, verb);
            assert!(seen.is_done() && seen.stdout.contains("her"), "{verb:?}: {seen:?}");
            tally.tried(2, "looks at a lease of another user");
        }
    }
    let free = place.tenure(BOB, &["lease", "show", "unused"]);
    assert!(free.is_done() && free.stdout.contains("free"), "{free:?}");
    // If the other users' sidecars cannot be listed, nothing is known.
    set_mode(&place.shared(), 0o1733);
    assert!(!place.tenure(BOB, &["lease", "show", "missing"]).is_done());
}

/// The journal was closed and is opened to readers; its sidecars are not, until its owner uses it.
#[test]
fn g13_after_chmod_a_reader_of_a_journal_learns_what_opens_it() {
    if !allows_root() {
        return;
    }
    let test = "g13_after_chmod_a_reader_of_a_journal_learns_what_opens_it";
    let mut tally = Tally::new(RING, test);
    let next_step = ["tenure", "run", "log.jsonl", "--", "true"];
    let compact = ["tenure", "journal", "compact", "log.jsonl", "--from", "1"];
    for (directory, owner, step) in
        [(0o755, ALICE, &next_step[..]), (STICKY, 0, &next_step), (0o777, 0, &compact)]
    {
        let place = Place::new(directory);
        chown(place.shared(), Some(owner), None).unwrap();
        set_mode(&place.shared(), directory);
        for line in ["1", "2"] {
            done(&place.tenure(ALICE, &["journal", "append", "log.jsonl", line]));
        }
        done(&place.tenure(ALICE, &["journal", "rotate", "log.jsonl"]));
        done(&place.tenure(ALICE, &["journal", "append", "log.jsonl", "3"]));
        done(&place.tenure(ALICE, &["doc", "set", "state.json", "1"]));
        for name in ["log.jsonl", "log.jsonl.1", "state.json"] {
            set_mode(&place.shared().join(name), 0o644);
        }
        let get = place.tenure(BOB, &["doc", "get", "state.json"]);
        assert_eq!(get.stdout.trim(), "1", "a document needs no sidecar: {get:?}");
        for verb in ["read", "verify"] {
            let early = place.tenure(BOB, &["journal", verb, "log.jsonl"]);
            assert_eq!(early.code, Some(1), "{directory:o}: {early:?}");
            let log = place.shared().join("log.jsonl");
            let told = step.join(" ").replace("log.jsonl", log.to_str().unwrap());
            assert!(early.stderr.contains(&told), "{directory:o}: {early:?}");
            tally.tried(1, "reads before the owner's next call");
        }
        done(&place.tenure(ALICE, &step[1..]));
        let from = if directory == 0o777 { "3" } else { "1" };
        let read = place.tenure(BOB, &["journal", "read", "log.jsonl", "--from", from]);
        assert!(read.is_done() && read.stdout.ends_with("3\n"), "{directory:o}: {read:?}");
        // What was never opened stays closed, and the message says so.
        set_mode(&place.shared().join("log.jsonl"), 0o600);
        let closed = place.tenure(BOB, &["journal", "read", "log.jsonl", "--from", from]);
        assert!(!closed.is_done() && !closed.stderr.contains("tenure run"), "{closed:?}");
    }
}

/// In a sticky directory BOB creates no sidecars of ALICE's journal, so his operation ids cannot be
/// kept until she has used one.
#[test]
fn g6_g13_an_operation_id_that_cannot_be_kept_is_refused_before_anything_is_logged() {
    if !allows_root() {
        return;
    }
    let test = "g6_g13_an_operation_id_that_cannot_be_kept_is_refused_before_anything_is_logged";
    let mut tally = Tally::new(RING, test);
    let place = Place::new(STICKY);
    done(&place.tenure(ALICE, &["journal", "append", "log.jsonl", "1"]));
    set_mode(&place.shared().join("log.jsonl"), 0o666);
    done(&place.tenure(ALICE, &["journal", "append", "log.jsonl", "2"]));
    let append = |user, line, more: &[&str]| {
        place.tenure(user, &[&["journal", "append", "log.jsonl", line], more].concat())
    };
    let early = append(BOB, "lost", &["--op-id", "x"]);
    assert_eq!(early.code, Some(6), "{early:?}");
    done(&append(BOB, "3", &[]));
    done(&append(ALICE, "4", &["--op-id", "y"]));
    for user in [BOB, ALICE] {
        done(&append(user, "5", &["--op-id", "x"]));
    }
    let read = place.tenure(ALICE, &["journal", "read", "log.jsonl"]);
    assert_eq!(read.stdout, "1\n2\n3\n4\n5\n", "{read:?}");
    tally.tried(5, "appends of two users with and without an operation id");
}

/// The fence floor is of the directory, and of no single target: the user who made it locks no other one out.
#[test]
fn race_58_g13_the_fence_floor_of_one_user_serves_the_others() {
    if !allows_root() {
        return;
    }
    let test = "race_58_g13_the_fence_floor_of_one_user_serves_the_others";
    let mut tally = Tally::new(RING, test);
    let place = Place::new(0o777);
    let done = |user, args: &[&str]| {
        let ended = place.tenure(user, args);
        assert!(ended.is_done(), "{args:?} as {user}: {ended:?}");
    };
    for key in ["a.json", "b.json"] {
        done(ALICE, &["doc", "set", key, "1"]);
    }
    done(ALICE, &["collection", "prune", ".", "--max-count", "1"]);
    assert!(place.shared().join(".tenure/floor").exists());
    for args in [
        &["run", "own.lock", "--", "true"][..],
        &["doc", "set", "own.json", "1"],
        &["lease", "acquire", "own.json", "--ttl", "1ms"],
    ] {
        done(BOB, args);
        tally.tried(1, "commands beside the fence floor of another user");
    }
}
