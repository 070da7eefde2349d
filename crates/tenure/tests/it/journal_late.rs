//! Late lines: another tool appends to a file that the journal has replaced, through a descriptor
//! that it opened before. They are adopted where they are, and read like any other entry (G7, races
//! 40 and 56).

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;

use tenure::Journal;

use crate::journal_stage::{
    Dir, PATH, Stage, all, durable, no_sync, numbered, sound, with_header, write,
};

/// A tool that keeps the journal open.
fn keep_open(dir: &Dir) -> fs::File {
    fs::OpenOptions::new().append(true).open(dir.log()).unwrap()
}

fn compact(journal: &Journal) {
    journal.compact(&write(), |_| true).unwrap();
}

/// The files that compactions and header changes have set aside.
fn set_aside(dir: &Dir) -> Vec<String> {
    let names = fs::read_dir(dir.0.join(".tenure")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".replaced.")).collect()
}

/// A way to give a journal a new file.
type Replace<'a> = &'a dyn Fn(&Journal);

#[test]
fn race_40_lines_appended_to_a_compacted_file_are_adopted_there() {
    let header = |journal: &Journal| {
        journal.append(&["h"], &with_header("H")).unwrap();
    };
    for (name, replace) in [("compact", &compact as Replace<'_>), ("header", &header)] {
        let dir = Dir::new();
        let journal = dir.journal();
        journal.append(&["one"], &durable()).unwrap();
        let mut tool = keep_open(&dir);
        replace(&journal);
        tool.write_all(b"late\nopen").unwrap();
        journal.append(&["two"], &no_sync()).unwrap();
        tool.write_all(b" line\n").unwrap();
        journal.append(&["three"], &durable()).unwrap();
        let lines: Vec<String> = all(&journal).into_iter().map(|(_, line)| line).collect();
        let expected = ["one", "h", "late", "two", "open line", "three"];
        let expected = expected.into_iter().filter(|line| name == "header" || *line != "h");
        assert_eq!(lines, expected.collect::<Vec<_>>(), "{name}");
        sound(&journal);
    }
}

#[test]
fn race_40_late_lines_survive_the_next_compaction_and_rotation() {
    let dir = Dir::new();
    let journal = dir.journal();
    journal.append(&["one"], &durable()).unwrap();
    let mut tool = keep_open(&dir);
    compact(&journal);
    tool.write_all(b"late\n").unwrap();
    journal.append(&["two"], &durable()).unwrap();
    compact(&journal);
    assert_eq!(all(&journal), numbered(&["one", "late", "two"]));
    assert_eq!(dir.text(), "one\nlate\ntwo\n");

    let mut tool = keep_open(&dir);
    compact(&journal);
    tool.write_all(b"later\n").unwrap();
    journal.append(&["three"], &durable()).unwrap();
    journal.rotate(&write()).unwrap();
    compact(&journal);
    journal.append(&["four"], &durable()).unwrap();
    let expected = numbered(&["one", "late", "two", "later", "three", "four"]);
    assert_eq!(all(&journal), expected);
    assert_eq!(all(&dir.journal()), expected);
    sound(&journal);
}

#[test]
fn a_set_aside_file_goes_with_the_next_replacement_if_no_tool_wrote_to_it() {
    let dir = Dir::new();
    let journal = dir.journal();
    journal.append(&["one"], &durable()).unwrap();
    compact(&journal);
    compact(&journal);
    assert_eq!(set_aside(&dir).len(), 1);
    journal.rotate(&write()).unwrap();
    assert_eq!(set_aside(&dir), [""; 0]);
    assert_eq!(all(&journal), numbered(&["one"]));
}

/// A tool still writes to a file after two replacements. Those lines are not adopted, and a file
/// that such a tool was seen to write to is never removed.
#[test]
fn race_40_a_set_aside_file_that_a_tool_writes_to_is_never_removed() {
    let dir = Dir::new();
    let journal = dir.journal();
    journal.append(&["one"], &durable()).unwrap();
    let mut tools = Vec::new();
    let rounds = 70;
    for round in 0..rounds {
        tools.push(keep_open(&dir));
        compact(&journal);
        if let [.., before, tool] = tools.as_mut_slice() {
            writeln!(tool, "late {round}").unwrap();
            writeln!(before, "later {round}").unwrap();
        }
    }
    journal.append(&["last"], &durable()).unwrap();
    let entries: BTreeSet<_> = all(&journal).into_iter().map(|(_, line)| line).collect();
    let texts = set_aside(&dir).into_iter();
    let texts: String =
        texts.map(|name| fs::read_to_string(dir.0.join(".tenure").join(name)).unwrap()).collect();
    let kept: BTreeSet<_> = texts.lines().collect();
    for round in 1..rounds {
        assert!(entries.contains(&format!("late {round}")), "{round}");
        assert!(round == 1 || kept.contains(format!("later {round}").as_str()), "{round}");
    }
    sound(&journal);
}

/// At every step of a compaction, a rotation and a header change another tool appends a line: it
/// becomes an entry exactly once.
#[test]
fn race_40_a_line_appended_at_any_step_of_a_replacement_is_an_entry() {
    for way in 0..3 {
        for nth in 0.. {
            let stage = Stage::new();
            stage.append(&["one"]);
            let outsider = stage.outsider();
            let kept = outsider.open(PATH);
            stage.clear();
            stage.before_nth(nth, move || {
                kept.append(b"theirs\n").unwrap();
            });
            let journal = stage.journal();
            match way {
                0 => journal.compact(&write(), |_| true).map(drop),
                1 => journal.rotate(&write()).map(drop),
                _ => journal.append(&["h"], &with_header("H")).map(drop),
            }
            .unwrap();
            let is_over = !stage.is_through();
            stage.append(&["last"]);
            let mut lines: Vec<String> =
                stage.entries().into_iter().map(|(_, line)| line).collect();
            lines.retain(|line| line != "h");
            lines.sort();
            let expected: &[&str] =
                if is_over { &["last", "one"] } else { &["last", "one", "theirs"] };
            assert_eq!(lines, expected, "way {way}, step {nth}");
            sound(&stage.journal());
            if is_over {
                assert!(nth > 10, "there are steps");
                break;
            }
        }
    }
}

/// A process that dies while it writes a new journal leaves a file as large as the journal. The next append, not only
/// the next rotation, removes it.
#[test]
fn race_59_the_next_append_removes_what_a_killed_replacement_left() {
    for way in 0..3 {
        for nth in 0.. {
            let stage = Stage::new();
            stage.append(&["one"]);
            stage.clear();
            stage.die_before_nth(nth);
            let journal = stage.journal();
            let _ = match way {
                0 => journal.compact(&write(), |_| true).map(drop),
                1 => journal.rotate(&write()).map(drop),
                _ => journal.append(&["h"], &with_header("H")).map(drop),
            };
            let died = stage.is_dead();
            stage.restart();
            stage.append(&["last"]);
            assert_eq!(stage.temps(), [""; 0], "way {way}, step {nth}");
            if !died {
                break;
            }
        }
    }
}
