//! What tenure turns on in the builds of others: cargo unites the features of a crate over a whole build.

use super::{assert_none, assert_one};
use crate::pipeline::cargo;

/// They change what serde_json reads and writes for every crate of a build, and break untagged, flattened
/// and tagged types there.
const NOT_FOR_OTHERS: [&str; 2] = ["arbitrary_precision", "preserve_order"];

/// One line for each package: its name, and its features with commas.
fn features(tree: &str) -> Vec<String> {
    let lines = tree.lines().filter(|line| line.starts_with("serde_json "));
    let found = |line: &str| {
        let on = |feature: &&&str| line.split([' ', ',']).any(|word| word == **feature);
        let on: Vec<&str> = NOT_FOR_OTHERS.iter().filter(on).copied().collect();
        (!on.is_empty()).then(|| format!("serde_json is built with {}", on.join(" and ")))
    };
    lines.filter_map(found).collect()
}

#[test]
fn no_crate_changes_serde_json_for_those_who_use_tenure() {
    let output =
        cargo(&["tree", "--workspace", "--prefix", "none", "--format", "{p} {f}"]).output();
    let output = output.expect("cargo runs");
    let tree = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && tree.contains("serde_json v"), "{output:?}");
    assert_none(&features(&tree));
}

#[test]
fn features_that_reach_others_are_found() {
    assert_none(&features("serde_json v1.0.1 default,std\nother v1.0.0 preserve_order"));
    let bad = "tenure v0.1.0\nserde_json v1.0.1 default,preserve_order,std";
    assert_one(&features(bad), "preserve_order");
}
