//! Races 67 and 68: one token refreshed by many, and one task claimed by two.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tenure_proof::tenure as command;

use crate::scene::Scene;

/// A server that gives out tokens. Each works once; the second use of one revokes them all.
const SERVER: &str = "mkdir \"used-$(cat refresh)\" 2>/dev/null || { echo revoked > revoked; exit 1; }; \
                      echo run >> runs; echo \"access $(cat refresh)\"; echo next > refresh";

fn in_shell(dir: &Path, script: &str) -> Output {
    Command::new("sh").args(["-c", script]).current_dir(dir).output().unwrap()
}

/// All at once, and then each to its end.
fn together(count: usize, mut make: impl FnMut() -> Command) -> Vec<Output> {
    let start = |_| {
        let mut command = make();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let running: Vec<_> = (0..count).map(start).collect();
    running.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}

/// Five processes find their access token expired, and each refreshes it: the server sees one refresh token twice and
/// revokes all (anthropics/claude-code#91708, anomalyco/opencode#49439, openai/codex#26516). Ours: one of them runs the
/// refresh, the others get its result.
#[test]
fn race_67_a_token_is_refreshed_by_five_at_once() {
    let mut scene = Scene::new("race_67");
    let theirs = scene.theirs();
    fs::write(theirs.join("refresh"), "first").unwrap();
    // Both have read the same refresh token before either has used it.
    let read_twice = "one=$(cat refresh); two=$(cat refresh); \
                      for t in $one $two; do mkdir \"used-$t\" || echo revoked > revoked; done";
    in_shell(&theirs, read_twice);
    assert!(theirs.join("revoked").exists());
    scene.broke("a refresh without a lock uses one token twice, and all are revoked");

    let ours = scene.ours("");
    fs::write(ours.join("refresh"), "first").unwrap();
    let outputs = together(5, || {
        let mut once = Command::new(command());
        once.args(["once", "token", "--ttl", "1h", "--wait", "60s", "--", "sh", "-c", SERVER]);
        once.current_dir(&ours);
        once
    });
    for output in &outputs {
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stdout, b"access first\n");
    }
    assert!(!ours.join("revoked").exists());
    assert_eq!(fs::read_to_string(ours.join("runs")).unwrap(), "run\n");
    scene.tally.tried(5, "processes that wanted one token");
}

/// A task board that reads a task, sees that it is free and writes its name into it: two workers do so at once, and both
/// work on it (gastownhall/beads#3570, QwenLM/qwen-code#4981). Ours: a claim is one step, and a claim that was lost
/// completes nothing.
#[test]
fn race_68_a_task_is_claimed_twice() {
    let mut scene = Scene::new("race_68");
    let task = scene.theirs().join("task.json");
    fs::write(&task, json!({ "owner": null }).to_string()).unwrap();
    let read = || serde_json::from_slice::<Value>(&fs::read(&task).unwrap()).unwrap();
    let seen = ["alice", "bob"].map(|name| (name, read()));
    let claimed = seen.iter().filter(|(name, task_then)| {
        let free = task_then["owner"].is_null();
        if free {
            fs::write(&task, json!({ "owner": name }).to_string()).unwrap();
        }
        free
    });
    assert_eq!(claimed.count(), 2, "both have it");
    scene.broke("a claim that reads, decides and then writes gives one task to two workers");

    let ours = scene.ours("");
    let tenure =
        |words: &[&str]| Command::new(command()).args(words).current_dir(&ours).output().unwrap();
    for _ in 0..5 {
        assert!(tenure(&["claim", "add", "tasks", "{}"]).status.success());
    }
    let mut given: Vec<Value> = Vec::new();
    for _ in 0..2 {
        let outputs = together(6, || {
            let mut next = Command::new(command());
            next.args(["claim", "next", "tasks", "--ttl", "1h"]).current_dir(&ours);
            next
        });
        let taken = outputs.iter().filter(|output| output.status.success());
        given.extend(taken.map(|output| serde_json::from_slice::<Value>(&output.stdout).unwrap()));
    }
    let mut ids: Vec<_> = given.iter().map(|claimed| claimed["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids.len(), 5);
    ids.dedup();
    assert_eq!(ids.len(), 5, "a task was given out twice");
    scene.tally.tried(12, "processes that wanted one of five tasks");

    let (id, token) = (given[0]["id"].as_str().unwrap(), given[0]["token"].as_str().unwrap());
    let target = given[0]["target"].as_str().unwrap();
    let taken = tenure(&["lease", "take-over", target, "--ttl", "1h", "--reason", "it hangs"]);
    assert!(taken.status.success(), "{taken:?}");
    assert_eq!(tenure(&["claim", "done", "tasks", id, "--token", token]).status.code(), Some(4));
    scene.tally.tried(1, "claims that were lost");
}
