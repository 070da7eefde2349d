//! `tenure collection`.

use serde_json::json;

use crate::bench::Bench;

#[test]
fn an_index_is_split_listed_and_pruned() {
    let bench = Bench::new();
    bench.file("index.json", r#"{"a/b":{"n":1},"c":{"n":2},"d":{"n":3}}"#);
    let split = bench.tenure(&["collection", "split", "--json", "index.json", "all"]).ok().json();
    assert_eq!(split["created"].as_array().unwrap().len(), 3);
    bench.tenure(&["collection", "list", "all"]).ok().says("a/b\nc\nd");
    let listed = bench.tenure(&["collection", "list", "--json", "all"]).ok().json();
    assert_eq!(listed, json!({ "keys": ["a/b", "c", "d"] }));
    let again = bench.tenure(&["collection", "split", "--json", "index.json", "all"]).ok().json();
    assert_eq!(again["present"].as_array().unwrap().len(), 3);
    bench.tenure(&["collection", "prune", "all"]).exits(2).complains("--max-age");
    let prune = ["collection", "prune", "--json", "all", "--max-count", "1", "--keep", "c"];
    let mut dry = prune.to_vec();
    dry.push("--dry-run");
    assert_eq!(bench.tenure(&dry).ok().json()["dry_run"], true);
    assert_eq!(bench.tenure(&["collection", "list", "all"]).ok().stdout.lines().count(), 3);
    let pruned = bench.tenure(&prune).ok().json();
    assert_eq!(pruned["skipped"], json!([]));
    let left = bench.tenure(&["collection", "list", "all"]).ok().stdout;
    assert!(left.lines().any(|key| key == "c"), "{left}");
    assert_eq!(pruned["remaining"], left.lines().count());
    bench.tenure(&["collection", "list", "all", "--kind", "journals"]).ok().says("");
}

#[test]
fn a_split_over_other_content_is_3_and_leaves_it() {
    let bench = Bench::new();
    bench.file("index.json", r#"{"a":1}"#);
    bench.tenure(&["doc", "set", "all/a.json", "2"]).ok();
    bench.tenure(&["collection", "split", "index.json", "all"]).exits(3).complains("`a`");
    bench.tenure(&["doc", "get", "all/a.json"]).ok().says("2");
    bench.tenure(&["collection", "split", "none.json", "all"]).exits(1);
    bench.file("index.json", "[1]");
    bench.tenure(&["collection", "split", "index.json", "all"]).exits(2);
}
