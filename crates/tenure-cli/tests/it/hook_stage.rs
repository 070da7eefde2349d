//! A repository, agents in it, and their hook payloads in the form that Claude Code and Codex send.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::bench::{Bench, Ran, Tenure};

/// A git repository with one commit.
pub(crate) struct Stage {
    pub(crate) bench: Bench,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let stage = Self { bench: Bench::new() };
        stage.bench.file("main/src/a.rs", "fn a() {}\n");
        let main = stage.root();
        git(&main, &["init", "--quiet"]);
        git(&main, &["add", "."]);
        git(&main, &["commit", "--quiet", "--message", "first"]);
        stage
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.bench.path("main")
    }

    pub(crate) fn hook(&self, args: &[&str], payload: &Value) -> Ran {
        self.command(args, payload.to_string()).run()
    }

    pub(crate) fn command(&self, args: &[&str], payload: impl AsRef<[u8]>) -> Tenure {
        let words: Vec<_> = ["hook"].iter().chain(args).collect();
        let gate = self.bench.path("gate");
        let command = self.bench.command(&words).stdin(payload).env("GATEGUARD_STATE_DIR", gate);
        let unset = ["CLAUDE_PROJECT_DIR", "CLAUDE_SESSION_ID", "ECC_SESSION_ID", "ECC_GATEGUARD"];
        unset.into_iter().fold(command, Tenure::without_env)
    }

    /// What an agent sends before or after it edits `file`.
    pub(crate) fn payload(&self, agent: &str, event: &str, file: &str) -> Value {
        payload_in(&self.root(), agent, event, file)
    }

    /// The agent edits the file: may it?
    pub(crate) fn edits(&self, agent: &str, file: &str) -> Option<String> {
        denial(&self.hook(&["edit"], &self.payload(agent, "PreToolUse", file)).ok())
    }

    /// What the agent reads after its edit.
    pub(crate) fn edited(&self, agent: &str, file: &str) -> Option<String> {
        let ran = self.hook(&["edit"], &self.payload(agent, "PostToolUse", file)).ok();
        if ran.stdout.is_empty() {
            return None;
        }
        assert_eq!(ran.json()["decision"], "block", "{ran:?}");
        Some(ran.json()["reason"].as_str().unwrap().to_owned())
    }

    /// An event without a tool.
    pub(crate) fn event(&self, agent: &str, event: &str) {
        self.hook(&["session"], &base(agent, event, &self.root())).ok().says("");
    }

    /// What is reserved: names and agents.
    pub(crate) fn who(&self) -> Vec<(String, String)> {
        let command = self.bench.command(&["hook", "who", "--json"]);
        let mut command = command.unstarted();
        let ran = Ran::new(command.current_dir(self.root()).output().unwrap()).ok();
        let list = ran.json()["reservations"].as_array().unwrap().clone();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut held: Vec<_> =
            list.iter().map(|held| (text(&held["path"]), text(&held["agent"]))).collect();
        held.sort();
        held
    }
}

/// Runs git in a directory.
pub(crate) fn git(dir: &Path, args: &[&str]) {
    let mut git = Command::new("git");
    git.current_dir(dir).args(["-c", "user.name=t", "-c", "user.email=t@example.com"]).args(args);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    let ran = git.output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
}

/// The same in another worktree.
pub(crate) fn payload_in(dir: &Path, agent: &str, event: &str, file: &str) -> Value {
    let input = json!({ "file_path": dir.join(file), "old_string": "a", "new_string": "b" });
    let mut payload = base(agent, event, dir);
    payload["tool_name"] = "Edit".into();
    payload["tool_input"] = input;
    payload["tool_use_id"] = "toolu_01".into();
    if event == "PostToolUse" {
        payload["tool_response"] = json!({ "originalFile": "a", "structuredPatch": [] });
    }
    payload
}

/// What every payload has. `SESSION/SUBAGENT` is a subagent.
pub(crate) fn base(agent: &str, event: &str, dir: &Path) -> Value {
    let (session, subagent) = agent.split_once('/').unwrap_or((agent, ""));
    let mut payload = json!({
        "session_id": session,
        "transcript_path": "/home/u/.claude/projects/x/t.jsonl",
        "cwd": dir,
        "hook_event_name": event,
        "permission_mode": "acceptEdits",
        "prompt_id": "p1",
    });
    if !subagent.is_empty() {
        payload["agent_id"] = subagent.into();
        payload["agent_type"] = "general-purpose".into();
    }
    payload
}

/// The reason of a denial; `None` if the tool may be used, and the hook said nothing at all.
#[track_caller]
pub(crate) fn denial(ran: &Ran) -> Option<String> {
    if ran.stdout.is_empty() {
        return None;
    }
    let output = &ran.json()["hookSpecificOutput"];
    assert_eq!(output["hookEventName"], "PreToolUse", "{ran:?}");
    assert_eq!(output["permissionDecision"], "deny", "{ran:?}");
    Some(output["permissionDecisionReason"].as_str().unwrap().to_owned())
}
