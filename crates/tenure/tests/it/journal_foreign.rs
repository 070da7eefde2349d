//! Lines of other tools: pending until a writer adopts them under the commit lock, then entries with a number that
//! stays (G7, races 38, 39 and 55).

use crate::journal_stage::{
    Dir, PATH, Stage, all, durable, foreign, no_sync, numbered, numbered_from, pending, sound,
    write,
};

#[test]
fn race_39_lines_of_other_tools_are_pending_until_a_writer_adopts_them() {
    let dir = Dir::new();
    let journal = dir.journal();
    journal.append(&["one"], &durable()).unwrap();
    foreign(&dir.log(), "two\n\n \t\r\nthree\nopen");
    assert_eq!(all(&journal), numbered(&["one"]), "readers number nothing");
    assert_eq!(pending(&journal), ["two", "three", "open"]);
    let report = journal.verify().unwrap();
    assert!(report.torn_tail && report.is_sound(), "{report:?}");
    assert_eq!((report.entries, report.unadopted, report.next), (1, 2, 2));

    let done = journal.append(&["five"], &no_sync()).unwrap();
    assert_eq!((done.first, done.adopted, done.closed_tail), (4, 3, true));
    assert_eq!(all(&journal), numbered_from(1, &["one", "two", "three", "five", "open"]));
    assert_eq!(dir.text(), "one\ntwo\n\n \t\r\nthree\nopen\nfive\n");
    assert!(pending(&journal).is_empty());
    let report = sound(&journal);
    assert_eq!((report.entries, report.foreign_entries, report.unadopted), (5, 3, 0));
}

/// Without any sidecar the complete lines have the numbers that the first writer gives them.
#[test]
fn a_plain_file_is_numbered_as_the_first_writer_will_number_it() {
    let dir = Dir::new();
    foreign(&dir.log(), "a\n\nb\nopen");
    let journal = dir.journal();
    assert_eq!(all(&journal), numbered(&["a", "b"]));
    assert_eq!(pending(&journal), ["open"]);
    assert!(!dir.0.join(".tenure").exists(), "reading creates nothing");
    let done = journal.append(&["c"], &durable()).unwrap();
    assert_eq!((done.first, done.adopted, done.closed_tail), (3, 2, true));
    assert_eq!(all(&journal), numbered(&["a", "b", "c", "open"]));
}

/// The kernel serialises appends: what was there before our batch is final, and is adopted after
/// it.
#[test]
fn race_38_a_line_that_comes_while_a_batch_is_written_keeps_its_bytes_and_its_place() {
    for (options, first) in [(durable(), "Write log"), (no_sync(), "Write log")] {
        for step in [first, "Write journal"] {
            let stage = Stage::new();
            stage.append(&["one"]);
            let outsider = stage.outsider();
            stage.before(step, move || outsider.append(PATH, "theirs\n"));
            let done = stage.journal().append(&["two", "three"], &options).unwrap();
            assert!(stage.is_through());
            assert_eq!((done.first, done.last), (2, 3), "{step}");
            stage.append(&["last"]);
            assert_eq!(stage.text(), "one\ntheirs\ntwo\nthree\nlast\n");
            stage.expect(&["one", "two", "three", "theirs", "last"]);
        }
    }
}

/// Another tool leaves its line open between our look at the tail and our write. Every reader that
/// knows the ranges still sees two lines.
#[test]
fn race_38_a_line_left_open_in_the_last_moment_is_an_entry_of_its_own() {
    for options in [durable(), no_sync()] {
        let stage = Stage::new();
        stage.append(&["one"]);
        let outsider = stage.outsider();
        stage.before("Write journal", move || outsider.append(PATH, "open"));
        stage.journal().append(&["two"], &options).unwrap();
        stage.expect(&["one", "two", "open"]);
        stage.journal().compact(&write(), |_| true).unwrap();
        assert_eq!(stage.text(), "one\ntwo\nopen\n");
        stage.expect(&["one", "two", "open"]);
    }
}

/// A process dies before its batch is in the journal, and another tool appends a line that begins like that batch.
/// It is not taken for a torn part of it, wherever pages end.
#[test]
fn race_39_a_line_that_begins_like_a_batch_of_a_dead_process_stays_as_it_is() {
    let ours = r#"{"type":"message","session":"0123456789","from":"us"}"#;
    let theirs = r#"{"type":"message","session":"0123456789","from":"them"}"#;
    for (options, page) in [(durable(), 4096), (no_sync(), 4096), (no_sync(), 512)] {
        for before in 1..ours.len() {
            let stage = Stage::new();
            let _tell = stage.sim.tell_on_panic();
            let pad = "p".repeat(page - before - 1);
            stage.append(&[&pad]);
            stage.die_before("Write journal");
            assert!(stage.journal().append(&[ours], &options).is_err());
            stage.restart();
            stage.outsider().append(PATH, &format!("{theirs}\n"));
            stage.outsider().append(PATH, &format!("{theirs}\n"));
            stage.append(&["last"]);
            let lines: Vec<String> = stage.entries().into_iter().map(|(_, line)| line).collect();
            let count = |line: &str| lines.iter().filter(|found| *found == line).count();
            assert_eq!((count(theirs), count("last")), (2, 1), "{before}: {lines:?}");
            assert!(count(ours) <= 1 && lines.len() == 4 + count(ours), "{before}: {lines:?}");
            sound(&stage.journal());
        }
    }
}

