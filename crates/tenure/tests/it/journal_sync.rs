//! The shared sync of the log, and what follows when a sync fails or its leader dies: it is never
//! repeated on that file, every caller that relied on it gets the error, and the next durable call
//! writes a new log first (G8, race 54).

use std::io::{self, ErrorKind::Other};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tenure::{ErrorKind, Journal};
use tenure_testkit::{Fault, Times};

use crate::faulty_fs::{Change, FaultyFs, Op, Verdict};
use crate::journal_stage::{Dir, PATH, Stage, all, durable, no_sync, numbered, sound, write};
use crate::scratch::FAR_TOO_LONG;

/// How long a follower waits for its leader.
const FOLLOW_PATIENCE: Duration = Duration::from_secs(2);

/// Something that happens, and that others wait for.
#[derive(Clone, Default)]
struct Event(Arc<(Mutex<usize>, Condvar)>);

impl Event {
    fn happens(&self) {
        *self.0.0.lock().unwrap() += 1;
        self.0.1.notify_all();
    }

    /// Waits until it has happened this often.
    fn wait_for(&self, times: usize) {
        let waiting =
            self.0.1.wait_timeout_while(self.0.0.lock().unwrap(), FAR_TOO_LONG, |happened| {
                *happened < times
            });
        assert!(!waiting.unwrap().1.timed_out(), "it never happens");
    }
}

fn suffix_is(path: &Path, suffix: &str) -> bool {
    path.extension().is_some_and(|found| found == suffix)
}

fn eio() -> Verdict {
    Verdict::Fail(io::Error::from_raw_os_error(5))
}

/// The journal of one process with a hook before each of its steps.
fn process(dir: &Dir, hand: impl Fn(Op, &Path) -> Verdict + Send + Sync + 'static) -> Journal {
    Journal::open_on(&FaultyFs::new(hand).shared(), &dir.log()).unwrap()
}

/// A process that says when its batch is logged: it opens the note of the sync.
fn follower(dir: &Dir, logged: &Event) -> Journal {
    let logged = logged.clone();
    process(dir, move |op, path| {
        if op == Op::Open(Change::Write) && suffix_is(path, "sync0") {
            logged.happens();
        }
        Verdict::Go
    })
}

/// A leader that syncs when `others` have logged their batches. `sync` decides how its sync of the
/// log ends.
fn leader(
    dir: &Dir,
    (logged, others): (&Event, usize),
    begun: &Event,
    sync: impl Fn() -> Verdict + Send + Sync + 'static,
) -> Journal {
    let (logged, begun) = (logged.clone(), begun.clone());
    let first = AtomicBool::new(true);
    process(dir, move |op, path| {
        if op == Op::Write && suffix_is(path, "sync0") && first.swap(false, Ordering::SeqCst) {
            begun.happens();
            logged.wait_for(others);
        }
        if op == Op::Sync && suffix_is(path, "log") { sync() } else { Verdict::Go }
    })
}

#[test]
fn one_sync_serves_all_whose_batch_is_logged() {
    let dir = Dir::new();
    dir.journal().append(&["first"], &durable()).unwrap();
    let (logged, begun, syncs) =
        (Event::default(), Event::default(), Arc::new(AtomicUsize::new(0)));
    let counted = syncs.clone();
    let leads = leader(&dir, (&logged, 3), &begun, move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Verdict::Go
    });
    thread::scope(|scope| {
        scope.spawn(|| leads.append(&["leader"], &durable()).unwrap());
        begun.wait_for(1);
        for at in 0..3 {
            let (journal, syncs) = (follower(&dir, &logged), syncs.clone());
            scope.spawn(move || {
                journal.append(&[format!("follower {at}")], &durable()).unwrap();
                assert_eq!(syncs.load(Ordering::SeqCst), 1);
            });
        }
    });
    assert_eq!((syncs.load(Ordering::SeqCst), all(&dir.journal()).len()), (1, 5));
    sound(&dir.journal());
}

