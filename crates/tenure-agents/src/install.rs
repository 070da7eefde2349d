//! `tenure init`: which files of which agent get which hooks, and how they are taken out again.
//!
//! # Invariants
//!
//! 1. What is ours is recognised by its command: `tenure hook ...`, and the MCP server `tenure` whose command is
//!    `tenure`. Nothing else is changed or removed.
//! 2. Installing again changes nothing; installing with other options replaces what was installed before.
//! 3. If nothing else was changed since, the uninstallation gives a file exactly the bytes that it had before, and
//!    removes a file that was not there. Otherwise it takes out what is ours and leaves the rest.

use std::path::{Path, PathBuf};

use tenure::json::Object;
use tenure::{Result, Value, json};

use crate::settings::{self, Change, changed};
use crate::settings_file::{Backup, Found, Plan};

/// An agent whose files are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Cursor: the MCP server alone.
    Cursor,
    /// Gemini CLI: the MCP server alone.
    Gemini,
}

impl Kind {
    /// Every agent, and the directory that it has in a project.
    pub const ALL: [(Self, &str); 4] = [
        (Self::Claude, ".claude"),
        (Self::Codex, ".codex"),
        (Self::Cursor, ".cursor"),
        (Self::Gemini, ".gemini"),
    ];
}

/// Whose settings are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// The project's, shared by all who have the repository.
    #[default]
    Project,
    /// The project's, for this user alone.
    Local,
    /// The user's, for all projects.
    User,
}

/// What is installed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// The gate, too.
    pub gate: bool,
    /// The journal of tool calls, too.
    pub log: bool,
    /// Not the MCP server.
    pub no_mcp: bool,
}

/// A file to change, and what belongs into it.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The file.
    pub file: PathBuf,
    /// What belongs into it.
    pub patch: Value,
}

/// The files of each agent in each scope that it has: its hooks, and its MCP servers. They are below the root of the project,
/// or the home of the user.
const FILES: &[(Kind, Scope, Option<&str>, Option<&str>)] = &[
    (Kind::Claude, Scope::Project, Some(".claude/settings.json"), Some(".mcp.json")),
    (Kind::Claude, Scope::Local, Some(".claude/settings.local.json"), None),
    (Kind::Claude, Scope::User, Some(".claude/settings.json"), Some(".claude.json")),
    (Kind::Codex, Scope::Project, Some(".codex/hooks.json"), None),
    (Kind::Codex, Scope::User, Some(".codex/hooks.json"), None),
    (Kind::Cursor, Scope::Project, None, Some(".cursor/mcp.json")),
    (Kind::Cursor, Scope::User, None, Some(".cursor/mcp.json")),
    (Kind::Gemini, Scope::Project, None, Some(".gemini/settings.json")),
    (Kind::Gemini, Scope::User, None, Some(".gemini/settings.json")),
];

/// What is changed for an agent. `None` if the agent has no such scope.
pub fn parts(
    kind: Kind,
    scope: Scope,
    root: &Path,
    home: &Path,
    wanted: Wanted,
) -> Option<Vec<Part>> {
    let (.., settings, servers) = FILES.iter().find(|file| (file.0, file.1) == (kind, scope))?;
    let base = if scope == Scope::User { home } else { root };
    let part = |file: &&str, patch| Part { file: base.join(file), patch };
    let settings = settings.iter().map(|file| part(file, hooks(kind, wanted)));
    let servers = servers.iter().filter(|_| !wanted.no_mcp).map(|file| part(file, server(kind)));
    Some(settings.chain(servers).collect())
}

/// What a person has to add where `init` writes nothing: Codex keeps servers in TOML, and Claude Code keeps
/// those of one user in a project by its own command.
pub fn by_hand(kind: Kind, scope: Scope) -> Option<&'static str> {
    match (kind, scope) {
        (Kind::Codex, _) => Some(
            "add the MCP server to config.toml of Codex:\n\
             [mcp_servers.tenure]\ncommand = \"tenure\"\nargs = [\"mcp\"]",
        ),
        (Kind::Claude, Scope::Local) => {
            Some("add the MCP server with:\nclaude mcp add --scope local tenure -- tenure mcp")
        }
        _ => None,
    }
}

/// The settings with our part in it; `None` if it is there already. What an earlier version installed and this
/// one does not is taken out.
pub fn installed(text: &str, patch: &Value) -> Result<Option<String>> {
    let stale = difference(&ours(text)?, patch);
    let cleaned = changed(text, &stale, Change::Remove)?;
    let merged = changed(cleaned.as_deref().unwrap_or(text), patch, Change::Merge)?;
    Ok(merged.or(cleaned).filter(|new| new != text))
}

/// The settings without our part; `None` if there is none. Empty if nothing else is left.
pub fn uninstalled(text: &str) -> Result<Option<String>> {
    let new = changed(text, &ours(text)?, Change::Remove)?;
    Ok(new.map(|new| if new.trim() == "{}" { String::new() } else { new }))
}

