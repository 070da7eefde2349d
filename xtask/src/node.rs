//! The Node package: built by cargo, put where its loader looks, and tested with `node --test`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pipeline::{Options, cargo};
use crate::tally::Tally;
use crate::{root, stream, target_dir};

/// What the loader looks for (bindings/node/lib/native.cjs).
pub(crate) const ADDON: &str = "tenure.linux-x64-gnu.node";
/// What the tests need from npm: the compiler that proves the types.
const MODULES: &[&str] = &["typescript", "@types/node"];
/// Where the tests are.
const TESTS: &[&str] = &["test", "test/compat"];

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
    run_tests(&package, MODULES, TESTS, tally)
}

/// Runs the tests in these directories of a package with these modules from npm, and the built command.
pub(crate) fn run_tests(
    package: &Path,
    modules: &[&str],
    dirs: &[&str],
    tally: &mut Tally,
) -> Result<(), String> {
    install(package, modules, tally)?;
    let reporter = root().join("bindings/node/test/reporter.mjs");
    let mut node = Command::new("node");
    node.arg("--test").arg(format!("--test-reporter={}", reporter.display()));
    node.args(tests(package, dirs)?).current_dir(package);
    node.env("TENURE_COMMAND", target_dir().join("debug/tenure"));
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
    (!is_here()).then_some("there is no node or no npm")
}

/// Whether there is a Node with its package manager.
pub(crate) fn is_here() -> bool {
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok();
    runs("node") && runs("npm")
}

/// The addon, and the command that its errors are compared with. Returns the build directory.
fn build(tally: &mut Tally) -> Result<PathBuf, String> {
    stream::run(&mut cargo(&["build", "--profile", "binding", "--package", "tenure-node"]), tally)?;
    // With the program that starts servers for the tests of stores.
    let beside = ["build", "--package", "tenure-cli", "--package", "tenure-engines"];
    stream::run(&mut cargo(&beside), tally)?;
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

/// Installs what is missing, and says so. Scripts of other packages are not run.
fn install(package: &Path, modules: &[&str], tally: &mut Tally) -> Result<(), String> {
    let names = modules.join(", ");
    if modules.iter().all(|name| package.join("node_modules").join(name).is_dir()) {
        println!("{names} are here; nothing to install");
        return Ok(());
    }
    let here = package.strip_prefix(root()).unwrap_or(package);
    println!("installing {names} from npm into {}/node_modules", here.display());
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]);
    stream::run(npm.current_dir(package), tally)
}

/// The test files, by name: node would take every file in the directory for one.
fn tests(package: &Path, dirs: &[&str]) -> Result<Vec<PathBuf>, String> {
    let cannot = |err: std::io::Error| format!("failed to list the tests: {err}");
    let mut files = Vec::new();
    for dir in dirs {
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
