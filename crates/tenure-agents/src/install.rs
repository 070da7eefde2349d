//! `tenure init`: which files of which agent get which hooks, and how they are taken out again.
//!
//! # Invariants
//!
//! 1. What is ours is recognised by its command: `tenure hook ...`, and the MCP server `tenure` whose command is
//!    `tenure`. Nothing else is changed or removed, not even in the same group of hooks.
//! 2. Installing again changes nothing: a hook stays as it is, with what a person has changed in it, as long as its
//!    event has one with the same verb. Hooks that other options no longer want are removed.
//! 3. If nothing else was changed since, the uninstallation gives a file exactly the bytes that it had before, and
//!    removes a file that was not there. Otherwise it takes out what is ours and leaves the rest.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tenure::fs::is_side_dir;
use tenure::json::Object;
use tenure::{Result, Value, json};

use crate::settings::{self, Change, changed, without_hooks};
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

    /// Whether the directory is there and holds more than our sidecars, which an uninstallation leaves.
    pub fn uses(dir: &Path) -> bool {
        let Ok(entries) = std::fs::read_dir(dir) else { return dir.is_dir() };
        let mut names = entries.flatten().map(|entry| entry.file_name()).peekable();
        names.peek().is_none() || names.any(|name| !is_side_dir(&name))
    }
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

/// The directories in which agents and editors keep hooks, servers and permissions.
const AGENT_DIRS: [&str; 4] = [".codex", ".cursor", ".gemini", ".vscode"];

