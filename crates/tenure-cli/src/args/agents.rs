//! `tenure hook`, `tenure init` and `tenure settings`: what plugs tenure into coding agents.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::flags::WaitFlag;
use super::values;

pub(super) const HOOK_EXAMPLES: &str = "\
Examples:
  tenure init                                  adds the hooks to the settings of your agent
  tenure hook edit < payload.json              what the agent then runs before and after each edit
  tenure hook who                              which agent has which file

A hook that does not object prints nothing and exits with 0. An error is only a warning and never stops the
agent. With --strict the hook exits with 2 instead, which blocks the tool.";

pub(super) const SETTINGS_EXAMPLES: &str = "\
Examples:
  tenure settings merge .claude/settings.json '{\"env\":{\"CI\":\"1\"}}'";

#[derive(Debug, Subcommand)]
pub(crate) enum HookCommand {
    /// Reserve the files that a tool edits; deny those that another agent has
    Edit(HookEditArgs),
    /// Deny the first edit of each file in a session with a question
    Gate(HookGateArgs),
    /// End reservations when the turn, the subagent or the session ends
    Session(HookSessionArgs),
    /// Append each call to a journal
    Log(HookLogArgs),
    /// Add the name of the calling agent to calls of tenure's MCP server
    Mcp(HookMcpArgs),
    /// Show which agent has which file
    Who(HookWhoArgs),
}

/// What to do in trouble.
#[derive(Debug, Args)]
pub(crate) struct StrictFlag {
    /// Block the agent if the payload is not understood or the state cannot be kept
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Reads a payload of PreToolUse or PostToolUse. The agent's own edit is not fenced, and shell commands that
/// write are not seen.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure hook edit < payload.json
  tenure hook edit --ttl 30m --strict < payload.json")]
pub(crate) struct HookEditArgs {
    /// How long a file stays reserved if its agent makes no further edit
    #[arg(long, value_name = "D", default_value = "10m", value_parser = values::ttl)]
    pub(crate) ttl: Duration,
    #[command(flatten)]
    pub(crate) strict: StrictFlag,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure hook gate < payload.json
  tenure hook gate --template question.txt < payload.json")]
pub(crate) struct HookGateArgs {
    /// A file with the question; {file} and {tool} in it are replaced
    #[arg(long, value_name = "FILE")]
    pub(crate) template: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) strict: StrictFlag,
}

/// What ends the reservation of an edited file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UntilArg {
    /// The end of the agent's turn
    Turn,
    /// The end of its session
    Session,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure hook session < payload.json
  tenure hook session --until session < payload.json")]
pub(crate) struct HookSessionArgs {
    /// What ends the reservation of an edited file, apart from the --ttl of `hook edit`
    #[arg(long, value_enum, default_value = "turn")]
    pub(crate) until: UntilArg,
    #[command(flatten)]
    pub(crate) strict: StrictFlag,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure hook log < payload.json
  tenure hook log --file agents.jsonl < payload.json")]
pub(crate) struct HookLogArgs {
    /// The journal [default: tenure/log.jsonl in the directory that all worktrees share]
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) strict: StrictFlag,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure hook mcp < payload.json")]
pub(crate) struct HookMcpArgs {
    /// The name of the server in the settings
    #[arg(long, value_name = "NAME", default_value = "tenure")]
    pub(crate) server: String,
    /// Allow the tool without asking the user; Codex accepts the agent's name only with this
    #[arg(long)]
    pub(crate) allow: bool,
    #[command(flatten)]
    pub(crate) strict: StrictFlag,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure hook who
  tenure hook who 'src/**/*.rs' --json")]
pub(crate) struct HookWhoArgs {
    /// Only what overlaps this file or pattern, relative to the root of the repository
    pub(crate) name: Option<String>,
}

/// An agent whose settings are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentArg {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// Cursor: the MCP server alone
    Cursor,
    /// Gemini CLI: the MCP server alone
    Gemini,
}

/// Whose settings are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeArg {
    /// The project's, shared by all its users
    Project,
    /// The project's, for this user alone
    Local,
    /// The user's, for all projects
    User,
}

/// Merges the hooks and the MCP server into the settings of an agent. Other keys, comments and layout stay, and
/// the previous file is kept beside the new one. A second run changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure init --dry-run                show what would be changed
  tenure init --agent claude --gate
  tenure init --uninstall")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct InitArgs {
    /// The agent; may be repeated [default: those whose directory exists, else claude]
    #[arg(long = "agent", value_enum)]
    pub(crate) agents: Vec<AgentArg>,
    /// Whose settings are changed
    #[arg(long, value_enum, default_value = "project")]
    pub(crate) scope: ScopeArg,
    /// Also install the gate
    #[arg(long)]
    pub(crate) gate: bool,
    /// Also install the journal of tool calls
    #[arg(long)]
    pub(crate) log: bool,
    /// Leave the MCP server out
    #[arg(long)]
    pub(crate) no_mcp: bool,
    /// Only show what would be changed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Remove what was installed
    #[arg(long)]
    pub(crate) uninstall: bool,
    #[command(flatten)]
    pub(crate) wait: WaitFlag,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SettingsCommand {
    /// Merge JSON into a settings file, keeping comments, layout and all other keys
    Merge(SettingsMergeArgs),
}

/// Objects are merged, lists get the elements that they lack, other values are replaced, and null removes a key.
/// The file may have comments and trailing commas; the previous file is kept beside the new one.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure settings merge .vscode/settings.json '{\"files.exclude\":{\"target\":true}}'
  tenure settings merge .vscode/settings.json '{\"files.exclude\":{\"target\":true}}' --remove")]
pub(crate) struct SettingsMergeArgs {
    /// The settings
    pub(crate) file: PathBuf,
    /// What to merge: a JSON object, or - for standard input
    #[arg(value_name = "JSON")]
    pub(crate) patch: String,
    /// Remove what a merge of the same JSON adds
    #[arg(long)]
    pub(crate) remove: bool,
    /// Only show what would be changed
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) wait: WaitFlag,
}
