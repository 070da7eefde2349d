//! `tenure journal`.

use std::io::Write;

use serde_json::json;

use crate::bench::{Bench, TENURE};

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
    let damaged = bench.tenure(&["journal", "verify", "--json", "j"]).exits(5);
    assert_eq!(damaged.json()["sound"], false);
    assert_eq!(damaged.error()["code"], "damaged");
    let report = bench.tenure(&["doctor", "--json"]).exits(5).json();
    assert!(report["damaged"][0]["path"].as_str().unwrap().ends_with("/j"));
}

#[test]
fn repair_sets_damage_aside_names_it_and_lets_life_go_on() {
    let bench = Bench::new();
    bench.tenure(&["journal", "append", "j", "[1]", "[2]"]).ok();
    bench.tenure(&["journal", "repair", "j"]).ok();
    bench.tenure(&["journal", "append", "j", "[3]"]).ok();
    let bytes = bench.read("j").replace("[2]", "[2#");
    let mut file = std::fs::OpenOptions::new().write(true).open(bench.path("j")).unwrap();
    file.write_all(bytes.as_bytes()).unwrap();
    bench.tenure(&["journal", "verify", "j"]).exits(5).complains("repair");
    let report = bench.tenure(&["journal", "repair", "--json", "j"]).ok().json();
    assert_eq!(report["set_aside"][0]["start"], 0);
    let kept = std::fs::read_to_string(report["quarantine"].as_str().unwrap()).unwrap();
    assert_eq!(kept, "[1]\n[2#\n");
    bench.tenure(&["journal", "verify", "j"]).ok();
    bench.tenure(&["journal", "append", "j", "[4]"]).ok();
    bench.tenure(&["journal", "read", "j"]).ok().says("[1]\n[3]\n[4]");
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
    bench.tenure(&["journal", "compact", "j", "--from", "4"]).ok();
    bench.tenure(&["journal", "read", "j"]).ok().says("{\"n\":4}");
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
    let fence = tenure::status(bench.path("j")).unwrap().fence.to_string();
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
fn zeros_of_a_power_loss_are_told() {
    let bench = Bench::new();
    bench.file("j", "one\n\0\0\0\n");
    let text = bench.tenure(&["journal", "verify", "j"]).ok().stdout;
    assert!(text.contains("3 NUL bytes"), "{text}");
    assert_eq!(bench.tenure(&["journal", "verify", "j", "--json"]).ok().json()["nul_bytes"], 3);
}
