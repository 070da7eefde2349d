//! The programs that `cargo xtask bench` has built and installed for the rows that start some.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::row::{NotHere, Result};

/// The directory that they are in.
const KIT: &str = "TENURE_BENCH_KIT";

/// The path of a part; a contender that needs it is not run without it.
pub(crate) fn part(name: &str) -> Result<PathBuf> {
    let kit = std::env::var_os(KIT).map(PathBuf::from);
    let Some(kit) = kit else {
        return Err(NotHere("`cargo xtask bench` builds what it starts".into()).into());
    };
    let path = kit.join(name);
    if path.exists() { Ok(path) } else { Err(NotHere(format!("there is no {name}")).into()) }
}

/// Node, with the packages that are there.
pub(crate) fn node() -> Result<Command> {
    let packages = part("node/node_modules")?;
    let mut command = program("node")?;
    command.env("NODE_PATH", packages);
    Ok(command)
}

/// Python, with the packages that are there.
pub(crate) fn python() -> Result<Command> {
    let packages = part("python")?;
    let mut command = program("python3")?;
    command.env("PYTHONPATH", packages);
    Ok(command)
}

/// A program of this machine, found once: the search is not measured.
pub(crate) fn program(name: &str) -> Result<Command> {
    let path: OsString = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file());
    let found = found.ok_or_else(|| NotHere(format!("there is no {name}")))?;
    // A version manager puts a script in the path that looks for the real program.
    let found = real(name, found);
    Ok(quiet(Command::new(found)))
}

/// The interpreter behind a script that only starts it.
fn real(name: &str, found: PathBuf) -> PathBuf {
    let asked = match name {
        "python3" => {
            Command::new(&found).args(["-c", "import sys; print(sys.executable)"]).output()
        }
        "node" => Command::new(&found).args(["-p", "process.execPath"]).output(),
        _ => return found,
    };
    let told = asked.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    told.map(|path| PathBuf::from(path.trim())).filter(|path| path.is_file()).unwrap_or(found)
}

/// A program whose output is discarded.
pub(crate) fn quiet(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Runs it to its end, which must be successful.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}

/// A file that a contender needs.
#[expect(clippy::disallowed_methods, reason = "a scratch file that is not needed after a crash")]
pub(crate) fn file(path: &Path, text: &str) -> Result<()> {
    Ok(std::fs::write(path, text)?)
}
