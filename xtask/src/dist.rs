//! `cargo xtask dist`: the command as it ships, and its laboratory (`tenure-lab`) beside it.
//!
//! On Linux it is linked statically, with musl where that is installed: a process that lives for a
//! millisecond would spend a third of it in the dynamic linker and in the start of the GNU C
//! library, which queries the processor for all of its features (41 times `cpuid`, each an exit to
//! the host in a virtual machine). It is linked for a fixed address, as Go programs are: otherwise
//! the start would copy every page that has an address in it. It needs nothing of the machine it
//! runs on but the kernel.

use std::path::PathBuf;
use std::process::Command;

use crate::pipeline::cargo;
use crate::tally::Tally;
use crate::{stream, target_dir};

/// The flags of the compiler for a program that is linked statically, for a fixed address.
const STATIC: &str = "-C target-feature=+crt-static -C relocation-model=static";

/// How the command is linked.
#[derive(Debug)]
pub(crate) struct Linking {
    /// As rustc names it.
    pub(crate) target: String,
    /// Flags of the compiler.
    pub(crate) flags: &'static str,
}

/// The programs that ship: the command first.
const PROGRAMS: [&str; 2] = ["tenure", "tenure-lab"];

/// Builds [`PROGRAMS`] as they ship and returns their paths.
pub(crate) fn build() -> Result<[PathBuf; 2], String> {
    build_as("dist")
}

/// Builds them with another profile, linked as they ship.
pub(crate) fn build_as(profile: &str) -> Result<[PathBuf; 2], String> {
    let Linking { target, flags } = linking()?;
    let packages = ["--package", "tenure-cli", "--package", "tenure-torture"];
    let mut command = cargo(&["build", "--profile", profile]);
    command.args(packages);
    // With a target, so that the flags are for the program and not for what runs during the build.
    command.args(["--target", &target]).env("RUSTFLAGS", flags);
    stream::run(&mut command, &mut Tally::default())?;
    let directory = target_dir().join(target).join(profile);
    Ok(PROGRAMS.map(|name| directory.join(format!("{name}{}", std::env::consts::EXE_SUFFIX))))
}

/// How a program that ships is linked here: with musl where its standard library is installed.
pub(crate) fn linking() -> Result<Linking, String> {
    let host = host()?;
    let Some(machine) = host.strip_suffix("-linux-gnu") else {
        return Ok(Linking { target: host, flags: "" });
    };
    let musl = format!("{machine}-linux-musl");
    if library_of(&musl)?.is_dir() {
        return Ok(Linking { target: musl, flags: STATIC });
    }
    println!("linked with the GNU C library: Rust's standard library for {musl} is not installed");
    Ok(Linking { target: host, flags: STATIC })
}

/// Where Rust's standard library for a target is, if it is installed.
fn library_of(target: &str) -> Result<PathBuf, String> {
    let output =
        Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    let output = output.map_err(|err| format!("rustc: {err}"))?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// The target of this machine, as rustc names it.
pub(crate) fn host() -> Result<String, String> {
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
