//! The npm package below the test runners and runtimes that people use: Jest 29 and 30, vitest, Bun and Deno, all from npm.

use std::path::Path;

use super::super::npm::NPM;
use super::super::{Job, Report, files, output_of, run_command};
use super::command;
use super::node::{add, project};
use super::registry::Registry;

const JEST: &str = include_str!("../../../trial/node/jest.test.cjs");
const VITEST: &str = include_str!("../../../trial/node/vitest.test.mjs");

/// A test runner: what it is, and how it is called.
type Runner = (&'static str, &'static [&'static str], (&'static str, &'static str));

const RUNNERS: [Runner; 5] = [
    ("jest@29", &["node_modules/jest/bin/jest.js"], ("jest.test.cjs", JEST)),
    ("jest@30", &["node_modules/jest/bin/jest.js"], ("jest.test.cjs", JEST)),
    ("vitest@3", &["node_modules/vitest/vitest.mjs", "run"], ("vitest.test.mjs", VITEST)),
    ("bun@1", &["node_modules/.bin/bun", "run"], ("", "")),
    ("deno@2", &["node_modules/.bin/deno", "run", "--allow-all"], ("", "")),
];

/// Tries each in a new project. Returns the number of environments.
pub(super) fn run(job: &Job, registry: &Registry, home: &Path, report: &mut Report) -> u64 {
    let mut environments = 0;
    for (package, call, test) in RUNNERS {
        let dir = home.join(package);
        match try_one(job, registry, &dir, package, call, test) {
            Ok(version) => {
                report.note(format!("npm: {package} ({version}): passed"));
                environments += 1;
            }
            Err(problem) => report.failed(format!("{package}: {problem}")),
        }
    }
    environments
}

fn try_one(
    job: &Job,
    registry: &Registry,
    dir: &Path,
    package: &str,
    call: &[&str],
    (name, text): (&str, &str),
) -> Result<String, String> {
    // Ours first: the registry that has it has no other package.
    project(dir, "{\"private\":true}")?;
    add(job, registry, dir)?;
    println!("installing {package} from npm into {}", dir.display());
    let mut npm = command(Path::new(NPM), dir);
    npm.args(["install", "--no-save", "--no-audit", "--no-fund", "--silent", package]);
    run_command(&mut npm)?;
    // npm removes what it did not find in the registry that it asked last.
    if !dir.join("node_modules/@tenure").is_dir() {
        add(job, registry, dir)?;
    }
    let runtime = name.is_empty();
    let (program, words) =
        if runtime { (dir.join(call[0]), &call[1..]) } else { ("node".into(), call) };
    let programs: &[&str] = if runtime { &["use.mjs", "use.cjs"] } else { &[name] };
    if !runtime {
        files::write(&dir.join(name), text)?;
    }
    for file in programs {
        let mut runner = command(&program, dir);
        runner.args(words);
        if call[0].contains("jest") {
            // The one file is the test; those of the other trials are not.
            runner.args(["--testMatch", "**/jest.test.cjs"]);
        } else {
            runner.arg(file);
        }
        output_of(&mut runner)?;
        if runtime {
            let _ = std::fs::remove_file(dir.join("state.json"));
        }
    }
    let name = package.split('@').next().unwrap_or(package);
    let manifest = files::read(&dir.join("node_modules").join(name).join("package.json"))?;
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap_or_default();
    Ok(manifest["version"].as_str().unwrap_or("?").to_owned())
}
