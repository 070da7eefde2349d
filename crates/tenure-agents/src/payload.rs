//! What an agent sends to a hook on standard input, and which files a tool is about to edit.
//!
//! # Invariants
//!
//! 1. Only what is needed is read. Fields that are unknown, or have another type than expected, are no
//!    error; they count as absent. Payloads reach megabytes, and their form changes with each version.
//! 2. Nothing of the input is copied but the few texts that are used.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::agent::Agent;

/// A hook's input, with each field unread.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Payload<'a> {
    #[serde(borrow)]
    hook_event_name: Option<&'a RawValue>,
    #[serde(borrow)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow)]
    agent_id: Option<&'a RawValue>,
    #[serde(borrow)]
    cwd: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_name: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_input: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_use_id: Option<&'a RawValue>,
    #[serde(borrow)]
    reason: Option<&'a RawValue>,
    #[serde(borrow)]
    source: Option<&'a RawValue>,
    // What only the gate asks for.
    #[serde(borrow, rename = "sessionId")]
    session_id_camel: Option<&'a RawValue>,
    #[serde(borrow)]
    session: Option<&'a RawValue>,
    #[serde(borrow)]
    transcript_path: Option<&'a RawValue>,
    #[serde(borrow, rename = "transcriptPath")]
    transcript_path_camel: Option<&'a RawValue>,
    #[serde(borrow, rename = "agentId")]
    agent_id_camel: Option<&'a RawValue>,
    #[serde(borrow)]
    parent_tool_use_id: Option<&'a RawValue>,
    #[serde(borrow, rename = "parentToolUseId")]
    parent_tool_use_id_camel: Option<&'a RawValue>,
}

/// The moment that a hook is called at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Before a tool is used.
    PreToolUse,
    /// After it was used.
    PostToolUse,
    /// A session begins, or goes on.
    SessionStart,
    /// The main agent has ended its turn.
    Stop,
    /// A subagent has ended.
    SubagentStop,
    /// A session ends.
    SessionEnd,
    /// Another one, perhaps of a newer version.
    Other,
}

/// Tools whose input names the files that they edit, in lower case.
const EDITING_TOOLS: [&str; 6] =
    ["edit", "write", "multiedit", "notebookedit", "apply_patch", "applypatch"];

/// What is read of a tool's input.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Input<'a> {
    #[serde(borrow)]
    file_path: Option<&'a RawValue>,
    #[serde(borrow)]
    notebook_path: Option<&'a RawValue>,
    #[serde(borrow)]
    edits: Option<&'a RawValue>,
    #[serde(borrow)]
    command: Option<&'a RawValue>,
    #[serde(borrow, rename = "input")]
    patch: Option<&'a RawValue>,
}

