//! The MCP server beside the official clients of its protocol: TypeScript in both generations, Python, and the
//! command line of the inspector.

use std::process::Command;

use crate::pipeline::{Options, cargo};
use crate::tally::Tally;
use crate::{node, python, root, stream, target_dir};

/// What the tests need from npm.
const MODULES: &[&str] = &[
    "@modelcontextprotocol/client",
    "@modelcontextprotocol/inspector",
    "@modelcontextprotocol/sdk",
];
/// What they need from PyPI, besides pytest.
const PACKAGES: &[&str] = &["mcp"];

/// Builds the command and runs the clients against it.
pub(crate) fn test(options: &Options, tally: &mut Tally) -> Result<(), String> {
    stream::run(&mut cargo(&["build", "--package", "tenure-cli"]), tally)?;
    let clients = root().join("crates/tenure-mcp/clients");
    if node::is_here() {
        node::run_tests(&clients, MODULES, &["."], tally)?;
    } else {
        missing(options, "the TypeScript clients are not run: there is no node or no npm")?;
    }
    let Some(python) = python::tools_if_any(tally)? else {
        return missing(options, "the Python client is not run: there is no Python with venv");
    };
    python::install(&python, PACKAGES)?;
    let mut pytest = Command::new(python);
    pytest.args(["-m", "pytest", "-p", "no:cacheprovider"]).current_dir(&clients);
    pytest.env("PYTHONDONTWRITEBYTECODE", "1");
    pytest.env("TENURE_COMMAND", target_dir().join("debug/tenure"));
    let before = tally.passed;
    stream::run(&mut pytest, tally)?;
    if tally.passed == before {
        return Err("no test was run".into());
    }
    Ok(())
}

fn missing(options: &Options, message: &str) -> Result<(), String> {
    if options.allow_missing {
        println!("{message}");
        return Ok(());
    }
    Err(format!("{message}; install it, or pass --allow-missing"))
}
