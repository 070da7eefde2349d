//! Which files of a journal are made, with which mode, and which are opened again for every append.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::io::Errno;
use tenure::fs::{Access, Mode, disk};
use tenure::{AppendOptions, ErrorKind, Wait, WriteOptions};

use crate::faulty_fs::{Change, Op, Verdict};
use crate::journal_stage::{Death, LOG_SYNCED, LOGGED, Stage, WRITTEN, durable, no_sync, numbered};
use crate::scratch::{kind, lease, lock_for, share_for};

const LOG_MADE: (Op, &str) = (Op::Open(Change::Create), "wal");
const LOG_OPENED: (Op, &str) = (Op::Open(Change::Write), "wal");
const JOURNAL_MADE: (Op, &str) = (Op::RenameNew, "journal");
const JOURNAL_OPENED: (Op, &str) = (Op::Open(Change::Append), "journal");

fn with_mode(mode: u32) -> AppendOptions {
    let options = no_sync();
    AppendOptions { write: WriteOptions { new_mode: mode, ..options.write }, ..options }
}

fn mode_of(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The log holds the same lines, and was made before there was a journal.
#[test]
fn g13_the_log_of_a_new_journal_is_as_private_as_the_journal() {
    for (mode, log) in
        [(0o600, 0o600), (0o640, 0o640), (0o644, 0o644), (0o444, 0o644), (0o755, 0o644)]
    {
        let stage = Stage::new();
        stage.append("one", &with_mode(mode));
        assert_eq!(mode_of(stage.side("wal")), log, "{mode:o}");
        assert_eq!(mode_of(stage.path()), mode, "{mode:o}");
    }
}

/// A log with a second name is not of our making.
#[test]
fn g13_the_mode_of_a_planted_log_is_left_alone() {
    let stage = Stage::new();
    stage.append("one", &with_mode(0o600));
    fs::remove_file(stage.path()).unwrap();
    fs::hard_link(stage.side("wal"), stage.side("planted")).unwrap();
    let _ = stage.journal().append(&["two"], &with_mode(0o644));
    assert_eq!(mode_of(stage.side("planted")), 0o600);
    fs::remove_file(stage.side("planted")).unwrap();
    let _ = fs::remove_file(stage.path());
    stage.append("three", &with_mode(0o644));
    assert_eq!(mode_of(stage.side("wal")), 0o644);
}

#[test]
fn a_journal_that_somebody_else_makes_in_the_same_moment_is_taken_as_it_is() {
    let stage = Stage::new();
    let other = stage.clone();
    stage.at(JOURNAL_MADE, 1, move || {
        other.foreign("theirs\n");
        Verdict::Go
    });
    let done = stage.append("ours", &no_sync());
    assert_eq!((done.first, done.adopted), (2, 1));
    assert_eq!(stage.entries(), numbered(&[(1, "theirs"), (2, "ours")]));
    assert!(!stage.side("tmp.0000000000000004").exists(), "what was going to be the journal stays");
}

#[test]
fn what_is_not_a_file_is_no_journal() {
    let stage = Stage::new();
    stage.append("one", &no_sync());
    let journal = stage.journal();
    journal.append(&["two"], &no_sync()).unwrap();
    fs::remove_file(stage.path()).unwrap();
    fs::create_dir(stage.path()).unwrap();
    for journal in [journal, stage.journal()] {
        let refused = journal.append(&["three"], &no_sync()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    }
}

/// Between the look at its name and its opening, somebody puts a FIFO in its place.
#[test]
fn what_is_not_a_file_when_it_is_opened_is_no_journal() {
    let stage = Stage::new();
    stage.append("one", &no_sync());
    let path = stage.path();
    stage.at(JOURNAL_OPENED, 1, move || {
        fs::remove_file(&path).unwrap();
        let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).unwrap();
        Verdict::Go
    });
    let refused = stage.journal().append(&["two"], &no_sync()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
}

fn refused() -> Verdict {
    Verdict::Fail(Errno::IO.into())
}

/// What cannot be looked at, made, or written is an error that says that nothing was appended. Nothing is
/// guessed, and the next append goes on.
#[test]
fn g10_a_refused_step_of_an_append_is_an_error() {
    let of_journal = [(Op::Open(Change::Create), "temp"), (Op::SetMode, "temp"), JOURNAL_MADE];
    let of_log = [LOGGED, (Op::SetMode, "wal"), LOG_MADE, WRITTEN];
    for step in of_journal.into_iter().chain(of_log) {
        let stage = Stage::new();
        let journal = stage.journal();
        stage.at(step, 1, refused);
        let error = journal.append(&["one"], &no_sync()).expect_err(&format!("{step:?}"));
        assert_eq!(error.kind(), ErrorKind::Io, "{step:?}: {error}");
        assert_ne!(error.is_committed(), Some(true), "{step:?}");
        assert!(error.to_string().contains("os error 5"), "{step:?}: {error}");
        assert_eq!(stage.append("one", &durable()).first, 1, "{step:?}");
        assert_eq!(stage.text(), "one\n", "{step:?}");
    }
    for step in [(Op::Stat, "journal"), LOGGED, WRITTEN] {
        let stage = Stage::new();
        let journal = stage.journal();
        journal.append(&["one"], &no_sync()).unwrap();
        journal.append(&["two"], &no_sync()).unwrap();
        stage.live_on();
        stage.at(step, 1, refused);
        let error = journal.append(&["three"], &no_sync()).expect_err(&format!("{step:?}"));
        assert_ne!(error.is_committed(), Some(true), "{step:?}");
        assert_eq!(journal.append(&["three"], &no_sync()).unwrap().first, 3, "{step:?}");
    }
    let stage = Stage::new();
    stage.append("one", &durable());
    stage.journal().repair(&WriteOptions::default()).unwrap();
    stage.append("two", &durable());
    stage.at((Op::Write, "index"), 1, refused);
    let error = stage.journal().repair(&WriteOptions::default()).unwrap_err();
    assert_eq!(error.is_committed(), Some(false), "{error}");
}

/// A directory that could not be synced is synced again before the journal is relied upon.
#[test]
fn j7_names_that_could_not_be_synced_do_not_count_as_durable() {
    let (side, dir) = ((Op::SyncDir, "side"), (Op::SyncDir, "dir"));
    for (step, expected) in [(side, vec![side, side, dir]), (dir, vec![side, dir, side, dir])] {
        let stage = Stage::new();
        stage.append("one", &no_sync());
        stage.live_on();
        stage.at(step, 1, refused);
        stage.append("two", &durable());
        assert_eq!(stage.done(&[side, dir]), expected);
        assert_eq!(stage.text(), "one\ntwo\n");
    }
}

/// Whoever lets batches in does that alone, also before it gets a hold.
#[test]
fn l4_batches_are_let_in_under_the_commit_lock_alone() {
    let stage = Stage::new();
    stage.append("one", &durable());
    stage.die_at(LOG_SYNCED, 1, Death::Before);
    assert!(stage.journal().append(&["two"], &durable()).is_err());
    let reader = disk().open(&stage.side("commit"), Access::ReadWrite).unwrap();
    reader.lock(Mode::Shared).unwrap();
    assert_eq!(kind(share_for(&stage.path(), Wait::No)), Some(ErrorKind::Busy));
    assert_eq!(stage.text(), "one\n");
    reader.unlock().unwrap();
    drop(share_for(&stage.path(), Wait::No).unwrap());
    assert_eq!(stage.text(), "one\ntwo\n");
}

/// A process that appends again and again opens its files once. It looks at their names each time.
#[test]
fn files_are_opened_once_and_again_only_if_they_are_others() {
    type Deed = fn(&Stage);
    let cases: [(&str, Deed, &[_]); 5] = [
        ("nothing", |_| {}, &[]),
        ("lines of others", |stage| stage.foreign("theirs\n"), &[]),
        ("another journal", |stage| stage.replace("theirs\n"), &[JOURNAL_OPENED]),
        (
            "another log",
            |stage| fs::remove_file(stage.side("wal")).unwrap(),
            &[LOG_OPENED, LOG_MADE],
        ),
        ("another lock", |stage| fs::remove_file(stage.side("commit")).unwrap(), &[LOG_OPENED]),
    ];
    for (what, deed, expected) in cases {
        let stage = Stage::new();
        let journal = stage.journal();
        journal.append(&["one"], &no_sync()).unwrap();
        journal.append(&["two"], &no_sync()).unwrap();
        deed(&stage);
        for again in [false, true] {
            stage.live_on();
            journal.append(&["three"], &no_sync()).unwrap();
            let opened = stage.done(&[LOG_MADE, LOG_OPENED, JOURNAL_OPENED]);
            let expected = if again { &[] } else { expected };
            assert_eq!(opened, expected, "{what}, again: {again}");
        }
        assert!(stage.text().ends_with("three\nthree\n"), "{what}");
        assert!(stage.journal().verify().unwrap().is_sound(), "{what}");
    }
}

/// Nothing of a journal without a sync is synced, from its first line on, whoever appends.
#[test]
fn a_journal_without_a_sync_never_syncs_its_log() {
    let stage = Stage::new();
    for _ in 0..3 {
        let journal = stage.journal();
        journal.append(&["one"], &no_sync()).unwrap();
        journal.append(&["two"], &no_sync()).unwrap();
    }
    assert_eq!(stage.times(LOG_SYNCED), 0);
    stage.live_on();
    stage.append("three", &durable());
    assert_eq!(stage.times(LOG_SYNCED), 1);
    stage.append("four", &durable());
    assert_eq!(stage.times(LOG_SYNCED), 2);
    let names = [(Op::SyncDir, "side"), (Op::SyncDir, "dir")];
    assert_eq!(stage.done(&names), names, "once, the directory of the log first");
}

/// Whoever takes a hold lets batches in that are on their way. It makes no journal out of nothing.
#[test]
fn a_hold_makes_no_files_of_a_journal() {
    for gone in [["wal"].as_slice(), &["journal"], &["wal", "journal"]] {
        let stage = Stage::new();
        stage.append("one", &durable());
        let files = [("wal", stage.side("wal")), ("journal", stage.path())];
        let gone: Vec<_> = files.iter().filter(|(role, _)| gone.contains(role)).collect();
        for (_, path) in &gone {
            fs::remove_file(path).unwrap();
        }
        drop(lock_for(&stage.path(), Wait::No).unwrap());
        drop(share_for(&stage.path(), Wait::No).unwrap());
        lease(&stage.path(), "me");
        for (role, path) in &gone {
            assert!(!path.exists(), "{role}");
        }
    }
    let stage = Stage::new();
    stage.append("one", &durable());
    let before = fs::metadata(stage.side("wal")).unwrap().ino();
    drop(lock_for(&stage.path(), Wait::No).unwrap());
    assert_eq!(fs::metadata(stage.side("wal")).unwrap().ino(), before);
}
