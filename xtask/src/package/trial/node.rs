//! The npm packages, installed by npm from a registry into new projects: ES modules, CommonJS and TypeScript.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::contents::NOTICES;
use super::super::npm::{NPM, Npm};
use super::super::{Form, Job, Report, files, output_of, wheel};
use super::registry::{self, Registry};
use super::{command, expect, runtimes, time_import};

/// The programs of the trials.
const PROGRAMS: [(&str, &str); 5] = [
    ("use.mjs", include_str!("../../../trial/node/use.mjs")),
    ("use.cjs", include_str!("../../../trial/node/use.cjs")),
    ("usage.ts", include_str!("../../../trial/node/usage.ts")),
    ("command.mjs", include_str!("../../../trial/node/command.mjs")),
    ("import.cjs", include_str!("../../../trial/node/import.cjs")),
];

/// Installs and uses them. Returns the number of environments.
pub(in super::super) fn run(job: &Job, npm: &Npm, report: &mut Report) -> Result<u64, String> {
    let home = job.trial.join("node");
    files::empty(&home)?;
    let tools = registry::tools(job)?;
    let registry = Registry::start(&tools, &home.join("registry"))?;
    if let Some((major, minor)) = npm.glibc {
        report.note(format!("npm: the addon asks for glibc {major}.{minor}"));
        if job.form != Form::Quick && (major, minor) > wheel::GLIBC {
            return Err(format!("the addon asks for glibc {major}.{minor}"));
        }
    }
    // From the two files, while no registry has any of our packages: as today.
    let common = project(&home.join("cjs"), "{\"private\":true}")?;
    output_of(registry.npm(&common).arg("install").arg(&npm.main).arg(&npm.platform))?;
    inspect(job, &common)?;
    expect("use.cjs", &node(&common, "use.cjs")?, "ok")?;
    compile(&tools, &common, &["--module", "commonjs", "--moduleResolution", "node"])?;
    compile(&tools, &common, &["--module", "node16", "--moduleResolution", "node16"])?;
    let mut npx = command(Path::new(NPM), &common);
    let printed = output_of(npx.args(["exec", "--offline", "--", "tenure", "--version"]))?;
    expect("npx tenure", &printed, &format!("tenure {}", job.version))?;
    report.note("npm: installed from the files; CommonJS, TypeScript (node, node16), npx tenure");

    registry.publish(&npm.platform)?;
    registry.publish(&npm.main)?;
    let modules = project(&home.join("esm"), "{\"private\":true,\"type\":\"module\"}")?;
    add(job, &registry, &modules)?;
    expect("use.mjs", &node(&modules, "use.mjs")?, "ok")?;
    expect("command.mjs", &node(&modules, "command.mjs")?, "ok")?;
    compile(&tools, &modules, &["--module", "node16", "--moduleResolution", "node16"])?;
    report.note("npm: installed from a registry; ES module, TypeScript (node16), the command");
    let import = || node(&common, "import.cjs");
    report.note(time_import("npm: require('tenure').Document", import)?);
    without_platform(&modules)?;
    let mut environments = 2;
    if job.form == Form::Matrix {
        environments += runtimes::run(job, &registry, &home, report);
    }
    Ok(environments)
}

/// A new project, with the programs that use the package.
pub(super) fn project(dir: &Path, manifest: &str) -> Result<PathBuf, String> {
    files::empty(dir)?;
    files::write(&dir.join("package.json"), manifest)?;
    for (name, text) in PROGRAMS {
        files::write(&dir.join(name), text)?;
    }
    Ok(dir.to_owned())
}

/// Installs the package from the registry into a project.
pub(super) fn add(job: &Job, registry: &Registry, dir: &Path) -> Result<(), String> {
    let mut npm = registry.npm(dir);
    output_of(npm.arg("install").arg(format!("tenure@{}", job.version)))?;
    inspect(job, dir)
}

/// The message where npm installs no optional packages.
fn without_platform(dir: &Path) -> Result<(), String> {
    let chosen = dir.join("node_modules/@tenure");
    std::fs::remove_dir_all(&chosen).map_err(files::failed("remove", &chosen))?;
    for program in
        [&["-e", "require('tenure').lockSync"][..], &["node_modules/tenure/bin/tenure.cjs"]]
    {
        match output_of(command(Path::new("node"), dir).args(program)) {
            Ok(_) => return Err("it works without the package for the platform".into()),
            Err(told) => {
                expect("without its platform", &told, "npm install tenure --include=optional")?;
            }
        }
    }
    Ok(())
}

/// Looks at what npm installed.
fn inspect(job: &Job, dir: &Path) -> Result<(), String> {
    let chosen = dir.join("node_modules/@tenure");
    let names = std::fs::read_dir(&chosen).map_err(files::failed("list", &chosen))?;
    let names: Vec<_> = names.flatten().map(|entry| entry.file_name()).collect();
    if names != [job.platform.npm] {
        return Err(format!("npm installed the packages {names:?} for {}", job.platform.target));
    }
    for package in [dir.join("node_modules/tenure"), chosen.join(job.platform.npm)] {
        let manifest: Value = serde_json::from_str(&files::read(&package.join("package.json"))?)
            .map_err(|err| format!("{}: {err}", package.display()))?;
        if !manifest["scripts"].is_null() || manifest["repository"].is_null() {
            return Err(format!("{}: has scripts, or no repository", package.display()));
        }
        for name in ["LICENSE-MIT", "LICENSE-APACHE", "README.md"] {
            files::read(&package.join(name))?;
        }
    }
    files::read(&chosen.join(job.platform.npm).join(NOTICES)).map(drop)
}

fn node(dir: &Path, program: &str) -> Result<String, String> {
    output_of(command(Path::new("node"), dir).arg(program))
}

/// Compiles a program that uses the types.
fn compile(tools: &Path, dir: &Path, resolution: &[&str]) -> Result<(), String> {
    let modules = tools.join("node_modules");
    let mut compiler = command(Path::new("node"), dir);
    compiler
        .arg(modules.join("typescript/bin/tsc"))
        .args(["--noEmit", "--strict", "--target", "es2022"]);
    compiler.args(["--lib", "es2023,esnext.disposable", "--types", "node", "--typeRoots"]);
    compiler.arg(modules.join("@types")).args(resolution).arg("usage.ts");
    output_of(&mut compiler).map(drop).map_err(|err| format!("{}: {err}", resolution.join(" ")))
}
