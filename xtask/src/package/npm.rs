//! The npm packages: `tenure`, which is JavaScript alone, and one package for each platform with the addon and the command.
//!
//! `tenure` names the platforms' packages as optional dependencies, and npm installs the one whose `os`, `cpu` and `libc`
//! fit. Nothing is compiled or downloaded by a script.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};

use super::contents::{Contents, LICENCES, NOTICES};
use super::platform::PLATFORMS;
use super::{Job, Report, files, is_here, output_of, run_command, wheel};
use crate::pipeline::cargo;
use crate::{root, target_dir};

/// The two packages that are made here.
#[derive(Debug)]
pub(super) struct Npm {
    pub(super) main: PathBuf,
    pub(super) platform: PathBuf,
    /// The newest version of the GNU C library that the addon asks for.
    pub(super) glibc: Option<(u32, u32)>,
}

/// npm is a script with another name on Windows.
pub(super) const NPM: &str = if cfg!(windows) { "npm.cmd" } else { "npm" };

/// Builds the addon and packs both, where npm is installed.
pub(super) fn make(
    job: &Job,
    contents: &Contents,
    report: &mut Report,
) -> Result<Option<Npm>, String> {
    if !is_here("node") || !is_here(NPM) {
        report.not_made("npm packages: there is no node or no npm");
        return Ok(None);
    }
    let stage = target_dir().join("npm");
    files::empty(&stage)?;
    let addon = build(job)?;
    let glibc = files::glibc(&addon)?;
    let main = stage.join("tenure");
    let source = root().join("bindings/node");
    let manifest: Value = serde_json::from_str(&files::read(&source.join("package.json"))?)
        .map_err(|err| format!("bindings/node/package.json: {err}"))?;
    copy_package(&source, &manifest, &main)?;
    for licence in LICENCES {
        files::copy(&root().join(licence), &main.join(licence))?;
    }
    write_json(&main.join("package.json"), &main_manifest(&manifest, &job.version))?;

    let platform = stage.join(job.platform.npm);
    files::copy(&addon, &platform.join(job.platform.addon()))?;
    contents.put_programs(&platform.join("bin"))?;
    contents.put_licences(&platform)?;
    write_json(&platform.join("package.json"), &platform_manifest(job, &manifest))?;
    files::write(&platform.join("README.md"), &readme(job))?;
    Ok(Some(Npm { main: pack(job, &main)?, platform: pack(job, &platform)?, glibc }))
}

/// The addon. That which ships is linked for an old C library.
fn build(job: &Job) -> Result<PathBuf, String> {
    let profile = job.form.binding();
    let arguments = ["--profile", profile, "--package", "tenure-node"];
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let name = format!("{prefix}tenure_node{suffix}");
    if let Some(zig) = wheel::zig(job)? {
        let target = job.platform.target;
        let mut command = cargo(&["zigbuild", "--target"]);
        command.arg(format!("{target}.{}.{}", wheel::GLIBC.0, wheel::GLIBC.1)).args(arguments);
        run_command(zig.reach(&mut command))?;
        return Ok(target_dir().join(target).join(profile).join(name));
    }
    let mut command = cargo(&["build"]);
    command.args(arguments);
    if job.platform.libc == Some("musl") {
        // Node with musl loads libraries; Rust would link everything statically there.
        command.env("RUSTFLAGS", "-C target-feature=-crt-static");
    }
    run_command(&mut command)?;
    Ok(target_dir().join(profile).join(name))
}

/// Copies what `files` of the manifest names, but no addon, and the README.
fn copy_package(source: &Path, manifest: &Value, to: &Path) -> Result<(), String> {
    for pattern in manifest["files"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if let Some(dir) = pattern.strip_suffix('/') {
            files::copy_all(&source.join(dir), &to.join(dir))?;
        } else if let Some(start) = pattern.strip_suffix(".*") {
            for entry in std::fs::read_dir(source).map_err(files::failed("list", source))? {
                let path = entry.map_err(files::failed("list", source))?.path();
                let name = super::contents::name(&path);
                if path.is_file()
                    && name.strip_prefix(start).is_some_and(|end| end.starts_with('.'))
                {
                    files::copy(&path, &to.join(name))?;
                }
            }
        }
    }
    files::copy(&source.join("README.md"), &to.join("README.md"))
}

/// The manifest in the repository, without what only the repository needs, and with the platforms.
fn main_manifest(manifest: &Value, version: &str) -> Value {
    let mut manifest = manifest.clone();
    if let Some(fields) = manifest.as_object_mut() {
        fields.remove("devDependencies");
        fields.remove("scripts");
        fields.remove("files");
        let platforms: Map<String, Value> =
            PLATFORMS.iter().map(|platform| (platform.package(), json!(version))).collect();
        fields.insert("optionalDependencies".into(), platforms.into());
    }
    manifest
}

fn platform_manifest(job: &Job, manifest: &Value) -> Value {
    let platform = job.platform;
    let mut fields = json!({
        "name": platform.package(),
        "version": job.version,
        "description": format!("The addon and the command of tenure for {}", platform.target),
        "license": manifest["license"],
        "repository": manifest["repository"],
        "engines": manifest["engines"],
        "main": platform.addon(),
        "os": [platform.os],
        "cpu": [platform.cpu],
    });
    if let (Some(libc), Some(fields)) = (platform.libc, fields.as_object_mut()) {
        fields.insert("libc".into(), json!([libc]));
    }
    fields
}

fn readme(job: &Job) -> String {
    let platform = job.platform;
    format!(
        "# {}\n\nThe native half of the npm package `tenure` for {}: the addon, and the \
         programs `tenure` and `tenure-lab`.\nThe package `tenure` depends on it; there is no reason to install it \
         by itself.\n\nLicensed under MIT or Apache 2.0, at your option. The licences of what is linked in are in \
         `{NOTICES}`.\n",
        platform.package(),
        platform.target,
    )
}

fn write_json(path: &Path, value: &Value) -> Result<(), String> {
    files::write(path, &format!("{value:#}\n"))
}

/// Packs a directory as npm would publish it.
fn pack(job: &Job, package: &Path) -> Result<PathBuf, String> {
    let mut npm = Command::new(NPM);
    npm.args(["pack", "--silent", "--pack-destination"]).arg(&job.dist).current_dir(package);
    let printed = output_of(&mut npm)?;
    let name = printed.lines().last().ok_or("npm pack printed no name")?;
    Ok(job.dist.join(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{PLATFORMS, main_manifest};

    #[test]
    fn the_package_asks_for_every_platform_and_for_nothing_else() {
        let ours = json!({ "name": "tenure", "devDependencies": {}, "scripts": {}, "files": [] });
        let manifest = main_manifest(&ours, "1.2.3");
        let platforms = manifest["optionalDependencies"].as_object().expect("a list");
        assert_eq!(platforms.len(), PLATFORMS.len());
        assert!(platforms.values().all(|version| version == "1.2.3"));
        assert_eq!(manifest.as_object().expect("fields").len(), 2);
    }
}
