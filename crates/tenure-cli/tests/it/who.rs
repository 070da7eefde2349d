//! `tenure who`.

use serde_json::json;

use crate::bench::{Bench, must_block};

#[test]
fn a_holder_is_shown_with_those_who_wait() {
    let bench = Bench::new();
    let holder = bench.holder(&["--label", "build"], "x");
    let waiter = bench.command(&["run", "--wait", "forever", "x", "--", "true"]).start();
    must_block(&bench.path("x"), waiter.pid());
    let object = bench.tenure(&["who", "--json"]).ok().json();
    let target = &object["targets"][0];
    assert_eq!(target["target"], bench.path("x").to_str().unwrap());
    assert_eq!((&target["kind"], &target["compromised"]), (&json!("lock"), &json!(false)));
    assert_eq!(target["holder"]["pid"], holder.pid());
    assert_eq!(target["holder"]["label"], "build");
    assert_eq!(target["holder"]["fence"], target["fence"]);
    assert_eq!(target["waiters"][0]["pid"], waiter.pid());
    let keeps = target["processes"].as_array().unwrap();
    assert!(keeps.iter().any(|process| process["command"] == "cat"), "{keeps:?}");
    let text = bench.tenure(&["who", "x"]).ok().stdout;
    for part in ["lock", "build", &holder.pid().to_string(), &waiter.pid().to_string()] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    holder.end().ok();
    waiter.end().ok();
    bench.tenure(&["who"]).ok().says("");
    assert_eq!(bench.tenure(&["who", "--json"]).ok().json(), json!({ "targets": [] }));
}

#[test]
fn free_shared_leased_and_abandoned_are_told_apart() {
    let bench = Bench::new();
    let kind = |name: &str| {
        bench.tenure(&["who", "--json", name]).ok().json()["targets"][0]["kind"].clone()
    };
    assert_eq!(kind("never-used"), "free");
    let reader = bench.holder(&["--shared"], "x");
    assert_eq!(kind("x"), "shared");
    reader.end().ok();
    assert_eq!(kind("x"), "free");
    bench.tenure(&["lease", "acquire", "x", "--ttl", "1h", "--owner", "o"]).ok();
    assert_eq!(kind("x"), "lease");
    let lease = bench.tenure(&["who", "--json", "x"]).ok().json();
    let left = lease["targets"][0]["expires_in_ms"].as_u64().unwrap();
    assert!(left > 3_500_000 && left <= 3_600_000, "{left}");
    let mut killed = bench.holder(&["--close"], "y");
    killed.kill();
    assert_eq!(kind("y"), "abandoned");
    bench.tenure(&["run", "y", "--", "true"]).exits(0);
    assert_eq!(kind("y"), "free");
    bench.tenure(&["run", "y", "--", "true"]).ok();
    let all = bench.tenure(&["who", "--all", "--json", "."]).ok().json();
    assert_eq!(all["targets"].as_array().unwrap().len(), 2);
}

#[test]
fn targets_below_are_found_whatever_their_names() {
    let bench = Bench::new();
    let long = "n".repeat(200);
    for name in ["a/b/x", "~tilde", &long] {
        bench.file(name, "");
        bench.tenure(&["lease", "acquire", name, "--ttl", "1h"]).ok();
    }
    let found = bench.tenure(&["who", "--json"]).ok().json();
    let names: Vec<_> = found["targets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|target| target["target"].as_str().unwrap().rsplit('/').next().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["x", &long, "~tilde"]);
}

#[test]
fn looking_creates_nothing() {
    let bench = Bench::new();
    bench.tenure(&["who", "x"]).ok();
    bench.tenure(&["who"]).ok();
    assert_eq!(std::fs::read_dir(bench.path("")).unwrap().count(), 0);
    bench.tenure(&["who", "no/such/dir/x"]).ok();
}

#[test]
fn a_program_gets_headings_and_tabs() {
    let bench = Bench::new();
    bench.tenure(&["lease", "acquire", "x", "--ttl", "1h"]).ok();
    let text = bench.tenure(&["who"]).ok().stdout;
    let (headings, row) = text.split_once('\n').unwrap();
    assert!(headings.starts_with("TARGET\tKIND\tPID\t"), "{text}");
    assert_eq!(row.split('\t').nth(1), Some("lease"), "{text}");
}
