//! The `tenure` command of this build, with `tenure-lab` beside it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The path of the `tenure` command, built from this source in the profile of the running test.
pub fn tenure() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(build)
}

fn build() -> PathBuf {
    // `target/PROFILE/deps/TEST-HASH`: the command lies two levels up.
    let test = std::env::current_exe().expect("the path of the running test");
    let profile = test.ancestors().nth(2).expect("a test lies in target/PROFILE/deps");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "tenure-cli", "--bin", "tenure"]);
    cargo.args(["--package", "tenure-torture", "--bin", "tenure-lab"]);
    // The directory of the `dev` profile is named `debug`.
    let name = profile.file_name().expect("a profile has a name");
    if name != "debug" {
        cargo.arg("--profile").arg(name);
    }
    let target = profile.parent().expect("a profile lies in the build directory");
    cargo.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
    let status = cargo.status().expect("cargo can be started");
    assert!(status.success(), "the tenure command cannot be built: {status}");
    profile.join("tenure")
}
