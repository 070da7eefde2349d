//! `tenure hook gate`: the fact-forcing gate. The first edit of each file in a session is denied with a question,
//! the next one passes.
//!
//! Its rules and its state are those of ECC's GateGuard, whose sessions it continues; a mark is made under the
//! lock, so that no hook process undoes another's. Shell commands are not gated here.
//!
//! # Invariants
//!
//! 1. A file is denied once per session: it is marked before the denial is printed, and if it cannot be marked
//!    the edit passes with a warning. So no agent is denied for ever.
//! 2. A subagent passes: its main agent was asked.

mod state;

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

use tenure::embed::printable;

use self::state::{State, Touch};
use crate::answer::{Answer, Trouble};
use crate::digest;
use crate::pattern;
use crate::payload::{Event, Payload};

/// What ECC calls this hook in its settings.
const HOOK_ID: &str = "pre:edit-write:gateguard-fact-force";
/// After so many full questions in a session, short ones: long ones would fill the context.
const FULL_QUESTIONS: u64 = 3;
/// A longer path is cut in a question.
const PATH_LETTERS_MAX: usize = 500;
/// A longer session key becomes a digest.
const KEY_LETTERS_MAX: usize = 64;

/// How the gate asks.
#[derive(Debug, Clone, Default)]
pub struct GateOptions {
    /// The question, with `{file}` and `{tool}` where they belong; the built-in ones without it.
    pub template: Option<String>,
}

/// Answers one call.
pub fn run(payload: &Payload<'_>, options: &GateOptions) -> Result<Answer, Trouble> {
    // ECC's payloads have no event: its settings decide when a hook is called.
    let is_before = payload.event() == Event::PreToolUse || payload.event_name().is_none();
    if !is_before || is_off() || payload.is_of_subagent() {
        return Ok(Answer::Pass);
    }
    let files = payload.edited_files();
    let asked = files.iter().filter(|file| !is_settings(file) && !is_exempt(file, payload));
    let mut state = None;
    for file in asked {
        let state = state.get_or_insert_with(|| State::open(&directory(), &session_key(payload)));
        if let Touch::First { denials } = state.touch(file)? {
            return Ok(Answer::Deny(question(payload, file, denials, options)));
        }
    }
    Ok(Answer::Pass)
}

