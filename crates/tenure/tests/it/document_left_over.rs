//! Left-overs of changes that died. The next writer keeps a version that tenure has not read, and
//! is not locked out. A left-over may be a copy whose sync failed; a second sync would claim
//! success (race 54), so it never replaces a version that is on the disk.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tenure::fs::Access;
use tenure::outcome::Written;
use tenure::{Document, Result, WriteOptions, json};
use tenure_testkit::{CrashKind, Fault, SimFs, Survival, Times};

use crate::document_scratch::{at_once, durably, increment};
use crate::faulty_fs::{FaultyFs, Op, Verdict};

const PATH: &str = "/d/state.json";

fn machine(seed: u64) -> SimFs {
    let fs = SimFs::new(seed);
    fs.add_dir("/d");
    fs
}

fn open(fs: &SimFs) -> Document {
    Document::open_on(&fs.shared(), Path::new(PATH)).unwrap()
}

/// A version whose sync failed is published anew, with the same bytes. Another tool replaces the
/// document just before the exchange, and the process dies after it: the displaced version was
/// never read.
#[test]
fn g6_an_unread_version_outlives_a_republication_that_dies() {
    let sim = machine(1);
    open(&sim).update(&durably(), increment).unwrap();
    open(&sim).update(&at_once(), increment).unwrap();
    sim.inject(1, Fault::FileSyncFailure, Times::Once);
    open(&sim).set(&json!({ "n": 2 }), &durably()).unwrap_err();
    dies_after_its_exchange(&sim, Some(THEIRS), |dying| dying.set(&json!({ "n": 2 }), &durably()));
    open(&sim).update(&durably(), increment).unwrap();
    assert_theirs_is_kept(&sim);
}

/// The same for a change that dies before an operation that changes nothing: from then on the
/// record names the version that the operation found.
#[test]
fn g6_an_unread_version_outlives_an_operation_that_changes_nothing() {
    let sim = machine(1);
    open(&sim).update(&durably(), increment).unwrap();
    dies_after_its_exchange(&sim, Some(THEIRS), |dying| dying.update(&durably(), increment));
    let named = WriteOptions { operation: Some("x".into()), ..durably() };
    open(&sim).update(&named, |_| Ok(None)).unwrap();
    open(&sim).update(&durably(), increment).unwrap();
    assert_theirs_is_kept(&sim);
}

/// The same for a left-over that cannot be read: it may be worth something.
#[test]
fn g6_an_unread_version_that_cannot_be_read_is_not_removed() {
    let sim = machine(1);
    open(&sim).update(&durably(), increment).unwrap();
    dies_after_its_exchange(&sim, Some(THEIRS), |dying| dying.update(&durably(), increment));
    let faulty = FaultyFs::on(sim.shared(), |op, path| match op {
        Op::Read if path.to_string_lossy().contains(".tmp.") => {
            Verdict::Fail(io::Error::from_raw_os_error(5))
        }
        _ => Verdict::Go,
    });
    let document = Document::open_on(&faulty.shared(), Path::new(PATH)).unwrap();
    document.update(&durably(), increment).unwrap_err();
    assert_theirs_is_kept(&sim);
    open(&sim).update(&durably(), increment).unwrap();
    assert_theirs_is_kept(&sim);
}

/// The same where something was set aside before.
#[test]
fn g6_an_unread_version_takes_the_place_of_nothing_that_was_set_aside() {
    let sim = machine(1);
    open(&sim).update(&durably(), increment).unwrap();
    let (aside, earlier) = (Path::new("/d/.tenure/state.json.damaged.1"), b"set aside earlier");
    let file = sim.shared().open(aside, Access::CreateNew(0o600)).unwrap();
    file.write_all_at(earlier, 0).unwrap();
    drop(file);
    dies_after_its_exchange(&sim, Some(THEIRS), |dying| dying.update(&durably(), increment));
    open(&sim).update(&durably(), increment).unwrap();
    assert_eq!(sim.peek(aside).as_deref(), Some(&earlier[..]));
    assert_eq!(sim.peek("/d/.tenure/state.json.damaged.2").as_deref(), Some(THEIRS));
}

/// A change dies after its exchange, and the document is removed. The writer that creates the
/// document again keeps the last synced version.
#[test]
fn g5_the_last_synced_version_outlives_a_document_that_is_removed() {
    let sim = machine(1);
    open(&sim).update(&durably(), increment).unwrap();
    let synced = sim.peek(PATH);
    dies_after_its_exchange(&sim, None, |dying| dying.update(&durably(), increment));
    sim.shared().remove(Path::new(PATH)).unwrap();
    open(&sim).set(&json!({ "n": 7 }), &durably()).unwrap();
    assert_eq!(sim.peek("/d/.tenure/state.json.good"), synced);
}

