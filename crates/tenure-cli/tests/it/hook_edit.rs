//! Agents that edit one repository at the same time.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::bench::eventually;
use crate::hook_stage::{Stage, base, denial, git, payload_in};

#[test]
fn a_denial_names_the_holder_what_for_until_when_and_what_to_do() {
    let stage = Stage::new();
    assert_eq!(stage.edits("alice", "src/a.rs"), None);
    assert_eq!(stage.edits("alice", "src/a.rs"), None);
    let reason = stage.edits("bob", "src/a.rs").unwrap();
    for part in
        ["src/a.rs is held by", "alice", "for \"Edit\"", "until ", " UTC (in 9 min", "Next: "]
    {
        assert!(reason.contains(part), "no `{part}` in {reason}");
    }
    assert_eq!(stage.edits("bob", "src/b.rs"), None);
    assert_eq!(stage.who(), [pair("src/a.rs", "alice"), pair("src/b.rs", "bob")]);
}

#[test]
fn a_turn_that_ends_frees_its_files() {
    let stage = Stage::new();
    stage.edits("alice", "src/a.rs");
    stage.edits("alice/sub", "src/b.rs");
    stage.event("bob", "Stop");
    stage.event("alice", "SubagentStop"); // Without its id: not the main agent's end.
    assert!(stage.edits("bob", "src/a.rs").is_some());
    stage.event("alice", "Stop");
    assert_eq!(stage.edits("bob", "src/a.rs"), None);
    assert!(stage.edits("bob", "src/b.rs").is_some());
    stage.event("alice/sub", "SubagentStop");
    assert_eq!(stage.edits("bob", "src/b.rs"), None);
}

#[test]
fn a_session_that_ends_frees_the_files_of_its_subagents() {
    let stage = Stage::new();
    stage.edits("alice", "src/a.rs");
    stage.edits("alice/one", "src/b.rs");
    stage.edits("alicia", "src/c.rs");
    stage.event("alice", "SessionEnd");
    assert_eq!(stage.who(), [pair("src/c.rs", "alicia")]);
    stage.event("alice", "SessionStart");
}

#[test]
fn subagents_of_one_session_are_agents_of_their_own() {
    let stage = Stage::new();
    assert_eq!(stage.edits("s/one", "src/a.rs"), None);
    let reason = stage.edits("s/two", "src/a.rs").unwrap();
    assert!(reason.contains("another subagent of this session (s/one)"), "{reason}");
    assert!(stage.edits("s", "src/a.rs").unwrap().contains("another subagent of this session"));
    stage.edits("s", "src/b.rs");
    assert!(stage.edits("s/one", "src/b.rs").unwrap().contains("the main agent of this session"));
}

#[test]
fn worktrees_share_the_names_of_their_files() {
    let stage = Stage::new();
    let second = stage.bench.path("second");
    git(&stage.root(), &["worktree", "add", "--quiet", second.to_str().unwrap()]);
    assert_eq!(stage.edits("alice", "src/a.rs"), None);
    let payload = payload_in(&second, "bob", "PreToolUse", "src/a.rs");
    let reason = denial(&stage.hook(&["edit"], &payload).ok()).unwrap();
    assert!(reason.contains("alice"), "{reason}");
    // Sources stay clean in both.
    for dir in [stage.root(), second] {
        let status = std::process::Command::new("git")
            .args(["status", "--porcelain", "--ignored"])
            .current_dir(&dir)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(status.stdout).unwrap(), "", "{}", dir.display());
        assert!(!dir.join(".tenure").exists() && !dir.join("src/.tenure").exists());
    }
}

#[test]
fn a_patch_gets_all_of_its_files_or_none() {
    let stage = Stage::new();
    stage.edits("alice", "src/a.rs");
    let patch = |agent: &str, files: &[&str]| {
        let parts: String = files.iter().fold(String::new(), |text, file| {
            text + &format!("*** Update File: {file}\n@@\n-a\n+b\n")
        });
        let mut payload = base(agent, "PreToolUse", &stage.root());
        payload["tool_name"] = "apply_patch".into();
        payload["tool_input"] =
            json!({ "command": format!("*** Begin Patch\n{parts}*** End Patch\n") });
        payload["turn_id"] = "7".into(); // Codex sends more.
        denial(&stage.hook(&["edit"], &payload).ok())
    };
    assert!(
        patch("bob", &["src/b.rs", "src/a.rs"]).unwrap().contains("None of the files was changed")
    );
    assert_eq!(stage.who(), [pair("src/a.rs", "alice")]);
    assert_eq!(patch("bob", &["src/b.rs", "src/c.rs"]), None);
    assert_eq!(patch("alice", &["src/a.rs"]), None);
    assert!(patch("alice", &["src/c.rs"]).is_some());
}

