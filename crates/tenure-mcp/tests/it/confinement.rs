//! No path leaves the root; documents and their errors.

use std::os::unix::fs::symlink;

use tenure::json;

use crate::client::Client;

#[test]
fn no_path_leaves_the_root() {
    let outside = tempfile::tempdir().expect("a directory");
    std::fs::write(outside.path().join("secret.json"), "{\"secret\":1}").expect("written");
    let dir = tempfile::tempdir().expect("a directory");
    symlink(outside.path(), dir.path().join("way-out")).expect("a link");
    symlink(outside.path().join("secret.json"), dir.path().join("link.json")).expect("a link");
    let mut client = Client::new(dir.path());
    let absolute = outside.path().join("secret.json");
    let up =
        format!("../{}/secret.json", outside.path().file_name().expect("a name").to_string_lossy());
    for path in [
        "../secret.json",
        up.as_str(),
        "a/../../secret.json",
        "way-out/secret.json",
        "link.json",
        absolute.to_str().expect("UTF-8"),
        ".tenure/a.hold",
        ".git/config",
        "sub/.tenure/x",
        "a\nb.json",
        "",
    ] {
        for (tool, arguments) in [
            ("read_document", json!({ "path": path })),
            ("write_document", json!({ "path": path, "value": 1 })),
            ("append_journal", json!({ "path": path, "entries": [1] })),
            ("read_journal", json!({ "path": path })),
            ("add_task", json!({ "queue": path, "task": 1 })),
        ] {
            let refused = client.call(tool, &arguments).expect_err(path);
            assert!(!refused.contains("\"secret\":1"), "{refused}");
        }
    }
    let found = std::fs::read_to_string(outside.path().join("secret.json")).expect("it is there");
    assert_eq!(found, "{\"secret\":1}");
    assert_eq!(std::fs::read_dir(outside.path()).expect("a listing").count(), 1);
    // An absolute path inside is a path inside.
    let inside = dir.path().join("a.json");
    client
        .call("write_document", &json!({ "path": inside.to_str(), "value": 1 }))
        .expect("written");
    client.close();
}

#[test]
fn a_write_with_an_old_version_changes_nothing_and_says_what_to_do() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut client = Client::new(dir.path());
    client
        .call("write_document", &json!({ "path": "a.json", "value": { "n": 1 } }))
        .expect("written");
    let read = client.call("read_document", &json!({ "path": "a.json" })).expect("read");
    let merge = json!({ "path": "a.json", "patch": { "k": ["x"] }, "union": ["/k"] });
    client.call("merge_document", &merge).expect("merged");
    let stale = json!({ "path": "a.json", "value": {}, "if_version": read["version"] });
    let refused = client.call("write_document", &stale).expect_err("an old version");
    assert!(refused.contains("Next: Read it again"), "{refused}");
    let misspelt = json!({ "path": "a.json", "value": {}, "if_versions": read["version"] });
    let refused = client.call("write_document", &misspelt).expect_err("a misspelt argument");
    assert!(refused.contains("`if_versions` is unknown"), "{refused}");
    let now = client.call("read_document", &json!({ "path": "a.json" })).expect("read");
    assert_eq!(now["value"], json!({ "n": 1, "k": ["x"] }));
    client.close();
}

#[test]
fn digits_of_numbers_survive() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut client = Client::new(dir.path());
    client.send(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write_document","arguments":{"path":"a.json","value":{"n":123456789012345678901234567890.10}}}}"#,
    );
    client.answer();
    let text = std::fs::read_to_string(dir.path().join("a.json")).expect("it is there");
    assert!(text.contains("123456789012345678901234567890.10"), "{text}");
    client.close();
}

#[test]
fn only_what_can_be_read_is_offered() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut client = Client::new(dir.path());
    client.call("write_document", &json!({ "path": "a.json", "value": 1 })).expect("written");
    std::fs::create_dir_all(dir.path().join(".git/tenure")).expect("a directory");
    for hidden in [".git/tenure/secret.json", "removed.json"] {
        let path = dir.path().join(hidden);
        let document = tenure::Document::open(&path).expect("a document");
        document.set(&json!(1), &tenure::WriteOptions::default()).expect("written");
    }
    std::fs::remove_file(dir.path().join("removed.json")).expect("removed");
    let listed = client.ask("resources/list", &json!({}));
    let names: Vec<_> = listed["result"]["resources"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|resource| resource["name"].as_str())
        .collect();
    assert_eq!(names, ["a.json"], "{listed}");
}

