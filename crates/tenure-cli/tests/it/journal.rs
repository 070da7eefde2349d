//! `tenure journal`.

use std::io::Write;

use serde_json::json;

use crate::TENURE;
use crate::bench::Bench;

/// What another tool does.
fn add(bench: &Bench, name: &str, text: &str) {
    let mut file = std::fs::OpenOptions::new().append(true).open(bench.path(name)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Changes bytes in place.
fn overwrite(bench: &Bench, name: &str, text: &str) {
    let mut file = std::fs::OpenOptions::new().write(true).open(bench.path(name)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "what an editor does")]
fn move_file(from: &std::path::Path, to: &std::path::Path) {
    std::fs::rename(from, to).unwrap();
}

fn objects(stdout: &str) -> Vec<serde_json::Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn lines_are_appended_as_one_batch_and_read_by_number() {
    let bench = Bench::new();
    let done = bench.tenure(&["journal", "append", "--json", "j", "{\"a\":1}", "two"]).ok().json();
    assert_eq!((&done["first"], &done["last"]), (&json!(1), &json!(2)));
    for field in ["adopted", "closed_tail", "replayed"] {
        assert!(!done[field].is_null(), "{field}");
    }
    bench.command(&["journal", "append", "j", "-"]).stdin("three\nfour\n").run().ok().says("");
    bench.command(&["journal", "append", "j"]).stdin("five").run().ok();
    assert_eq!(bench.read("j"), "{\"a\":1}\ntwo\nthree\nfour\nfive\n");
    bench.tenure(&["journal", "read", "j"]).ok().says("{\"a\":1}\ntwo\nthree\nfour\nfive");
    bench.tenure(&["journal", "read", "j", "--from", "2", "--limit", "2"]).ok().says("two\nthree");
    let object = bench.tenure(&["journal", "read", "--json", "j", "--from", "5"]).ok().json();
    assert_eq!(object, json!({ "seq": 5, "line": "five" }));
    bench.tenure(&["journal", "read", "none"]).exits(1).complains("none");
}

#[test]
fn bad_lines_are_2_and_nothing_is_written() {
    let bench = Bench::new();
    bench.tenure(&["journal", "append", "j", "a\nb"]).exits(2);
    bench.tenure(&["journal", "append", "j", "a", ""]).exits(2);
    bench.tenure(&["journal", "append", "j", "--json-lines", "{}", "{"]).exits(2);
    assert!(!bench.path("j").exists() || bench.read("j").is_empty());
}

#[test]
fn an_append_is_done_once() {
    let bench = Bench::new();
    let once = ["journal", "append", "--json", "j", "x", "--op-id", "a"];
    let first = bench.tenure(&once).ok().json();
    let again = bench.tenure(&once).ok().json();
    assert_eq!((&first["replayed"], &again["replayed"]), (&json!(false), &json!(true)));
    assert_eq!(first["first"], again["first"]);
    assert_eq!(bench.read("j"), "x\n");
}

#[test]
fn lines_of_others_are_adopted() {
    let bench = Bench::new();
    bench.tenure(&["journal", "append", "j", "ours"]).ok();
    bench.file("j", "ours\ntheirs\ntorn");
    let done = bench.tenure(&["journal", "append", "--json", "j", "next"]).ok().json();
    assert_eq!(done["closed_tail"], true);
    assert_eq!(bench.read("j"), "ours\ntheirs\ntorn\nnext\n");
    // The open line is complete only with the newline of the batch, so its number comes behind.
    bench.tenure(&["journal", "read", "j"]).ok().says("ours\ntheirs\nnext\ntorn");
}

#[test]
fn pending_lines_are_printed_on_request_behind_the_entries() {
    let bench = Bench::new();
    bench.tenure(&["journal", "append", "j", "ours"]).ok();
    add(&bench, "j", "theirs\nopen");
    bench.tenure(&["journal", "read", "j"]).ok().says("ours");
    assert_eq!(
        bench.tenure(&["journal", "read", "j", "--pending"]).ok().stdout,
        "ours\ntheirs\nopen\n"
    );
    let ran = bench.tenure(&["journal", "read", "j", "--pending", "--json"]).ok();
    let lines = objects(&ran.stdout);
    assert_eq!(lines[1], json!({ "seq": null, "line": "theirs" }));
    assert_eq!(lines.len(), 3);
    bench.tenure(&["journal", "read", "j", "--pending", "--limit", "1"]).ok().says("ours");
    bench.tenure(&["journal", "read", "j", "--pending", "--from", "9"]).ok().says("theirs\nopen");
    bench.tenure(&["journal", "append", "j", "next"]).exits(0).complains("was closed");
    bench.tenure(&["journal", "read", "j", "--pending"]).ok().says("ours\ntheirs\nnext\nopen");
    bench.tenure(&["journal", "read", "none", "--pending"]).exits(1);
}

/// Two entries in an archive, two that were cut off, and one behind.
fn with_a_gap(bench: &Bench) {
    bench.tenure(&["journal", "append", "j", "one", "two"]).ok();
    bench.tenure(&["journal", "rotate", "j"]).ok();
    bench.tenure(&["journal", "append", "j", "three", "four"]).ok();
    bench.file("j", "");
    bench.tenure(&["journal", "append", "j", "five"]).ok();
}

#[test]
fn a_gap_in_the_middle_is_5_and_the_rest_is_printed() {
    let bench = Bench::new();
    with_a_gap(&bench);
    let ran = bench.tenure(&["journal", "read", "j"]).exits(5);
    assert_eq!(ran.stdout, "one\ntwo\nfive\n");
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{ran:?}");
    assert!(lines.iter().all(|line| line.contains("entries 3 to 4 are gone")), "{ran:?}");
    let ran = bench.tenure(&["journal", "read", "j", "--json"]).exits(5);
    let found = objects(&ran.stdout);
    assert_eq!(found[2]["gap"], json!({ "first": 3, "last": 4 }));
    assert!(found[2]["why"].as_str().unwrap().contains("cut off"), "{ran:?}");
    assert_eq!(found[3], json!({ "seq": 5, "line": "five" }));
    assert_eq!(ran.error()["code"], "damaged");
    // A reader that begins inside of it has seen these entries, or should have.
    bench.tenure(&["journal", "read", "j", "--from", "4"]).exits(5).says("five");
    bench.tenure(&["journal", "read", "j", "--from", "5"]).ok().says("five");
    bench.tenure(&["journal", "read", "j", "--limit", "2"]).ok().says("one\ntwo");
    let report = bench.tenure(&["journal", "verify", "j", "--json"]).ok().json();
    assert_eq!(report["lost"], json!([{ "first": 3, "last": 4 }]));
    assert_eq!(report["archives"], 1);
    bench
        .tenure(&["journal", "verify", "j"])
        .ok()
        .says("1 entries, 5 bytes, 1 archives, entries gone: 3 to 4");
}

#[test]
fn entries_before_the_oldest_archive_are_a_note_unless_they_are_asked_for() {
    let bench = Bench::new();
    bench.tenure(&["journal", "append", "j", "one", "two"]).ok();
    let archive = bench.tenure(&["journal", "rotate", "j"]).ok().stdout;
    bench.tenure(&["journal", "append", "j", "three"]).ok();
    std::fs::remove_file(archive.trim_end()).unwrap();
    for command in [&["journal", "read", "j"][..], &["journal", "follow", "j", "--wait", "0"]] {
        let ran = bench.tenure(command).exits(0).says("three");
        assert!(ran.stderr.contains("begins at entry 3"), "{ran:?}");
        let from = bench.tenure(&[command, &["--from", "1"]].concat()).exits(5).says("three");
        assert!(from.stderr.contains("entries 1 to 2 are gone"), "{from:?}");
        assert!(from.stderr.contains("j.1 is not there"), "{from:?}");
        let objects = objects(&bench.tenure(&[command, &["--json"]].concat()).exits(0).stdout);
        assert_eq!(objects[0]["gap"], json!({ "first": 1, "last": 2 }));
        assert_eq!(objects[1]["seq"], 3);
    }
    bench.tenure(&["journal", "compact", "j", "--keep", "true"]).ok();
    bench.tenure(&["journal", "verify", "j"]).ok();
}

#[test]
fn a_follower_reports_a_gap_and_goes_on() {
    let bench = Bench::new();
    with_a_gap(&bench);
    let mut follow = bench.command(&["journal", "follow", "j", "--count", "4"]).start();
    for expected in ["one", "two", "five"] {
        assert_eq!(follow.line(), expected);
    }
    bench.tenure(&["journal", "append", "j", "six"]).ok();
    assert_eq!(follow.line(), "six");
    let ran = follow.wait().exits(5);
    assert!(ran.stderr.contains("entries 3 to 4 are gone"), "{ran:?}");
}

#[test]
fn a_follower_that_may_not_write_says_once_that_lines_wait() {
    let bench = Bench::new();
    bench.set_mode(".", 0o755);
    bench.tenure(&["journal", "append", "d/j", "ours"]).ok();
    add(&bench, "d/j", "theirs\n");
    let path = bench.path("d/j");
    for (name, mode) in [("d", 0o755), ("d/j", 0o644), ("d/.tenure", 0o755)] {
        bench.set_mode(name, mode);
    }
    for entry in std::fs::read_dir(bench.path("d/.tenure")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        bench.set_mode(&format!("d/.tenure/{name}"), 0o644);
    }
    let args = ["journal", "follow", path.to_str().unwrap(), "--wait", "2500ms"];
    let ran = bench.as_nobody(&args).exits(0).says("ours");
    assert_eq!(ran.stderr.matches("wait for a writer").count(), 1, "{ran:?}");
    bench.tenure(&["journal", "append", "d/j", "next"]).ok();
    let ran = bench.as_nobody(&args).ok().says("ours\ntheirs\nnext");
    assert_eq!(ran.stderr, "");
    // One that may write numbers them itself.
    add(&bench, "d/j", "more\n");
    bench.tenure(&["journal", "follow", "d/j", "--from", "4", "--wait", "0"]).ok().says("more");
}

/// What follows a gap of a file that no log describes is read to its end.
#[test]
fn everything_behind_the_gap_of_a_replaced_journal_is_read() {
    let bench = Bench::new();
    bench.tenure(&["journal", "append", "j", "one", "two"]).ok();
    let lines: Vec<_> = (0..40_000).map(|number| format!("line {number}")).collect();
    let theirs = bench.file("theirs", lines.join("\n") + "\n");
    move_file(&theirs, &bench.path("j"));
    let ran = bench.tenure(&["journal", "read", "j", "--from", "1"]).exits(5);
    assert!(ran.stdout == lines.join("\n") + "\n", "{} bytes", ran.stdout.len());
}

#[test]
fn a_header_is_stamped_with_the_batch() {
    let bench = Bench::new();
    bench.tenure(&["journal", "append", "j", "a", "--header", "# one"]).ok();
    bench.tenure(&["journal", "append", "j", "b", "--header", "# two"]).ok();
    assert_eq!(bench.read("j"), "# two\na\nb\n");
    bench.tenure(&["journal", "read", "j"]).ok().says("a\nb");
}

#[test]
fn verify_finds_a_flipped_bit_and_exits_5() {
    let bench = Bench::new();
    bench.tenure(&["journal", "append", "j", "one", "two"]).ok();
    let report = bench.tenure(&["journal", "verify", "--json", "j"]).ok().json();
    assert_eq!((&report["sound"], &report["entries"]), (&json!(true), &json!(2)));
    let bytes = bench.read("j").replace("two", "twp");
    let mut file = std::fs::OpenOptions::new().write(true).open(bench.path("j")).unwrap();
    file.write_all(bytes.as_bytes()).unwrap();
    let damaged = bench.tenure(&["journal", "verify", "j"]).exits(5);
    damaged.complains("bytes");
    // Nothing altered is ever printed as if it were what was written.
    bench.tenure(&["journal", "read", "j"]).exits(5).says("").complains("/j`: bytes 0 to 8");
    let damaged = bench.tenure(&["journal", "verify", "--json", "j"]).exits(5);
    assert_eq!(damaged.json()["sound"], false);
    assert_eq!(damaged.error()["code"], "damaged");
    let report = bench.tenure(&["doctor", "--json"]).exits(5).json();
    assert!(report["damaged"][0]["path"].as_str().unwrap().ends_with("/j"));
}

#[test]
fn damage_in_an_archive_is_found_by_all_who_look() {
    let bench = Bench::new();
    bench.tenure(&["journal", "append", "j", "one", "two"]).ok();
    bench.tenure(&["journal", "rotate", "j"]).ok();
    bench.tenure(&["journal", "append", "j", "three"]).ok();
    overwrite(&bench, "j.1", "one\ntwp\n");
    bench.tenure(&["journal", "verify", "j"]).exits(5).complains("/j.1`: bytes 0..8");
    let report = bench.tenure(&["journal", "verify", "--json", "j"]).exits(5);
    assert!(report.json()["damaged"][0]["file"].as_str().unwrap().ends_with("/j.1"), "{report:?}");
    assert!(report.error()["path"].as_str().unwrap().ends_with("/j.1"), "{report:?}");
    bench.tenure(&["journal", "read", "j"]).exits(5).complains("/j.1`: bytes 0 to 8");
    let report = bench.tenure(&["doctor", "--json"]).exits(5).json();
    assert!(report["damaged"][0]["path"].as_str().unwrap().ends_with("/j.1"), "{report}");
    assert_eq!(report["damaged"].as_array().unwrap().len(), 1, "{report}");
}

#[test]
fn repair_writes_back_what_the_log_still_holds() {
    let bench = Bench::new();
    bench.tenure(&["journal", "append", "j", "[1]", "[2]"]).ok();
    overwrite(&bench, "j", "[1]\n[2#\n");
    let report = bench.tenure(&["journal", "repair", "--json", "j"]).ok().json();
    assert_eq!(report["set_aside"][0]["start"], 0);
    assert!(report["set_aside"][0]["file"].as_str().unwrap().ends_with("/j"), "{report}");
    let kept = std::fs::read_to_string(report["quarantine"].as_str().unwrap()).unwrap();
    assert_eq!(kept, "[1]\n[2#\n");
    bench.tenure(&["journal", "read", "j"]).ok().says("[1]\n[2]");
    let turned = "j\u{202e}x";
    bench.tenure(&["journal", "append", turned, "[1]", "[2]"]).ok();
    overwrite(&bench, turned, "[1]\n[2#\n");
    let said = bench.tenure(&["journal", "repair", turned]).ok().stdout;
    assert!(said.contains("copied to ") && said.contains(r"j\u{202e}x"), "{said}");
    assert!(!said.contains('\u{202e}'), "a name must not turn the line around: {said}");
}

#[test]
fn a_line_that_was_edited_on_purpose_is_accepted_when_asked() {
    let bench = Bench::new();
    bench.tenure(&["journal", "append", "j", "[1]", "[2]"]).ok();
    bench.tenure(&["journal", "compact", "j", "--keep", "true"]).ok(); // The log forgets them.
    overwrite(&bench, "j", "[1]\n[7]\n");
    bench.tenure(&["journal", "repair", "j"]).exits(5).complains("--accept");
    bench.tenure(&["journal", "read", "j"]).exits(5);
    let report = bench.tenure(&["journal", "repair", "--accept", "--json", "j"]).ok().json();
    assert_eq!((&report["sound"], &report["lost"]), (&json!(true), &json!([])));
    bench.tenure(&["journal", "verify", "j"]).ok();
    bench.tenure(&["journal", "append", "j", "[3]"]).ok();
    bench.tenure(&["journal", "read", "j"]).ok().says("[1]\n[7]\n[3]");
    // With fewer lines than before, their numbers are gone.
    bench.tenure(&["journal", "compact", "j", "--keep", "true"]).ok();
    overwrite(&bench, "j", "[1] [7]\n[3]\n");
    let report = bench.tenure(&["journal", "repair", "--accept", "--json", "j"]).ok().json();
    assert_eq!(report["lost"], json!([{ "first": 1, "last": 3 }]));
    bench.tenure(&["journal", "read", "j"]).exits(0).says("[1] [7]\n[3]");
}

#[test]
fn repair_closes_what_others_left_open() {
    let bench = Bench::new();
    bench.file("j", "theirs\ntorn");
    let report = bench.tenure(&["journal", "verify", "--json", "j"]).ok().json();
    assert_eq!(report["torn_tail"], true);
    bench.tenure(&["journal", "repair", "j"]).exits(0);
    let report = bench.tenure(&["journal", "verify", "--json", "j"]).ok().json();
    assert_eq!(report["sound"], true);
}

#[test]
fn rotate_keeps_the_numbers_going() {
    let bench = Bench::new();
    bench.tenure(&["journal", "append", "j", "one"]).ok();
    let archive = bench.tenure(&["journal", "rotate", "j"]).ok().stdout;
    assert_eq!(std::fs::read_to_string(archive.trim_end()).unwrap(), "one\n");
    let done = bench.tenure(&["journal", "append", "--json", "j", "two"]).ok().json();
    assert_eq!(done["first"], 2);
    bench.tenure(&["journal", "read", "j"]).ok().says("one\ntwo");
    let rotated = bench.tenure(&["journal", "rotate", "--json", "j"]).ok().json();
    assert_eq!(rotated["next"], 3);
    assert!(rotated["archive"].is_string());
}

#[test]
fn compact_drops_what_the_rule_says_and_nothing_if_it_fails() {
    let bench = Bench::new();
    let lines = ["{\"n\":1}", "{\"n\":2}", "text", "{\"n\":4}"];
    let mut args = vec!["journal", "append", "j"];
    args.extend(lines);
    bench.tenure(&args).ok();
    bench.tenure(&["journal", "compact", "j"]).exits(2).complains("--from, --keep or both");
    bench.tenure(&["journal", "compact", "j", "--keep", ".n > 1"]).exits(1).complains("filter");
    assert_eq!(bench.read("j").lines().count(), 4);
    let keep = "type == \"string\" or .n == $n or $seq == 4";
    let args = ["journal", "compact", "--json", "j", "--keep", keep, "--argjson", "n", "1"];
    let done = bench.tenure(&args).ok().json();
    assert_eq!((&done["kept"], &done["dropped"]), (&json!(3), &json!(1)));
    let numbers = bench.tenure(&["journal", "read", "--json", "j"]).ok().stdout;
    let numbers: Vec<_> = numbers
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].clone())
        .collect();
    assert_eq!(numbers, [1, 3, 4]);
    let replaced = bench.tenure(&["journal", "compact", "j", "--from", "4"]).ok().stdout;
    assert_eq!(
        std::fs::read_to_string(replaced.trim_end()).unwrap(),
        "{\"n\":1}\ntext\n{\"n\":4}\n"
    );
    let earlier = done["replaced"].as_str().unwrap();
    assert!(!std::path::Path::new(earlier).exists(), "no tool wrote to it");
    bench.tenure(&["journal", "read", "j"]).ok().says("{\"n\":4}");
    let report = bench.tenure(&["doctor", "--fix", "--json"]).ok().json();
    assert_eq!(report["leftovers"][0]["kind"], "replaced");
    assert_eq!(report["leftovers"][0]["path"], replaced.trim_end());
    assert_eq!(report["leftovers"][0]["removed"], false);
}

