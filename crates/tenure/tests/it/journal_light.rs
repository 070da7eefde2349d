//! Batches without a sync that empty the log again and again: nothing is synced for them, and nothing
//! that was promised before, between or after them is lost (J1, J5, J7; docs/FORMAT.md, Checkpoint).

use std::path::Path;

use tenure::{AppendOptions, Durability, Journal, WriteOptions};
use tenure_testkit::{Broken, CrashKind, SimFs};

const PATH: &str = "/d/log.jsonl";
/// Longer than the log may be before it is emptied.
const LONG: usize = 1_100_000;
const SHORT: usize = 20;

/// One batch of one line.
#[derive(Debug)]
struct Tried {
    len: usize,
    durable: bool,
    acked: Option<u64>,
}

#[derive(Debug, Default)]
struct Model {
    tried: Vec<Tried>,
    power_lost: bool,
}

fn open(fs: &SimFs) -> Journal {
    Journal::open_on(&fs.shared(), Path::new(PATH)).unwrap()
}

impl Model {
    fn append(&mut self, journal: &Journal, len: usize, durable: bool) -> bool {
        let line = format!("B {} {}", self.tried.len(), "x".repeat(len));
        let durability = if durable { Durability::Durable } else { Durability::NoSync };
        let write = WriteOptions { durability, ..WriteOptions::default() };
        let options = AppendOptions { write, ..AppendOptions::default() };
        let done = journal.append(&[&line], &options);
        let acked = done.as_ref().ok().map(|appended| appended.first);
        self.tried.push(Tried { len: line.len(), durable, acked });
        done.is_ok()
    }

    /// The log is emptied lightly three times, with a durable batch in between, and then rotated.
    fn work(&mut self, fs: &SimFs) {
        let journal = open(fs);
        let steps = [
            (SHORT, true),
            (LONG, false),
            (SHORT, false),
            (LONG, false),
            (SHORT, false),
            (SHORT, true),
            (LONG, false),
            (LONG, false),
            (SHORT, false),
        ];
        let _ = steps.into_iter().all(|(len, durable)| self.append(&journal, len, durable))
            && journal.rotate(&WriteOptions::default()).is_ok()
            && self.append(&journal, SHORT, true);
    }

    fn check(&self, journal: &Journal, when: &str) {
        let entries: Vec<_> = journal.read(0, None).unwrap().map(Result::unwrap).collect();
        assert!(entries.windows(2).all(|pair| pair[0].seq < pair[1].seq), "{when}: numbers grow");
        for (id, tried) in self.tried.iter().enumerate() {
            if !tried.durable && self.power_lost {
                continue;
            }
            let mark = format!("B {id} ");
            let mine = entries.iter().filter(|entry| entry.line.starts_with(mark.as_bytes()));
            let mine: Vec<_> = mine.map(|entry| (entry.seq, entry.line.len())).collect();
            match tried.acked {
                Some(first) => assert_eq!(mine, [(first, tried.len)], "{when}: batch {id}"),
                None => assert!(
                    mine.is_empty() || mine.len() == 1 && mine[0].1 == tried.len,
                    "{when}: batch {id} is whole or absent: {mine:?}"
                ),
            }
        }
        let report = journal.verify().unwrap();
        assert!(report.is_sound(), "{when}: {report:?}");
    }
}

/// Dies at operation `nth`. False if the work needs fewer.
fn story(seed: u64, nth: u64, kind: CrashKind, broken: Broken) -> bool {
    let fs = SimFs::new(seed);
    fs.add_dir("/d");
    fs.break_promises(broken);
    let mut model = Model::default();
    fs.fail_after(nth, kind);
    model.work(&fs);
    if !fs.is_down() {
        return false;
    }
    for again in [kind, CrashKind::Power] {
        match again {
            CrashKind::Power => {
                fs.crash();
                model.power_lost = true;
            }
            CrashKind::Process => fs.process_crash(),
        }
        let when = format!("seed {seed}, {kind:?} at {nth}, then {again:?}");
        let journal = open(&fs);
        model.check(&journal, &when);
        assert!(model.append(&journal, SHORT, true), "{when}: the next batch is appended");
        model.check(&journal, &format!("{when}, recovered"));
    }
    true
}

#[test]
fn j7_a_log_emptied_without_a_sync_loses_nothing_that_was_promised() {
    for kind in [CrashKind::Process, CrashKind::Power] {
        let needed = (1..100_000).find(|nth| !story(nth % 3, *nth, kind, Broken::default()));
        assert!(needed > Some(100), "the work has that many operations");
    }
}

#[test]
fn the_test_notices_a_disk_that_does_not_sync() {
    let broken = Broken { ignore_sync: true, ..Broken::default() };
    let noticed = (1..200)
        .step_by(7)
        .any(|nth| std::panic::catch_unwind(|| story(1, nth, CrashKind::Power, broken)).is_err());
    assert!(noticed);
}

#[test]
fn batches_without_a_sync_are_not_synced_when_the_log_is_full() {
    let fs = SimFs::new(1);
    fs.add_dir("/d");
    let (journal, mut model) = (open(&fs), Model::default());
    assert!(model.append(&journal, LONG, false) && model.append(&journal, LONG, false));
    // From here on the index is there. A disk that loses what it was told to sync is not asked to.
    fs.break_promises(Broken { ignore_sync: true, ..Broken::default() });
    for _ in 0..4 {
        assert!(model.append(&journal, LONG, false));
    }
    fs.break_promises(Broken::default());
    model.check(&journal, "emptied four times");
    assert!(model.append(&journal, SHORT, true));
    fs.crash();
    for tried in &mut model.tried {
        tried.durable = true; // A durable batch takes everything before it along.
    }
    model.check(&open(&fs), "after a power loss");
}
