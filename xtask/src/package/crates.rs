//! The crates that are published, as `cargo publish` would send them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Job, archive, contents, files, run_command};
use crate::pipeline::cargo;
use crate::target_dir;

/// In the order in which they must be published: each needs those before it.
pub(super) const CRATES: [&str; 7] = [
    "tenure",
    "tenure-shipped",
    "tenure-remote",
    "tenure-agents",
    "tenure-mcp",
    "tenure-cli",
    "tenure-torture",
];

/// Packs the crates. Unless in the quick form, each is built from its package.
pub(super) fn make(job: &Job) -> Result<Vec<PathBuf>, String> {
    let mut command = cargo(&["package", "--allow-dirty", "--quiet"]);
    for name in CRATES {
        command.args(["--package", name]);
    }
    if job.form == super::Form::Quick {
        command.arg("--no-verify");
    }
    run_command(&mut command)?;
    let keep = |name: &str| {
        let packed = target_dir().join(format!("package/{name}-{}.crate", job.version));
        let kept = job.dist.join(contents::name(&packed));
        files::copy(&packed, &kept).map(|()| kept)
    };
    CRATES.iter().map(|name| keep(name)).collect()
}

/// The files of a packed crate.
pub(super) fn listed(packed: &Path) -> Result<Vec<String>, String> {
    let mut tar = Command::new(archive::TAR);
    let printed = super::output_of(tar.arg("-tzf").arg(packed))?;
    Ok(printed.lines().filter_map(|line| Some(line.split_once('/')?.1.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::CRATES;
    use crate::pipeline::cargo;

    #[test]
    fn every_other_crate_is_kept_from_publication() {
        let output = cargo(&["metadata", "--format-version", "1", "--no-deps"]).output();
        let metadata: Value = serde_json::from_slice(&output.expect("cargo").stdout).expect("JSON");
        let packages = metadata["packages"].as_array().expect("packages").iter();
        let published = packages.filter(|package| package["publish"].is_null());
        let mut names: Vec<&str> =
            published.filter_map(|package| package["name"].as_str()).collect();
        names.sort_unstable();
        let mut ours = CRATES;
        ours.sort_unstable();
        assert_eq!(names, ours);
    }
}
