//! Races 38 to 43: lines that mix, tear, vanish, or share a number.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};
use tenure::{AppendOptions, Journal};
use tenure_proof::puppet::{Child, CommandLine, Puppet};
use tenure_proof::strace::{self, Does};
use tenure_proof::{Form, tenure};
use tenure_shipped::Log;
use tenure_shipped::logs::{self, CachedNumber, HeaderRewrite, PlainAppend, Rotating, TwoWrites};

use crate::deaths::{deaths, traced};
use crate::scene::{Scene, at_once, below_shell, patiently, told};

fn lines_of(directory: &Path) -> Vec<String> {
    let content = fs::read_to_string(logs::path(directory)).unwrap();
    content.lines().map(str::to_owned).collect()
}

fn entries(path: &Path) -> Vec<String> {
    let entries = Journal::open(path).unwrap().read(1, None).unwrap();
    entries.map(|entry| String::from_utf8(entry.unwrap().line).unwrap()).collect()
}

fn append(path: &Path, lines: &[&str]) -> tenure::outcome::Appended {
    let options = AppendOptions { write: patiently(), ..AppendOptions::default() };
    Journal::open(path).unwrap().append(lines, &options).unwrap()
}

/// carl: the record and its newline are two writes, so two records share a line. Ours: a batch is
/// whole and nothing is between its lines (G7).
#[test]
fn race_38_two_writes_make_one_line_of_two_records() {
    let mut scene = Scene::new("race_38");
    let directory = scene.theirs();
    let mut alice = TwoWrites::open(&directory);
    let at = directory.clone();
    alice.meanwhile.is(move || TwoWrites::open(&at).append("bob").unwrap());
    alice.append("alice").unwrap();
    assert_eq!(lines_of(&directory), ["alicebob", ""]);
    scene.broke("carl: two writes for one record");

    let path = scene.log();
    let mut writers = [Child::rust(), Child::rust(), Child::rust()];
    let rounds = Form::asked().pick(400, 5000);
    // All orders at once: no writer waits for the others between two batches.
    for round in 0..rounds {
        for (number, writer) in writers.iter_mut().enumerate() {
            let batch = [0, 1, 2].map(|part| format!("{number}.{round}.{part}"));
            let order = json!({ "op": "append", "path": path, "lines": batch, "wait": "forever" });
            writer.tell(&order);
        }
    }
    for writer in &mut writers {
        for _ in 0..rounds {
            assert!(writer.hear()["ok"].is_object());
        }
    }
    let all = entries(&path);
    assert_eq!(all.len(), rounds * 9);
    for batch in all.chunks(3) {
        let name = batch[0].strip_suffix(".0").expect("a batch begins where one ended");
        assert_eq!(batch[1..], [format!("{name}.1"), format!("{name}.2")]);
        scene.tally.tried(1, "batches of several writers");
    }
}

/// A crash leaves half a line; the next record is joined to it, and both are lost. Ours: the
/// fragment is closed with a newline and reported; tenure's own torn batches are finished or set
/// aside (G7).
#[test]
fn race_39_a_record_is_glued_to_a_torn_line() {
    let mut scene = Scene::new("race_39");
    let directory = scene.theirs();
    fs::write(logs::path(&directory), "{\"a\":1}\n{\"half\":").unwrap();
    PlainAppend::open(&directory).append("{\"b\":2}").unwrap();
    let parsed = |lines: &[String]| {
        lines.iter().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count()
    };
    assert_eq!(parsed(&lines_of(&directory)), 1, "the acknowledged record is lost");
    scene.broke("appending to a torn line");

    let path = scene.log();
    append(&path, &["{\"a\":1}"]);
    // Cut inside a letter of two bytes, as a kill may leave it.
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"half\":\"\xc3").unwrap();
    let done = append(&path, &["{\"b\":2}"]);
    assert!(done.closed_tail);
    let report = Journal::open(&path).unwrap().verify().unwrap();
    assert!(report.is_sound() && report.entries == 3, "{report:?}");
    let content = fs::read(&path).unwrap();
    assert!(content.ends_with(b"\xc3\n{\"b\":2}\n"), "nothing is dropped, nothing is glued");
    kill_appends(&mut scene);
}

