//! The checkpoint: which records the index gets, what is synced before what, and what a checkpoint that
//! died or failed half way leaves to the next one (J4, J5, races 43 and 54).

use tenure::{AppendOptions, Journal};
use tenure_testkit::Survival;
use xxhash_rust::xxh3::xxh3_64;

use crate::watched_journal::{PATH, Range, Watched, unsynced, write};

/// Where the entries of the log begin.
const ENTRIES_AT: u64 = 12288;
/// Offsets in a head.
const EPOCH: usize = 24;
const SALT: usize = 32;
const BASE: [usize; 3] = [96, 104, 112];
const FLAGS: usize = 224;
const PROMISED: u64 = 64;
const UNANCHORED: u64 = 128;

/// Appends without a sync; returns the number of the first line.
fn quickly(journal: &Journal, lines: &[&str]) -> u64 {
    journal.append(lines, &unsynced()).unwrap().first
}

fn checkpoint(disk: &Watched) {
    disk.journal().repair(&write()).unwrap();
}

/// What the checkpoint of a repair did; the repair itself syncs the journal in the end.
fn steps_of_checkpoint(disk: &Watched) -> String {
    let mut steps = disk.steps();
    assert_eq!(steps.pop().as_deref(), Some("Sync journal"));
    steps.join(", ")
}

#[test]
fn j4_batches_that_follow_each_other_share_a_record_until_it_is_long_enough() {
    let disk = Watched::new();
    let journal = disk.journal();
    let line = "x".repeat(4095); // 31 of them are exactly a segment.
    for _ in 0..40 {
        quickly(&journal, &[&line]);
    }
    disk.outsider().append(PATH, "theirs\n\nmore\n");
    quickly(&journal, &["last", "of all"]);
    checkpoint(&disk);
    let index = disk.index("index");
    let segment = 31 * 4096;
    let end = 40 * 4096 + 13 + 12;
    let expected = [Range::new(0, segment, 1, 31, 0), Range::new(segment, end, 32, 13, 2)];
    assert_eq!(index.ranges(), expected);
    let text = disk.sim.peek(PATH).unwrap();
    for record in &index.records {
        let (start, end) = (usize::try_from(record.start), usize::try_from(record.end));
        assert_eq!(record.sum, xxh3_64(&text[start.unwrap()..end.unwrap()]));
    }
    assert_eq!(index.records[0].reach, 0, "only the last of a group says how far it reaches");
    assert_eq!(index.records[1].reach, end);
    // A batch that is longer has a record of its own, and so has what follows it.
    let long = "y".repeat(200_000);
    for line in ["a", &long, "b", "c"] {
        quickly(&journal, &[line]);
    }
    checkpoint(&disk);
    let ranges = disk.index("index").ranges();
    let expected = [
        Range::new(end, end + 2 + 200_001, 45, 2, 0),
        Range::new(end + 200_003, end + 200_007, 47, 2, 0),
    ];
    assert_eq!(ranges[2..], expected);
    assert_eq!(disk.journal().read(0, None).unwrap().count(), 48);
}

/// However long it is: the rest of it would be taken for a line of its own.
#[test]
fn j4_a_line_that_stood_open_shares_its_record_with_what_closes_it() {
    let disk = Watched::new();
    let line = "x".repeat(130_000);
    quickly(&disk.journal(), &["one"]);
    disk.outsider().append(PATH, &line);
    quickly(&disk.journal(), &["next"]);
    quickly(&disk.journal(), &["last"]);
    checkpoint(&disk);
    let ranges = [Range::new(0, 130_010, 1, 3, 1), Range::new(130_010, 130_015, 4, 1, 0)];
    assert_eq!(disk.index("index").ranges(), ranges);
    disk.expect_entries(&["one", &line, "next", "last"]);
}

