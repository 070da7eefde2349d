//! Agents that reserve files through the server, and the hook that enforces it.

use std::path::Path;
use std::time::Duration;

use tenure::{Value, json};
use tenure_agents::answer::Answer;
use tenure_agents::hook::edit::{self, EditOptions};
use tenure_agents::payload::Payload;

use crate::client::Client;

/// A repository, as far as reservations are concerned.
fn repository() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(dir.path().join(".git")).expect("a directory");
    std::fs::write(dir.path().join(".git/HEAD"), "ref: refs/heads/main\n").expect("written");
    std::fs::create_dir(dir.path().join("src")).expect("a directory");
    dir
}

/// What the hook answers before an agent edits a file.
fn edit(root: &Path, session: &str, file: &str) -> Answer {
    let payload = json!({
        "hook_event_name": "PreToolUse", "session_id": session, "cwd": root.to_str(),
        "tool_name": "Edit", "tool_input": { "file_path": root.join(file).to_str() },
    });
    let payload = payload.to_string();
    let payload = Payload::parse(payload.as_bytes()).expect("a payload");
    edit::run(&payload, &EditOptions { ttl: Duration::from_secs(60) }).expect("an answer")
}

fn by(agent: &str, paths: &Value) -> Value {
    json!({ "paths": paths, "reason": "a test", "agent": agent })
}

#[test]
fn what_one_agent_reserved_is_denied_to_others_and_not_to_itself() {
    let dir = repository();
    let mut client = Client::new(dir.path());
    client.call("reserve_files", &by("alice", &json!(["src/**/*.rs", "b.txt"]))).expect("reserved");
    assert!(matches!(edit(dir.path(), "alice", "src/a.rs"), Answer::Pass), "its own edit");
    let Answer::Deny(reason) = edit(dir.path(), "bob", "src/deep/a.rs") else {
        panic!("another agent's edit passed")
    };
    assert!(reason.contains("alice") && reason.contains("a test"), "{reason}");
    assert!(matches!(edit(dir.path(), "bob", "c.txt"), Answer::Pass), "a file that is free");

    let refused = client.call("reserve_files", &by("bob", &json!(["c.md", "src/x.rs"])));
    let refused = refused.expect_err("it is reserved");
    assert!(refused.contains("src/**/*.rs is held by") && refused.contains("Next:"), "{refused}");
    let held = client.call("who_holds", &json!({ "agent": "bob" })).expect("a list");
    let texts = held["held"].as_array().expect("a list");
    assert!(texts.iter().all(|held| held["path"] != "c.md"), "all or nothing: {held}");

    client.call("release_files", &json!({ "agent": "alice" })).expect("released");
    client.call("reserve_files", &by("bob", &json!(["src/x.rs"]))).expect("reserved");
    assert!(matches!(edit(dir.path(), "alice", "src/x.rs"), Answer::Deny(_)), "bob has it now");
    client.close();
}

#[test]
fn a_wait_ends_with_the_release() {
    let dir = repository();
    let (mut alice, mut bob) = (Client::new(dir.path()), Client::new(dir.path()));
    alice.call("reserve_files", &by("alice", &json!(["a.txt"]))).expect("reserved");
    let mut wanted = by("bob", &json!(["a.txt"]));
    wanted["wait_seconds"] = json!(30);
    bob.request("tools/call", &json!({ "name": "reserve_files", "arguments": wanted }));
    alice
        .call("release_files", &json!({ "paths": ["a.txt"], "agent": "alice" }))
        .expect("released");
    let answer = bob.answer();
    assert_eq!(answer["result"]["structuredContent"]["reserved"][0], "a.txt", "{answer}");
    let free = json!({ "paths": ["b.txt"], "agent": "alice", "wait_seconds": 1 });
    assert_eq!(alice.call("wait_for_release", &free).expect("an answer")["free"], true);
    let taken = json!({ "paths": ["a.txt"], "agent": "alice", "wait_seconds": 0.1 });
    assert_eq!(alice.call("wait_for_release", &taken).expect("an answer")["free"], false);
    alice.close();
    bob.close();
}

#[test]
fn a_call_without_a_name_is_told_only_that() {
    let dir = repository();
    let mut client = Client::new(dir.path());
    assert!(matches!(edit(dir.path(), "bob", "b.txt"), Answer::Pass), "the hook is installed");
    let reserved = json!({ "paths": ["a.txt"], "reason": "a test" });
    for (tool, arguments) in [("reserve_files", &reserved), ("who_holds", &json!({}))] {
        let answer = client.call(tool, arguments).expect("an answer");
        let note = answer["note"].as_str().expect("a note");
        assert!(note.contains("this call carried no agent name"), "{note}");
        assert!(!note.contains("install") && !note.contains("hook"), "{note}");
    }
    let named = client.call("who_holds", &json!({ "agent": "bob" })).expect("an answer");
    assert_eq!(named["note"], Value::Null, "{named}");
    client.close();
}