impl<'a> Payload<'a> {
    /// The payload in `bytes`; an error says why it is none.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        // A list would be read as the fields in their order.
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return Err("the input is not a hook payload: it is not a JSON object".to_owned());
        }
        serde_json::from_slice(bytes)
            .map_err(|err| format!("the input is not a hook payload: {err}"))
    }

    /// When the hook was called.
    pub fn event(&self) -> Event {
        match text(self.hook_event_name).as_deref() {
            Some("PreToolUse") => Event::PreToolUse,
            Some("PostToolUse") => Event::PostToolUse,
            Some("SessionStart") => Event::SessionStart,
            Some("Stop") => Event::Stop,
            Some("SubagentStop") => Event::SubagentStop,
            Some("SessionEnd") => Event::SessionEnd,
            _ => Event::Other,
        }
    }

    /// The event as it was sent.
    pub fn event_name(&self) -> Option<Cow<'a, str>> {
        text(self.hook_event_name)
    }

    /// The agent that the hook was called for; `None` without a session id.
    pub fn agent(&self) -> Option<Agent> {
        Agent::new(&text(self.session_id)?, text(self.agent_id).as_deref())
    }

    /// The directory that the agent works in.
    pub fn cwd(&self) -> Option<Cow<'a, str>> {
        text(self.cwd)
    }

    /// The tool.
    pub fn tool(&self) -> Option<Cow<'a, str>> {
        text(self.tool_name)
    }

    /// Names this use of the tool.
    pub fn tool_use(&self) -> Option<Cow<'a, str>> {
        text(self.tool_use_id)
    }

    /// Why a session starts or ends.
    pub fn reason(&self) -> Option<Cow<'a, str>> {
        text(self.reason).or_else(|| text(self.source))
    }

    /// The tool's input, unread.
    pub fn input(&self) -> Option<&'a RawValue> {
        self.tool_input
    }

    /// The command of a shell tool.
    pub fn command(&self) -> Option<Cow<'a, str>> {
        text(self.parts().command)
    }

    /// Whether a tool that edits is about to be used, and its input does not say on what.
    pub fn names_no_file(&self) -> bool {
        let tool = self.tool().unwrap_or_default().to_ascii_lowercase();
        EDITING_TOOLS.contains(&tool.as_str()) && self.edited_files().is_empty()
    }

    /// The files that the tool edits, as they are spelled in its input. None for a tool that only reads,
    /// for a shell, and for tools that are not known.
    pub fn edited_files(&self) -> Vec<String> {
        let tool = self.tool().unwrap_or_default().to_ascii_lowercase();
        let input = self.parts();
        let (mut files, mut known) = (Vec::new(), HashSet::new());
        let mut add = |file: Option<Cow<'_, str>>| {
            if let Some(file) = file.filter(|file| !file.is_empty())
                && known.insert(file.to_string())
            {
                files.push(file.into_owned());
            }
        };
        match tool.as_str() {
            "edit" | "write" => add(text(input.file_path)),
            "multiedit" => {
                add(text(input.file_path));
                let edits = input.edits.map(RawValue::get).unwrap_or_default();
                let edits: Vec<Input<'_>> = serde_json::from_str(edits).unwrap_or_default();
                for edit in &edits {
                    add(text(edit.file_path));
                }
            }
            "notebookedit" => add(text(input.notebook_path).or_else(|| text(input.file_path))),
            "apply_patch" | "applypatch" => {
                let patch = text(input.command).or_else(|| text(input.patch)).unwrap_or_default();
                for file in files_in_patch(&patch) {
                    add(Some(file.into()));
                }
            }
            _ => {}
        }
        files
    }

    /// The ids that may name the session, in the order in which the gate tries them.
    pub(crate) fn session_names(&self) -> impl Iterator<Item = Cow<'a, str>> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Session<'a> {
            #[serde(borrow)]
            id: Option<&'a RawValue>,
        }
        let session = self.session.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let session: Session<'a> = session.unwrap_or_default();
        [self.session_id, self.session_id_camel, session.id].into_iter().filter_map(text_or_number)
    }

    /// The transcript of the session.
    pub(crate) fn transcript(&self) -> Option<Cow<'a, str>> {
        text(self.transcript_path).or_else(|| text(self.transcript_path_camel))
    }

    /// Whether a subagent calls, by any of the fields that say so.
    pub(crate) fn is_of_subagent(&self) -> bool {
        [self.agent_id, self.agent_id_camel, self.parent_tool_use_id, self.parent_tool_use_id_camel]
            .into_iter()
            .any(|id| text(id).is_some_and(|id| !id.trim().is_empty()))
    }

    fn parts(&self) -> Input<'a> {
        self.tool_input.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }

    /// The directory that relative paths of this payload start from.
    pub(crate) fn base(&self) -> PathBuf {
        let cwd = self.cwd().filter(|cwd| Path::new(cwd.as_ref()).is_absolute());
        let cwd = cwd.map(|cwd| cwd.into_owned().into()).or_else(project_dir);
        cwd.unwrap_or_else(|| std::env::current_dir().unwrap_or_default())
    }

    /// The directory of the project. The working directory is one only if the agent names no other: it changes with
    /// every `cd`, and agents in different directories would not see each other.
    pub(crate) fn project(&self) -> PathBuf {
        project_dir().unwrap_or_else(|| self.base())
    }
}

