//! The Node package: built by cargo, put where its loader looks, and tested with `node --test`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pipeline::{Options, cargo};
use crate::tally::Tally;
use crate::{root, stream, target_dir};

/// What the loader looks for (bindings/node/lib/native.cjs).
pub(crate) const ADDON: &str = "tenure.linux-x64-gnu.node";
/// What the tests need from npm: the compiler that proves the types.
const PACKAGES: &str = "typescript and @types/node";

/// Builds the package and runs its tests.
pub(crate) fn test(options: &Options, tally: &mut Tally) -> Result<(), String> {
    if let Some(problem) = missing() {
        let message = format!("the Node package is not tested: {problem}");
        if options.allow_missing {
            println!("{message}");
            return Ok(());
        }
        return Err(format!("{message}; install Node 20, or pass --allow-missing"));
    }
    let package = root().join("bindings/node");
    let target = build(tally)?;
    place(&target.join("binding/libtenure_node.so"), &package.join(ADDON))?;
    install(&package, tally)?;
    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter=./test/reporter.mjs"]);
    node.args(tests(&package)?).current_dir(&package);
    node.env("TENURE_COMMAND", target.join("debug/tenure"));
    let before = tally.passed;
    stream::run(&mut node, tally)?;
    if tally.passed == before {
        return Err("no test was run".into());
    }
    Ok(())
}

/// Why the tests cannot run here.
fn missing() -> Option<&'static str> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")) {
        return Some("its tests are made for Linux on x86-64");
    }
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok();
    (!runs("node") || !runs("npm")).then_some("there is no node or no npm")
}

/// The addon, and the command that its errors are compared with. Returns the build directory.
fn build(tally: &mut Tally) -> Result<PathBuf, String> {
    stream::run(&mut cargo(&["build", "--profile", "binding", "--package", "tenure-node"]), tally)?;
    stream::run(&mut cargo(&["build", "--package", "tenure-cli"]), tally)?;
    Ok(target_dir())
}

/// Puts the addon in place in one step: a node that has the old one loaded keeps it.
fn place(from: &Path, to: &Path) -> Result<(), String> {
    let new = to.with_extension("new");
    std::fs::copy(from, &new)
        .and_then(|_| rename(&new, to))
        .map_err(|err| format!("failed to copy `{}`: {err}", from.display()))
}

#[expect(clippy::disallowed_methods, reason = "a build product that is not needed after a crash")]
fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::rename(from, to)
}

/// Installs what is missing, and says so.
fn install(package: &Path, tally: &mut Tally) -> Result<(), String> {
    let there = |name: &str| package.join("node_modules").join(name).is_dir();
    if there("typescript") && there("@types/node") {
        println!("{PACKAGES} are here; nothing to install");
        return Ok(());
    }
    println!("installing {PACKAGES} from npm into bindings/node/node_modules");
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-package-lock", "--no-audit", "--no-fund"]).current_dir(package);
    stream::run(&mut npm, tally)
}

/// The test files, by name: node would take every file in the directory for one.
fn tests(package: &Path) -> Result<Vec<PathBuf>, String> {
    let cannot = |err: std::io::Error| format!("failed to list the tests: {err}");
    let mut files = Vec::new();
    for dir in ["test", "test/compat"] {
        for entry in std::fs::read_dir(package.join(dir)).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            if path.to_string_lossy().ends_with(".test.mjs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}
