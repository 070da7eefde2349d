//! A restore whose last good version is the temporary file of a change that died: however the
//! restore ends, the version stays available for the next one.

use std::path::Path;

use tenure::fs::Access;
use tenure::{Document, WriteOptions, json};
use tenure_testkit::{CrashKind, SimFs};

use crate::document_scratch::{at_once, count_in, durably, increment};

const PATH: &str = "/d/state.json";

fn document(fs: &SimFs) -> Document {
    Document::open_on(&fs.shared(), Path::new(PATH)).unwrap()
}

/// Makes the document one that cannot be parsed.
fn damage(fs: &SimFs) {
    let file = fs.shared().open(Path::new(PATH), Access::ReadWrite).unwrap();
    file.set_len(0).unwrap();
    file.write_all_at(b"{\"n\":", 0).unwrap();
    file.sync().unwrap();
}

/// The state after a change that died right after its exchange, and damage to the version that it
/// published: the last good one is in the temporary file. `.good` is missing, or older with the
/// same bytes.
fn good_is_left_over(seed: u64, mode: u32, older: bool) -> SimFs {
    let fs = SimFs::new(seed);
    fs.add_dir("/d");
    let options = WriteOptions {
        file: tenure::file::FileOptions { new_mode: mode, ..tenure::file::FileOptions::default() },
        ..durably()
    };
    if older {
        document(&fs).set(&json!({ "n": 1 }), &durably()).unwrap();
        document(&fs).set(&json!({ "n": 2 }), &at_once()).unwrap();
    }
    document(&fs).set(&json!({ "n": 1 }), &options).unwrap();
    assert_eq!(fs.peek("/d/.tenure/state.json.good"), fs.peek(PATH).filter(|_| older));
    let (shared, path) = (fs.shared(), Path::new(PATH));
    shared.rename(path, Path::new("/d/.tenure/state.json.tmp.0000000000000000")).unwrap();
    drop(shared.open(path, Access::CreateNew(0o600)).unwrap());
    damage(&fs);
    for dir in ["/d", "/d/.tenure"] {
        shared.sync_dir(Path::new(dir)).unwrap();
    }
    fs
}

/// A restore from that state ends at any step: the version is there for the next one.
fn left_over_survives_a_death_at_every_step(kind: CrashKind, seeds: u64) {
    for (seed, older) in (0..seeds).flat_map(|seed| [(seed, false), (seed, true)]) {
        for nth in 1.. {
            let fs = good_is_left_over(seed, 0o600, older);
            let _tell = fs.tell_on_panic();
            fs.fail_after(nth, kind);
            let _ = document(&fs).restore(&durably());
            let died = fs.is_down();
            match kind {
                CrashKind::Process => fs.process_crash(),
                CrashKind::Power => fs.crash(),
            }
            document(&fs).restore(&durably()).unwrap();
            assert_eq!(count_in(&document(&fs)), 1, "seed {seed}, step {nth}");
            if !died {
                break;
            }
        }
    }
}

#[test]
fn g5_a_left_over_that_is_the_last_good_version_outlives_a_restore_that_is_killed() {
    left_over_survives_a_death_at_every_step(CrashKind::Process, 1);
}

#[test]
fn g5_a_left_over_that_is_the_last_good_version_outlives_a_restore_that_the_power_ends() {
    left_over_survives_a_death_at_every_step(CrashKind::Power, 40);
}

/// The left-over becomes `.good` unchanged: the same users can read it.
#[test]
fn a_left_over_that_becomes_good_keeps_its_mode() {
    for mode in [0o600, 0o640] {
        let fs = good_is_left_over(1, mode, false);
        document(&fs).restore(&durably()).unwrap();
        let kept = fs.shared().stat(Path::new("/d/.tenure/state.json.good")).unwrap();
        assert_eq!(kept.mode & 0o777, mode);
    }
}

/// A change is killed at any step, and another program damages the document. A restore brings back
/// the last version that was published and synced, not the one that was about to be published.
#[test]
fn race_51_a_restore_does_not_bring_back_what_was_never_published() {
    let named = WriteOptions { operation: Some("y".into()), ..durably() };
    for nth in 1..60 {
        let fs = SimFs::new(nth);
        let _tell = fs.tell_on_panic();
        fs.add_dir("/d");
        for _ in 0..2 {
            document(&fs).update(&durably(), increment).unwrap();
        }
        fs.fail_after(nth, CrashKind::Process);
        let _ = document(&fs).update(&named, increment);
        let died = fs.is_down();
        fs.process_crash();
        damage(&fs);
        document(&fs).restore(&durably()).unwrap();
        let restored = count_in(&document(&fs));
        let again = document(&fs).update(&named, increment).unwrap();
        assert!(restored < 3 && !again.replayed, "{restored} after step {nth}");
        if !died {
            return;
        }
    }
    panic!("the change never came to an end");
}