#[test]
fn follow_prints_entries_as_they_come() {
    let bench = Bench::new();
    bench.tenure(&["journal", "append", "j", "one"]).ok();
    let mut follow = bench.command(&["journal", "follow", "j", "--count", "3"]).start();
    assert_eq!(follow.line(), "one");
    bench.tenure(&["journal", "append", "j", "two"]).ok();
    assert_eq!(follow.line(), "two");
    bench.tenure(&["journal", "rotate", "j"]).ok();
    bench.tenure(&["journal", "append", "j", "three"]).ok();
    assert_eq!(follow.line(), "three");
    follow.wait().ok();
    let args = ["journal", "follow", "j", "--from", "9", "--wait", "10ms"];
    bench.tenure(&args).exits(0).says("");
    let mut args = args.to_vec();
    args.extend(["-n", "1"]);
    bench.tenure(&args).exits(75);
}

#[test]
fn a_hold_keeps_unproven_appends_out() {
    let bench = Bench::new();
    let script = format!("{TENURE} journal append j inside --wait 0; echo ready; exec cat");
    let mut holder = bench.command(&["run", "j", "--", "sh", "-c", &script]).start();
    assert_eq!(holder.line(), "ready");
    let pid = format!("pid {}", holder.pid());
    bench.tenure(&["journal", "append", "j", "outside", "--wait", "0"]).exits(75).complains(&pid);
    let fence = tenure::status::of(bench.path("j")).unwrap().fence.to_string();
    bench.tenure(&["journal", "append", "j", "proven", "--wait", "0", "--fence", &fence]).ok();
    holder.end().ok();
    bench.tenure(&["journal", "append", "j", "late", "--fence", &fence]).exits(4);
    assert_eq!(bench.read("j"), "inside\nproven\n");
}