const THEIRS: &[u8] = b"{\"theirs\":1}";

/// A change that dies right after its exchange. Just before the exchange another tool wrote these
/// bytes as the document.
fn dies_after_its_exchange(
    sim: &SimFs,
    theirs: Option<&'static [u8]>,
    change: impl FnOnce(&Document) -> Result<Written>,
) {
    let dead = Arc::new(AtomicBool::new(false));
    let (inner, is_dead) = (sim.clone(), dead.clone());
    let faulty = FaultyFs::on(sim.shared(), move |op, _| {
        if is_dead.load(Ordering::SeqCst) {
            return Verdict::Fail(io::Error::other("dead"));
        }
        if op == Op::Exchange {
            if let Some(theirs) = theirs {
                let new = Path::new("/d/theirs");
                let file = inner.shared().open(new, Access::CreateNew(0o600)).unwrap();
                file.write_all_at(theirs, 0).unwrap();
                inner.shared().rename(new, Path::new(PATH)).unwrap();
            }
            is_dead.store(true, Ordering::SeqCst);
        }
        Verdict::Go
    });
    let dying = Document::open_on(&faulty.shared(), Path::new(PATH)).unwrap();
    let _ = change(&dying);
    assert!(dead.load(Ordering::SeqCst), "it has come to its exchange");
}

#[track_caller]
fn assert_theirs_is_kept(sim: &SimFs) {
    let side = Path::new("/d/.tenure");
    let names = sim.shared().list(side).unwrap();
    let mut paths = names.iter().map(|name| side.join(name)).chain([PATH.into()]);
    let kept = paths.any(|path| sim.peek(path).as_deref() == Some(THEIRS));
    assert!(kept, "it was never read, and it is gone: {names:?}");
}

/// A restore dies, and an editor corrects the document in place.
#[test]
fn g10_a_mended_document_can_be_changed_after_a_restore_that_died() {
    let damaged = b"{\"n\":";
    for nth in 1..30 {
        let fs = machine(1);
        open(&fs).update(&durably(), increment).unwrap();
        open(&fs).update(&durably(), increment).unwrap();
        let in_place = |bytes: &[u8]| {
            let file = fs.shared().open(Path::new(PATH), Access::ReadWrite).unwrap();
            file.set_len(0).unwrap();
            file.write_all_at(bytes, 0).unwrap();
        };
        in_place(damaged);
        fs.fail_after(nth, CrashKind::Process);
        let _ = open(&fs).restore(&durably());
        fs.process_crash();
        if fs.peek(PATH).as_deref() != Some(&damaged[..]) {
            assert!(nth > 6, "it has died in every step before that");
            return;
        }
        in_place(b"{\"n\":7}");
        open(&fs).set(&json!({ "n": 7 }), &durably()).unwrap();
        let next = open(&fs).update(&durably(), increment);
        assert!(next.is_ok(), "step {nth}: {next:?}");
    }
    panic!("the restore never came to an end");
}

/// The directories of a new document, made by a process that died before syncing them.
#[test]
fn g8_directories_of_a_dead_maker_are_synced() {
    let path = Path::new("/d/a/b/state.json");
    for (nth, seed) in (1..40).flat_map(|nth| (0..20).map(move |seed| (nth, seed))) {
        let fs = machine(seed);
        let open = || Document::open_on(&fs.shared(), path).unwrap();
        fs.fail_after(nth, CrashKind::Process);
        let _ = open().update(&durably(), increment);
        fs.process_crash();
        open().update(&durably(), increment).unwrap();
        fs.crash();
        assert!(open().read().unwrap().is_some(), "step {nth}, seed {seed}");
    }
}

fn change(fs: &SimFs, options: &WriteOptions) -> Result<Written> {
    open(fs).update(options, increment)
}

/// A version that is on the disk, and one after it that is not.
fn one_synced_one_not(seed: u64) -> SimFs {
    let fs = SimFs::new(seed);
    fs.add_dir("/d");
    change(&fs, &durably()).unwrap();
    change(&fs, &at_once()).unwrap();
    fs
}

/// Whether there is an operation with this number to die at.
fn dies_at(fs: &SimFs, nth: u64, call: impl FnOnce(&SimFs) -> Result<Written>) -> bool {
    fs.fail_after(nth, CrashKind::Process);
    let _ = call(fs);
    let died = fs.is_down();
    fs.process_crash();
    died
}

