//! The Python package: built by cargo and by maturin, and tested with pytest.
//!
//! Two virtual environments below the build directory: one has what the tests need, the other has
//! nothing but the wheel, as a user's has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pipeline::{Options, cargo};
use crate::tally::Tally;
use crate::{root, stream, target_dir};

/// What the tests need from PyPI.
const PACKAGES: &[&str] = &["pytest", "mypy", "filelock", "maturin", "wheel", "auditwheel"];
/// Interpreters by name, the machine's own choice first.
const INTERPRETERS: &[&str] =
    &["python3", "python3.13", "python3.12", "python3.11", "python3.10", "python3.9"];

/// Builds the package and runs its tests.
pub(crate) fn test(options: &Options, tally: &mut Tally) -> Result<(), String> {
    let Some(python) = interpreter() else {
        let message = "the Python package is not tested: there is no Python 3.9 or later with venv";
        if options.allow_missing {
            println!("{message}");
            return Ok(());
        }
        return Err(format!("{message}; install one, or pass --allow-missing"));
    };
    let package = root().join("bindings/python");
    let target = build(&package, tally)?;
    let home = target.join("python");
    let tools = tools(python, &home.join("tools"), tally)?;
    let clean = install_wheel(&tools, &package, &home, tally)?;
    let mut pytest = Command::new(&tools);
    pytest.args(["-m", "pytest", "-p", "no:cacheprovider", "--durations=10"]);
    pytest.current_dir(&package).env("PYTHONPATH", package.join("python"));
    pytest.env("PYTHONDONTWRITEBYTECODE", "1");
    pytest.env("TENURE_CLI", target.join("debug/tenure")).env("TENURE_CLEAN_PYTHON", clean);
    let before = tally.passed;
    stream::run(&mut pytest, tally)?;
    if tally.passed == before {
        return Err("no test was run".into());
    }
    Ok(())
}

/// The first interpreter that is new enough and can make virtual environments.
fn interpreter() -> Option<&'static str> {
    let check = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 9))";
    let fits = |name: &&&str| {
        let tried = Command::new(name).args(["-c", check]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    INTERPRETERS.iter().find(fits).copied()
}

/// The interpreter of a virtual environment.
pub(crate) fn interpreter_in(dir: &Path) -> PathBuf {
    dir.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" })
}

/// Every interpreter from 3.9 on, by version: those in the path, and those of pyenv.
pub(crate) fn all() -> BTreeMap<String, PathBuf> {
    let mut names: Vec<PathBuf> = INTERPRETERS.iter().map(PathBuf::from).collect();
    let home = std::env::var_os("HOME").unwrap_or_default();
    let pyenv = std::fs::read_dir(Path::new(&home).join(".pyenv/versions"));
    names.extend(pyenv.into_iter().flatten().flatten().map(|dir| dir.path().join("bin/python3")));
    let check = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 9)) if sys.version_info < (3, 9) else \
                 print('%d.%d' % sys.version_info[:2])";
    let mut found = BTreeMap::new();
    for name in names {
        let Ok(output) = Command::new(&name).args(["-c", check]).output() else { continue };
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() && !version.is_empty() {
            found.entry(version).or_insert(name);
        }
    }
    found
}

/// The interpreter of the environment with the tools, if one can be made here.
pub(crate) fn tools_if_any(tally: &mut Tally) -> Result<Option<PathBuf>, String> {
    let home = target_dir().join("python");
    interpreter().map(|python| tools(python, &home.join("tools"), tally)).transpose()
}

/// Installs packages that few need into the environment of `python`, and says so.
pub(crate) fn install(python: &Path, packages: &[&str]) -> Result<(), String> {
    let there = |package: &&&str| {
        let tried = Command::new(python).args(["-m", "pip", "show", "--quiet", package]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    if packages.iter().all(|package| there(&package)) {
        return Ok(());
    }
    println!("installing {} from PyPI into {}", packages.join(", "), python.display());
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    stream::run(&mut pip, &mut Tally::default())
}

/// The module, put where Python looks for it, and the command that its errors are compared with.
/// Returns the build directory.
fn build(package: &Path, tally: &mut Tally) -> Result<PathBuf, String> {
    let packages = ["-p", "tenure-python", "-p", "tenure-cli", "-p", "tenure-engines"];
    stream::run(cargo(&["build"]).args(packages), tally)?;
    let target = target_dir();
    let library =
        format!("{}_tenure{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let (from, to) = (target.join("debug").join(library), package.join("python/tenure"));
    let module = to.join("_tenure.abi3.so");
    // Not over the old one: an interpreter that has it loaded would crash.
    let _ = std::fs::remove_file(&module);
    std::fs::copy(&from, &module)
        .map_err(|err| format!("failed to copy `{}`: {err}", from.display()))?;
    Ok(target)
}

/// The interpreter of the environment with the tools, which are installed if they are missing.
fn tools(python: &str, dir: &Path, tally: &mut Tally) -> Result<PathBuf, String> {
    let tools = interpreter_in(dir);
    let import = format!("import {}", PACKAGES.join(", "));
    let there = Command::new(&tools).args(["-c", &import]).output();
    if there.is_ok_and(|output| output.status.success()) {
        println!("{} are here; nothing to install", PACKAGES.join(", "));
        return Ok(tools);
    }
    println!("installing {} from PyPI into {}", PACKAGES.join(", "), dir.display());
    stream::run(Command::new(python).args(["-m", "venv", "--clear"]).arg(dir), tally)?;
    let mut pip = Command::new(&tools);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES);
    stream::run(&mut pip, tally)?;
    Ok(tools)
}

/// Builds the wheel and installs it alone into a new environment. Returns its interpreter.
fn install_wheel(
    tools: &Path,
    package: &Path,
    home: &Path,
    tally: &mut Tally,
) -> Result<PathBuf, String> {
    let (wheels, clean) = (home.join("wheels"), home.join("clean"));
    let _ = std::fs::remove_dir_all(&wheels);
    let mut maturin = Command::new(tools);
    maturin.args(["-m", "maturin", "build", "--profile", "binding"]);
    maturin
        .args(["--compatibility", "linux"])
        .arg("--interpreter")
        .arg(tools)
        .arg("--out")
        .arg(&wheels);
    // A directory of its own: maturin's flags would have cargo build everything anew each time.
    maturin.arg("--target-dir").arg(home.join("build")).current_dir(package);
    stream::run(&mut maturin, tally)?;
    stream::run(Command::new(tools).args(["-m", "venv", "--clear"]).arg(&clean), tally)?;
    let clean = interpreter_in(&clean);
    let mut pip = Command::new(&clean);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]);
    pip.args(["--find-links".as_ref(), wheels.as_os_str(), "tenure".as_ref()]);
    stream::run(&mut pip, tally)?;
    Ok(clean)
}
