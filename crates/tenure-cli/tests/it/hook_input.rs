//! Payloads that no hook expects, and state that cannot be kept: the agent goes on.

use serde_json::{Value, json};

use crate::hook_stage::{Stage, base, denial};

const HOOKS: [&str; 5] = ["edit", "gate", "session", "log", "mcp"];

#[test]
fn what_is_not_understood_passes_unless_strict() {
    let stage = Stage::new();
    let deep = "[".repeat(200_000);
    for input in ["", "nonsense", "[1,2]", "null", "{\"session_id\":", "\u{0}\u{1}", "{}{}", &deep]
    {
        for hook in HOOKS {
            let ran = stage.command(&[hook], input).run().exits(0).says("");
            ran.complains("the hook did nothing: the input is not a hook payload");
            let ran = stage.command(&[hook, "--strict"], input).run().exits(2).says("");
            ran.complains("the tool is blocked (--strict)");
        }
    }
    stage.command(&["edit"], b"\xff\xfe{}").run().exits(0).says("");
}

#[test]
fn missing_fields_and_events_of_the_future_pass_unless_strict() {
    let stage = Stage::new();
    let full = stage.payload("alice", "PreToolUse", "src/a.rs");
    for field in full.as_object().unwrap().keys().filter(|key| *key != "session_id") {
        let mut payload = full.clone();
        payload.as_object_mut().unwrap().remove(field);
        for hook in ["edit", "session", "log", "mcp"] {
            assert_eq!(stage.hook(&[hook], &payload).exits(0).stdout, "", "{hook} without {field}");
        }
        payload[field] = json!({ "another": ["kind"] });
        for hook in ["edit", "session", "log", "mcp"] {
            assert_eq!(
                stage.hook(&[hook], &payload).exits(0).stdout,
                "",
                "{hook} with odd {field}"
            );
        }
    }
    let mut payload = full.clone();
    payload.as_object_mut().unwrap().remove("session_id");
    stage.hook(&["edit"], &payload).exits(0).says("").complains("no session_id");
    stage.hook(&["edit", "--strict"], &payload).exits(2);
    for (field, complaint) in [
        ("hook_event_name", "the event `` is unknown"),
        ("tool_input", "the input of `Edit` names no file"),
    ] {
        let mut payload = full.clone();
        payload.as_object_mut().unwrap().remove(field);
        stage.hook(&["edit"], &payload).exits(0).says("").complains(complaint);
        stage.hook(&["edit", "--strict"], &payload).exits(2).says("").complains(complaint);
    }
    let mut payload = full;
    payload["hook_event_name"] = "BeforeTheToolIsThoughtOf".into();
    payload["new"] = json!({ "deep": [{}, 1, null] });
    for hook in HOOKS.iter().filter(|hook| **hook != "edit") {
        stage.hook(&[hook, "--strict"], &payload).ok().says("");
    }
    stage.hook(&["edit"], &payload).exits(0).says("").complains("BeforeTheToolIsThoughtOf");
    stage.hook(&["edit", "--strict"], &payload).exits(2).says("");
}

#[test]
fn a_payload_of_megabytes_is_read() {
    let stage = Stage::new();
    stage.edits("alice", "src/a.rs");
    let mut payload = stage.payload("bob", "PreToolUse", "src/a.rs");
    payload["tool_input"]["new_string"] = "x\"\\\u{1f600}\n".repeat(500_000).into();
    assert!(denial(&stage.hook(&["edit"], &payload).ok()).unwrap().contains("alice"));
    let mut payload = stage.payload("alice", "PostToolUse", "src/a.rs");
    payload["tool_response"]["originalFile"] = "y".repeat(4 << 20).into();
    stage.hook(&["edit"], &payload).ok().says("");
}