#[test]
fn race_54_g8_a_failed_sync_reaches_everyone_who_relied_on_it() {
    let dir = Dir::new();
    dir.journal().append(&["first"], &durable()).unwrap();
    let (logged, begun) = (Event::default(), Event::default());
    let leads = leader(&dir, (&logged, 3), &begun, eio);
    let told = |journal: &Journal, line: &str| {
        let error = journal.append(&[line], &durable()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotDurable, "{line}: {error}");
        assert_eq!(error.is_committed(), Some(true), "{line}: {error}");
    };
    thread::scope(|scope| {
        scope.spawn(|| told(&leads, "leader"));
        begun.wait_for(1);
        for at in 0..3 {
            let journal = follower(&dir, &logged);
            scope.spawn(move || told(&journal, &format!("follower {at}")));
        }
    });
    assert_eq!(all(&dir.journal()).len(), 5, "they are visible");
    dir.journal().append(&["next"], &durable()).unwrap();
    assert_eq!(all(&dir.journal()).len(), 6);
    sound(&dir.journal());
}

/// The leader hangs in its sync: the others write a new log, and their calls return.
#[test]
fn g8_a_paused_leader_costs_time_and_no_answer() {
    let dir = Dir::new();
    dir.journal().append(&["first"], &durable()).unwrap();
    let (logged, begun, go_on) = (Event::default(), Event::default(), Event::default());
    let stands_still = go_on.clone();
    let leads = leader(&dir, (&logged, 0), &begun, move || {
        stands_still.wait_for(1);
        Verdict::Go
    });
    thread::scope(|scope| {
        let paused = scope.spawn(|| leads.append(&["leader"], &durable()).unwrap());
        begun.wait_for(1);
        let started = Instant::now();
        let others: Vec<_> = (0..3)
            .map(|at| {
                let journal = follower(&dir, &logged);
                scope.spawn(move || journal.append(&[format!("{at}")], &durable()).unwrap())
            })
            .collect();
        for other in others {
            other.join().unwrap();
        }
        assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
        assert_eq!(all(&dir.journal()).len(), 5, "the leader's batch is in the new log too");
        go_on.happens();
        paused.join().unwrap();
    });
    assert_eq!(all(&dir.journal()).len(), 5);
    sound(&dir.journal());
}

/// Two followers of a paused leader write a new log, one after the other. The second finds a batch
/// in it that is not durable yet, and does not touch it.
#[test]
fn g8_a_batch_is_not_brought_in_before_its_log_is_durable() {
    let dir = Dir::new();
    dir.journal().append(&["first"], &durable()).unwrap();
    let (logged, begun, go_on) = (Event::default(), Event::default(), Event::default());
    let stands_still = go_on.clone();
    let leads = leader(&dir, (&logged, 0), &begun, move || {
        stands_still.wait_for(1);
        Verdict::Go
    });
    // The second follower waits before it writes a new log.
    let (second_renews, second_may) = (Event::default(), Event::default());
    let (renews, may, since) = (second_renews.clone(), second_may.clone(), Instant::now());
    let second = process(&dir, move |op, path| {
        let is_late = since.elapsed() >= FOLLOW_PATIENCE;
        if op == Op::Read && suffix_is(path, "sync0") && is_late {
            renews.happens();
            may.wait_for(1);
        }
        Verdict::Go
    });
    // A batch that is logged, and whose sync has not begun.
    let (is_logged, may_sync) = (Event::default(), Event::default());
    let (says, waits) = (is_logged.clone(), may_sync.clone());
    let unsynced = process(&dir, move |op, path| {
        if op == Op::Open(Change::Write) && suffix_is(path, "sync0") {
            says.happens();
            waits.wait_for(1);
        }
        Verdict::Go
    });
    thread::scope(|scope| {
        scope.spawn(|| leads.append(&["leader"], &durable()).unwrap());
        begun.wait_for(1);
        let first = follower(&dir, &logged);
        let first = scope.spawn(move || first.append(&["one"], &durable()).unwrap());
        scope.spawn(|| second.append(&["two"], &durable()).unwrap());
        second_renews.wait_for(1);
        first.join().unwrap();
        scope.spawn(|| unsynced.append(&["unsynced"], &durable()).unwrap());
        is_logged.wait_for(1);
        second_may.happens();
        let started = Instant::now();
        while !dir.text().contains("two") && started.elapsed() < FAR_TOO_LONG {
            thread::yield_now();
        }
        let text = dir.text();
        go_on.happens();
        may_sync.happens();
        assert!(!text.contains("unsynced"), "{text:?}");
    });
    assert_eq!(all(&dir.journal()).len(), 5);
    sound(&dir.journal());
}

