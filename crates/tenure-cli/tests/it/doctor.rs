//! `tenure doctor`.

use crate::bench::Bench;

#[test]
fn a_fine_directory_is_0_and_untouched() {
    let bench = Bench::new();
    let report = bench.tenure(&["doctor", "--json"]).ok().json();
    assert_eq!(report["file_system"]["trusted"], true);
    for check in ["lock", "rename", "sync"] {
        assert_eq!(report["file_system"]["checks"][check], "ok", "{check}");
    }
    assert_eq!(std::fs::read_dir(bench.path("")).unwrap().count(), 0);
    let text = bench.tenure(&["doctor"]).ok().stdout;
    assert!(text.contains("trusted"), "{text}");
    bench.tenure(&["doctor", "no-such-directory"]).exits(1);
}

#[test]
fn a_dead_temp_is_removed_only_when_asked_and_only_when_nobody_can_own_it() {
    let bench = Bench::new();
    bench.tenure(&["doc", "set", "s.json", "1"]).ok();
    let temp = bench.file(".tenure/s.json.tmp.0123456789abcdef", "half");
    let lock = bench.path(".tenure/s.json.hold");
    let report = bench.tenure(&["doctor", "--json"]).ok().json();
    assert_eq!(report["leftovers"][0]["kind"], "temp");
    assert_eq!(report["leftovers"][0]["removable"], true);
    assert!(temp.exists());
    let holder = bench.holder(&[], "s.json");
    let report = bench.tenure(&["doctor", "--fix", "--json"]).ok().json();
    assert_eq!(report["leftovers"][0]["removed"], false);
    assert!(temp.exists());
    holder.end().ok();
    let report = bench.tenure(&["doctor", "--fix", "--json"]).ok().json();
    assert_eq!(report["leftovers"][0]["removed"], true);
    assert!(!temp.exists() && lock.exists());
    bench.tenure(&["doc", "get", "s.json"]).ok().says("1");
}

#[test]
fn damaged_data_is_5() {
    let bench = Bench::new();
    bench.tenure(&["doc", "set", "s.json", "{}"]).ok();
    bench.file("s.json", "{");
    let report = bench.tenure(&["doctor", "--json"]).exits(5).json();
    let path = report["damaged"][0]["path"].as_str().unwrap();
    assert!(path.ends_with("s.json"));
    assert_eq!(report["exit"], 5);
    let text = bench.tenure(&["doctor"]).exits(5).stdout;
    assert!(text.contains("DAMAGED"), "{text}");
}

#[test]
fn lock_files_of_other_systems_are_explained_and_left_alone() {
    let bench = Bench::new();
    let files = [
        ("a/session.jsonl.lock", "{\"pid\":2147483646,\"createdAt\":\"x\"}", "openclaw"),
        ("b/changes.journal.lock", "2147483646\n2147483646-aa\n", "codegraph"),
        ("c/state-abc.json.tmp.12.ff", "{", "ecc"),
        (".gateguard/x.claim.12.ff", "", "ecc"),
        ("d/session.json.tmp", "{", "cli-anything"),
        ("e/db.lock/x", "", "proper-lockfile"),
    ];
    for (name, content, _) in files {
        bench.file(name, content);
    }
    let report = bench.tenure(&["doctor", "--fix", "--json"]).ok().json();
    let mut found: Vec<_> = report["foreign"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["system"].as_str().unwrap())
        .collect();
    found.sort_unstable();
    let mut expected = files.map(|(_, _, system)| system);
    expected.sort_unstable();
    assert_eq!(found, expected);
    for (name, content, _) in files {
        assert_eq!(bench.read(name), content);
    }
}

#[test]
fn a_network_file_system_would_be_6() {
    // The verdict comes from the core's list; here only that the command asks for it.
    let bench = Bench::new();
    let report = bench.tenure(&["doctor", "--json"]).ok().json();
    assert!(report["file_system"]["verdict"].as_str().unwrap().contains("trusted"));
}