/// What a repository can ship: links among the files of a queue, and to the files of git and of tenure.
#[test]
fn links_inside_of_the_root_lead_nowhere_else() {
    let outside = tempfile::tempdir().expect("a directory");
    let task = r#"{"task":1,"state":"open","attempts":0,"added_us":1}"#;
    std::fs::write(outside.path().join("task.json"), task).expect("written");
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path();
    for made in ["q1", "q2", ".git", ".tenure.d"] {
        std::fs::create_dir(root.join(made)).expect("a directory");
    }
    symlink(outside.path().join("bell"), root.join("q1/.bell")).expect("a link");
    symlink(outside.path().join("task.json"), root.join("q2/evil.json")).expect("a link");
    symlink(root.join(".git"), root.join("g")).expect("a link");
    let mut client = Client::new(root);
    for (tool, arguments) in [
        ("add_task", json!({ "queue": "q1", "task": 1 })),
        ("write_document", json!({ "path": "g/x.json", "value": 1 })),
        ("write_document", json!({ "path": ".tenure.d/reservations.json", "value": 1 })),
    ] {
        client.call(tool, &arguments).expect_err(tool);
    }
    // What such a link leads to is no task, and its content is not shown.
    let listed = client.call("list_tasks", &json!({ "queue": "q2" })).expect("a list");
    let evil = (&listed["tasks"][0]["state"], &listed["tasks"][0]["task"]);
    assert_eq!(evil, (&json!("damaged"), &json!(null)), "{listed}");
    let claimed = client.call("claim_task", &json!({ "queue": "q2" })).expect("an answer");
    assert_eq!(claimed["claimed"], false, "{claimed}");
    let left: Vec<_> = std::fs::read_dir(outside.path()).expect("a listing").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(std::fs::read_to_string(outside.path().join("task.json")).expect("read"), task);
    assert!(!root.join(".git/x.json").exists());
}

/// The root is the directory itself. What is in it, and under which names, does not matter.
#[test]
fn no_entry_of_the_project_moves_the_root_or_stops_the_server() {
    let outside = tempfile::tempdir().expect("a directory");
    for target in [outside.path().join("elsewhere"), outside.path().join("missing")] {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(outside.path().join("elsewhere")).expect("a directory");
        std::fs::create_dir(dir.path().join("q")).expect("a directory");
        for name in ["target", "key", "q/key"] {
            symlink(&target, dir.path().join(name)).expect("a link");
        }
        let mut client = Client::new(dir.path());
        client.call("write_document", &json!({ "path": "a.json", "value": 1 })).expect("written");
        assert!(dir.path().join("a.json").is_file());
        let listed = client.ask("resources/list", &json!({}));
        assert_eq!(listed["result"]["resources"][0]["name"], "a.json", "{listed}");
        client.call("add_task", &json!({ "queue": "q", "task": 1 })).expect("added");
        let tasks = client.call("list_tasks", &json!({ "queue": "q" })).expect("a list");
        assert_eq!(tasks["tasks"][0]["task"], 1, "{tasks}");
        client.close();
    }
}

#[test]
fn settings_of_agents_are_not_written() {
    let dir = tempfile::tempdir().expect("a directory");
    for made in [".claude", ".codex"] {
        std::fs::create_dir(dir.path().join(made)).expect("a directory");
    }
    symlink(".codex", dir.path().join("link")).expect("a link");
    let mut client = Client::new(dir.path());
    for path in [
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".codex/hooks.json",
        "link/hooks.json",
        ".mcp.json",
        "sub/.mcp.json",
        ".MCP.json",
        ".cursor/mcp.json",
        ".gemini/settings.json",
        ".cursor/hooks.json",
        ".vscode/mcp.json",
        ".claude/agents/x.json",
    ] {
        for (tool, arguments) in [
            ("write_document", json!({ "path": path, "value": {} })),
            ("merge_document", json!({ "path": path, "patch": {} })),
            ("append_journal", json!({ "path": path, "entries": [{}] })),
        ] {
            let refused = client.call(tool, &arguments).expect_err(path);
            assert!(refused.contains("settings of agents"), "{refused}");
        }
        assert!(!dir.path().join(path).exists(), "{path}");
    }
    let task = json!({ "queue": ".codex", "task": 1, "id": "hooks" });
    client.call("add_task", &task).expect_err("a queue in the settings");
    let state = json!({ "path": ".claude/state.json", "value": 1 });
    client.call("write_document", &state).expect("no settings");
    client.close();
}

#[test]
fn a_list_leaves_out_what_may_be_large_and_a_journal_shows_its_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut client = Client::new(dir.path());
    for path in ["sub/a.json", "node_modules/x/a.json", "target/a.json"] {
        let parent = dir.path().join(path);
        std::fs::create_dir_all(parent.parent().expect("a parent")).expect("a directory");
        client.call("write_document", &json!({ "path": path, "value": 1 })).expect("written");
    }
    std::fs::write(dir.path().join("sub/package.json"), "{}").expect("written");
    for n in 0..4 {
        let entries = json!([{ "n": n, "text": "x".repeat(400_000) }]);
        let batch = json!({ "path": "log.jsonl", "entries": entries });
        client.call("append_journal", &batch).expect("appended");
    }
    let listed = client.ask("resources/list", &json!({}));
    let listed = listed["result"]["resources"].as_array().expect("a list");
    let names: Vec<_> = listed.iter().filter_map(|resource| resource["name"].as_str()).collect();
    assert_eq!(names, ["log.jsonl", "sub/a.json"]);
    let read = client.ask("resources/read", &json!({ "uri": "tenure://journal/log.jsonl" }));
    let text = read["result"]["contents"][0]["text"].as_str().expect("text");
    assert!(text.len() <= 1 << 20 && text.lines().count() == 2, "{} bytes", text.len());
    assert!(text.lines().last().is_some_and(|line| line.contains("\"n\":3")));
    client.close();
}
