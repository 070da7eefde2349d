//! `cargo xtask dist`: the command as it ships.
//!
//! On Linux with the GNU C library it is linked statically: a process that lives for a millisecond would
//! spend a third of it in the dynamic linker. It needs nothing of the machine it runs on but the kernel.

use std::path::PathBuf;
use std::process::Command;

use crate::pipeline::cargo;
use crate::tally::Tally;
use crate::{stream, target_dir};

/// Builds it and tells where it is.
pub(crate) fn build() -> Result<PathBuf, String> {
    let target = host()?;
    let mut command = cargo(&["build", "--package", "tenure-cli", "--profile", "dist"]);
    // With a target, so that the flags are for the program and not for what runs during the build.
    command.args(["--target", &target]);
    if target.ends_with("-linux-gnu") {
        command.env("RUSTFLAGS", "-C target-feature=+crt-static");
    }
    stream::run(&mut command, &mut Tally::default())?;
    let program = format!("tenure{}", std::env::consts::EXE_SUFFIX);
    Ok(target_dir().join(target).join("dist").join(program))
}

/// The target of this machine, as rustc names it.
fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output();
    let output = output.map_err(|err| format!("failed to run rustc: {err}"))?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not say what this machine is".into())
}

#[cfg(test)]
mod tests {
    #[test]
    fn rustc_knows_this_machine() {
        let host = super::host().unwrap();
        assert!(host.starts_with(std::env::consts::ARCH), "{host}");
    }
}