#[test]
fn a_checkpoint_begins_an_epoch_behind_everything() {
    let disk = Watched::new();
    disk.append(&["one", "two"]);
    let journal = disk.journal();
    quickly(&journal, &["three"]);
    let before = disk.head();
    assert_eq!((before.at(120), before.at(FLAGS) & PROMISED), (2, PROMISED));
    checkpoint(&disk);
    let (after, index) = (disk.head(), disk.index("index"));
    assert_eq!(after.at(EPOCH), before.at(EPOCH) + 1);
    assert_ne!(after.at(SALT), before.at(SALT));
    let first_number = before.at(BASE[2]) + 2;
    assert_eq!(BASE.map(|at| after.at(at)), [14, 4, first_number]);
    let log = [120, 128, 136, 144, 152].map(|at| after.at(at));
    assert_eq!(log, [0, ENTRIES_AT, 0, ENTRIES_AT, 14], "entries, end, applied, journal_end");
    assert_eq!((after.at(184), after.at(192)), (1, xxh3_64(b"one\ntwo\nthree\n")));
    assert_eq!(after.at(FLAGS), 2, "nothing is promised any more");
    assert_eq!([168, 208, 216].map(|at| after.at(at)), [0, 0, 0], "no part is known, no shift");
    assert_eq!((index.first_seq, index.header_len, index.archive), (1, 0, 0));
    let last = index.records[0];
    assert_eq!((last.epoch, last.reach, last.number), (before.at(EPOCH), 14, first_number - 1));
    // There is nothing to do for a second one.
    disk.steps();
    checkpoint(&disk);
    assert_eq!(
        (disk.head().at(EPOCH), steps_of_checkpoint(&disk)),
        (after.at(EPOCH), String::new())
    );
}

#[test]
fn a_checkpoint_syncs_the_journal_then_the_index_then_its_anchor() {
    let disk = Watched::new();
    disk.append(&["one"]);
    let all = "Sync journal, Write index, Sync index, Write wal, Sync wal, Write wal";
    for (first, epoch) in [(true, 2), (false, 3)] {
        disk.append(&["two"]);
        disk.steps();
        checkpoint(&disk);
        let steps = steps_of_checkpoint(&disk);
        if first {
            let made = "Remove tmp 1, SetMode tmp 1, Write tmp 1, Sync tmp 1, Rename index, SyncDir .tenure";
            let all = all.replace("Write index, Sync index", "Write tmp 1, Sync tmp 1");
            assert_eq!(steps, all.replace("Sync journal", &format!("Sync journal, {made}")));
        } else {
            assert_eq!(steps, all);
        }
        assert_eq!(disk.head().at(EPOCH), epoch);
    }
}

#[test]
fn the_name_of_a_first_index_is_synced_by_whoever_relies_on_it() {
    let disk = Watched::new();
    disk.append(&["one"]);
    // Its maker dies right behind the rename.
    let sim = disk.sim.clone();
    disk.before("SyncDir .tenure", move || sim.fail_after(1, tenure_testkit::CrashKind::Process));
    disk.journal().repair(&write()).unwrap_err();
    disk.sim.process_crash();
    assert!(disk.sidecars().contains(&"index".to_owned()));
    disk.steps();
    checkpoint(&disk);
    let steps = disk.steps().join(", ");
    assert!(steps.contains("SyncDir .tenure, Write index, Sync index"), "{steps}");
    // A name that could not be synced is not relied on: the next try makes a new one.
    let disk = Watched::new();
    disk.append(&["one"]);
    disk.refuse("SyncDir .tenure", std::io::ErrorKind::Other);
    disk.journal().repair(&write()).unwrap_err();
    assert!(!disk.sidecars().contains(&"index".to_owned()));
    checkpoint(&disk);
    disk.sim.crash_with(Survival::Nothing);
    disk.expect(&["one"]);
    assert_eq!(disk.index("index").ranges(), [Range::new(0, 4, 1, 1, 0)]);
}

/// A checkpoint whose group is in the index, but whose process died before the anchor.
fn died_before_its_anchor(options: &AppendOptions) -> Watched {
    let disk = Watched::new();
    disk.journal().append(&["one", "two"], options).unwrap();
    let sim = disk.sim.clone();
    disk.before("Sync tmp 1", || {}); // The title.
    let hand = disk.clone();
    disk.before("Rename index", move || {
        hand.before("Sync tmp 1", move || {
            sim.fail_after(2, tenure_testkit::CrashKind::Process);
        });
    });
    disk.journal().repair(&write()).unwrap_err();
    disk.sim.process_crash();
    assert!(disk.is_through());
    assert_eq!(disk.index("index").ranges(), [Range::new(0, 8, 1, 2, 0)]);
    assert_eq!(disk.head().at(184), 0, "which does not know of it");
    disk
}