#[test]
fn reads_shells_and_unknown_tools_pass() {
    let stage = Stage::new();
    stage.edits("alice", "src/a.rs");
    for tool in ["Read", "Bash", "Grep", "Future"] {
        let mut payload = stage.payload("bob", "PreToolUse", "src/a.rs");
        payload["tool_name"] = tool.into();
        stage.hook(&["edit"], &payload).ok().says("");
    }
    stage.hook(&["edit"], &stage.payload("bob", "Stop", "src/a.rs")).ok().says("");
    for event in ["PostToolUseFailure", "SomethingNew"] {
        let ran = stage.hook(&["edit"], &stage.payload("bob", event, "src/a.rs"));
        ran.exits(0).says("").complains(event);
    }
    assert_eq!(stage.who(), [pair("src/a.rs", "alice")]);
}

#[test]
fn an_agent_that_died_is_not_waited_for_longer_than_its_time() {
    let stage = Stage::new();
    let payload = stage.payload("alice", "PreToolUse", "src/a.rs");
    stage.hook(&["edit", "--ttl", "100ms"], &payload).ok().says("");
    eventually(|| stage.edits("bob", "src/a.rs").is_none());
    let report = stage.edited("alice", "src/a.rs").unwrap();
    assert!(report.contains("was lost") && report.contains("bob holds it now"), "{report}");
    assert_eq!(stage.edited("bob", "src/a.rs"), None);
}

#[test]
fn hostile_paths_reach_nothing_outside() {
    let stage = Stage::new();
    let outside = stage.bench.path("outside.txt");
    for file in ["../outside.txt", "src/../../outside.txt", "/", ".", "src/\u{202e}x\ny.rs"] {
        stage.hook(&["edit"], &stage.payload("alice", "PreToolUse", file)).ok().says("");
    }
    assert!(!outside.exists());
    let names: Vec<_> = stage.who().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["src/\u{202e}x\ny.rs"]);
    let reason = stage.edits("bob", "src/\u{202e}x\ny.rs").unwrap();
    assert!(!reason.contains('\n') && !reason.contains('\u{202e}'), "{reason}");
    std::os::unix::fs::symlink("a.rs", stage.root().join("src/link.rs")).unwrap();
    stage.edits("alice", "src/link.rs");
    assert!(stage.edits("bob", "src/a.rs").unwrap().contains("alice"));
}

#[test]
fn of_twenty_agents_one_gets_the_file_and_twenty_files_of_one_agent_are_all_kept() {
    let stage = Stage::new();
    let start = |agent: String, file: String| {
        let payload = stage.payload(&agent, "PreToolUse", &file).to_string();
        std::thread::spawn({
            let command = stage.command(&["edit"], payload);
            move || denial(&command.run().ok())
        })
    };
    let rivals: Vec<_> = (0..20).map(|n| start(format!("agent-{n}"), "src/a.rs".into())).collect();
    let passed = rivals.into_iter().filter_map(|rival| rival.join().unwrap()).count();
    assert_eq!(passed, 19, "so many were denied");
    let own: Vec<_> = (0..20).map(|n| start("alice".into(), format!("src/{n}.rs"))).collect();
    assert!(own.into_iter().all(|call| call.join().unwrap().is_none()));
    assert_eq!(stage.who().iter().filter(|(_, agent)| agent == "alice").count(), 20);
}

#[test]
fn a_hook_killed_at_any_moment_locks_no_agent_out() {
    let stage = Stage::new();
    for round in 0..60_u64 {
        let file = format!("src/{}.rs", round % 7);
        let payload = stage.payload("doomed", "PreToolUse", &file).to_string();
        let mut command = stage.command(&["edit", "--ttl", "30ms"], "").unstarted();
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), payload.as_bytes());
        let until = Instant::now() + Duration::from_micros(round * 100);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        eventually(|| stage.edits("alice", &file).is_none());
        assert_eq!(stage.edited("alice", &file), None);
        stage.event("alice", "Stop");
    }
    assert!(stage.who().iter().all(|(_, agent)| agent == "doomed"));
}

fn pair(name: &str, agent: &str) -> (String, String) {
    (name.to_owned(), agent.to_owned())
}

/// Without git the reservations are in the project's directory, wherever its agents have changed to.
#[test]
fn agents_in_different_directories_of_a_project_without_git_see_each_other() {
    let stage = Stage::new();
    let project = stage.bench.path("plain");
    std::fs::create_dir_all(project.join("src/deep")).unwrap();
    let run = |words: &[&str], payload: &serde_json::Value| {
        let command = stage.command(words, payload.to_string());
        command.env("CLAUDE_PROJECT_DIR", &project).run().ok()
    };
    let in_dir = |agent: &str, event: &str, dir: &str, file: &str| {
        let mut payload = payload_in(&project.join(dir), agent, event, "");
        payload["tool_input"]["file_path"] = file.into();
        payload
    };
    let edit = |agent: &str, dir: &str, file: &str| {
        denial(&run(&["edit"], &in_dir(agent, "PreToolUse", dir, file)))
    };
    assert_eq!(edit("alice", "src", "a.rs"), None);
    assert!(edit("bob", "", "src/a.rs").unwrap().contains("alice"));
    assert!(edit("bob", "src/deep", "../a.rs").unwrap().contains("alice"));
    run(&["session"], &in_dir("alice", "Stop", "src/deep", "")).says("");
    assert_eq!(edit("bob", "", "src/a.rs"), None);
    assert!(project.join(".tenure.d").exists() && !project.join("src/.tenure.d").exists());
}