/// Kills appends at each of their steps, from the first write to the last. A kill counts if it left
/// something behind, in the log or in the journal.
fn kill_appends(scene: &mut Scene) {
    if !strace::available() {
        return;
    }
    let (path, trace) = (scene.ours("killed.jsonl"), scene.theirs().join("trace"));
    let at = path.to_str().unwrap();
    let args = ["journal", "append", at, "x", "y"];
    let command = traced(tenure(), &args, path.parent().unwrap(), &trace);
    append(&path, &["z"]);
    let cases = deaths(&command, &[Does::Changes, Does::Locks, Does::Ends]);
    let rounds = Form::asked().pick(1, 10);
    let (mut left, mut torn, mut done) = (0, 0, 1);
    let log = scene.ours(".tenure").join("killed.jsonl.log");
    for case in (0..rounds).flat_map(|_| &cases) {
        let look = || (fs::read(&log).unwrap(), fs::read(&path).unwrap());
        let before = look();
        if !command.with_fault(case).came_about {
            continue;
        }
        let after = look();
        left += u64::from(after != before);
        // In the log, and not in the journal: the next append has to finish it.
        torn += u64::from(after.0 != before.0 && after.1 == before.1);
        append(&path, &["z"]);
        done += 1;
        let report = Journal::open(&path).unwrap().verify().unwrap();
        assert!(report.is_sound(), "{report:?} after {case:?}");
    }
    let all = entries(&path);
    let of = |line: &str| all.iter().filter(|entry| *entry == line).count();
    assert_eq!(of("z"), done, "what was acknowledged is there");
    let batches = all.iter().filter(|entry| *entry != "z").collect::<Vec<_>>();
    assert!(batches.chunks(2).all(|batch| batch == ["x", "y"]), "batches are whole: {all:?}");
    assert!(
        left >= 5 && torn >= 2,
        "{left} of {} kills left something, {torn} half of it",
        cases.len()
    );
    scene.tally.tried(left, "appends killed that left something behind");
}

/// codegraph: a process that finds the journal too long keeps its end by a rename; lines appended
/// meanwhile go to a file without a name. Ours: rotation and compaction exclude appends, and lose
/// nothing (G7).
#[test]
fn race_40_a_rotation_loses_what_was_appended_meanwhile() {
    let mut scene = Scene::new("race_40");
    let directory = scene.theirs();
    PlainAppend::open(&directory).append("old").unwrap();
    let mut rotating = Rotating::open(&directory);
    let at = directory.clone();
    rotating.meanwhile.is(move || PlainAppend::open(&at).append("meanwhile").unwrap());
    rotating.rotate(1).unwrap();
    assert_eq!(lines_of(&directory), ["old"], "an acknowledged record is gone");
    scene.broke("codegraph: rotateIfNeeded");

    let path = scene.log();
    let mut writer = Child::rust();
    let mut follower = Child::rust();
    append(&path, &["0"]);
    follower.does(&json!({ "op": "follow", "path": path }));
    let journal = Journal::open(&path).unwrap();
    let appends = Form::asked().pick(200, 3000);
    for number in 1..appends {
        let lines = [number.to_string()];
        writer.tell(&json!({ "op": "append", "path": path, "lines": lines, "wait": "forever" }));
    }
    for number in 1..appends {
        if number % 20 == 0 {
            journal.rotate(&patiently()).unwrap();
        } else if number % 7 == 0 {
            journal.compact(&patiently(), |_| true).unwrap();
        }
        assert_eq!(writer.hear()["ok"]["last"], number + 1);
        scene.tally.tried(1, "appends during a rotation or compaction");
    }
    for number in 0..appends {
        let entry = follower.does(&json!({ "op": "next", "wait": "forever" }));
        assert_eq!(
            (&entry["seq"], &entry["line"]),
            (&json!(number + 1), &json!(number.to_string()))
        );
    }
}

/// codegraph: one language rewrites the header, and with it the file, while the other appends.
/// Ours: the header is stamped in the same step as a batch.
#[test]
fn race_41_a_new_header_drops_entries() {
    let mut scene = Scene::new("race_41");
    let directory = scene.theirs();
    fs::write(logs::path(&directory), "{\"header\":1}\n").unwrap();
    let mut header = HeaderRewrite::open(&directory);
    let at = directory.clone();
    header.meanwhile.is(move || PlainAppend::open(&at).append("entry").unwrap());
    header.stamp("{\"header\":2}").unwrap();
    let stamped = Stamped { header: "{\"header\":2}".into(), entries: vec!["entry".into()] };
    assert_eq!(stamped.is_broken(&logs::path(&directory)), Some("entry".to_owned()));
    scene.broke("codegraph: the header is rewritten beside appends");

    let path = scene.log();
    let journal = Journal::open(&path).unwrap();
    let mut writers = [Child::rust(), Child::rust()];
    let mut numbered = BTreeMap::new();
    let mut header = String::new();
    for round in 0..Form::asked().pick(40, 1000) {
        // All three use the journal at once, and the header grows and shrinks.
        for (at, writer) in writers.iter_mut().enumerate() {
            let line = format!("{at} {round}");
            let order = json!({ "op": "append", "path": path, "lines": [line], "wait": "forever" });
            writer.tell(&order);
        }
        header = format!("{{\"stamp\":{round},\"x\":\"{}\"}}", "x".repeat(round * 7 % 40));
        let stamp = Some(header.clone().into_bytes());
        let options =
            AppendOptions { write: patiently(), header: stamp, ..AppendOptions::default() };
        let mine = format!("2 {round}");
        numbered.insert(journal.append(&[&mine], &options).unwrap().first, mine);
        for (at, writer) in writers.iter_mut().enumerate() {
            let told = writer.hear()["ok"]["first"].as_u64().expect("a number");
            numbered.insert(told, format!("{at} {round}"));
        }
        scene.tally.tried(1, "headers stamped beside appends");
    }
    let numbers = 1..=numbered.len() as u64;
    assert!(numbered.keys().copied().eq(numbers), "each number once: {numbered:?}");
    let entries: Vec<_> = numbered.into_values().collect();
    assert_eq!(self::entries(&path), entries, "as acknowledged to their writers");
    assert_eq!(Stamped { header, entries }.is_broken(&path), None);
}

