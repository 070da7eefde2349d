//! Agents with tenure, as `tenure init` plugs it in: `tenure hook` before and after each tool and at the end of the
//! turn, `tenure mcp` for tasks, `tenure once` for the token.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tenure::{Value, json};

use super::agent::Manners;
use super::repository::TOKEN_LIFE;
use super::server::Server;

/// How long an agent waits for a file that another one has, in seconds.
const WAIT: u64 = 30;

/// With tenure.
pub(super) struct PluggedIn {
    root: PathBuf,
    session: String,
    server: Server,
    /// The task of this turn: its id and token.
    task: Option<(Value, Value)>,
}

impl PluggedIn {
    pub(super) fn new(root: &Path, session: &str) -> io::Result<Self> {
        let server = Server::start(root)?;
        Ok(Self { root: root.to_path_buf(), session: session.to_owned(), server, task: None })
    }

    /// Runs a hook as the agent does, and returns its answer; `None` if it stays out of the way.
    fn hook(
        &self,
        verb: &str,
        event: &str,
        tool: &str,
        input: &Value,
    ) -> io::Result<Option<Value>> {
        let payload = json!({
            "session_id": self.session, "cwd": self.root.to_string_lossy(),
            "hook_event_name": event, "tool_name": tool, "tool_input": input,
        });
        let mut command = super::tenure(&self.root)?;
        // Trouble would block the tool, so that the demo cannot hide it.
        command.args(["hook", verb, "--strict"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(payload.to_string().as_bytes())?;
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            return Err(io::Error::other(format!("tenure hook {verb}: {}", output.status)));
        }
        if output.stdout.is_empty() {
            return Ok(None);
        }
        tenure::json::parse(&output.stdout).map(Some).map_err(io::Error::other)
    }

    /// Calls a tool of the server. The hook names this agent to it.
    fn call(&mut self, tool: &str, arguments: &Value) -> io::Result<Value> {
        let named = self.hook("mcp", "PreToolUse", &format!("mcp__tenure__{tool}"), arguments)?;
        let named = named.ok_or_else(|| io::Error::other("the hook named no agent"))?;
        self.server.call(tool, &named["hookSpecificOutput"]["updatedInput"])
    }

    fn file(&self, file: &str) -> Value {
        json!({ "file_path": self.root.join(file).to_string_lossy() })
    }
}

impl Manners for PluggedIn {
    fn claim(&mut self) -> io::Result<Option<String>> {
        let claimed = self.call("claim_task", &json!({ "queue": "tasks" }))?;
        if claimed["claimed"] != true {
            return Ok(None);
        }
        let id = claimed["id"].as_str().map(str::to_owned);
        self.task = Some((claimed["id"].clone(), claimed["token"].clone()));
        Ok(id)
    }

    fn token(&mut self) -> io::Result<()> {
        let mut command = super::tenure(&self.root)?;
        let ttl = format!("{}ms", TOKEN_LIFE.as_millis());
        command.args(["once", "token", "--ttl", ttl.as_str(), "--"]);
        command.arg(std::env::current_exe()?).args(["demo-agent", "refresh"]).arg(&self.root);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("tenure once: {status}")))
        }
    }

    fn before_edit(&mut self, file: &str) -> io::Result<bool> {
        let mut denied = false;
        while let Some(answer) = self.hook("edit", "PreToolUse", "Edit", &self.file(file))? {
            if answer["hookSpecificOutput"]["permissionDecision"] != "deny" {
                return Err(io::Error::other(format!("tenure hook edit answered {answer}")));
            }
            denied = true;
            self.call("wait_for_release", &json!({ "paths": [file], "wait_seconds": WAIT }))?;
        }
        Ok(denied)
    }

    fn after_edit(&mut self, file: &str) -> io::Result<()> {
        match self.hook("edit", "PostToolUse", "Edit", &self.file(file))? {
            None => Ok(()),
            Some(lost) => Err(io::Error::other(format!("tenure hook edit reported {lost}"))),
        }
    }

    fn end_turn(&mut self) -> io::Result<()> {
        if let Some((id, token)) = self.task.take() {
            let done = json!({ "queue": "tasks", "id": id, "token": token, "outcome": "done" });
            self.call("finish_task", &done)?;
        }
        self.hook("session", "Stop", "", &Value::Null).map(drop)
    }
}
