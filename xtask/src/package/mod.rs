//! `cargo xtask package`: everything that people install, made in `dist/`, and each part tried in an empty environment.
//!
//! # Invariants
//!
//! 1. What is tried is the file in `dist/`, installed as people install it. Nothing is taken from the build directory.
//! 2. An environment is made anew for each run, below `target/trial`. The tools that make it stay there.
//! 3. The quick form differs from the one that ships in two points: no link-time optimisation, and the C library of this
//!    machine instead of an old one.
//! 4. A format that this machine cannot make is named, with the reason, before the table.

mod archive;
mod contents;
mod crates;
mod deb;
mod files;
mod notices;
mod npm;
mod platform;
mod trial;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pipeline::Options;
use crate::tally::Tally;
use crate::{dist, python, root, stream, target_dir};

use self::contents::Contents;
use self::platform::Platform;

/// How much is made and tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As the test command does it: built without link-time optimisation, one environment for each format.
    Quick,
    /// As it ships, one environment for each format.
    Ships,
    /// As it ships, in every environment that can be had here.
    Matrix,
}

impl Form {
    /// The profile of the addon and the module: a panic unwinds there.
    fn binding(self) -> &'static str {
        if self == Self::Quick { "binding" } else { "release" }
    }

    /// The profile of the command.
    fn command(self) -> &'static str {
        if self == Self::Quick { "binding" } else { "dist" }
    }
}

/// What the makers and the trials need to know.
#[derive(Debug)]
struct Job {
    form: Form,
    platform: &'static Platform,
    version: String,
    /// Where the packages go: `dist/`.
    dist: PathBuf,
    /// Where the environments are made.
    trial: PathBuf,
    /// An interpreter with maturin and the tools for wheels.
    python: Option<PathBuf>,
}

/// What is said in the end: a line for each package, and what was measured.
#[derive(Debug, Default)]
struct Report {
    lines: Vec<String>,
    not_made: Vec<String>,
    /// Environments of the matrix that failed: the others are tried all the same.
    failed: Vec<String>,
}

impl Report {
    fn note(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    fn failed(&mut self, line: impl Into<String>) {
        self.failed.push(line.into());
    }

    fn not_made(&mut self, line: impl Into<String>) {
        self.not_made.push(line.into());
    }
}

/// The step of the test command.
pub(crate) fn test(options: &Options, tally: &mut Tally) -> Result<(), String> {
    match run(Form::Quick) {
        // Each environment that was made and used is a test.
        Ok(environments) => {
            tally.passed += environments;
            Ok(())
        }
        Err(problem) if options.allow_missing && Platform::here().is_err() => {
            println!("the packages are not tried: {problem}");
            Ok(())
        }
        Err(problem) => Err(problem),
    }
}

/// Makes and tries the packages. Returns the number of environments.
pub(crate) fn run(form: Form) -> Result<u64, String> {
    let dist = root().join("dist");
    let trial = target_dir().join("trial");
    files::empty(&dist)?;
    let mut tally = Tally::default();
    let python = python::tools_if_any(&mut tally)?;
    let version = version()?;
    let job = Job { form, platform: Platform::here()?, version, dist, trial, python };
    let mut report = Report::default();
    let programs = dist::build_as(form.command())?;
    let contents = Contents::make(&job, &programs)?;
    let archive = archive::make(&job, &contents)?;
    let deb = deb::make(&job, &contents, &mut report)?;
    let npm = npm::make(&job, &contents, &mut report)?;
    let wheel = wheel::make(&job, &contents, &mut report)?;
    let crates = crates::make(&job)?;
    let mut environments = 0;
    environments += trial::archive::run(&job, &archive, &mut report)?;
    if let Some(deb) = &deb {
        environments += trial::debian::run(&job, deb, &mut report)?;
    }
    if let Some(npm) = &npm {
        environments += trial::node::run(&job, npm, &mut report)?;
    }
    if let Some(wheel) = &wheel {
        environments += trial::python::run(&job, wheel, &mut report)?;
    }
    environments += trial::crates::run(&job, &crates, &mut report)?;
    tell(&job, &report)?;
    if report.failed.is_empty() { Ok(environments) } else { Err(report.failed.join("\n")) }
}

/// The files in `dist/` with their sizes, and what was measured.
fn tell(job: &Job, report: &Report) -> Result<(), String> {
    println!("\npackages of tenure {} for {}, in dist/:", job.version, job.platform.target);
    for path in files::list(&job.dist)? {
        let size = std::fs::metadata(&path).map_err(files::failed("read", &path))?.len();
        let name = path.strip_prefix(&job.dist).unwrap_or(&path);
        println!("  {:>9}  {}", kilobytes(size), name.display());
    }
    for line in &report.lines {
        println!("  {line}");
    }
    for line in &report.not_made {
        println!("not made here: {line}");
    }
    Ok(())
}

fn kilobytes(size: u64) -> String {
    format!("{} KB", size.div_ceil(1000))
}

/// The version of the workspace, which this program has too.
fn version() -> Result<String, String> {
    let version = env!("CARGO_PKG_VERSION");
    let manifest = files::read(&root().join("Cargo.toml"))?;
    if manifest.contains(&format!("version = \"{version}\"")) {
        return Ok(version.to_owned());
    }
    Err(format!("Cargo.toml has another version than {version}: build xtask again"))
}

/// Runs `command` and passes on what it prints.
fn run_command(command: &mut Command) -> Result<(), String> {
    stream::run(command, &mut Tally::default())
}

/// Runs `command` and returns what it printed; its errors are part of the problem.
fn output_of(command: &mut Command) -> Result<String, String> {
    let program = Path::new(command.get_program()).display().to_string();
    let output = command.output().map_err(|err| format!("failed to run `{program}`: {err}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(printed);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{program}` failed: {}\n{printed}{errors}", output.status))
}

/// Whether a program is in the path.
fn is_here(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}
