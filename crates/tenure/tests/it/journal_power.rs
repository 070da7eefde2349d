//! What is durable when a journal was adopted or repaired: a power loss right after it takes nothing that
//! was promised, and no number (J4, J7, J8).

use std::path::Path;

use tenure::fs::Access;
use tenure::{Journal, WriteOptions};
use tenure_testkit::{CrashKind, SimFs, Survival};

use crate::journal_stage::{durable, numbered};

const PATH: &str = "/d/log.jsonl";

fn on(fs: &SimFs) -> Journal {
    Journal::open_on(&fs.shared(), Path::new(PATH)).unwrap()
}

fn found(fs: &SimFs) -> Vec<(u64, String)> {
    let entries = on(fs).read(0, None).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.seq, String::from_utf8(entry.line).unwrap())).collect()
}

/// Somebody else's file was never synced; that a batch behind it is durable makes it so.
#[test]
fn j7_j8_a_batch_in_an_adopted_journal_survives_a_power_loss() {
    for text in ["", "older\n", "older\nand open"] {
        for known in [false, true] {
            let fs = SimFs::new(1);
            fs.add_dir("/d");
            if known {
                on(&fs).append(&["first"], &durable()).unwrap();
            }
            let other = Path::new("/d/other");
            let file = fs.shared().open(other, Access::CreateNew(0o600)).unwrap();
            file.write_all_at(text.as_bytes(), 0).unwrap();
            fs.shared().rename(other, Path::new(PATH)).unwrap();
            let journal = on(&fs);
            let before: Vec<_> = ["one", "two"]
                .map(|line| journal.append(&[line], &durable()).unwrap().first)
                .into();
            let entries = found(&fs);
            for survival in [Survival::Nothing, Survival::Everything, Survival::Nothing] {
                fs.crash_with(survival);
                assert_eq!(found(&fs), entries, "{text:?} {known}");
                assert_eq!(entries[entries.len() - 2].0, before[0]);
                let report = on(&fs).verify().unwrap();
                assert!(report.is_sound() && !report.unbound, "{text:?} {known} {report:?}");
            }
        }
    }
}

/// A repair may give a line a new number, behind those of lines that stand after it. The index that
/// says so is durable before anybody relies on it.
#[test]
fn j4_a_repaired_index_is_in_the_order_of_its_numbers_and_survives_a_power_loss() {
    let fs = SimFs::new(1);
    fs.add_dir("/d");
    on(&fs).append(&["ab cd", "ef"], &durable()).unwrap();
    on(&fs).repair(&WriteOptions::default()).unwrap();
    on(&fs).append(&["gh"], &durable()).unwrap();
    on(&fs).repair(&WriteOptions::default()).unwrap();
    let file = fs.shared().open(Path::new(PATH), Access::ReadWrite).unwrap();
    file.write_all_at(b"\n", 2).unwrap();
    file.sync().unwrap();
    drop(file);
    let report = on(&fs).repair(&WriteOptions::default()).unwrap();
    assert!(report.is_sound() && report.set_aside.len() == 1, "{report:?}");
    assert_eq!(on(&fs).append(&["ij"], &durable()).unwrap().first, 5);
    let expected = numbered(&[(1, "ab"), (2, "cd"), (3, "gh"), (4, "ef"), (5, "ij")]);
    assert_eq!(found(&fs), expected);
    for from in 1..=5 {
        let read: Vec<u64> =
            on(&fs).read(from, None).unwrap().map(|entry| entry.unwrap().seq).collect();
        assert_eq!(read, (from..=5).collect::<Vec<_>>());
    }
    fs.crash_with(Survival::Nothing);
    assert_eq!(found(&fs), expected);
    assert_eq!(on(&fs).append(&["kl"], &durable()).unwrap().first, 6);
    assert_eq!(found(&fs)[..5], expected);
}

/// A batch that was logged behind an open line closes that line itself, where the log says: a newline
/// more would move it from there, and a second power loss could leave a part of it.
#[test]
fn j6_a_batch_behind_an_open_line_comes_back_where_the_log_says() {
    let fs = SimFs::new(1);
    fs.add_dir("/d");
    on(&fs).append(&["one"], &durable()).unwrap();
    on(&fs).repair(&WriteOptions::default()).unwrap();
    let file = fs.shared().open(Path::new(PATH), Access::Append).unwrap();
    file.append(b"open").unwrap();
    file.sync().unwrap();
    on(&fs).append(&["two"], &durable()).unwrap();
    for _ in 0..2 {
        fs.crash_with(Survival::Nothing);
        on(&fs).append(&[""; 0], &header()).unwrap();
        let text = String::from_utf8(fs.peek(PATH).unwrap()).unwrap();
        assert_eq!(text, "# header\none\nopen\ntwo\n");
    }
    assert_eq!(found(&fs), numbered(&[(1, "one"), (2, "open"), (3, "two")]));
}

fn header() -> tenure::AppendOptions {
    tenure::AppendOptions { header: Some(b"# header".to_vec()), ..durable() }
}

/// A device may get another number when the machine starts again (that of a btrfs always does). A
/// replacement that the power cut is finished all the same, and every entry keeps its number.
#[test]
fn j10_a_replacement_that_was_cut_is_finished_on_a_device_with_another_number() {
    for nth in 1.. {
        let fs = SimFs::new(nth);
        fs.add_dir("/d");
        on(&fs).append(&["one", "two"], &durable()).unwrap();
        on(&fs).rotate(&WriteOptions::default()).unwrap();
        on(&fs).append(&["three"], &durable()).unwrap();
        let before = found(&fs);
        fs.fail_after(nth, CrashKind::Power);
        let done = on(&fs).compact(&WriteOptions::default(), |_| true).is_ok();
        fs.crash_with(Survival::Everything);
        fs.set_device(1_000_000 + nth);
        assert_eq!(found(&fs), before, "after {nth} operations");
        assert_eq!(on(&fs).append(&["four"], &durable()).unwrap().first, 4);
        assert_eq!(found(&fs)[..3], before, "after {nth} operations");
        if done {
            return;
        }
    }
}
