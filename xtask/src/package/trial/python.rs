//! The wheel and the source package, installed by pip into new virtual environments.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::wheel::Wheel;
use super::super::{Form, Job, Report, files, output_of, run_command};
use super::{command, expect, time_import, use_command};
use crate::python::{self, interpreter_in};

const USE: &str = include_str!("../../../trial/python/use.py");
const IMPORT: &str = include_str!("../../../trial/python/import.py");

/// Installs and uses them. Returns the number of environments.
pub(in super::super) fn run(job: &Job, wheel: &Wheel, report: &mut Report) -> Result<u64, String> {
    let Some(tools) = &job.python else { return Ok(0) };
    let home = job.trial.join("python");
    files::empty(&home)?;
    files::write(&home.join("use.py"), USE)?;
    files::write(&home.join("import.py"), IMPORT)?;
    let (names, files) = contents(tools, &wheel.source)?;
    expect("the source package", &names, "LICENSE-MIT")?;
    expect("the source package", &names, "Cargo.lock")?;
    report.note(format!("sdist: {files} files, with licences and Cargo.lock"));
    let mut environments = 1;
    let clean = install(tools, &home.join("clean"), &wheel.wheel)?;
    try_module(&clean, &home, "wheel")?;
    let scripts = clean.parent().unwrap_or(Path::new("/"));
    let program = scripts.join(format!("tenure{}", std::env::consts::EXE_SUFFIX));
    use_command(&program, &home.join("work"), &job.version)?;
    let import = || output_of(command(&clean, &home).arg("import.py"));
    report.note(time_import(
        "wheel: pip install into a new environment, used; import tenure",
        import,
    )?);
    if job.form == Form::Quick {
        return Ok(environments);
    }
    let built = install(tools, &home.join("from-source"), &wheel.source)?;
    try_module(&built, &home, "source")?;
    report.note("sdist: pip install compiled it; used (it has no command)");
    environments += 1;
    if job.form == Form::Matrix {
        environments += matrix(job, tools, wheel, &home, report)?;
    }
    Ok(environments)
}

/// Every Python that is there, and the tools that run a command from a package.
fn matrix(
    job: &Job,
    tools: &Path,
    wheel: &Wheel,
    home: &Path,
    report: &mut Report,
) -> Result<u64, String> {
    let mut environments = 0;
    for (version, python) in python::all() {
        let clean = install(&python, &home.join(&version), &wheel.wheel)?;
        try_module(&clean, home, "wheel")?;
        let import = || output_of(command(&clean, home).arg("import.py"));
        report.note(time_import(&format!("wheel: Python {version}: import tenure"), import)?);
        environments += 1;
    }
    python::install(tools, &["uv", "pipx"])?;
    let file = wheel.wheel.display().to_string();
    let uvx = [
        "-m",
        "uv",
        "tool",
        "run",
        "--no-cache",
        "--offline",
        "--from",
        &file,
        "tenure",
        "--version",
    ];
    let pipx = ["-m", "pipx", "run", "--no-cache", "--spec", &file, "tenure", "--version"];
    for (name, words) in [("uvx", &uvx[..]), ("pipx run", &pipx[..])] {
        let mut tool = command(tools, home);
        tool.args(words).env("PIPX_HOME", home.join("pipx")).env("UV_PYTHON", tools);
        expect(name, &output_of(&mut tool)?, &format!("tenure {}", job.version))?;
        report.note(format!("wheel: {name} --from the wheel: tenure --version"));
        environments += 1;
    }
    Ok(environments)
}

/// A new environment with one package. Returns its interpreter.
fn install(python: &Path, dir: &Path, package: &Path) -> Result<PathBuf, String> {
    run_command(Command::new(python).args(["-m", "venv", "--clear"]).arg(dir))?;
    let clean = interpreter_in(dir);
    let mut pip = command(&clean, dir);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]);
    run_command(pip.arg("--no-deps").arg(package))?;
    Ok(clean)
}

fn try_module(python: &Path, home: &Path, kind: &str) -> Result<(), String> {
    let mut program = command(python, home);
    expect("use.py", &output_of(program.arg("use.py").arg(home).arg(kind))?, "ok")
}

/// The names in the source package, and their number.
fn contents(python: &Path, source: &Path) -> Result<(String, usize), String> {
    let names = output_of(Command::new(python).args(["-m", "tarfile", "-l"]).arg(source))?;
    let count = names.lines().count();
    Ok((names, count))
}