/// After a power loss a restore died and left its copy; then the copy could not be synced.
#[test]
fn race_54_a_copy_that_could_not_be_synced_does_not_replace_the_last_good_version() {
    let mut failures = 0;
    for seed in 0..20 {
        let start = one_synced_one_not(seed);
        start.crash_with(Survival::NamesOnly);
        for nth in 1.. {
            let fs = start.fork(seed);
            if !dies_at(&fs, nth, |fs| change(fs, &durably())) {
                break;
            }
            fs.inject(1, Fault::FileSyncFailure, Times::Once);
            failures += u64::from(change(&fs, &durably()).is_err());
            fs.clear_faults();
            change(&fs, &at_once()).unwrap();
            fs.crash_with(Survival::NamesOnly);
            let found = open(&fs).read().ok().flatten().map(|found| found.value["n"].as_u64());
            assert!(found.flatten() >= Some(1), "seed {seed}, {nth}: {found:?}\n{}", fs.history());
        }
    }
    assert!(failures > 0, "a sync fails");
}

/// A version whose sync failed was published anew, and the process died before it removed the old
/// file.
#[test]
fn race_54_what_was_published_anew_does_not_come_back_as_the_last_good_version() {
    let repeat = |fs: &SimFs| open(fs).set(&json!({ "n": 2 }), &durably());
    let mut deaths = 0;
    for seed in 0..20 {
        let start = one_synced_one_not(seed);
        start.inject(1, Fault::FileSyncFailure, Times::Once);
        repeat(&start).unwrap_err();
        start.clear_faults();
        for first in 1.. {
            let once = start.fork(seed);
            if !dies_at(&once, first, repeat) {
                break;
            }
            for second in 1.. {
                let fs = once.fork(seed);
                if !dies_at(&fs, second, |fs| change(fs, &at_once())) {
                    break;
                }
                deaths += 1;
                fs.crash_with(Survival::NamesOnly);
                let Some(good) = fs.peek("/d/.tenure/state.json.good") else { continue };
                let good = String::from_utf8_lossy(&good);
                assert!(good.ends_with("}\n"), "{first}, {second}: {good:?}\n{}", fs.history());
            }
        }
    }
    assert!(deaths > 100, "{deaths} times two deaths");
}

/// Whatever a change that died left beside the document, the next change of any kind removes it.
#[test]
fn g10_the_next_change_removes_what_the_dead_left() {
    type Dies = fn(&Document) -> Result<Written>;
    let deaths: [(&str, bool, Dies); 3] = [
        ("a number", true, |document| document.set(&json!(12_345), &durably())),
        ("a change", true, |document| document.update(&durably(), increment)),
        ("without an exchange", false, |document| document.update(&at_once(), increment)),
    ];
    for ((name, exchanges, dies), number) in deaths.iter().flat_map(|d| [(d, false), (d, true)]) {
        for nth in 1.. {
            let fs = machine(nth);
            open(&fs).update(&durably(), increment).unwrap();
            open(&fs).update(&durably(), increment).unwrap();
            if !exchanges {
                fs.inject(1, Fault::NoExchange, Times::Forever);
            }
            fs.fail_after(nth, CrashKind::Process);
            let _ = dies(&open(&fs));
            let died = fs.is_down();
            fs.process_crash();
            let value = if number { json!(7) } else { json!({ "n": 7 }) };
            open(&fs).set(&value, &at_once()).unwrap();
            let left = fs.peek("/d/.tenure/state.json.tmp.0000000000000000");
            assert_eq!(left, None, "{name}, step {nth}\n{}", fs.history());
            if !died {
                break;
            }
        }
    }
}

/// Whatever a writer that was killed has left, the next write removes, also one that changes nothing.
#[test]
fn race_31_the_next_write_sweeps_what_a_killed_writer_has_left() {
    type Write = fn(&Document) -> Result<Written>;
    let writes: [(&str, Write); 5] = [
        ("an object", |it| it.set(&json!({ "n": 2 }), &durably())),
        ("a number", |it| it.set(&json!(2), &durably())),
        ("without a sync", |it| it.set(&json!({ "n": 3 }), &at_once())),
        ("a restore", |it| it.restore(&durably())),
        ("an operation", |it| {
            it.set(&json!({ "n": 4 }), &WriteOptions { operation: Some("x".into()), ..durably() })
        }),
    ];
    for before in 0..3 {
        for (killed, kill) in writes {
            for (next, write) in writes {
                for nth in 1.. {
                    let fs = machine(nth);
                    for n in 0..before {
                        open(&fs).set(&json!({ "n": n }), &durably()).unwrap();
                    }
                    fs.fail_after(nth, CrashKind::Process);
                    let done = kill(&open(&fs)).is_ok() || !fs.is_down();
                    fs.process_crash();
                    if write(&open(&fs)).is_ok() {
                        let mut names = fs.shared().list(Path::new("/d/.tenure")).unwrap();
                        names.retain(|name| {
                            let name = name.to_str().unwrap();
                            name.contains(".tmp.")
                        });
                        assert_eq!(names, [""; 0], "{killed} killed at {nth}, then {next}");
                    }
                    if done {
                        break;
                    }
                }
            }
        }
    }
}