/// A log whose sync failed is replaced: a new one holds the batch before readers see it.
#[test]
fn race_54_g8_after_a_failed_sync_a_new_log_comes_first() {
    for seed in 0..40 {
        let stage = Stage::seeded(seed);
        let _tell = stage.sim.tell_on_panic();
        stage.append(&["one"]);
        stage.steps();
        stage.refuse("Sync log", Other);
        let error = stage.journal().append(&["two"], &durable()).unwrap_err();
        assert_eq!((error.kind(), error.is_committed()), (ErrorKind::NotDurable, Some(true)));
        let steps = stage.steps();
        let at = |step: &str| steps.iter().position(|found| found == step);
        assert!(at("Rename log").is_some() && at("Rename log") < at("Write journal"), "{steps:#?}");
        stage.expect(&["one", "two"]);
        assert_eq!(stage.append(&["three"]), 3);
        stage.sim.crash();
        assert_eq!(stage.entries(), numbered(&["one", "two", "three"]), "before a writer");
        stage.append(&["four"]);
        stage.expect(&["one", "two", "three", "four"]);
    }
}

/// If no log can be synced at all, a durable call appends nothing; calls without a sync still work.
#[test]
fn race_54_g8_if_the_new_log_fails_too_nothing_is_appended() {
    let dir = Dir::new();
    dir.journal().append(&["one"], &no_sync()).unwrap();
    let failing = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let fails = failing.clone();
    let fs = crate::faulty_fs::FaultyFs::new(move |op, path| {
        let name = path.to_string_lossy();
        let is_log = name.ends_with(".log") || name.contains(".tmp.");
        if op == crate::faulty_fs::Op::Sync
            && is_log
            && fails.load(std::sync::atomic::Ordering::SeqCst)
        {
            return crate::faulty_fs::Verdict::Fail(std::io::Error::from_raw_os_error(5));
        }
        crate::faulty_fs::Verdict::Go
    });
    let journal = tenure::Journal::open_on(&fs.shared(), dir.journal().path()).unwrap();
    let error = journal.append(&["two"], &durable()).unwrap_err();
    assert_eq!(
        (error.kind(), error.is_committed()),
        (ErrorKind::NotDurable, Some(true)),
        "{error}"
    );
    let error = journal.append(&["never"], &durable()).unwrap_err();
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Io, Some(false)), "{error}");
    assert_eq!(dir.text(), "one\ntwo\n");
    journal.append(&["three"], &no_sync()).unwrap();
    failing.store(false, std::sync::atomic::Ordering::SeqCst);
    journal.append(&["four"], &durable()).unwrap();
    assert_eq!(dir.text(), "one\ntwo\nthree\nfour\n");
    sound(&journal);
}

