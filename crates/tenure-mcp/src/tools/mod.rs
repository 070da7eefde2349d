//! The tools, as one table. Each has a name that says what an agent wants, a schema, and a function.
//!
//! # Invariants
//!
//! 1. A tool that fails answers with `isError` and a text that says what to do next: the model reads it. Only a call
//!    that is malformed (no such tool, no object of arguments) is an error of the protocol.
//! 2. An unknown argument is refused by name: a misspelt `if_version` must not become an unconditional write.

mod documents;
mod journals;
mod reservations;
mod tasks;

use std::path::{Path, PathBuf};

use tenure::json::Object;
use tenure::status::Holder;
use tenure::{Cancel, Error, ErrorKind, Result as Outcome, Value, json};
use tenure_agents::agent::Agent;
use tenure_agents::place::Place;
use tenure_agents::reservations::What;

use crate::arguments::{Arguments, wrong};
use crate::protocol::Fault;
use crate::root::Root;

/// What every client learns first.
pub(crate) const INSTRUCTIONS: &str = "Share files with other agents of this project. Before you edit files, reserve \
them with reserve_files, and release them when you are done; a file that another agent has reserved is off limits until \
then. Take work with claim_task, and report it with finish_task: no other agent gets the same task. Use the document \
tools for shared JSON (no update is lost) and the journal tools for shared logs. All paths are \
relative to the project's root.";

/// The argument that names the calling agent. The hook of `tenure hook mcp` sets it.
const AGENT: (&str, &str, bool, &str) =
    ("agent", "string", false, "Set by tenure's hook; leave it out");
/// What an agent learns if its call has no name. Why it has none is not known here.
const NO_NAME: &str =
    "this call carried no agent name; all calls of this server without one count as one agent";

/// What a tool works with.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) root: Root,
    /// Where paths of files begin.
    directory: PathBuf,
    /// Where reservations are kept; they are of a directory, not of a store.
    place: Outcome<Place>,
    /// The name of `directory` in the place: it may be below the root of the repository.
    prefix: String,
    /// All agents that do not say which one they are.
    unknown: Agent,
}

impl Context {
    pub(crate) fn new(root: Root, directory: &Path) -> Outcome<Self> {
        let server = Holder::this_process("", "");
        let session = format!("mcp-{}-{}", server.pid, server.start);
        let unnamed = || Error::new(ErrorKind::Io, "serve", "the server has no name");
        let unknown = Agent::new(&session, None).ok_or_else(unnamed)?;
        let place = Place::of_directory(directory);
        let found = place.as_ref().ok().and_then(|place| place.directory(directory).ok()?);
        let prefix = found.unwrap_or_default();
        Ok(Self { directory: directory.to_path_buf(), place, prefix, root, unknown })
    }

    /// A reserved name as a caller writes it: relative to the directory, or absolute if it is not below it.
    fn shown(&self, what: &What) -> String {
        match (what.text().strip_prefix(&self.prefix), &self.place) {
            (None, Ok(place)) => place.root().join(what.text()).to_string_lossy().into_owned(),
            (name, _) => name.unwrap_or(what.text()).to_owned(),
        }
    }

    /// The repository whose files are reserved.
    fn place(&self) -> Outcome<&Place> {
        self.place.as_ref().map_err(|err| {
            Error::new(ErrorKind::Unsupported, "reserve", err.to_string())
                .hint("start `tenure mcp` in the project's directory")
        })
    }
}

/// One call of a tool.
#[derive(Debug, Clone, Copy)]
struct Call<'a> {
    context: &'a Context,
    arguments: Arguments<'a>,
    cancel: &'a Cancel,
}

impl Call<'_> {
    /// Who calls, and what it should know about that.
    fn agent(&self) -> Outcome<(Agent, Option<&'static str>)> {
        match self.arguments.optional_text(AGENT.0)? {
            None => Ok((self.context.unknown.clone(), Some(NO_NAME))),
            Some(name) => {
                let agent = Agent::from_name(name);
                Ok((agent.ok_or_else(|| wrong(AGENT.0, "must not be blank"))?, None))
            }
        }
    }
}

/// A tool.
#[derive(Debug)]
struct Tool {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    /// Whether it changes nothing.
    reads: bool,
    /// The arguments: name, JSON type or `strings` or `any`, whether it is required, and what it means.
    arguments: &'static [(&'static str, &'static str, bool, &'static str)],
    run: fn(Call<'_>) -> Outcome<Value>,
}

