//! Requests, notifications, cancellation, and what is no request at all.

use std::time::{Duration, Instant};

use tenure::json;

use crate::client::{Client, LONG};

#[test]
fn both_generations_are_served_by_one_server() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut client = Client::new(dir.path());
    let hello =
        client.ask("initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(hello["result"]["serverInfo"]["version"], "1.2.3");
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let old = client.ask("tools/list", &json!({}));
    let meta = json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } });
    let found = client.ask("server/discover", &meta);
    assert_eq!(found["result"]["supportedVersions"][0], "2026-07-28");
    let named = &found["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(*named, hello["result"]["serverInfo"]);
    let new = client.ask("tools/list", &meta);
    assert_eq!(new["result"]["resultType"], "complete");
    assert_eq!(new["result"]["tools"], old["result"]["tools"]);
    assert_eq!(client.ask("ping", &json!({}))["result"], json!({}));
    assert_eq!(client.ask("ping", &meta)["error"]["code"], -32_601, "ping is gone");
    client.close();
}

#[test]
fn a_waiting_call_stalls_no_other_and_can_be_cancelled() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut client = Client::new(dir.path());
    let wait = json!({ "name": "read_journal", "arguments": { "path": "log.jsonl", "wait_seconds": 600 } });
    let waiting = client.request("tools/call", &wait);
    client.call("write_document", &json!({ "path": "a.json", "value": 1 })).expect("written");
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": waiting } });
    client.send(&cancelled.to_string());
    let late = client.answers_within(Duration::from_millis(300));
    assert!(late.is_none(), "a cancelled call was answered: {late:?}");
    let began = Instant::now();
    client.close();
    assert!(began.elapsed() < LONG, "the server waits for a cancelled call");
}

#[test]
fn the_end_of_the_input_ends_a_call_that_waits() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut client = Client::new(dir.path());
    let wait = json!({ "name": "read_journal", "arguments": { "path": "log.jsonl", "wait_seconds": 600 } });
    client.request("tools/call", &wait);
    let began = Instant::now();
    client.close();
    assert!(began.elapsed() < LONG, "the server outlives its client");
}

#[test]
fn a_waiting_reader_gets_the_entry_of_another_agent() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut reader, mut writer) = (Client::new(dir.path()), Client::new(dir.path()));
    let wait =
        json!({ "name": "read_journal", "arguments": { "path": "log.jsonl", "wait_seconds": 30 } });
    let id = reader.request("tools/call", &wait);
    writer
        .call("append_journal", &json!({ "path": "log.jsonl", "entries": [{ "a": 1 }] }))
        .expect("appended");
    let answer = reader.answer();
    assert_eq!(answer["id"], id);
    assert_eq!(answer["result"]["structuredContent"]["entries"][0]["value"], json!({ "a": 1 }));
    reader.close();
    writer.close();
}

#[test]
fn what_is_no_request_is_answered_with_an_error_or_not_at_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut client = Client::new(dir.path());
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "x".repeat(17 << 20));
    for (line, code) in [
        ("{", -32_700),
        ("[1, 2]", -32_600),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32_600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]}"#, -32_602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#, -32_601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"no_such"}}"#, -32_602),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}"#,
            -32_602,
        ),
        (&long, -32_700),
        (&"[".repeat(100_000), -32_700),
    ] {
        client.send(line);
        let answer = client.answer();
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    // Notifications get no answer, whatever they say.
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/from/the/future","params":{"a":1}}"#);
    client
        .send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#);
    client.send("");
    assert_eq!(client.ask("ping", &json!({}))["result"], json!({}));
    client.close();
}

#[test]
fn too_many_calls_at_once_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut client = Client::new(dir.path());
    let wait = json!({ "name": "read_journal", "arguments": { "path": "log.jsonl", "wait_seconds": 600 } });
    for _ in 0..64 {
        client.request("tools/call", &wait);
    }
    let id = client.request("tools/call", &wait);
    let answer = client.answer();
    assert_eq!(answer["id"], id, "{answer}");
    assert_eq!(answer["error"]["code"], -32_000, "{answer}");
    // A list of resources looks at many files: it is a call, too.
    let listed = client.ask("resources/list", &json!({}));
    assert_eq!(listed["error"]["code"], -32_000, "{listed}");
    client.close();
}

#[test]
fn schemas_say_what_the_tools_take() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut client = Client::new(dir.path());
    let listed = client.ask("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().expect("a list").clone();
    for (tool, argument, kind, wrong) in [
        ("append_journal", "entries", "array", json!({})),
        ("patch_document", "operations", "array", json!({})),
        ("merge_document", "patch", "object", json!([])),
    ] {
        let found = tools.iter().find(|found| found["name"] == tool).expect(tool);
        assert_eq!(found["inputSchema"]["properties"][argument]["type"], kind, "{tool}");
        let mut arguments = json!({ "path": "a.jsonl" });
        arguments[argument] = wrong;
        let refused = client.call(tool, &arguments).expect_err("another type");
        assert!(refused.contains(&format!("`{argument}` must be an {kind}")), "{refused}");
    }
    client.close();
}

/// Only a call that has really ended makes room for another one.
#[test]
fn cancelled_calls_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut client = Client::new(dir.path());
    let wait = json!({ "name": "read_journal", "arguments": { "path": "log.jsonl", "wait_seconds": 600 } });
    let waiting: Vec<u64> = (0..64).map(|_| client.request("tools/call", &wait)).collect();
    for id in waiting {
        let params = json!({ "requestId": id });
        let cancelled =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        client.send(&cancelled.to_string());
    }
    let began = Instant::now();
    let call = json!({ "name": "write_document", "arguments": { "path": "a.json", "value": 1 } });
    while client.ask("tools/call", &call)["error"]["code"] == -32_000 {
        assert!(began.elapsed() < LONG, "cancelled calls go on");
    }
    client.close();
}