#[test]
fn j5_what_a_checkpoint_without_its_anchor_covered_is_not_indexed_again() {
    let covered = Range::new(0, 8, 1, 2, 0);
    for power in [false, true] {
        let disk = died_before_its_anchor(&AppendOptions::default());
        if power {
            disk.sim.crash_with(Survival::Nothing);
        }
        disk.expect(&["one", "two"]);
        assert_eq!((disk.append(&["three"]), disk.append(&["four"])), (3, 4));
        checkpoint(&disk);
        disk.expect(&["one", "two", "three", "four"]);
        let index = disk.index("index");
        let mut expected = vec![covered, Range::new(8, 19, 3, 2, 0)];
        if power {
            // The first section began an epoch at once, with an empty group behind the old one.
            expected.insert(1, Range::new(8, 8, 3, 0, 0));
            assert_eq!(index.records[1].reach, 8);
        }
        assert_eq!(index.ranges(), expected, "power: {power}");
    }
    // With a line of others it is a matter of what is where.
    let disk = died_before_its_anchor(&AppendOptions::default());
    disk.append(&["three"]);
    disk.outsider().append(PATH, "four\n");
    checkpoint(&disk);
    disk.expect(&["one", "two", "three", "four"]);
    let expected = [covered, Range::new(8, 14, 3, 1, 0), Range::new(14, 19, 4, 1, 1)];
    assert_eq!(disk.index("index").ranges(), expected);
}

#[test]
fn j5_nor_is_it_by_batches_without_a_sync() {
    let disk = died_before_its_anchor(&unsynced());
    let journal = disk.journal();
    let long = "x".repeat(1_100_000);
    quickly(&journal, &[&long]);
    disk.steps();
    quickly(&journal, &["four"]);
    assert!(disk.steps().contains(&"Sync journal".to_owned()), "not lightly");
    let end = 8 + 1_100_001;
    let expected = [Range::new(0, 8, 1, 2, 0), Range::new(8, end, 3, 1, 0)];
    assert_eq!(disk.index("index").ranges(), expected);
    assert_eq!(disk.journal().read(0, None).unwrap().count(), 4);
    assert!(disk.journal().verify().unwrap().is_sound());
}

#[test]
fn a_log_that_one_large_batch_made_long_is_cut_back() {
    let kept = 4 * 1024 * 1024;
    let log = |disk: &Watched| disk.sim.peek("/d/.tenure/log.jsonl.wal").unwrap().len() as u64;
    for refused in [false, true] {
        let disk = Watched::new();
        let journal = disk.journal();
        quickly(&journal, &[&"x".repeat(5_000_000)]);
        let grown = log(&disk);
        assert!(grown > kept);
        if refused {
            disk.refuse("SetLen wal", std::io::ErrorKind::Other);
        }
        quickly(&journal, &["small"]);
        let room = disk.head().at(176);
        let left = if refused { grown } else { kept };
        assert_eq!((log(&disk), room), (left, left), "refused: {refused}");
        assert_eq!(disk.journal().read(2, None).unwrap().count(), 1);
    }
}

#[test]
fn race_54_a_journal_whose_sync_failed_is_written_again_from_what_is_durable() {
    let disk = Watched::new();
    disk.append(&["one"]);
    checkpoint(&disk);
    let journal = disk.journal();
    disk.append(&["two"]);
    quickly(&journal, &[&"x".repeat(1_100_000)]);
    disk.refuse("Sync journal", std::io::ErrorKind::Other);
    disk.journal().repair(&write()).unwrap_err();
    let history = disk.sim.history();
    let again: Vec<&str> =
        history.lines().filter_map(|line| line.split("Write /d/log.jsonl ").nth(1)).collect();
    assert_eq!(again, ["[4..+1048576]", "[1048580..+51429]"]);
    checkpoint(&disk);
    assert!(disk.journal().verify().unwrap().is_sound());
}