/// What a plain reader must find: one header, and under it every entry that was acknowledged.
struct Stamped {
    header: String,
    entries: Vec<String>,
}

impl Stamped {
    /// The first deviation.
    fn is_broken(&self, path: &Path) -> Option<String> {
        let content = fs::read_to_string(path).unwrap();
        let mut found = content.split_terminator('\n');
        let mut expected = [&self.header].into_iter().chain(&self.entries);
        let wrong = expected.find(|line| found.next() != Some(line)).cloned();
        wrong.or_else(|| found.next().map(str::to_owned))
    }
}

/// carl: numbers counted in memory, so that two processes gave the same one 105 times. Ours: numbers come
/// from the file, under the lock.
#[test]
fn race_42_numbers_from_memory_collide() {
    let mut scene = Scene::new("race_42");
    let directory = scene.theirs();
    let (mut alice, mut bob) = (CachedNumber::open(&directory), CachedNumber::open(&directory));
    alice.append("a").unwrap();
    bob.append("b").unwrap();
    let numbers: HashSet<_> = lines_of(&directory)
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].to_string())
        .collect();
    assert_eq!(numbers.len(), 1, "two records, one number");
    scene.broke("carl: sequence numbers in memory");

    let path = scene.log();
    let (mut rust, mut shell) = (Child::rust(), CommandLine::start());
    let mut next = 1;
    for _ in 0..10 {
        for puppet in [&mut rust as &mut dyn Puppet, &mut shell] {
            let order = json!({ "op": "append", "path": path, "lines": ["x"] });
            assert_eq!(puppet.does(&order)["first"], next);
            next += 1;
            scene.tally.tried(1, "numbers drawn in turn");
        }
    }
}

/// Short writes, a full disk, a limit on the file's length: a part of a record is in the file.
/// Ours: an append that fails leaves nothing of itself, and reports an error (G7, G10).
#[test]
fn race_43_a_short_write_leaves_a_part_of_a_record() {
    let mut scene = Scene::new("race_43");
    let record = scene.ours("record");
    fs::write(&record, "r".repeat(3000)).unwrap();
    let theirs = logs::path(&scene.theirs());
    // Shells count in blocks of 512 bytes.
    let limited = "trap '' XFSZ; ulimit -f 4; ";
    let script = format!("{limited} cat \"$1\" >> \"$2\"");
    assert!(!below_shell(&script, &[&record, &theirs]).status.success());
    let part = fs::metadata(&theirs).unwrap().len();
    assert!((1..3000).contains(&part), "{part} bytes of a record");
    scene.broke("a short write of a plain append");

    let path = scene.log();
    append(&path, &["before"]);
    let (mut done, mut refused) = (0, 0);
    for limit in [1, 2, 4, 5, 6, 7, 8, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 512] {
        let script = format!(
            "trap '' XFSZ; ulimit -f {limit}; exec \"$0\" --json journal append \"$1\" - < \"$2\""
        );
        let output = below_shell(&script, &[&path, &record]);
        let report = Journal::open(&path).unwrap().repair(&at_once(None)).unwrap();
        assert!(report.is_sound(), "{report:?} after {}", told(&output));
        if output.status.success() {
            done += 1;
        } else {
            refused += 1;
        }
        let all = entries(&path);
        assert!(all[1..].iter().all(|line| line.len() == 3000), "{}", told(&output));
        assert_eq!(all.len(), 1 + done, "{}", told(&output));
        scene.tally.tried(1, "appends below a limit of length");
    }
    assert!(done > 0 && refused > 0, "{done} done, {refused} refused");
    append(&path, &["after"]);
    assert_eq!(entries(&path).last().map(String::as_str), Some("after"));
}