#[test]
fn batches_of_many_processes_do_not_mix() {
    let bench = Bench::new();
    let writers: Vec<_> = (0..6)
        .map(|writer| {
            let script = format!(
                "for i in 1 2 3 4; do {TENURE} journal append j {writer}a {writer}b {writer}c || exit; done"
            );
            let mut command = std::process::Command::new("sh");
            command.args(["-c", &script]).current_dir(bench.path("")).spawn().unwrap()
        })
        .collect();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let text = bench.read("j");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 72);
    for batch in lines.chunks(3) {
        let writer = &batch[0][..1];
        assert_eq!(batch, ["a", "b", "c"].map(|end| format!("{writer}{end}")));
    }
    bench.tenure(&["journal", "verify", "j"]).ok();
}

#[test]
fn an_empty_standard_input_is_no_line() {
    let bench = Bench::new();
    let ran = bench.command(&["journal", "append", "j", "-"]).stdin("").run();
    ran.exits(2).complains("nothing on standard input");
    assert!(!bench.path("j").exists());
}

#[test]
fn zeros_of_a_power_loss_are_reported() {
    let bench = Bench::new();
    bench.file("j", "one\n\0\0\0\n");
    let text = bench.tenure(&["journal", "verify", "j"]).ok().stdout;
    assert!(text.contains("3 NUL bytes"), "{text}");
    assert_eq!(bench.tenure(&["journal", "verify", "j", "--json"]).ok().json()["nul_bytes"], 3);
}

