//! Every package we build on has a licence we accept and comes from the default registry.
//!
//! Packages of all platforms and of all kinds (build, test) count. A package that is there in two
//! versions is reported. Known vulnerabilities are not looked up: that needs a database which this
//! check, made to work offline, does not fetch; `deny.toml` is for those who can.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::pipeline::{Options, cargo};

/// Licences that ask for no more than a notice.
const ACCEPTED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// What cargo calls the default registry, whichever way it is reached.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks what `cargo metadata` lists.
pub(crate) fn check(_: &Options) -> Result<(), String> {
    // Standard error is cargo's own and is shown: it may be downloading.
    let output = cargo(&["metadata", "--format-version", "1"])
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|err| format!("failed to run cargo metadata: {err}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", output.status));
    }
    let metadata = serde_json::from_slice(&output.stdout)
        .map_err(|err| format!("cargo metadata is not JSON: {err}"))?;
    let count = packages(&metadata).count();
    let problems = problems(&metadata);
    if problems.is_empty() && count > 0 {
        println!("{count} packages: every licence is accepted, every source is the registry");
        let twice = duplicates(&metadata);
        println!("{} packages in more than one version {}", twice.len(), twice.join(", "));
        println!(
            "advisories: NOT CHECKED (no database); run `cargo deny check advisories` where the \
             network allows"
        );
        return Ok(());
    }
    Err(format!("{count} packages, {} problems\n{}", problems.len(), problems.join("\n")))
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

fn problems(metadata: &Value) -> Vec<String> {
    let members = metadata["workspace_members"].as_array().map_or(&[][..], Vec::as_slice);
    let mut problems = Vec::new();
    for package in packages(metadata) {
        let name = format!("{} {}", text(&package["name"]), text(&package["version"]));
        match package["license"].as_str() {
            None => problems.push(format!("{name}: names no licence")),
            Some(licence) if !accepted(licence) => {
                problems.push(format!("{name}: licence `{licence}` is not accepted"));
            }
            Some(_) => {}
        }
        let source = package["source"].as_str();
        if source != Some(REGISTRY) && !members.contains(&package["id"]) {
            let source = source.unwrap_or("a path outside the workspace");
            problems.push(format!("{name}: comes from {source}"));
        }
    }
    problems
}

/// Packages that are there in more than one version: more to build, and more to keep an eye on.
fn duplicates(metadata: &Value) -> Vec<String> {
    let mut versions = BTreeMap::<&str, BTreeSet<&str>>::new();
    for package in packages(metadata) {
        versions.entry(text(&package["name"])).or_default().insert(text(&package["version"]));
    }
    versions.retain(|_, versions| versions.len() > 1);
    let told = |(name, versions): (&str, BTreeSet<&str>)| {
        format!("{name} {}", versions.into_iter().collect::<Vec<_>>().join(" and "))
    };
    versions.into_iter().map(told).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// Whether an SPDX expression can be satisfied with accepted licences. An expression that cannot
/// be read is not accepted. The old spelling `MIT/Apache-2.0` means `OR`.
fn accepted(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any_of(&mut rest).is_some_and(|accepted| accepted && rest.is_empty())
}

fn any_of(words: &mut &[&str]) -> Option<bool> {
    let mut accepted = all_of(words)?;
    while take(words, "OR") {
        // Not `||`: the other side must be read in any case.
        accepted |= all_of(words)?;
    }
    Some(accepted)
}

fn all_of(words: &mut &[&str]) -> Option<bool> {
    let mut accepted = one(words)?;
    while take(words, "AND") {
        accepted &= one(words)?;
    }
    Some(accepted)
}

fn one(words: &mut &[&str]) -> Option<bool> {
    let (first, rest) = words.split_first()?;
    *words = rest;
    if *first == "(" {
        let accepted = any_of(words)?;
        return take(words, ")").then_some(accepted);
    }
    let mut licence = (*first).to_owned();
    if take(words, "WITH") {
        let (exception, rest) = words.split_first()?;
        *words = rest;
        licence = format!("{licence} WITH {exception}");
    }
    Some(ACCEPTED.contains(&licence.as_str()))
}

fn take(words: &mut &[&str], expected: &str) -> bool {
    match words.split_first() {
        Some((first, rest)) if *first == expected => {
            *words = rest;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ACCEPTED, REGISTRY, accepted, duplicates, problems};

    #[test]
    fn reads_licence_expressions() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "MIT OR GPL-3.0-only",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0-only",
        ] {
            assert!(accepted(good), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT",
            "MIT OR",
            "MIT Apache-2.0",
            "MIT WITH Some-exception",
        ] {
            assert!(!accepted(bad), "{bad}");
        }
    }

    #[test]
    fn notices_bad_licences_and_sources() {
        let metadata = json!({
            "workspace_members": ["ours"],
            "packages": [
                { "id": "ours", "name": "ours", "license": "MIT", "source": null },
                { "id": "fine", "name": "fine", "license": "MIT", "source": REGISTRY },
                { "id": "none", "name": "none", "license": null, "source": REGISTRY },
                { "id": "gpl", "name": "gpl", "license": "GPL-3.0-only", "source": REGISTRY },
                { "id": "git", "name": "git", "license": "MIT", "source": "git+https://x" },
                { "id": "path", "name": "path", "license": "MIT", "source": null },
            ],
        });
        let found = problems(&metadata);
        let names: Vec<&str> = found.iter().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(names, ["none", "gpl", "git", "path"]);
    }

    #[test]
    fn the_list_for_cargo_deny_is_the_same() {
        let text = std::fs::read_to_string(crate::root().join("deny.toml")).expect("deny.toml");
        let (_, list) = text.split_once("\nallow = [").expect("a list");
        let (list, _) = list.split_once(']').expect("its end");
        let names: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        assert_eq!(names, ACCEPTED);
    }

    #[test]
    fn notices_packages_in_two_versions() {
        let package = |name, version| json!({ "name": name, "version": version });
        let packages = [package("one", "1.0.0"), package("two", "1.0.0"), package("two", "2.0.0")];
        assert_eq!(duplicates(&json!({ "packages": packages })), ["two 1.0.0 and 2.0.0"]);
    }
}
