//! What a release needs: one version everywhere, a changelog for it, and the one command.

use serde_json::Value;

use super::documents::prose;
use super::tree::{files, text};
use super::{assert_none, assert_one, numbered};

/// The version in the root manifest.
fn workspace_version() -> Result<&'static str, String> {
    let manifest = text("Cargo.toml")?;
    toml_string(manifest, "[workspace.package]", "version")
        .ok_or_else(|| "Cargo.toml: no version in [workspace.package]".into())
}

/// The string value of `key` in a `[section]` of a TOML file.
fn toml_string<'a>(toml: &'a str, section: &str, key: &str) -> Option<&'a str> {
    let lines = toml.lines().skip_while(|line| line.trim() != section).skip(1);
    let mut pairs = lines.take_while(|line| !line.starts_with('[')).filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        Some((name.trim(), value.trim().strip_prefix('"')?))
    });
    let (_, value) = pairs.find(|(name, _)| *name == key)?;
    value.split('"').next()
}

fn changelog(log: &str, version: &str) -> Vec<String> {
    let is_ours = |line: &str| {
        let heading =
            line.strip_prefix("## ").and_then(|heading| heading.split_whitespace().next());
        heading.is_some_and(|word| word.trim_matches(['[', ']', 'v', ':', ',']) == version)
    };
    let count = prose(log).into_iter().filter(|(_, line)| is_ours(line)).count();
    let problem = format!("CHANGELOG.md: {count} headings `## {version}` instead of one");
    (count != 1).then_some(problem).into_iter().collect()
}

/// Every version that one file states for a package of ours, by the kind of file.
fn stated_versions(path: &str, text: &str) -> Vec<(usize, String)> {
    let whole_file = |version: Option<&str>| version.map(|version| (1, version.to_owned()));
    match path.rsplit('/').next().unwrap_or(path) {
        "Cargo.toml" => {
            let own = toml_string(text, "[package]", "version");
            whole_file(own).into_iter().chain(path_dependencies(text)).collect()
        }
        "Cargo.lock" => {
            let blocks = text.split("[[package]]").filter(|block| !block.contains("\nsource = "));
            let versions = blocks.filter_map(|block| block.split_once("\nversion = \""));
            versions.filter_map(|(_, rest)| whole_file(rest.split('"').next())).collect()
        }
        "pyproject.toml" => {
            whole_file(toml_string(text, "[project]", "version")).into_iter().collect()
        }
        "package.json" => {
            let package: Value = serde_json::from_str(text).unwrap_or_default();
            whole_file(package["version"].as_str()).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Versions asked of packages that are named by their path.
fn path_dependencies(manifest: &str) -> impl Iterator<Item = (usize, String)> {
    let lines = numbered(manifest).filter(|(_, line)| line.contains("path = \""));
    lines.filter_map(|(number, line)| {
        let (_, rest) = line.split_once("version = \"")?;
        let version = rest.split('"').next()?;
        Some((number, version.trim_start_matches('=').to_owned()))
    })
}

fn versions(path: &str, text: &str, version: &str) -> Vec<String> {
    let others = stated_versions(path, text).into_iter().filter(|(_, other)| other != version);
    others.map(|(number, other)| format!("{path}:{number}: {other} is not {version}")).collect()
}

/// Manifests that name another repository than the root manifest, or none.
fn repositories(root: &str, others: &[(&str, &str)]) -> Vec<String> {
    let Some(address) = toml_string(root, "[workspace.package]", "repository") else {
        return vec!["Cargo.toml: no repository in [workspace.package]".into()];
    };
    let others = others.iter().filter(|(_, text)| !text.contains(address));
    others.map(|(path, _)| format!("{path}: does not name {address}")).collect()
}

#[cfg(unix)]
fn is_executable(path: &str) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let found = std::fs::metadata(crate::root().join(path));
    found.is_ok_and(|found| found.permissions().mode() & 0o111 == 0o111)
}

#[test]
fn the_changelog_has_one_heading_for_this_version() {
    let problems = text("CHANGELOG.md").and_then(|log| Ok(changelog(log, workspace_version()?)));
    assert_none(&problems.unwrap_or_else(|problem| vec![problem]));
}

#[test]
fn a_changelog_without_or_with_two_headings_is_noticed() {
    assert_none(&changelog("# Changes\n\n## [1.2.3] - today\n\n## 1.2.2\n", "1.2.3"));
    assert_one(&changelog("# Changes\n\n## 1.2.30\n```\n## 1.2.3\n```\n", "1.2.3"), "0 headings");
    assert_one(&changelog("## 1.2.3\n## 1.2.3: again\n", "1.2.3"), "2 headings");
}

#[test]
fn versions_agree() {
    let version = workspace_version().expect("a version");
    let problems = files().iter().flat_map(|file| versions(&file.path, &file.text, version));
    assert_none(&problems.collect::<Vec<_>>());
}

#[test]
fn every_package_names_the_same_repository() {
    let read = |path: &'static str| (path, text(path).unwrap_or_default());
    let others = [read("bindings/node/package.json"), read("bindings/python/pyproject.toml")];
    assert_none(&repositories(text("Cargo.toml").unwrap_or_default(), &others));
    let root = "[workspace.package]\nrepository = \"https://a/b\"\n";
    assert_one(&repositories(root, &[("x", "https://a/b.git"), ("y", "https://a/c")]), "y: does");
    assert_one(&repositories("", &[]), "no repository");
}

#[test]
fn versions_that_differ_are_noticed() {
    for (path, bad) in [
        ("a/Cargo.toml", "[package]\nname = \"a\"\nversion = \"0.9.0\"\n"),
        ("Cargo.toml", "[workspace.dependencies]\na = { path = \"a\", version = \"0.9.0\" }\n"),
        ("Cargo.lock", "[[package]]\nname = \"a\"\nversion = \"0.9.0\"\n"),
        ("b/pyproject.toml", "[project]\nname = \"a\"\nversion = \"0.9.0\"\n"),
        ("b/package.json", "{ \"name\": \"a\", \"version\": \"0.9.0\" }"),
    ] {
        assert_one(&versions(path, bad, "1.0.0"), "0.9.0 is not 1.0.0");
        assert_none(&versions(path, bad, "0.9.0"));
    }
    let foreign = "[[package]]\nname = \"x\"\nversion = \"7.0.0\"\nsource = \"registry\"\n";
    assert_none(&versions("Cargo.lock", foreign, "1.0.0"));
}

#[cfg(unix)]
#[test]
fn the_one_command_is_executable() {
    assert!(is_executable(".ci/run"));
    assert!(!is_executable("Cargo.toml") && !is_executable("no/such/file"));
}
