//! Trials: each package is installed into an empty environment, and used there.
//!
//! # Invariants
//!
//! 1. Nothing of this repository is reachable from an environment but the package: directories are new, caches of package
//!    managers are new, and variables that would lead elsewhere are removed.

pub(super) mod archive;
pub(super) mod crates;
pub(super) mod debian;
pub(super) mod node;
pub(super) mod python;
mod registry;
mod runtimes;

use std::path::Path;
use std::process::Command;

use super::{files, output_of};

/// How often an import is timed.
const IMPORTS: usize = 15;

/// Uses the command at `program` as a person would, in an empty directory.
fn use_command(program: &Path, dir: &Path, version: &str) -> Result<(), String> {
    files::empty(dir)?;
    let run = |words: &[&str]| output_of(command(program, dir).args(words));
    expect("--version", &run(&["--version"])?, &format!("tenure {version}"))?;
    run(&["doc", "update", "state.json", ".n += 1", "--init", "{\"n\":0}"])?;
    expect("doc get", &run(&["doc", "get", "state.json", ".n"])?, "1")?;
    run(&["journal", "append", "log.jsonl", "{\"event\":\"start\"}"])?;
    let mut held = command(program, dir);
    held.args(["run", "build.lock", "--"]).arg(program).arg("--version");
    expect("run", &output_of(&mut held)?, "tenure")?;
    // The laboratory is another program, which must lie beside this one.
    let told = run(&["bench", "--help"])?;
    let lab = program.with_file_name(format!("tenure-lab{}", std::env::consts::EXE_SUFFIX));
    expect("tenure-lab", &output_of(command(&lab, dir).arg("--version"))?, "tenure")?;
    expect("bench --help", &told, "Usage: tenure bench")
}

/// A program in `dir`, without what a run of cargo leaves in the environment.
fn command(program: &Path, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        let leads_elsewhere =
            ["TENURE_", "PYTHON", "NODE_", "VIRTUAL_ENV", "CARGO_TARGET", "RUSTFLAGS"];
        if leads_elsewhere.iter().any(|start| name.starts_with(start)) {
            command.env_remove(&*name);
        }
    }
    command
}

/// Fails unless `words` is part of what was printed.
fn expect(what: &str, printed: &str, words: &str) -> Result<(), String> {
    if printed.contains(words) {
        return Ok(());
    }
    Err(format!("{what}: expected `{words}`, got:\n{printed}"))
}

/// Times an import, which a program prints in milliseconds: the first after the installation, and the fastest.
fn time_import(
    what: &str,
    mut import: impl FnMut() -> Result<String, String>,
) -> Result<String, String> {
    let mut times = Vec::new();
    for _ in 0..IMPORTS {
        let printed = import()?;
        let time: f64 =
            printed.trim().parse().map_err(|err| format!("{what}: {err}: {printed}"))?;
        times.push(time);
    }
    let first = times.first().copied().unwrap_or_default();
    let fastest = times.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(format!("{what}: {first:.1} ms after the installation, at best {fastest:.1} ms"))
}
