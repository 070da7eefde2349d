//! What others do to the files between two steps of a writer: they cut the journal, remove the index,
//! append right behind a batch that waits. And what is planted in the sidecars (J6-J9, G7, G13).

use std::fs;

use tenure::{AppendOptions, WriteOptions};
use xxhash_rust::xxh3::xxh3_64;

use crate::faulty_fs::{Change, Op, Verdict};
use crate::journal::peak_memory_kib;
use crate::journal_durable::with_a_line;
use crate::journal_lost::lose;
use crate::journal_stage::{Death, LOG_SYNCED, SYNCED, WRITTEN, durable, named, no_sync, numbered};
use crate::starting::is_by_itself;
use crate::watched_log::{END, LOOKED, SYNC_BEGINS, Watched};

/// As a rotation by copying and cutting does. The batch is there once, or gone with the rest.
#[test]
fn j7_j8_a_batch_whose_journal_is_cut_before_its_write_is_there_once() {
    for before in [0, 1, 5, 20, 100] {
        for options in [durable(), no_sync()] {
            let disk = with_a_line();
            for number in 0..before {
                disk.journal
                    .append(&[format!("line {number} ......").as_str()], &no_sync())
                    .unwrap();
            }
            let stage = disk.stage.clone();
            disk.stage.at(WRITTEN, 1, move || {
                stage.overwrite("");
                Verdict::Go
            });
            let done = disk.journal.append(&["batch"], &options).unwrap();
            assert_eq!(disk.stage.text(), "batch\n", "{before} {options:?}");
            assert_eq!(disk.stage.entries(), [(done.first, "batch".to_owned())]);
            disk.journal.append(&["next"], &durable()).unwrap();
            assert!(disk.journal.verify().unwrap().is_sound(), "{before} {options:?}");
        }
    }
}

/// It is put behind what is there now, and not looked for where it cannot be.
#[test]
fn j7_j8_a_batch_is_there_once_if_its_journal_is_cut_after_its_write_and_again() {
    for theirs in ["", "theirs\n"] {
        let disk = with_a_line();
        let stage = disk.stage.clone();
        disk.stage.at(WRITTEN, 1, || Verdict::Go);
        disk.stage.at(LOOKED, 1, move || {
            stage.overwrite("");
            Verdict::Go
        });
        disk.stage.at(WRITTEN, 1, || Verdict::Go);
        disk.foreign_at(LOOKED, 1, theirs);
        disk.journal.append(&["batch"], &durable()).unwrap();
        assert_eq!(disk.stage.text(), format!("batch\n{theirs}"));
    }
    let disk = with_a_line();
    disk.refuse(SYNC_BEGINS, 1);
    disk.journal.append(&["batch"], &durable()).unwrap_err();
    disk.stage.replace("another journal, which is longer\n");
    let stage = disk.stage.clone();
    disk.stage.at(WRITTEN, 1, move || {
        stage.overwrite("");
        Verdict::Go
    });
    disk.journal.append(&["next"], &durable()).unwrap();
    assert_eq!(disk.stage.text(), "batch\nnext\n");
}

/// As a rotation by copying and cutting does whose program goes on at once: when the writer looks again, the
/// journal is as long as it was, and not one line of it is.
#[test]
fn j8_a_journal_that_was_cut_and_has_grown_again_meanwhile_is_another_one() {
    for options in [durable(), no_sync()] {
        let disk = with_a_line();
        disk.stage.overwrite("");
        disk.foreign_at((Op::Open(Change::Write), "index"), 1, "theirs and more\n");
        disk.journal.append(&["next"], &options).unwrap();
        assert_eq!(disk.stage.text(), "theirs and more\nnext\n", "{options:?}");
        let expected = numbered(&[(2, "theirs and more"), (3, "next")]);
        assert_eq!(disk.stage.entries(), expected, "{options:?}");
        assert_eq!(disk.stage.events("journal_adopted").len(), 1, "{options:?}");
        assert!(disk.journal.verify().unwrap().is_sound(), "{options:?}");
    }
}

/// It is in the journal, behind a line that overtook it, and waits only for the index.
#[test]
fn j7_a_batch_is_not_lost_with_the_index() {
    let disk = with_a_line();
    disk.journal.repair(&WriteOptions::default()).unwrap();
    let index = disk.stage.side("index");
    disk.foreign_at(LOG_SYNCED, 1, "theirs\n");
    disk.stage.at(SYNCED, 2, move || {
        fs::remove_file(&index).unwrap();
        Verdict::Go
    });
    for replayed in [false, true] {
        let done = disk.journal.append(&["batch"], &named("batch", &durable())).unwrap();
        assert_eq!(done.replayed, replayed);
        assert_eq!(disk.stage.text(), "first\ntheirs\nbatch\n");
    }
    assert!(disk.stage.events("batches_lost").is_empty());
}