/// Set by agents to the directory that they were started for.
fn project_dir() -> Option<PathBuf> {
    std::env::var_os("CLAUDE_PROJECT_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

/// The files that a patch in Codex's form adds, changes, deletes or moves.
fn files_in_patch(patch: &str) -> impl Iterator<Item = &str> {
    const HEADS: [&str; 4] =
        ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
    let file_of =
        |line: &'_ str| HEADS.iter().find_map(|head| line.strip_prefix(head).map(str::len));
    patch.lines().filter_map(move |line| {
        let line = line.trim();
        file_of(line).map(|length| line[line.len() - length..].trim())
    })
}

/// A field that is a string.
fn text<'a>(raw: Option<&'a RawValue>) -> Option<Cow<'a, str>> {
    let raw = raw?.get();
    // Most strings have no escapes and are not copied.
    if let Ok(plain) = serde_json::from_str::<&'a str>(raw) {
        return Some(Cow::Borrowed(plain));
    }
    serde_json::from_str::<String>(raw).ok().map(Cow::Owned)
}

/// A field that is a string that says something, or a number other than zero.
fn text_or_number(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    let named = text(raw).filter(|text| !text.trim().is_empty());
    named.or_else(|| {
        let number: f64 = serde_json::from_str(raw?.get()).ok()?;
        (number != 0.0).then(|| Cow::Borrowed(raw.map(RawValue::get).unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(json: &str) -> Vec<String> {
        Payload::parse(json.as_bytes()).unwrap().edited_files()
    }

    #[test]
    fn tools_that_edit_name_their_files() {
        for (tool, input, expected) in [
            ("Edit", r#"{"file_path":"/r/a.rs","old_string":"x"}"#, vec!["/r/a.rs"]),
            (
                "Write",
                r#"{"file_path":"/r/\u00e4\n.rs","content":"\ud800"}"#,
                vec!["/r/\u{e4}\n.rs"],
            ),
            ("NotebookEdit", r#"{"notebook_path":"/r/n.ipynb"}"#, vec!["/r/n.ipynb"]),
            (
                "MultiEdit",
                r#"{"file_path":"a","edits":[{"file_path":"b"},{},{"file_path":"a"}]}"#,
                vec!["a", "b"],
            ),
            ("Read", r#"{"file_path":"/r/a.rs"}"#, vec![]),
            ("Bash", r#"{"command":"*** Add File: x"}"#, vec![]),
            ("Future", r#"{"file_path":"/r/a.rs"}"#, vec![]),
            ("Edit", "{}", vec![]),
            ("Edit", "[]", vec![]),
            ("Edit", r#"{"file_path":7}"#, vec![]),
        ] {
            let json = format!(r#"{{"tool_name":"{tool}","tool_input":{input}}}"#);
            assert_eq!(files(&json), expected, "{json}");
        }
    }

    #[test]
    fn a_patch_names_every_file_that_it_touches() {
        let patch = "*** Begin Patch\\n*** Update File: src/a.rs\\n*** Move to: src/b.rs\\n@@\\n-x\\n+*** y\\n\
                     *** Add File: new file.txt\\n+hi\\n*** Delete File: old\\n*** End Patch";
        let json = format!(r#"{{"tool_name":"apply_patch","tool_input":{{"command":"{patch}"}}}}"#);
        assert_eq!(files(&json), ["src/a.rs", "src/b.rs", "new file.txt", "old"]);
    }

    #[test]
    fn unknown_and_odd_fields_are_no_error() {
        let json =
            r#"{"session_id":7,"agent_id":null,"cwd":{},"hook_event_name":"Later","x":[[[1]]]}"#;
        let payload = Payload::parse(json.as_bytes()).unwrap();
        assert_eq!((payload.event(), payload.agent(), payload.cwd()), (Event::Other, None, None));
        for wrong in ["", "{", "[1]", "null", "7", "{\"a\":1}x"] {
            assert!(Payload::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