/// What the agent reads.
fn question(payload: &Payload<'_>, file: &str, denials: u64, options: &GateOptions) -> String {
    let shown: String = printable(file).chars().take(PATH_LETTERS_MAX).collect();
    let tool = payload.tool().unwrap_or_default();
    if let Some(template) = &options.template {
        return template.replace("{tool}", &printable(&tool)).replace("{file}", &shown);
    }
    let full = env("GATEGUARD_FACT_FORCE_FULL_DENIALS").and_then(|text| text.trim().parse().ok());
    let again = format!(
        "Other edits of {shown} that were sent together with this one may have been applied; read the file \
         again before you build on them."
    );
    if denials > full.unwrap_or(FULL_QUESTIONS) {
        return format!(
            "[Fact-Forcing Gate] (question {denials} of this session) First edit of {shown}: name its importers \
             or callers, the API that changes, the data it reads or writes, and quote the user's instruction; \
             then retry. {again}"
        );
    }
    let facts = if tool.eq_ignore_ascii_case("write") {
        format!(
            "Before creating {shown}, present these facts:\n\n\
             1. The files and lines that will call this new file\n\
             2. That no existing file serves the same purpose (search the tree)\n"
        )
    } else {
        format!(
            "Before editing {shown}, present these facts:\n\n\
             1. All files that import/require this file (search the tree)\n\
             2. The public functions and types that the change affects\n"
        )
    };
    format!(
        "[Fact-Forcing Gate]\n\n{facts}\
         3. If it reads or writes data files: their fields, structure and date format, with synthetic values\n\
         4. The user's current instruction, verbatim\n\n\
         {again}\n\nPresent the facts, then retry the same operation.\n\n\
         To edit a tree without these questions set GATEGUARD_EXEMPT_GLOBS; ECC_GATEGUARD=off ends them, and so does \
         {HOOK_ID} in ECC_DISABLED_HOOKS."
    )
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Whether the environment switches the gate off.
fn is_off() -> bool {
    let is = |name, values: &[&str]| {
        env(name).is_some_and(|value| values.contains(&value.trim().to_ascii_lowercase().as_str()))
    };
    let is_listed =
        |value: String| value.split(',').any(|id| id.trim().eq_ignore_ascii_case(HOOK_ID));
    is("GATEGUARD_DISABLED", &["1"])
        || is("ECC_GATEGUARD", &["0", "false", "off", "disabled", "disable"])
        || is("ECC_HOOK_PROFILE", &["minimal"])
        || env("ECC_DISABLED_HOOKS").is_some_and(is_listed)
}

fn directory() -> PathBuf {
    env("GATEGUARD_STATE_DIR").map_or_else(
        || {
            let home = env("HOME").or_else(|| env("USERPROFILE"));
            Path::new(&home.unwrap_or_else(|| "/tmp".to_owned())).join(".gateguard")
        },
        PathBuf::from,
    )
}

/// The key of the session, as ECC makes it.
fn session_key(payload: &Payload<'_>) -> String {
    let from_env =
        ["CLAUDE_SESSION_ID", "ECC_SESSION_ID"].into_iter().filter_map(env).map(Cow::Owned);
    if let Some(id) = payload.session_names().chain(from_env).next() {
        return sanitized(id.trim());
    }
    let transcript =
        payload.transcript().filter(|path| !path.trim().is_empty()).map(Cow::into_owned);
    if let Some(path) = transcript.or_else(|| env("CLAUDE_TRANSCRIPT_PATH")) {
        return format!("tx-{}", digest::short(&absolute(path.trim())));
    }
    let project = env("CLAUDE_PROJECT_DIR").unwrap_or_else(|| ".".to_owned());
    format!("proj-{}", digest::short(&absolute(&project)))
}

fn sanitized(id: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' };
    let key: String = id.chars().map(plain).collect();
    if key.len() > KEY_LETTERS_MAX { format!("sid-{}", digest::short(id)) } else { key }
}

/// Settings of the agent are never gated: an agent must be able to repair them.
fn is_settings(file: &str) -> bool {
    let file = file.replace('\\', "/").to_lowercase();
    let mut parts = file.rsplit('/');
    let (name, dir) = (parts.next().unwrap_or_default(), parts.next());
    let middle = name.strip_prefix("settings").and_then(|rest| rest.strip_suffix(".json"));
    dir == Some(".claude")
        && middle.is_some_and(|rest| rest.is_empty() || (rest.starts_with('.') && rest.len() > 1))
}

/// Whether a pattern of `GATEGUARD_EXEMPT_GLOBS` covers the file.
fn is_exempt(file: &str, payload: &Payload<'_>) -> bool {
    let Some(globs) = env("GATEGUARD_EXEMPT_GLOBS") else { return false };
    let root = payload.project();
    let lower = |path: &Path| path.to_string_lossy().replace('\\', "/").to_lowercase();
    let target = clean(&root.join(file));
    let below = target.strip_prefix(clean(&root)).ok().map(lower);
    globs.split(',').map(|glob| glob.trim().replace('\\', "/").to_lowercase()).any(|glob| {
        let name = if glob.starts_with('/') { Some(lower(&target)) } else { below.clone() };
        !glob.is_empty() && name.is_some_and(|name| pattern::overlap((&glob, true), (&name, false)))
    })
}

/// The path without `.` and `..`, by its letters alone.
fn clean(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut clean, part| {
        match part {
            Component::ParentDir => drop(clean.pop()),
            Component::CurDir => {}
            part => clean.push(part),
        }
        clean
    })
}

fn absolute(path: &str) -> String {
    let dir = std::env::current_dir().unwrap_or_default();
    clean(&dir.join(path)).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_ecc() {
        let key = |json: &str| session_key(&Payload::parse(json.as_bytes()).unwrap());
        assert_eq!(key(r#"{"session_id":" a b/../c "}"#), "a_b____c");
        assert_eq!(key(r#"{"session_id":"","sessionId":"two"}"#), "two");
        assert_eq!(key(r#"{"session":{"id":42}}"#), "42");
        let long = "x".repeat(65);
        assert_eq!(sanitized(&long), format!("sid-{}", digest::short(&long)));
    }

    #[test]
    fn settings_of_the_agent_pass() {
        for yes in [
            ".claude/settings.json",
            "C:\\x\\.CLAUDE\\settings.local.json",
            "/a/.claude/settings.json",
        ] {
            assert!(is_settings(yes), "{yes}");
        }
        for no in [
            "settings.json",
            ".claude/settings.json.bak",
            ".claude/x/settings.json",
            ".claude/settingsx.json",
            ".claude/settings..json/x",
        ] {
            assert!(!is_settings(no), "{no}");
        }
    }

    #[test]
    fn a_path_is_cleaned_by_its_letters() {
        assert_eq!(clean(Path::new("/a/./b/../c")), Path::new("/a/c"));
        assert_eq!(clean(Path::new("/../a")), Path::new("/a"));
    }
}
