//! What the benchmark starts: the command as it is built and as it ships, programs that do nothing, the
//! bindings, and the packages that people would use instead of them.
//!
//! # Invariants
//!
//! 1. Everything is in one directory below the build directory; what is installed there is
//!    announced first.
//! 2. What is not available is named, and the benchmark names it again in its table.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dist::{self, Linking};
use crate::pipeline::cargo;
use crate::prove::failed;
use crate::tally::Tally;
use crate::{root, stream, target_dir};

/// The rows that start programs.
const ROWS: &[&str] = &["P1", "P2", "P11"];
/// What Node programs lock and save with.
const NPM: &[&str] = &["proper-lockfile@4.1.2", "write-file-atomic@7.0.0"];
/// What Python programs lock with.
const PYPI: &[&str] = &["filelock==3.20.0", "portalocker==3.2.0"];

/// Whether one of these rows, or of all if there are none, needs the kit.
pub(super) fn is_needed(words: &[&str]) -> bool {
    let is_row = |word: &str| word.len() > 1 && word.starts_with(['P', 'p']);
    let mut rows = words.iter().filter(|word| is_row(word)).peekable();
    rows.peek().is_none()
        || rows.any(|row| ROWS.iter().any(|known| row.eq_ignore_ascii_case(known)))
}

/// Makes it in `kit`.
pub(super) fn make(kit: &Path) -> Result<(), String> {
    std::fs::create_dir_all(kit).map_err(failed("make", kit))?;
    commands(kit)?;
    for (name, outcome) in [("Node", node(kit)), ("Python", python(kit))] {
        if let Err(problem) = outcome {
            println!("not run: what is written in {name}: {problem}");
        }
    }
    Ok(())
}

/// `tenure` and `nothing`, each linked dynamically and statically.
fn commands(kit: &Path) -> Result<(), String> {
    stream::run(
        &mut cargo(&["build", "--release", "--package", "tenure-cli"]),
        &mut Tally::default(),
    )?;
    copy(&target_dir().join("release/tenure"), &kit.join("tenure"))?;
    let [shipped, _] = dist::build()?;
    copy(&shipped, &kit.join("tenure-static"))?;
    let Linking { target, flags } = dist::linking()?;
    let as_shipped = ["--target", &target].into_iter().chain(flags.split_whitespace()).collect();
    for (name, linking) in [("nothing", Vec::new()), ("nothing-static", as_shipped)] {
        let mut rustc = Command::new("rustc");
        rustc.args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "strip=symbols"]);
        rustc.args(linking).arg("-o").arg(kit.join(name));
        stream::run(rustc.arg(root().join("bench/src/nothing.rs")), &mut Tally::default())?;
    }
    Ok(())
}

/// The package as it ships, and its peers, in `node/node_modules`.
fn node(kit: &Path) -> Result<(), String> {
    let home = kit.join("node");
    std::fs::create_dir_all(&home).map_err(failed("make", &home))?;
    println!("installing {} from npm into {}", NPM.join(", "), home.display());
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-package-lock", "--no-audit", "--no-fund", "--no-save"]);
    stream::run(npm.args(NPM).current_dir(&home), &mut Tally::default())?;
    let build = ["build", "--profile", "binding", "--package", "tenure-node"];
    stream::run(&mut cargo(&build), &mut Tally::default())?;
    let (from, to) = (root().join("bindings/node"), home.join("node_modules/tenure"));
    copy_dir(&from.join("lib"), &to.join("lib"))?;
    for name in ["index.cjs", "package.json"] {
        copy(&from.join(name), &to.join(name))?;
    }
    let addon = crate::node::ADDON;
    copy(&target_dir().join("binding/libtenure_node.so"), &to.join(addon))
}

/// The package as it ships, and its peers, in `python`.
fn python(kit: &Path) -> Result<(), String> {
    let home = kit.join("python");
    println!("installing {} from PyPI into {}", PYPI.join(", "), home.display());
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--upgrade", "--target"]).arg(&home).args(PYPI);
    stream::run(&mut pip, &mut Tally::default())?;
    let build = ["build", "--profile", "binding", "--package", "tenure-python"];
    stream::run(&mut cargo(&build), &mut Tally::default())?;
    let to = home.join("tenure");
    copy_dir(&root().join("bindings/python/python/tenure"), &to)?;
    copy(&target_dir().join("binding/lib_tenure.so"), &to.join("_tenure.abi3.so"))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    // Not over the old one, which may be running.
    let _ = std::fs::remove_file(to);
    std::fs::copy(from, to).map(|_| ()).map_err(failed("copy", from))
}

/// The files of a directory, and of those below it.
fn copy_dir(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::create_dir_all(to).map_err(failed("make", to))?;
    for entry in std::fs::read_dir(from).map_err(failed("list", from))? {
        let entry: PathBuf = entry.map_err(failed("list", from))?.path();
        let Some(name) = entry.file_name() else { continue };
        if entry.is_dir() {
            copy_dir(&entry, &to.join(name))?;
        } else {
            copy(&entry, &to.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_needed;

    #[test]
    fn only_rows_that_start_programs_need_it() {
        for words in [&[][..], &["--full"], &["P3", "p11"], &["--on", "/mnt", "P2"]] {
            assert!(is_needed(words), "{words:?}");
        }
        assert!(!is_needed(&["P3", "P10", "--quick"]));
    }
}