#[test]
fn j7_an_operation_before_one_that_was_lost_after_a_kill_is_known() {
    let disk = Watched::new();
    disk.journal.append(&["first"], &named("first", &durable())).unwrap();
    disk.journal.append(&["direct"], &named("direct", &no_sync())).unwrap();
    let at = disk.stage.in_head(END);
    disk.stage.die_at(WRITTEN, 1, Death::Within);
    disk.journal.append(&["second"], &named("second", &no_sync())).unwrap_err();
    disk.stage.live_on();
    disk.refuse(WRITTEN, 1);
    disk.stage.journal().append(&["third"], &durable()).unwrap_err();
    lose(&disk.stage.side("wal"), at);
    disk.stage.journal().repair(&WriteOptions::default()).unwrap();
    assert!(disk.stage.append("direct", &named("direct", &no_sync())).replayed);
}

#[test]
fn j9_the_rest_of_an_open_line_gets_no_number_however_long_it_is() {
    for rest in [1000, 1_200_000] {
        let disk = Watched::new();
        let header = AppendOptions { header: Some("head".into()), ..AppendOptions::default() };
        disk.journal.append(&["first"], &header).unwrap();
        disk.stage.foreign("open");
        disk.journal.append(&[] as &[&str], &header).unwrap();
        disk.stage.foreign(&format!("{}\nlast\n", "x".repeat(rest)));
        let before = disk.stage.entries();
        assert_eq!(before.len(), 3);
        disk.journal.append(&["next"], &durable()).unwrap();
        assert!(disk.stage.entries()[..3] == before, "{rest}");
    }
}

/// Who died had begun to put the batch behind the file that took the journal's place.
#[test]
fn j9_nothing_is_shown_of_a_batch_that_an_adopter_has_not_finished() {
    for death in [Death::Within, Death::After] {
        let disk = with_a_line();
        disk.refuse(SYNC_BEGINS, 1);
        disk.journal.append(&["one", "two", "three"], &durable()).unwrap_err();
        disk.stage.replace("theirs\n");
        let other = disk.beside();
        other.stage.die_at(WRITTEN, 1, death);
        other.journal.append(&["dies"], &durable()).unwrap_err();
        let seen = disk.stage.entries();
        assert_eq!(seen.len(), 1, "{death:?} {seen:?}");
        disk.stage.append("next", &durable());
        assert!(disk.stage.entries().contains(&seen[0]), "{death:?} {seen:?}");
    }
}

/// The disk was full, so nothing of the batch is behind the file that took the journal's place: all of it is
/// of others, and what they append since is shown as before, with the numbers that it gets.
#[test]
fn j9_lines_of_others_are_shown_while_an_adopter_has_written_nothing() {
    let disk = with_a_line();
    disk.refuse(SYNC_BEGINS, 1);
    disk.journal.append(&["waits"], &durable()).unwrap_err();
    disk.stage.replace("theirs\n");
    disk.refuse(WRITTEN, 1);
    disk.journal.append(&["no"], &no_sync()).unwrap_err();
    disk.stage.foreign("more\n");
    let seen = numbered(&[(3, "theirs"), (4, "more")]);
    assert_eq!(disk.stage.entries(), seen);
    disk.journal.append(&["next"], &no_sync()).unwrap();
    assert_eq!(disk.stage.text(), "theirs\nmore\nwaits\nnext\n");
    let all = disk.stage.entries();
    assert!(seen.iter().all(|entry| all.contains(entry)), "{all:?}");
}

#[test]
fn j7_a_line_right_behind_a_batch_that_is_let_in_first_is_numbered_first() {
    for (theirs, text) in [("theirs\n", "theirs\n"), ("open", "open\n")] {
        let disk = with_a_line();
        disk.refuse(SYNC_BEGINS, 1);
        disk.journal.append(&["waits"], &durable()).unwrap_err();
        disk.stage.at(WRITTEN, 1, || Verdict::Go);
        disk.foreign_at(LOOKED, 1, theirs);
        let done = disk.journal.append(&["direct"], &no_sync()).unwrap();
        assert_eq!(disk.stage.text(), format!("first\nwaits\n{text}direct\n"));
        assert!(disk.stage.entries().contains(&(done.first, "direct".to_owned())));
        disk.journal.append(&["next"], &durable()).unwrap();
        assert!(disk.journal.verify().unwrap().is_sound());
    }
}

/// Whoever may write beside the journal can claim any length.
#[test]
fn g13_planted_lengths_take_no_memory() {
    if !is_by_itself("journal_meanwhile::g13_planted_lengths_take_no_memory") {
        return;
    }
    let disk = with_a_line();
    disk.stage.forge_head(END, 3 << 30);
    assert_eq!(disk.stage.entries().len(), 1);
    let disk = with_a_line();
    disk.journal.repair(&WriteOptions::default()).unwrap();
    let mut index = fs::read(disk.stage.side("index")).unwrap();
    index[40..48].copy_from_slice(&(3_u64 << 30).to_le_bytes());
    let sum = xxh3_64(&index[..120]);
    index[120..128].copy_from_slice(&sum.to_le_bytes());
    fs::write(disk.stage.side("index"), index).unwrap();
    let _ = disk.stage.journal().rotate(&WriteOptions::default());
    let peak = peak_memory_kib();
    assert!(peak < 1 << 20, "{peak} KiB of memory at the worst moment");
}