/// The installation as a change of a file. The copy is that of the file before the first one.
pub fn install(found: Found<'_>, patch: &Value) -> Result<Option<Plan>> {
    if ours(found.text)? == json!({}) {
        return Ok(installed(found.text, patch)?.map(Plan::with_copy));
    }
    // From the file before, so that one uninstallation takes out what several installations put in.
    let base = found.backup.filter(|before| is_only_ours(before, found.text));
    let base = base.unwrap_or(found.text);
    let text = installed(base, patch)?.unwrap_or_else(|| base.to_owned());
    Ok(Some(Plan { text, backup: Backup::Keep }).filter(|plan| plan.text != found.text))
}

/// The uninstallation as a change of a file.
pub fn uninstall(found: Found<'_>) -> Result<Option<Plan>> {
    let Some(text) = uninstalled(found.text)? else { return Ok(None) };
    Ok(Some(match found.backup {
        Some(before) if is_only_ours(before, found.text) => {
            Plan { text: before.to_owned(), backup: Backup::Remove }
        }
        // There was a file, so there is one again.
        Some(_) if text.is_empty() => Plan { text: "{}\n".to_owned(), backup: Backup::Keep },
        // There was none: a copy would be taken for it by the next installation.
        None if text.is_empty() => Plan { text, backup: Backup::Remove },
        _ => Plan { text, backup: Backup::Keep },
    }))
}

/// Whether the file differs from the copy by what is ours alone: with ours taken out again, both are the same.
fn is_only_ours(before: &str, text: &str) -> bool {
    let again =
        || installed(before, &ours(text)?).map(|again| again.map(|again| uninstalled(&again)));
    match (again(), uninstalled(text)) {
        (Ok(Some(Ok(again))), Ok(now)) => !before.is_empty() && again == now,
        _ => false,
    }
}

/// The hooks of an agent, as its settings have them.
pub fn hooks(kind: Kind, wanted: Wanted) -> Value {
    let codex = kind == Kind::Codex;
    let edits = if codex { "apply_patch|Edit|Write" } else { "Edit|Write|MultiEdit|NotebookEdit" };
    let mcp = if codex { "tenure hook mcp --allow" } else { "tenure hook mcp" };
    let on = |matcher: &str, command: &str| {
        json!({
            "matcher": matcher,
            "hooks": [{ "type": "command", "command": command, "timeout": 10 }],
        })
    };
    let always = |command: &str| json!({ "hooks": [{ "type": "command", "command": command, "timeout": 10 }] });
    let mut before = vec![on(edits, "tenure hook edit")];
    let mut after = before.clone();
    if wanted.gate {
        before.insert(0, on(edits, "tenure hook gate"));
    }
    if !wanted.no_mcp {
        before.push(on("mcp__(.*_)?tenure__.*", mcp));
    }
    if wanted.log {
        after.push(always("tenure hook log"));
    }
    let mut events = Object::new();
    events.insert("PreToolUse", Value::Array(before));
    events.insert("PostToolUse", Value::Array(after));
    let ends: &[&str] = if codex {
        &["SessionStart", "Stop"]
    } else {
        &["SessionStart", "Stop", "SubagentStop", "SessionEnd"]
    };
    for event in ends {
        events.insert(event, Value::Array(vec![always("tenure hook session")]));
    }
    json!({ "hooks": Value::Object(events) })
}

/// The MCP server, as the agent's settings have it.
pub fn server(kind: Kind) -> Value {
    let server = if kind == Kind::Claude {
        json!({ "type": "stdio", "command": "tenure", "args": ["mcp"] })
    } else {
        json!({ "command": "tenure", "args": ["mcp"] })
    };
    json!({ "mcpServers": { "tenure": server } })
}

/// What is ours in the settings, in the form of a patch.
fn ours(text: &str) -> Result<Value> {
    let found = settings::read(text)?;
    let mut events = Object::new();
    if let Value::Object(hooks) = &found["hooks"] {
        for (event, groups) in hooks.iter() {
            let own: Vec<_> = list(groups).iter().filter(|group| is_own(group)).cloned().collect();
            if !own.is_empty() {
                events.insert(event, Value::Array(own));
            }
        }
    }
    let mut all = Object::new();
    if !events.is_empty() {
        all.insert("hooks", Value::Object(events));
    }
    let server = &found["mcpServers"]["tenure"];
    if server["command"] == "tenure" {
        all.insert("mcpServers", json!({ "tenure": server.clone() }));
    }
    Ok(Value::Object(all))
}

/// Whether every hook of a group is ours.
fn is_own(group: &Value) -> bool {
    let hooks = list(&group["hooks"]);
    let command = |hook: &Value| hook["command"].as_str().map(str::to_owned).unwrap_or_default();
    !hooks.is_empty() && hooks.iter().all(|hook| command(hook).starts_with("tenure hook "))
}