#[test]
fn the_last_entries_can_be_read() {
    let bench = Bench::new();
    bench.tenure(&["journal", "read", "j", "--last", "1"]).exits(1).complains("check the name");
    let lines: Vec<_> = (1..=500).map(|number| format!("line {number}")).collect();
    bench.command(&["journal", "append", "j", "-"]).stdin(lines.join("\n")).run().ok();
    let last = |count: &str| bench.tenure(&["journal", "read", "j", "--last", count]).ok().stdout;
    assert_eq!(last("2"), "line 499\nline 500\n");
    assert_eq!(last("0"), "");
    assert_eq!(last("500"), last("1000000"));
    assert_eq!(last("1000000").lines().count(), 500);
    // Across a rotation, and where a compaction has left few.
    bench.tenure(&["journal", "rotate", "j"]).ok();
    bench.tenure(&["journal", "append", "j", "new"]).ok();
    assert_eq!(last("2"), "line 500\nnew\n");
    bench.tenure(&["journal", "append", "k", "1", "2", "3", "4", "5", "6", "7", "8", "9"]).ok();
    bench.tenure(&["journal", "compact", "k", "--keep", ". == 1 or . == 4 or . == 9"]).ok();
    bench.tenure(&["journal", "read", "k", "--last", "2"]).ok().says("4\n9");
    bench.tenure(&["journal", "read", "j", "--last", "2", "--from", "1"]).exits(2);
}