/// Every tool, in the order in which they are listed.
fn all() -> impl Iterator<Item = &'static Tool> {
    let files = reservations::TOOLS.iter().chain(tasks::TOOLS);
    files.chain(documents::TOOLS).chain(journals::TOOLS)
}

/// The answer to `tools/list`.
pub(crate) fn list() -> Value {
    json!({ "tools": all().map(Tool::declaration).collect::<Value>() })
}

impl Tool {
    fn declaration(&self) -> Value {
        let schema_of = |kind: &str, description: &str| {
            let mut schema = match kind {
                "strings" => json!({ "type": "array", "items": { "type": "string" } }),
                "array" => json!({ "type": "array", "items": {} }),
                "any" => json!({}),
                kind => json!({ "type": kind }),
            };
            schema["description"] = description.into();
            schema
        };
        let properties: Object = self
            .arguments
            .iter()
            .map(|(name, kind, _, description)| (*name, schema_of(kind, description)))
            .collect();
        let required = self.arguments.iter().filter(|argument| argument.2);
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": Value::Object(properties),
                "required": required.map(|argument| argument.0).collect::<Value>(),
                "additionalProperties": false,
            },
            "annotations": { "readOnlyHint": self.reads, "openWorldHint": false },
        })
    }

    fn check(&self, arguments: &Object) -> Outcome<()> {
        // The hook names the agent to every tool.
        let known = |name: &str| {
            name == AGENT.0 || self.arguments.iter().any(|argument| argument.0 == name)
        };
        match arguments.keys().find(|name| !known(name)) {
            None => Ok(()),
            Some(name) => {
                let known: Vec<_> = self.arguments.iter().map(|argument| argument.0).collect();
                let why = format!("is unknown; {} takes {}", self.name, known.join(", "));
                Err(wrong(name, &why))
            }
        }
    }
}

/// The answer to `tools/call`.
pub(crate) fn call(context: &Context, params: &Value, cancel: &Cancel) -> Result<Value, Fault> {
    let name = params["name"].as_str().ok_or_else(|| Fault::params("`name` is missing"))?;
    let tool = all().find(|tool| tool.name == name);
    let tool = tool.ok_or_else(|| Fault::params(format!("there is no tool `{name}`")))?;
    let empty = json!({});
    let arguments = params.get("arguments").unwrap_or(&empty);
    let Some(fields) = arguments.as_object() else {
        return Err(Fault::params("`arguments` must be an object"));
    };
    let call = Call { context, arguments: Arguments(arguments), cancel };
    Ok(match tool.check(fields).and_then(|()| (tool.run)(call)) {
        Ok(result) => json!({
            "content": [{ "type": "text", "text": result.to_string() }],
            "structuredContent": result,
        }),
        Err(error) => json!({
            "content": [{ "type": "text", "text": advice(&error) }],
            "structuredContent": { "code": error.kind().code(), "message": error.to_string() },
            "isError": true,
        }),
    })
}

/// What a call has claimed, for [`give_back`].
pub(crate) fn claimed(params: &Value, outcome: &Result<Value, Fault>) -> Option<Value> {
    let result = outcome.as_ref().ok().filter(|_| params["name"] == "claim_task")?;
    Some(result["structuredContent"].clone())
}

/// Gives back what a call has claimed whose answer its caller does not get.
pub(crate) fn give_back(context: &Context, params: &Value, claimed: &Value) {
    let cancel = Cancel::new();
    let call = Call { context, arguments: Arguments(&params["arguments"]), cancel: &cancel };
    tasks::give_back(call, claimed);
}

/// The error and what an agent can do about it.
fn advice(error: &Error) -> String {
    let next = match error.kind() {
        ErrorKind::Busy => "Work on something else and try again later, or wait with wait_seconds.",
        ErrorKind::Conflict => {
            "Read it again, apply your change to what you find, and write with the new version."
        }
        ErrorKind::Fenced | ErrorKind::LeaseLost => {
            "Stop writing: another holder has it now. Reserve or claim it again if you still need it."
        }
        ErrorKind::Damaged => "Nothing was changed. Ask a person to look at the file.",
        _ => return error.to_string(),
    };
    format!("{error}. Next: {next}")
}