/// What `present` has and `wanted` has not.
fn difference(present: &Value, wanted: &Value) -> Value {
    match (present, wanted) {
        (Value::Object(present), Value::Object(wanted)) => {
            let mut left = Object::new();
            for (key, value) in present.iter() {
                let wanted = wanted.get(key).cloned().unwrap_or_default();
                let rest = difference(value, &wanted);
                if rest != json!({}) && rest != json!([]) && *value != wanted {
                    left.insert(key, rest);
                }
            }
            Value::Object(left)
        }
        (Value::Array(present), Value::Array(wanted)) => {
            present.iter().filter(|value| !wanted.contains(value)).cloned().collect()
        }
        (present, _) => present.clone(),
    }
}

fn list(value: &Value) -> &[Value] {
    if let Value::Array(list) = value { list } else { &[] }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOREIGN: &str = "{\n  // Of others.\n  \"hooks\": {\n    \"PreToolUse\": [\n      { \"hooks\": [{ \"command\": \"theirs\" }] }\n    ]\n  }\n}\n";

    #[test]
    fn what_was_installed_can_be_taken_out_to_the_byte() {
        for kind in [Kind::Claude, Kind::Codex] {
            for before in [FOREIGN, "{\n  \"a\": 1\n}\n"] {
                let patch = hooks(kind, Wanted { gate: true, log: true, no_mcp: false });
                let text = installed(before, &patch).unwrap().unwrap();
                assert_eq!(installed(&text, &patch).unwrap(), None);
                assert_eq!(uninstalled(&text).unwrap().unwrap(), before, "{text}");
            }
        }
        for (kind, _) in Kind::ALL {
            let text = installed("", &server(kind)).unwrap().unwrap();
            assert_eq!(uninstalled(&text).unwrap().unwrap(), "");
        }
    }

    /// A file as it is before, between and after, with its copy.
    #[test]
    fn what_nothing_else_changed_gets_its_own_bytes_back() {
        let patch = hooks(Kind::Claude, Wanted::default());
        for before in
            ["{}", "  ", "{\"a\":1}", "{\"hooks\": { /* mine */ \"PreToolUse\": [] }}", FOREIGN]
        {
            let found = |text, backup| Found { text, backup };
            let first = install(found(before, None), &patch).unwrap().unwrap();
            assert_eq!(first.backup, Backup::Take);
            let more = hooks(Kind::Claude, Wanted { log: true, ..Wanted::default() });
            let second = install(found(&first.text, Some(before)), &more).unwrap().unwrap();
            assert_eq!(second.backup, Backup::Keep, "the copy stays that of the first file");
            let ended = uninstall(found(&second.text, Some(before))).unwrap().unwrap();
            assert_eq!(ended, Plan { text: before.to_owned(), backup: Backup::Remove });
            // Another change meanwhile stays.
            let other = changed(&second.text, &json!({ "theirs": 1 }), Change::Merge).unwrap();
            let ended = uninstall(found(&other.unwrap(), Some(before))).unwrap().unwrap();
            assert!(ended.text.contains("theirs") && !ended.text.contains("tenure hook"));
            assert_eq!(ended.backup, Backup::Keep);
        }
    }

    #[test]
    fn other_options_replace_what_was_installed() {
        let with =
            installed(FOREIGN, &hooks(Kind::Claude, Wanted { gate: true, ..Wanted::default() }));
        let with = with.unwrap().unwrap();
        assert!(with.contains("hook gate"));
        let patch = hooks(Kind::Claude, Wanted::default());
        let without = installed(&with, &patch).unwrap().unwrap();
        assert!(!without.contains("hook gate") && without.contains("theirs"), "{without}");
        assert_eq!(installed(&without, &patch).unwrap(), None);
        assert_eq!(uninstalled(&without).unwrap().unwrap(), FOREIGN);
    }

    #[test]
    fn a_group_with_hooks_of_others_is_left_alone() {
        let mixed = r#"{"hooks":{"Stop":[{"hooks":[{"command":"tenure hook session"},{"command":"x"}]}]},
            "mcpServers":{"tenure":{"command":"another"}}}"#;
        assert_eq!(uninstalled(mixed).unwrap(), None);
    }

    /// The plugin in the repository says the same as `init`.
    #[test]
    fn the_plugin_has_the_same_hooks_and_server() {
        let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/tenure");
        let read = |file: &str| {
            let text = std::fs::read(plugin.join(file)).unwrap();
            tenure::json::parse(&text).unwrap()
        };
        assert_eq!(
            read("hooks/hooks.json")["hooks"],
            hooks(Kind::Claude, Wanted::default())["hooks"]
        );
        assert_eq!(read(".mcp.json"), server(Kind::Claude));
        assert_eq!(read(".claude-plugin/plugin.json")["version"], env!("CARGO_PKG_VERSION"));
    }
}
