//! The two state slots of a log, damaged one at a time and together (docs/FORMAT.md, "The
//! journal").
//!
//! # Invariants
//!
//! 1. One slot is damaged: the other one is the state. If that is the older one, a reader sees the
//!    journal as it was before the last store, or as it is; the next writer finds what came since.
//! 2. Both are damaged: as after a restart. The records of the log count, and unused reserved
//!    numbers are skipped.
//! 3. In every case, after the next append: each entry has its former number and bytes, none is
//!    there twice, the new entry follows all of them, and nothing is reported as damaged.

use std::path::Path;

use tenure::fs::Access;
use tenure::options::Durability;
use tenure::{AppendOptions, Journal, Wait, WriteOptions};
use tenure_proof::Tally;
use tenure_testkit::SimFs;

const JOURNAL: &str = "/d/log.jsonl";
const LOG: &str = "/d/.tenure/log.jsonl.log";
/// Where the slots are, and how long each is.
const SLOTS: [usize; 2] = [512, 1024];
const SLOT_BYTES: usize = 160;

/// The last call before the damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Durable,
    NoSync,
    /// Another tool appended a line, which a batch without a sync has adopted.
    Adopted,
    Rotated,
    Compacted,
}

const LAST: &[Last] = &[Last::Durable, Last::NoSync, Last::Adopted, Last::Rotated, Last::Compacted];

fn append(journal: &Journal, line: &str, durability: Durability) {
    let write = WriteOptions { wait: Wait::No, durability, ..WriteOptions::default() };
    let options = AppendOptions { write, ..AppendOptions::default() };
    journal.append(&[line], &options).unwrap_or_else(|error| panic!("{line}: {error}"));
}

fn write_at(sim: &SimFs, path: &str, at: usize, bytes: &[u8]) {
    let file = sim.shared().open(Path::new(path), Access::ReadWrite).expect("a file");
    file.write_all_at(bytes, at as u64).expect("a write");
}

fn entries(journal: &Journal) -> Vec<(u64, String)> {
    // Skipped and dropped numbers are gaps: they are reported, and entries follow.
    let found = journal.read(0, None).expect("readable").filter_map(Result::ok);
    found.map(|entry| (entry.seq, String::from_utf8_lossy(&entry.line).into_owned())).collect()
}

fn build(last: Last) -> (SimFs, Journal) {
    let sim = SimFs::new(7);
    sim.add_dir("/d");
    let journal = Journal::open_on(&sim.shared(), Path::new(JOURNAL)).expect("a path");
    for number in 0..6 {
        let durability = [Durability::Durable, Durability::NoSync][number % 2];
        append(&journal, &format!("{{\"n\":{number}}}"), durability);
    }
    let durably = WriteOptions { wait: Wait::No, ..WriteOptions::default() };
    match last {
        Last::Durable => append(&journal, "{\"last\":1}", Durability::Durable),
        Last::NoSync => append(&journal, "{\"last\":1}", Durability::NoSync),
        Last::Adopted => {
            let len = sim.peek(JOURNAL).expect("the journal").len();
            write_at(&sim, JOURNAL, len, b"{\"foreign\":1}\n");
            append(&journal, "{\"last\":1}", Durability::NoSync);
        }
        Last::Rotated => drop(journal.rotate(&durably).expect("a rotation")),
        Last::Compacted => {
            journal.compact(&durably, |entry| entry.seq > 2).expect("a compaction");
        }
    }
    (sim, journal)
}

/// Damages a slot in one way: its first, its last or another byte, or all of it.
fn damage(sim: &SimFs, slot: usize, way: usize) {
    let bytes = sim.peek(LOG).expect("a log");
    match way {
        0..4 => {
            let at = slot + [0, 24, 81, SLOT_BYTES - 1][way];
            write_at(sim, LOG, at, &[bytes[at] ^ 0x20]);
        }
        _ => write_at(sim, LOG, slot, &[0; SLOT_BYTES]),
    }
}

#[test]
fn a_damaged_state_slot_costs_no_entry() {
    let mut tally = Tally::new("parsers", "a_damaged_state_slot_costs_no_entry");
    for last in LAST {
        for (slots, way) in [&SLOTS[..1], &SLOTS[1..], &SLOTS[..]]
            .into_iter()
            .flat_map(|slots| (0..5).map(move |way| (slots, way)))
        {
            for durability in [Durability::Durable, Durability::NoSync] {
                let what = format!("after {last:?}, slots {slots:?}, way {way}, {durability:?}");
                let (sim, journal) = build(*last);
                let _tell = sim.tell_on_panic();
                let known = entries(&journal);
                for slot in slots {
                    damage(&sim, *slot, way);
                }
                let before = (sim.peek(JOURNAL), sim.peek(LOG));
                let seen = entries(&journal);
                assert!(known.starts_with(&seen), "{what}: {seen:?} of {known:?}");
                assert!(known.len() <= seen.len() + 2, "{what}: {seen:?} of {known:?}");
                let is_known = slots.len() < 2 || seen == known;
                assert!(is_known, "{what}: the log has all of them: {seen:?} of {known:?}");
                assert!(before == (sim.peek(JOURNAL), sim.peek(LOG)), "{what}: a reader wrote");
                append(&journal, "{\"new\":1}", durability);
                let after = entries(&journal);
                let (new, kept) = after.split_last().expect("the new entry");
                assert_eq!(kept, known, "{what}");
                assert_eq!(new.1, "{\"new\":1}", "{what}");
                assert!(known.last().is_none_or(|last| last.0 < new.0), "{what}: {after:?}");
                let report = journal.verify().expect("a report");
                assert!(report.is_sound() && !report.unbound, "{what}: {report:?}");
                tally.tried(1, "logs with damaged states");
            }
        }
    }
}