#[test]
fn paths_without_end_and_edits_without_number_end_in_a_warning() {
    let stage = Stage::new();
    let edits: Vec<_> = (0..20_000).map(|n| json!({ "file_path": format!("{n}.rs") })).collect();
    let mut many = stage.payload("alice", "PreToolUse", "a.rs");
    many["tool_name"] = "MultiEdit".into();
    many["tool_input"] = json!({ "edits": edits });
    let paths = ["x/".repeat(50_000), "../".repeat(50_000), "x".repeat(50_000)];
    let long = paths.iter().map(|path| stage.payload("alice", "PreToolUse", path));
    for payload in long.chain([many]) {
        let ran = stage.hook(&["edit"], &payload).exits(0);
        let message = ran.json()["systemMessage"].as_str().unwrap().to_owned();
        assert!(message.len() < 300, "{message}");
    }
}

#[test]
fn state_that_cannot_be_kept_is_a_warning_for_the_user() {
    let stage = Stage::new();
    stage.bench.file("main/.git/tenure", "not a directory");
    stage.bench.file("gate", "not a directory");
    for hook in ["edit", "gate", "log"] {
        let payload = stage.payload("alice", "PreToolUse", "src/a.rs");
        let ran = stage.hook(&[hook], &payload).exits(0);
        let message = ran.json();
        assert!(
            message["systemMessage"].as_str().unwrap().starts_with("tenure: failed to"),
            "{ran:?}"
        );
        assert_eq!(message.as_object().unwrap().len(), 1, "{ran:?}");
        ran.complains("the hook did nothing");
        stage.hook(&[hook, "--strict"], &payload).exits(2).says("");
    }
    for event in ["SessionEnd", "Stop", "SessionStart"] {
        stage.hook(&["session"], &base("alice", event, &stage.root())).exits(0);
    }
}

#[test]
fn damaged_reservations_stop_no_agent() {
    let stage = Stage::new();
    stage.edits("alice", "src/a.rs");
    stage.bench.file("main/.git/tenure/reservations.json", "{\"format\":1,\"reser");
    let payload = stage.payload("bob", "PreToolUse", "src/b.rs");
    let ran = stage.hook(&["edit"], &payload).exits(0);
    assert!(ran.stdout.is_empty() || ran.json()["systemMessage"].is_string(), "{ran:?}");
}

#[test]
fn a_mistake_in_the_settings_is_not_taken_for_a_denial() {
    let stage = Stage::new();
    for words in [&["edti"][..], &["edit", "--ttl", "soon"], &["edit", "--unknown"], &[]] {
        let ran = stage.command(words, "").run();
        assert_eq!(ran.code, Some(1), "{ran:?}");
    }
}

#[test]
fn the_mcp_server_learns_which_agent_calls_and_the_log_what_was_called() {
    let stage = Stage::new();
    let mut payload = base("alice/sub", "PreToolUse", &stage.root());
    payload["tool_name"] = "mcp__tenure__reserve".into();
    payload["tool_input"] = json!({ "paths": ["src/a.rs"] });
    let output = &stage.hook(&["mcp"], &payload).ok().json()["hookSpecificOutput"];
    let expected = json!({ "paths": ["src/a.rs"], "agent": "alice/sub" });
    assert_eq!((&output["updatedInput"], &output["permissionDecision"]), (&expected, &Value::Null));
    let output = &stage.hook(&["mcp", "--allow"], &payload).ok().json()["hookSpecificOutput"];
    assert_eq!(output["permissionDecision"], "allow");
    stage.hook(&["log"], &payload).ok().says("");
    stage.hook(&["log"], &stage.payload("bob", "PostToolUse", "src/a.rs")).ok().says("");
    let log = stage.bench.read("main/.git/tenure/log.jsonl");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&lines[0]["agent"], &lines[0]["tool"]),
        (&"alice/sub".into(), &"mcp__tenure__reserve".into())
    );
    assert_eq!(lines[1]["files"][0], stage.root().join("src/a.rs").to_str().unwrap());
    assert!(!log.contains("old_string"), "{log}");
}
