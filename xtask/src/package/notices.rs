//! The licences of the packages that are linked into the programs, the addon and the module.
//!
//! # Invariants
//!
//! 1. A package that is linked in stands in the list with its licence, and so does every text of a licence that it
//!    carries. A text that several carry stands once, with all their names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::{files, output_of};
use crate::pipeline::cargo;

/// How the files with licences begin.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// The list, for what is linked into these packages on one platform.
pub(super) fn of(packages: &[&str], target: &str) -> Result<String, String> {
    let mut linked = BTreeSet::new();
    for package in packages {
        let mut tree = cargo(&["tree", "--edges", "normal", "--prefix", "none", "--format"]);
        tree.args(["{p}", "--target", target, "--package", package]);
        // One line for each: a name, a version with a `v`, and remarks.
        for line in output_of(&mut tree)?.lines() {
            if let [name, version, ..] = line.split(' ').collect::<Vec<_>>()[..] {
                linked.insert((name.to_owned(), version.trim_start_matches('v').to_owned()));
            }
        }
    }
    let metadata = output_of(&mut cargo(&["metadata", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata)
        .map_err(|err| format!("cargo metadata is not JSON: {err}"))?;
    let top = "Packages that are part of tenure's programs and libraries.\n";
    let mut parts = vec![top.to_owned()];
    let mut texts = BTreeMap::<String, Vec<String>>::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let text = |field: &str| package[field].as_str().unwrap_or("?").to_owned();
        let key = (text("name"), text("version"));
        if !linked.contains(&key) || package["source"].is_null() {
            continue;
        }
        let name = format!("{} {}", key.0, key.1);
        parts.push(format!("{name}: {}", text("license")));
        let manifest = text("manifest_path");
        for found in texts_in(Path::new(&manifest).parent().unwrap_or(Path::new("/")))? {
            texts.entry(found).or_default().push(name.clone());
        }
    }
    for (text, names) in texts {
        parts.push(format!("\n{}\n{}:\n\n{}", "=".repeat(72), names.join(", "), text.trim_end()));
    }
    Ok(parts.join("\n") + "\n")
}

/// The texts of licences at the top of a package.
fn texts_in(dir: &Path) -> Result<Vec<String>, String> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(files::failed("list", dir))? {
        let path = entry.map_err(files::failed("list", dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            texts.push(files::read(&path)?.replace('\r', ""));
        }
    }
    texts.sort();
    Ok(texts)
}
