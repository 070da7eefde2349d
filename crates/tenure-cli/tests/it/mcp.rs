//! `tenure mcp` as an agent starts it: the root that it chooses, and what it prints where.

use serde_json::{Value, json};

use crate::bench::{Bench, Ran};

/// Set by agents.
const PROJECT: &str = "CLAUDE_PROJECT_DIR";

/// A request that writes a document at the root.
fn write(name: &str) -> String {
    let arguments = json!({ "path": name, "value": 1 });
    let params = json!({ "name": "write_document", "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
        + "\n"
}

/// The one answer; nothing else may be on standard output.
fn answer(ran: &Ran) -> Value {
    assert_eq!(ran.stdout.lines().count(), 1, "{ran:?}");
    assert_eq!(ran.stderr, "", "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn standard_output_has_answers_only() {
    let bench = Bench::new();
    let input = format!("no JSON\n{}", write("a.json"));
    let ran = bench.command(&["mcp"]).without_env(PROJECT).stdin(input).run().ok();
    let codes: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(codes.len(), 2, "{ran:?}");
    assert_eq!(codes[0]["error"]["code"], -32_700);
    assert_eq!(codes[1]["result"]["structuredContent"]["changed"], true, "{ran:?}");
    assert_eq!(ran.stderr, "");
}

#[test]
fn the_root_is_the_flag_the_agents_project_or_the_project_around() {
    let bench = Bench::new();
    for dir in ["repo/.git", "repo/deep/er", "project", "other"] {
        std::fs::create_dir_all(bench.path(dir)).unwrap();
    }
    bench.file("repo/.git/HEAD", "ref: refs/heads/main\n");
    let project = bench.path("project").into_os_string();
    for (args, project, root) in [
        (&["mcp"][..], None, "repo"),
        (&["mcp"], Some(&project), "project"),
        (&["mcp", "--root", "../../../other"], Some(&project), "other"),
    ] {
        let input = std::fs::File::open(bench.file("input", write("found.json"))).unwrap();
        let mut command = bench.command(args).without_env(PROJECT).unstarted();
        command.envs(project.map(|dir| (PROJECT, dir)));
        command.current_dir(bench.path("repo/deep/er")).stdin(input);
        let ran = Ran::new(command.output().unwrap()).ok();
        assert_eq!(answer(&ran)["result"]["isError"], Value::Null, "{ran:?}");
        assert!(bench.path(root).join("found.json").is_file(), "{args:?} {project:?}");
        std::fs::remove_file(bench.path(root).join("found.json")).unwrap();
    }
}

#[test]
fn a_root_that_is_no_directory_is_an_error_at_the_start() {
    let bench = Bench::new();
    bench.file("plain", "");
    for root in ["none", "plain"] {
        bench.tenure(&["mcp", "--root", root]).exits(1).says("").complains(root);
    }
}
