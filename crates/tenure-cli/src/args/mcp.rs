//! `tenure mcp` as agents start it.

use std::path::PathBuf;

use clap::Args;

/// Reads requests from standard input and answers on standard output until the input ends. An agent starts
/// it; both generations of the protocol are served (2026-07-28, and 2025-11-25 back to 2024-11-05).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tenure mcp < requests.jsonl      one JSON-RPC message a line, one answer a line
  tenure mcp --root state          paths outside it are refused

In .mcp.json at the root of a project (`tenure init` adds this, and the hooks that tell agents apart):
  {\"mcpServers\": {\"tenure\": {\"type\": \"stdio\", \"command\": \"tenure\", \"args\": [\"mcp\"]}}}
or in a shell: claude mcp add --scope project tenure -- tenure mcp")]
pub(crate) struct McpArgs {
    /// The root directory; paths outside it are refused [default: CLAUDE_PROJECT_DIR, or the root of the project around this directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}