#[test]
fn the_root_and_directories_can_be_reserved() {
    let dir = repository();
    let mut client = Client::new(dir.path());
    for root in [".", "./", "src/.."] {
        let held = client.call("who_holds", &json!({ "paths": [root] })).expect("an answer");
        assert_eq!(held["held"], json!([]), "{root}");
    }
    let reserved = client.call("reserve_files", &by("alice", &json!(["."]))).expect("reserved");
    assert_eq!(reserved["reserved"][0], "**");
    assert!(matches!(edit(dir.path(), "bob", "deep/er/c.txt"), Answer::Deny(_)));
    client.call("release_files", &json!({ "agent": "alice" })).expect("released");
    client.call("reserve_files", &by("alice", &json!(["src"]))).expect("reserved");
    assert!(matches!(edit(dir.path(), "bob", "src/a.rs"), Answer::Deny(_)));
    assert!(matches!(edit(dir.path(), "bob", "c.txt"), Answer::Pass));
    client.close();
}

#[test]
fn bad_reservations_are_refused() {
    let dir = repository();
    let mut client = Client::new(dir.path());
    for (arguments, why) in [
        (json!({ "paths": [], "reason": "x" }), "at least one"),
        (json!({ "paths": ["../a"], "reason": "x" }), "not below the root"),
        (json!({ "paths": ["/etc/passwd"], "reason": "x" }), "not below the root"),
        (json!({ "paths": "a", "reason": "x" }), "array of strings"),
        (json!({ "paths": ["a"] }), "`reason` is missing"),
        (json!({ "paths": ["a"], "reason": "x", "ttl_seconds": 1 }), "at least 5"),
        (json!({ "paths": ["a"], "reason": "x", "ttl_seconds": -1 }), "from 0 to 3600"),
        (json!({ "paths": ["a"], "reason": "x", "agent": " " }), "blank"),
    ] {
        let refused = client.call("reserve_files", &arguments).expect_err("bad input");
        assert!(refused.contains(why), "{arguments}: {refused}");
    }
    let held = client.call("who_holds", &json!({})).expect("a list");
    assert_eq!(held["held"], json!([]));
    client.close();
}

/// The project of an agent may be a part of a repository.
#[test]
fn paths_begin_in_the_directory_of_the_server() {
    let dir = repository();
    let root = dir.path().canonicalize().expect("it is there");
    std::fs::create_dir_all(root.join("pkg/src")).expect("a directory");
    let mut client = Client::new(&root.join("pkg"));
    let paths = json!(["src/a.rs", "lib/*.rs"]);
    let reserved = client.call("reserve_files", &by("alice", &paths)).expect("reserved");
    assert_eq!(reserved["reserved"], paths);
    for file in ["pkg/src/a.rs", "pkg/lib/b.rs"] {
        assert!(matches!(edit(&root, "bob", file), Answer::Deny(_)), "{file}");
    }
    assert!(matches!(edit(&root, "bob", "src/a.rs"), Answer::Pass), "another file");
    let held = client.call("who_holds", &json!({ "paths": ["src"] })).expect("a list");
    assert_eq!((&held["held"][0]["path"], &held["held"][1]), (&json!("src/a.rs"), &Value::Null));
    // What is not below the directory has an absolute name, which the tools take, too.
    let held = client.call("who_holds", &json!({})).expect("a list");
    let bobs = held["held"].as_array().expect("a list").iter().find(|held| held["agent"] == "bob");
    let name = &bobs.expect("bob's")["path"];
    assert_eq!(*name, root.join("src/a.rs").to_str().expect("UTF-8"));
    let released = client.call("release_files", &json!({ "paths": [name], "agent": "bob" }));
    assert_eq!(released.expect("released")["released"], 1);
    let released = client.call("release_files", &json!({ "agent": "alice" })).expect("released");
    assert_eq!(released["released"], 2);
    client.close();
}

#[test]
fn what_another_agent_reserved_is_not_written_by_the_other_tools_either() {
    let dir = repository();
    let mut client = Client::new(dir.path());
    let value = json!({ "path": "s.json", "value": { "n": 1 } });
    client.call("write_document", &value).expect("written");
    client.call("reserve_files", &by("alice", &json!(["s.json", "*.jsonl"]))).expect("reserved");
    for agent in [json!("bob"), Value::Null] {
        for (tool, mut arguments) in [
            ("write_document", value.clone()),
            ("merge_document", json!({ "path": "s.json", "patch": { "n": 2 } })),
            ("patch_document", json!({ "path": "s.json", "operations": [] })),
            ("append_journal", json!({ "path": "log.jsonl", "entries": [1] })),
        ] {
            arguments["agent"] = agent.clone();
            let refused = client.call(tool, &arguments).expect_err(tool);
            assert!(
                refused.contains("nothing was changed. s.json is held by")
                    || tool == "append_journal"
            );
            assert!(refused.contains("alice") && refused.contains("Next:"), "{refused}");
            arguments["agent"] = json!("alice");
            client.call(tool, &arguments).expect("its own");
        }
    }
    client.call("read_document", &json!({ "path": "s.json", "agent": "bob" })).expect("read");
    client.close();
}