/// A process dies inside a write that crosses pages, and another tool appends right behind the part that is there.
#[test]
fn race_39_a_batch_torn_at_a_page_is_blanked_when_a_line_of_another_tool_follows_it() {
    for (pages, theirs) in [(1, "theirs\n"), (2, "theirs\n"), (2, "open"), (1, "")] {
        let stage = Stage::new();
        let _tell = stage.sim.tell_on_panic();
        stage.append(&["first"]);
        let lines: Vec<String> = (0..12).map(|at| format!("{at} {}", "x".repeat(1000))).collect();
        let whole = lines.join("\n") + "\n";
        let (outsider, torn) = (stage.outsider(), whole[..pages * 4096 - 6].to_owned());
        let dies = stage.clone();
        stage.before("Write journal", move || {
            outsider.append(PATH, &torn);
            dies.kill();
        });
        assert!(stage.journal().append(&lines, &no_sync()).is_err());
        stage.restart();
        stage.outsider().append(PATH, theirs);
        stage.append(&["last"]);
        let found: Vec<String> = stage.entries().into_iter().map(|(_, line)| line).collect();
        let mut expected: Vec<&str> = vec!["first"];
        expected.extend(lines.iter().map(String::as_str));
        expected.extend(theirs.lines());
        expected.push("last");
        let mut sorted = found.clone();
        sorted.sort_by_key(|line| expected.iter().position(|other| other == line));
        assert_eq!(sorted, expected, "each once");
        assert_eq!(found[1..13], lines, "the batch is whole, with its numbers");
        let plain: Vec<_> = stage.text().lines().map(str::to_owned).collect();
        let count = |line: &str| plain.iter().filter(|found| *found == line).count();
        assert!(expected.iter().all(|line| count(line) == 1), "for plain readers too");
        sound(&stage.journal());
    }
}

/// A directory copied with its sidecars (a backup, an image, `cp -r`). If log and journal belong
/// together, the entries keep their numbers; if one of them is older, the lines get new numbers and
/// nothing is replayed.
#[test]
fn race_51_a_copied_journal_keeps_its_numbers_and_replays_nothing() {
    let dir = Dir::new();
    let journal = dir.journal();
    journal.append(&["one"], &durable()).unwrap();
    foreign(&dir.log(), "two\n");
    let older = std::fs::read(dir.log()).unwrap();
    journal.append(&["three"], &no_sync()).unwrap();
    let copy = |text: &[u8]| {
        let copy = Dir::new();
        std::fs::create_dir_all(copy.0.join(".tenure")).unwrap();
        for entry in std::fs::read_dir(dir.0.join(".tenure")).unwrap() {
            let name = entry.unwrap().file_name();
            let to = copy.0.join(".tenure").join(&name);
            std::fs::copy(dir.0.join(".tenure").join(&name), to).unwrap();
        }
        std::fs::write(copy.log(), text).unwrap();
        copy
    };
    let whole = copy(&std::fs::read(dir.log()).unwrap());
    assert_eq!(all(&whole.journal()), numbered(&["one", "two", "three"]));
    whole.journal().append(&["four"], &durable()).unwrap();
    let lines = all(&whole.journal()).into_iter().map(|(_, line)| line);
    assert_eq!(lines.collect::<Vec<_>>(), ["one", "two", "three", "four"]);
    assert_eq!(all(&whole.journal())[..3], numbered(&["one", "two", "three"]));
    sound(&whole.journal());

    let restored = copy(&older);
    restored.journal().append(&["four"], &durable()).unwrap();
    assert_eq!(restored.text(), "one\ntwo\nfour\n", "the log is not replayed over older data");
    assert!(all(&restored.journal()).iter().all(|(seq, _)| *seq > 3), "numbers do not come again");
}

/// A reader numbers the lines of a file that no log describes, as the next writer will. Lines that arrive while that
/// writer begins are no exception: at every step another tool appends, and a reader looks.
#[test]
fn race_56_what_a_reader_numbered_before_the_first_append_is_final() {
    for replaced in [false, true] {
        for nth in 0.. {
            let stage = Stage::new();
            if replaced {
                stage.append(&["old"]);
                stage.outsider().replace(PATH, "a\nb\n");
            } else {
                stage.outsider().append(PATH, "a\nb\n");
            }
            let (outsider, reader) = (stage.outsider(), stage.beside());
            let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
            let told = seen.clone();
            stage.before_nth(nth, move || {
                outsider.append(PATH, "theirs\n");
                told.lock().unwrap().extend(from_oldest(&reader.journal()));
            });
            stage.journal().append(&["ours"], &no_sync()).unwrap();
            let is_over = !stage.is_through();
            stage.append(&["last"]);
            let entries = from_oldest(&stage.journal());
            for entry in seen.lock().unwrap().iter() {
                assert!(
                    entries.contains(entry),
                    "replaced {replaced}, step {nth}: {entry:?} {entries:?}"
                );
            }
            if is_over {
                assert!(nth > 3, "there are steps");
                break;
            }
        }
    }
}

fn from_oldest(journal: &tenure::Journal) -> Vec<(u64, String)> {
    let entries = journal.read(0, None).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.seq, String::from_utf8(entry.line).unwrap())).collect()
}
