//! `cargo xtask bump VERSION`: one version everywhere.
//!
//! What states a version is known to the tidy test `versions_agree`, which fails if something was forgotten here.

use std::io::Write;
use std::path::Path;

use crate::pipeline::cargo;
use crate::tally::Tally;
use crate::{root, stream};

/// Files with a version that is written out: before it stands one of these texts, which must belong to no other version.
const STATED: &[(&str, &[&str])] = &[
    ("Cargo.toml", &["[workspace.package]\nversion = \"", "\", version = \""]),
    ("bench/Cargo.toml", &["\nversion = \""]),
    ("fuzz/Cargo.toml", &["\nversion = \""]),
    ("bindings/node/package.json", &["\n  \"version\": \""]),
    ("bindings/python/pyproject.toml", &["\nversion = \""]),
];
/// Workspaces, whose lock files cargo rewrites.
const WORKSPACES: &[&str] = &["Cargo.toml", "bench/Cargo.toml", "fuzz/Cargo.toml"];

/// Sets the version.
pub(crate) fn run(version: &str) -> Result<(), String> {
    if !is_version(version) {
        return Err(format!(
            "`{version}` is no version: write 1.2.3, or 1.2.3-rc.4 for a candidate"
        ));
    }
    let old = env!("CARGO_PKG_VERSION");
    let mut changed = Vec::new();
    for (name, before) in STATED {
        changed.push((*name, replaced(name, &read(name)?, before, old, version)?));
    }
    changed.push(("CHANGELOG.md", with_section(&read("CHANGELOG.md")?, version)?));
    for (name, text) in changed {
        let path = root().join(name);
        let written =
            std::fs::File::create(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|err| format!("failed to write `{name}`: {err}"))?;
        println!("{name}: {old} -> {version}");
    }
    for manifest in WORKSPACES {
        let mut update = cargo(&["update", "--workspace", "--manifest-path", manifest]);
        stream::run(&mut update, &mut Tally::default())?;
    }
    println!("now write the section of CHANGELOG.md, and run: cargo test -p xtask");
    Ok(())
}

fn read(name: &str) -> Result<String, String> {
    let path: &Path = &root().join(name);
    std::fs::read_to_string(path).map_err(|err| format!("failed to read `{name}`: {err}"))
}

/// Three numbers, and `-rc.N` for a candidate: what cargo, npm and Python all understand.
fn is_version(text: &str) -> bool {
    let is_number = |part: &str| part.parse::<u32>().is_ok_and(|number| number.to_string() == part);
    let (numbers, candidate) = text.split_once("-rc.").map_or((text, "1"), |(a, b)| (a, b));
    numbers.split('.').count() == 3 && numbers.split('.').all(is_number) && is_number(candidate)
}

/// The text with the new version after each of the texts in `before`. One that is missing is a problem.
fn replaced(
    name: &str,
    text: &str,
    before: &[&str],
    old: &str,
    new: &str,
) -> Result<String, String> {
    let mut text = text.to_owned();
    for before in before {
        let (from, to) = (format!("{before}{old}\""), format!("{before}{new}\""));
        if !text.contains(&from) {
            return Err(format!("{name}: no version {old} after `{}`", before.trim()));
        }
        text = text.replace(&from, &to);
    }
    Ok(text)
}

/// The changelog with a section for the version before the others, unless it has one.
fn with_section(log: &str, version: &str) -> Result<String, String> {
    let heading = format!("## {version}");
    if log.lines().any(|line| line == heading || line.starts_with(&format!("{heading} "))) {
        return Ok(log.to_owned());
    }
    // What was written down since the last release.
    if log.contains("\n## Unreleased\n") {
        return Ok(log.replacen("\n## Unreleased\n", &format!("\n{heading}\n"), 1));
    }
    let (top, rest) = log.split_once("\n## ").ok_or("CHANGELOG.md has no section")?;
    Ok(format!("{top}\n{heading}\n\n## {rest}"))
}

#[cfg(test)]
mod tests {
    use super::{is_version, replaced, with_section};

    #[test]
    fn versions_are_three_numbers() {
        assert!(["0.1.0", "1.22.333", "1.0.0-rc.1"].into_iter().all(is_version));
        let bad =
            ["1.0", "1.0.0.0", "v1.0.0", "1.0.01", "1.0.0-beta", "1.0.0-rc.", "1.0.0-rc.01", ""];
        assert_eq!(bad.into_iter().find(|text| is_version(text)), None);
    }

    #[test]
    fn only_our_own_version_is_replaced() {
        let text = "version = \"0.1.0\"\nother = \"0.1.0\"\n";
        let new = replaced("a", text, &["version = \""], "0.1.0", "0.2.0");
        assert_eq!(new.unwrap(), "version = \"0.2.0\"\nother = \"0.1.0\"\n");
        assert!(replaced("a", text, &["version = \""], "0.3.0", "0.2.0").is_err());
    }

    #[test]
    fn a_section_is_opened_once() {
        let log = "# Changelog\n\n## 0.1.0\n\ntext\n";
        let new = with_section(log, "0.2.0").unwrap();
        assert_eq!(new, "# Changelog\n\n## 0.2.0\n\n## 0.1.0\n\ntext\n");
        assert_eq!(with_section(&new, "0.2.0").unwrap(), new);
        let unreleased = with_section("# Changelog\n\n## Unreleased\n\ntext\n", "0.2.0").unwrap();
        assert_eq!(unreleased, "# Changelog\n\n## 0.2.0\n\ntext\n");
    }
}
