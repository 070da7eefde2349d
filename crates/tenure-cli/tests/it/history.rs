//! `tenure doc diff`, `undo` and `history`, and merges that would lose a whole object.

use serde_json::json;

use crate::bench::Bench;

#[test]
fn diff_shows_the_last_durable_change_and_undo_takes_it_back() {
    let bench = Bench::new();
    bench.tenure(&["doc", "set", "s.json", r#"{"n":1,"list":[1,2,3],"gone":true}"#]).ok();
    bench.tenure(&["doc", "diff", "s.json"]).exits(1).complains("no earlier version was kept");
    bench.tenure(&["doc", "undo", "s.json"]).exits(1).complains("no earlier version was kept");
    let text = bench.read("s.json");
    let filter = r#".n = 2 | .new = "x" | .list = [0,1,2,3] | del(.gone)"#;
    bench.tenure(&["doc", "update", "s.json", filter]).ok();
    let diff = bench.tenure(&["doc", "diff", "s.json"]).ok();
    diff.says("~ /n  1 -> 2\n+ /list/0  0\n+ /new  \"x\"\n- /gone  true");
    let object = bench.tenure(&["doc", "diff", "s.json", "--json"]).ok().json();
    assert_eq!(object["changes"][0], json!({ "path": "/n", "before": 1, "after": 2 }));
    let undone = bench.tenure(&["doc", "undo", "s.json"]).ok();
    assert!(undone.stdout.contains("brings back what it replaced"), "{undone:?}");
    assert_eq!(bench.read("s.json"), text, "to the byte");
    // A second undo redoes, a third undoes again.
    bench.tenure(&["doc", "undo", "s.json"]).ok();
    bench.tenure(&["doc", "get", "s.json", ".n"]).ok().says("2");
    let undone = bench.tenure(&["doc", "undo", "s.json", "--json"]).ok().json();
    assert_eq!(undone["changed"], true);
    bench.tenure(&["doc", "get", "s.json", ".n"]).ok().says("1");
}

/// What is taken back was never synced; undo keeps it all the same.
#[test]
fn an_undo_of_a_change_without_a_sync_can_be_undone() {
    let bench = Bench::new();
    for n in ["1", "2"] {
        bench.tenure(&["doc", "set", "s.json", &format!("[{n}]")]).ok();
    }
    bench.tenure(&["doc", "set", "s.json", "[3]", "--no-sync"]).ok();
    bench.tenure(&["doc", "undo", "s.json"]).ok();
    bench.tenure(&["doc", "get", "-c", "s.json"]).ok().says("[2]");
    bench.tenure(&["doc", "undo", "s.json"]).ok();
    bench.tenure(&["doc", "get", "-c", "s.json"]).ok().says("[3]");
}

#[test]
fn an_undo_is_a_write_like_any_other() {
    let bench = Bench::new();
    bench.tenure(&["doc", "set", "s.json", "[1]"]).ok();
    let old = bench.tenure(&["doc", "version", "s.json"]).ok().stdout.trim_end().to_owned();
    bench.tenure(&["doc", "set", "s.json", "[2]"]).ok();
    bench.tenure(&["doc", "undo", "s.json", "--if-version", &old]).exits(3);
    let now = bench.tenure(&["doc", "version", "s.json"]).ok().stdout.trim_end().to_owned();
    let holder = bench.holder(&[], "s.json");
    bench.tenure(&["doc", "undo", "s.json", "--wait", "0"]).exits(75);
    holder.end().ok();
    bench.tenure(&["doc", "undo", "s.json", "--if-version", &now]).ok();
    bench.tenure(&["doc", "get", "-c", "s.json"]).ok().says("[1]");
    bench.tenure(&["doc", "undo", "none/s.json"]).exits(1).complains("s.json");
    assert!(!bench.path("none").exists());
}

#[test]
fn a_history_keeps_as_many_versions_as_asked_for() {
    let bench = Bench::new();
    bench.tenure(&["doc", "history", "s.json", "--keep", "3"]).exits(1).complains("check the name");
    assert!(!bench.path(".tenure").exists());
    bench.tenure(&["doc", "set", "s.json", "[0]"]).ok();
    bench.tenure(&["doc", "history", "s.json", "--keep", "3"]).exits(0);
    for n in 1..=6 {
        bench.tenure(&["doc", "set", "s.json", &format!("[{n}]")]).ok();
    }
    let object = bench.tenure(&["doc", "history", "s.json", "--json"]).ok().json();
    assert_eq!((&object["keep"], object["versions"].as_array().unwrap().len()), (&json!(3), 3));
    let text = bench.tenure(&["doc", "history", "s.json"]).ok().stdout;
    assert_eq!(text.lines().count(), 3, "{text}");
    bench.tenure(&["doc", "diff", "s.json", "--to", "3"]).ok().says("~ /0  3 -> 6");
    bench.tenure(&["doc", "undo", "s.json", "--to", "4"]).exits(1).complains("3 are kept");
    bench.tenure(&["doc", "undo", "s.json", "--to", "0"]).exits(1);
    bench.tenure(&["doc", "undo", "s.json", "--to", "3"]).ok();
    bench.tenure(&["doc", "get", "-c", "s.json"]).ok().says("[3]");
    bench.tenure(&["doc", "undo", "s.json"]).ok();
    bench.tenure(&["doc", "get", "-c", "s.json"]).ok().says("[6]");
    // Fewer: the others are forgotten at once, and sidecars go with their number.
    bench.tenure(&["doc", "history", "s.json", "--keep", "1"]).exits(0);
    let names = std::fs::read_dir(bench.path(".tenure")).unwrap();
    let names: Vec<_> = names.map(|name| name.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains("history")), "{names:?}");
    // A document that did not ask keeps one.
    for n in 1..=3 {
        bench.tenure(&["doc", "set", "t.json", &format!("[{n}]")]).ok();
    }
    let object = bench.tenure(&["doc", "history", "t.json", "--json"]).ok().json();
    assert_eq!((&object["keep"], object["versions"].as_array().unwrap().len()), (&json!(1), 1));
    for wrong in ["0", "1001", "x"] {
        bench.tenure(&["doc", "history", "t.json", "--keep", wrong]).exits(2);
    }
}

#[test]
fn a_merge_that_replaces_an_object_or_array_by_another_kind_needs_replace() {
    let bench = Bench::new();
    let text = r#"{"list":[1],"map":{"a":1},"n":1}"#;
    bench.file("s.json", text);
    for (patch, place) in [
        (r#"{"list":{"0":1}}"#, "the array at `/list` by an object"),
        (r#"{"list":"x"}"#, "the array at `/list` by a string"),
        (r#"{"n":2,"map":[1]}"#, "the object at `/map` by an array"),
        ("[1]", "the object at the document by an array"),
        ("7", "the object at the document by a number"),
    ] {
        let refused = bench.tenure(&["doc", "merge", "s.json", patch]).exits(3);
        refused.complains(place).complains("--replace");
        assert_eq!(bench.read("s.json"), text);
    }
    let error = bench.tenure(&["--json", "doc", "merge", "s.json", "1"]).exits(3).error();
    assert_eq!(error["code"], "conflict");
    // A deletion, a scalar, the same kind and a declared rule say what they mean.
    bench.tenure(&["doc", "merge", "s.json", r#"{"n":{"b":1},"list":[2]}"#]).ok();
    bench.tenure(&["doc", "merge", "s.json", r#"{"map":1}"#, "--last", "/map"]).ok();
    bench.tenure(&["doc", "merge", "s.json", r#"{"list":{"a":1}}"#, "--replace"]).ok();
    bench.tenure(&["doc", "merge", "s.json", r#"{"list":null}"#]).ok();
    bench.tenure(&["doc", "get", "-c", "s.json"]).ok().says(r#"{"map":1,"n":{"b":1}}"#);
}