#[test]
fn entries_since_a_time_are_those_that_say_so() {
    let bench = Bench::new();
    let lines = [
        r#"{"time":"2026-11-18T10:00:00Z","n":1}"#,
        r#"{"n":2}"#,
        r#"{"ts":1794999600,"n":3}"#,
        "plain",
        r#"{"timestamp":1794999660000,"n":4}"#,
    ];
    bench.tenure(&[&["journal", "append", "j"][..], &lines].concat()).ok();
    let since = |time: &str| bench.tenure(&["journal", "read", "j", "--since", time]);
    let ran = since("2026-11-18T10:30:00Z").exits(0);
    assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), lines[2..], "{ran:?}");
    ran.complains("2 entries have no time");
    assert_eq!(since("2026-11-18T11:00:30Z").exits(0).stdout.lines().count(), 1);
    assert_eq!(since("2026-11-18").exits(0).stdout.lines().count(), 5);
    since("soon").exits(2).complains("write a time like");
    let limited = |limit: &str| {
        let read = ["journal", "read", "j", "--since", "2026-11-18T10:30:00Z", "--limit", limit];
        bench.tenure(&read).exits(0).stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(limited("2"), lines[2..4], "the limit is of what is printed");
    assert_eq!(limited("9"), lines[2..]);
    assert!(limited("0").is_empty());
    bench.tenure(&["journal", "append", "k", r#"{"when":"2026-11-18T10:00:00Z"}"#, "x"]).ok();
    let named = ["journal", "read", "k", "--since", "2026-11-18T09:00:00Z"];
    bench.tenure(&named).exits(1).complains("no entry has a time").complains("--time-field");
    let ran = bench.tenure(&[&named[..], &["--time-field", "when"]].concat()).exits(0);
    assert_eq!(ran.stdout.lines().count(), 2);
    bench.tenure(&["journal", "append", "k", &format!("{{\"when\":{}}}", now_s())]).ok();
    let recent = ["journal", "read", "k", "--since", "1m", "--time-field", "when", "--json"];
    let ran = bench.tenure(&recent).exits(0);
    assert_eq!(ran.stdout.lines().count(), 1, "{ran:?}");
}

#[expect(clippy::disallowed_methods, reason = "a time for a line of a log")]
fn now_s() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap().as_secs()
}

#[test]
fn a_line_that_is_json_is_parsed_for_programs() {
    let bench = Bench::new();
    bench.tenure(&["journal", "append", "j", r#"{"a":1.10}"#, "plain", "7"]).ok();
    let ran = bench.tenure(&["journal", "read", "j", "--json"]).ok();
    let entries: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&entries[0]["seq"], &entries[0]["line"]), (&1.into(), &r#"{"a":1.10}"#.into()));
    assert_eq!(entries[0]["value"]["a"], 1.1);
    assert!(ran.stdout.contains(r#""value":{"a":1.10}"#), "digits are kept: {ran:?}");
    assert_eq!((&entries[1]["line"], entries[1].get("value")), (&"plain".into(), None));
    assert_eq!(entries[2]["value"], 7);
}