/// A failed sync of a directory is not repeated either: a new log takes the name, or the caller
/// gets an error.
#[test]
fn race_54_g8_a_failed_sync_of_the_directory_is_not_repeated() {
    for (nth, seed) in (1..8).flat_map(|nth| (0..20).map(move |seed| (nth, seed))) {
        let stage = Stage::seeded(seed);
        let _tell = stage.sim.tell_on_panic();
        // The journal's own name is durable: a new one may be lost (docs/FORMAT.md, Limits).
        stage.sim.add_file(PATH, "");
        stage.sim.inject(nth, Fault::SyncFailure, Times::Once);
        let acked = stage.journal().append(&["one"], &durable()).is_ok();
        stage.sim.clear_faults();
        stage.sim.crash();
        assert!(!acked || stage.entries() == numbered(&["one"]), "sync {nth}, seed {seed}");
    }
}

/// The leader dies before, in and after its sync, whether the sync failed or not.
#[test]
fn race_54_g8_a_sync_whose_leader_died_is_not_repeated() {
    for fails in [false, true] {
        for nth in 0.. {
            let stage = Stage::seeded(nth as u64);
            let _tell = stage.sim.tell_on_panic();
            stage.append(&["one"]);
            if fails {
                stage.sim.inject(1, Fault::SyncFailure, Times::Once);
            }
            stage.die_before_nth(nth);
            let acked = stage.journal().append(&["two"], &durable()).is_ok();
            let died = stage.is_dead();
            stage.restart();
            stage.sim.clear_faults();
            assert_eq!(acked, !died && !fails);
            for line in ["three", "four"] {
                stage.append(&[line]);
            }
            stage.sim.crash();
            let lines: Vec<String> = stage.entries().into_iter().map(|(_, line)| line).collect();
            for line in ["one", "three", "four"] {
                assert!(lines.iter().any(|found| found == line), "{nth}: {lines:?}");
            }
            stage.append(&["five"]);
            sound(&stage.journal());
            if !died {
                assert!(nth > 4, "every step was the last one once");
                break;
            }
        }
    }
}

/// A failed sync of the journal, at a checkpoint: its pages are written again before the next one.
#[test]
fn race_54_g8_a_journal_whose_sync_failed_is_written_again() {
    for seed in 0..60 {
        let stage = Stage::seeded(seed);
        let _tell = stage.sim.tell_on_panic();
        stage.append(&["one"]);
        stage.outsider().append(PATH, "theirs\n");
        stage.before("Sync journal", fails_once(&stage, Fault::FileSyncFailure));
        let error = stage.journal().rotate(&write()).unwrap_err();
        assert_eq!(error.is_committed(), Some(false), "{error}");
        stage.append(&["two"]);
        stage.journal().rotate(&write()).unwrap();
        stage.append(&["three"]);
        stage.sim.crash();
        stage.expect(&["one", "theirs", "two", "three"]);
        stage.append(&["four"]); // Above the reserved numbers.
        let lines: Vec<String> = stage.entries().into_iter().map(|(_, line)| line).collect();
        assert_eq!(lines, ["one", "theirs", "two", "three", "four"]);
        sound(&stage.journal());
        assert_eq!(stage.text_of("/d/log.jsonl.1").unwrap(), "one\ntheirs\ntwo\n");
    }
}

/// The disk fails at the next such operation, and forgets its dirty pages.
fn fails_once(stage: &Stage, fault: Fault) -> impl FnOnce() + Send + 'static {
    let sim = stage.sim.clone();
    move || sim.inject(1, fault, Times::Once)
}

/// A note that cannot be read says nothing: neither success nor a leader.
#[test]
fn race_54_a_torn_note_is_no_success() {
    let stage = Stage::new();
    stage.append(&["one"]);
    for bit in [64 * 8, 70 * 8, 90 * 8, 135 * 8] {
        stage.flip("/d/.tenure/log.jsonl.sync0", bit);
        stage.flip("/d/.tenure/log.jsonl.sync0", bit + 128 * 8);
        stage.steps();
        stage.append(&["next"]);
        assert!(stage.steps().iter().any(|step| step == "Sync log"));
    }
    sound(&stage.journal());
}