/// Whether a file is one that an agent may take its hooks, servers or permissions from. Other programs keep documents
/// directly in `.claude`.
pub fn is_settings(file: &Path) -> bool {
    // Some file systems ignore the case of letters.
    let file = file.to_string_lossy().to_lowercase();
    let parts: Vec<_> = Path::new(&file).iter().collect();
    let of_claude =
        |pair: &[&OsStr]| pair[0] == ".claude" && pair[1].to_string_lossy().starts_with("settings");
    parts.iter().any(|part| *part == ".mcp.json" || AGENT_DIRS.iter().any(|dir| part == dir))
        || parts.windows(2).any(of_claude)
        || parts.windows(3).any(|three| three[0] == ".claude")
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

/// The settings with our part in it; `None` if it is there already. What was installed before and is not wanted any
/// more is taken out.
pub fn installed(text: &str, patch: &Value) -> Result<Option<String>> {
    let has = |settings: &Value, event: &str, verb: &str| {
        list(&settings["hooks"][event]).iter().flat_map(verbs).any(|known| known == verb)
    };
    let is_stale =
        |event: &str, hook: &Value| verb_of(hook).is_some_and(|verb| !has(patch, event, verb));
    let cleaned = without_hooks(text, is_stale)?;
    let (present, mut missing) = (settings::read(text)?, patch.clone());
    for (key, wanted) in missing.as_object_mut().into_iter().flat_map(Object::iter_mut) {
        let Value::Object(wanted) = wanted else { continue };
        if key == "mcpServers" && !present["mcpServers"]["tenure"].is_null() {
            wanted.remove("tenure");
        }
        for (event, groups) in wanted.iter_mut().filter(|_| key == "hooks") {
            let is_missing = |group: &Value| !verbs(group).any(|verb| has(&present, event, verb));
            groups.as_array_mut().into_iter().for_each(|groups| groups.retain(is_missing));
        }
    }
    let merged = changed(cleaned.as_deref().unwrap_or(text), &missing, Change::Merge)?;
    Ok(merged.or(cleaned))
}

/// The settings without our part; `None` if there is none. Empty if nothing else is left.
pub fn uninstalled(text: &str) -> Result<Option<String>> {
    let without = without_hooks(text, |_, hook| verb_of(hook).is_some())?;
    let rest = without.as_deref().unwrap_or(text);
    let new = changed(rest, &ours(rest)?, Change::Remove)?.or(without);
    Ok(new.map(|new| if new.trim() == "{}" { String::new() } else { new }))
}

/// The installation as a change of a file. The copy is that of the file before the first one, so that one
/// uninstallation takes out what several installations put in.
pub fn install(found: Found<'_>, patch: &Value) -> Result<Option<Plan>> {
    let Some(text) = installed(found.text, patch)? else { return Ok(None) };
    let is_first = ours(found.text)? == json!({});
    Ok(Some(Plan { text, backup: if is_first { Backup::Take } else { Backup::Keep } }))
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
            let own: Vec<_> = list(groups).iter().filter_map(own_part).collect();
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

/// A group of hooks with ours alone; `None` if there is none.
fn own_part(group: &Value) -> Option<Value> {
    let hooks = list(&group["hooks"]).iter().filter(|hook| verb_of(hook).is_some());
    let hooks: Vec<_> = hooks.cloned().collect();
    let mut own = group.clone();
    (!hooks.is_empty()).then(|| {
        own["hooks"] = Value::Array(hooks);
        own
    })
}

/// The verbs of our hooks in a group.
fn verbs(group: &Value) -> impl Iterator<Item = &str> {
    list(&group["hooks"]).iter().filter_map(verb_of)
}

/// `edit` of `tenure hook edit ...`; `None` if the hook is not ours.
fn verb_of(hook: &Value) -> Option<&str> {
    hook["command"].as_str()?.strip_prefix("tenure hook ")?.split_whitespace().next()
}

fn list(value: &Value) -> &[Value] {
    if let Value::Array(list) = value { list } else { &[] }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOREIGN: &str = "{\n  // Of others.\n  \"hooks\": {\n    \"PreToolUse\": [\n      { \"hooks\": [{ \"command\": \"theirs\" }] }\n    ]\n  }\n}\n";

    #[test]
    fn settings_of_agents_are_recognised() {
        for yes in [
            ".claude/settings.json",
            "sub/.claude/settings.local.json",
            ".Claude/Settings.JSON",
            ".codex/config.toml",
            ".codex/hooks.json",
            ".mcp.json",
            "sub/.mcp.json",
            ".cursor/mcp.json",
            ".gemini/settings.json",
            ".cursor/hooks.json",
            ".vscode/mcp.json",
            ".claude/agents/reviewer.md",
        ] {
            assert!(is_settings(Path::new(yes)), "{yes}");
        }
        for no in ["settings.json", ".claude/state.json", "mcp.json", "a.mcp.json", ""] {
            assert!(!is_settings(Path::new(no)), "{no}");
        }
    }

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
    fn of_a_group_with_hooks_of_others_ours_alone_is_removed() {
        let mixed = r#"{"hooks":{"Stop":[{"hooks":[{"command":"tenure hook session"},{"command":"x"}]}]},
            "mcpServers":{"tenure":{"command":"another"}}}"#;
        let left = uninstalled(mixed).unwrap().unwrap();
        assert_eq!(left, mixed.replace(r#"{"command":"tenure hook session"},"#, ""));
        assert_eq!(uninstalled(&left).unwrap(), None);
    }

    #[test]
    fn what_a_person_changed_in_ours_stays_when_it_is_installed_again() {
        let all = |kind| {
            let mut patch = hooks(kind, Wanted { gate: true, ..Wanted::default() });
            patch["mcpServers"] = server(kind)["mcpServers"].clone();
            patch
        };
        let patch = all(Kind::Claude);
        let first = install(Found { text: FOREIGN, backup: None }, &patch).unwrap().unwrap().text;
        let mut text = first;
        for (ours, theirs) in [
            ("\"tenure hook edit\"", "\"tenure hook edit --ttl 30m --strict\""),
            ("\"mcp\"", "\"mcp\", \"--root\", \"sub\""),
            ("\"timeout\": 10", "\"timeout\": 20"),
        ] {
            assert!(text.contains(ours), "{ours} in {text}");
            text = text.replace(ours, theirs);
        }
        let found = Found { text: &text, backup: Some(FOREIGN) };
        assert_eq!(install(found, &patch).unwrap(), None);
        // A hook that is not wanted any more goes, and the rest stays.
        let less = install(found, &hooks(Kind::Claude, Wanted::default())).unwrap().unwrap().text;
        assert!(!less.contains("hook gate") && less.contains("--ttl 30m --strict"), "{less}");
        // One that is missing is added.
        let more = install(Found { text: &less, backup: Some(FOREIGN) }, &patch).unwrap().unwrap();
        assert!(more.text.contains("hook gate") && more.text.contains("--root"), "{}", more.text);
        let found = Found { text: &more.text, backup: Some(FOREIGN) };
        assert_eq!(uninstall(found).unwrap().unwrap().text, FOREIGN);
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
