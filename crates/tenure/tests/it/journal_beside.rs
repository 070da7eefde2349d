//! A reader beside a writer that replaces the journal: the writer stands still anywhere, and goes on
//! anywhere between two steps of the reader (J9; docs/FORMAT.md, "Replace" and "Read").

use tenure::{AppendOptions, Journal, WriteOptions};

use crate::faulty_fs::{Op, Verdict};
use crate::journal::all;
use crate::journal_stage::{Death, LOGGED, Stage, Step, durable, numbered};

/// A replacement of the journal, which keeps all entries.
type Replace = fn(&Journal) -> tenure::Result<()>;

const ROTATES: Replace = |journal| journal.rotate(&WriteOptions::default()).map(drop);
const COMPACTS: Replace = |journal| journal.compact(&WriteOptions::default(), |_| true).map(drop);
const STAMPS: Replace = |journal| {
    let options = AppendOptions { header: Some("# new".into()), ..durable() };
    journal.append(&[] as &[&str], &options).map(drop)
};

/// A replacement has no more changes that a reader can see.
const CHANGES: usize = 8;

const LINES: [(u64, &str); 4] = [(1, "one"), (2, "two"), (3, "three"), (4, "four")];

/// An archive, entries in the index, and entries in the log.
fn with_an_archive() -> Stage {
    let stage = Stage::new();
    stage.append("one", &durable());
    ROTATES(&stage.journal()).unwrap();
    stage.append("two", &durable());
    stage.journal().repair(&WriteOptions::default()).unwrap();
    stage.append("three", &durable());
    stage.append("four", &durable());
    stage
}

/// What a reader can see: another name, or another head.
fn shows((op, role): Step) -> bool {
    matches!(op, Op::Exchange | Op::Rename | Op::RenameNew) || (op, role) == LOGGED
}

/// Goes on for so many changes that a reader can see and stops for good; `false` if there are no more.
fn go_on(stage: &Stage, replace: Replace, changes: usize) -> bool {
    let writer = stage.beside();
    writer.die_at_any(shows, changes, Death::After);
    let _ = replace(&writer.journal());
    writer.is_dead()
}

/// The writer stops after `before` changes, and another one goes on for `meanwhile` changes right before
/// step `nth` of the reader. `None` if the writer or the reader was done earlier.
fn meet(replace: Replace, [before, meanwhile, nth]: [usize; 3], look: fn(&Stage)) -> Option<()> {
    let stage = with_an_archive();
    if !go_on(&stage, replace, before) {
        return None;
    }
    let (reader, writer) = (stage.beside(), stage.beside());
    let (told, met) = std::sync::mpsc::channel();
    reader.before_step(nth, move || {
        go_on(&writer, replace, meanwhile);
        told.send(()).unwrap();
        Verdict::Go
    });
    look(&reader);
    met.try_recv().ok()
}

#[test]
fn j9_a_reader_sees_every_entry_wherever_a_replacement_goes_on_meanwhile() {
    let look = |reader: &Stage| assert_eq!(all(&reader.journal()), numbered(&LINES));
    for replace in [ROTATES, COMPACTS, STAMPS] {
        let mut met = 0;
        for (before, meanwhile) in
            (1..=CHANGES).flat_map(|at| (1..=CHANGES).map(move |to| (at, to)))
        {
            met += (0..).map_while(|nth| meet(replace, [before, meanwhile, nth], look)).count();
        }
        assert!(met > 100, "{met}");
    }
}