#[test]
fn race_54_what_light_checkpoints_left_unsynced_is_written_again_as_well() {
    let disk = Watched::new();
    let journal = disk.journal();
    let long = "x".repeat(1_100_000);
    for line in ["one", &long, "two"] {
        quickly(&journal, &[line]); // The last one finds no index: this checkpoint is a whole one.
    }
    let base = disk.head().at(BASE[0]);
    quickly(&journal, &[&long]);
    quickly(&journal, &["three"]);
    let head = disk.head();
    assert_eq!(head.at(FLAGS) & UNANCHORED, UNANCHORED);
    assert_eq!((head.at(576), head.at(584)), (base, 1), "how far everything is durable");
    disk.refuse("Sync journal", std::io::ErrorKind::Other);
    disk.journal().append(&["four"], &AppendOptions::default()).unwrap_err();
    let history = disk.sim.history();
    let again = format!("Write /d/log.jsonl [{base}..+1048576]");
    assert!(history.contains(&again), "{again} in {history}");
    disk.append(&["five"]);
    disk.sim.crash_with(Survival::Nothing);
    assert_eq!(disk.journal().read(0, None).unwrap().count(), 6);
    assert!(disk.journal().verify().unwrap().is_sound());
}

#[test]
fn race_54_a_journal_that_shrinks_while_it_is_written_again_is_an_error() {
    let disk = Watched::new();
    disk.append(&["one", "two"]);
    let (outsider, hand) = (disk.outsider(), disk.clone());
    disk.before("Sync journal", move || {
        outsider.truncate(PATH);
        hand.refuse("Sync journal", std::io::ErrorKind::Other);
    });
    disk.journal().repair(&write()).unwrap_err();
    assert!(disk.is_through());
}

#[test]
fn an_epoch_begins_where_nothing_is_begun_or_shifted() {
    let disk = Watched::new();
    disk.append(&["one"]);
    // A batch that is logged, but not in the journal, and a line that overtakes it.
    let sim = disk.sim.clone();
    disk.before("Sync wal", move || sim.fail_after(1, tenure_testkit::CrashKind::Process));
    disk.journal().append(&["two"], &AppendOptions::default()).unwrap_err();
    disk.sim.process_crash();
    assert_eq!((disk.head().at(120), disk.head().at(136)), (2, 1), "entries, applied");
    disk.outsider().append(PATH, "theirs\n");
    assert_eq!(disk.append(&["four"]), 4);
    disk.expect(&["one", "two", "theirs", "four"]);
    assert_eq!(disk.text("log.jsonl").as_deref(), Some("one\ntheirs\ntwo\nfour\n"));
    let (head, index) = (disk.head(), disk.index("index"));
    assert_eq!((head.at(FLAGS) & 1, head.at(168)), (0, 0), "begun, partial");
    assert_eq!((head.at(208), head.at(216)), (0, 0), "shift");
    let one = Range::new(0, 4, 1, 1, 0);
    assert_eq!(index.ranges(), [one, Range::new(11, 15, 2, 1, 0), Range::new(4, 11, 3, 1, 1)]);
}

#[test]
fn g13_an_index_that_cannot_be_opened_is_not_one_that_is_missing() {
    let disk = Watched::new();
    disk.append(&["one"]);
    disk.sim.add_file("/d/theirs", "theirs");
    disk.sim.add_symlink("/d/theirs", "/d/.tenure/log.jsonl.index");
    disk.journal().repair(&write()).unwrap_err();
    assert_eq!(disk.text("theirs").as_deref(), Some("theirs"));
    assert_eq!(disk.text("log.jsonl").as_deref(), Some("one\n"));
    disk.outsider().remove("/d/.tenure/log.jsonl.index");
    checkpoint(&disk);
    disk.expect(&["one"]);
}

#[test]
fn j8_a_checkpoint_that_finds_no_index_numbers_everything_anew() {
    for more in [false, true] {
        let disk = Watched::new();
        disk.append(&["one", "two"]);
        checkpoint(&disk);
        if more {
            disk.append(&["three"]);
        }
        disk.outsider().remove("/d/.tenure/log.jsonl.index");
        checkpoint(&disk);
        let (first, lines) = if more { (4, 3) } else { (3, 2) };
        let told = ["one", "two", "three"].into_iter().map(str::to_owned);
        let expected: Vec<(u64, String)> = (first..).zip(told).take(lines).collect();
        assert_eq!(disk.entries(), expected, "above what is known");
        let end = disk.text("log.jsonl").unwrap().len() as u64;
        let count = u32::try_from(lines).unwrap();
        assert_eq!(disk.index("index").ranges(), [Range::new(0, end, first, count, count)]);
        assert!(disk.journal().verify().unwrap().is_sound());
    }
}
