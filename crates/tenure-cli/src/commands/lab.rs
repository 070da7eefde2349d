//! `tenure demo`, `torture` and `bench`: this process becomes `tenure-lab`, which does them.
//!
//! # Invariants
//!
//! 1. The command line was parsed before, so help and usage errors need no second program.
//! 2. Nothing was printed or read before: input, output, signals and the terminal are `tenure-lab`'s.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use crate::child::become_program;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};

const PROGRAM: &str = "tenure-lab";

/// Runs `tenure-lab` with the arguments in `words`, which start with the name of this program.
pub(super) fn run(words: &[OsString]) -> Result<ExitCode> {
    let arguments = words.get(1..).unwrap_or_default();
    // The one beside this program was built together with it.
    for program in beside().into_iter().chain([PROGRAM.into()]) {
        match become_program(&program, arguments) {
            Ok(ended) => return Ok(ended.exit()),
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            Err(err) => return Err(Failure::io("start", &program, err)),
        }
    }
    let detail = "it is neither beside this program nor in PATH";
    Err(Failure::new(ExitCode::Failed, "not_found", "start", detail)
        .at(PROGRAM.as_ref())
        .hint("install it there: cargo install --path crates/tenure-torture"))
}

/// Where it is if it was installed in the directory of this program.
fn beside() -> Option<PathBuf> {
    let name = format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX);
    std::env::current_exe().ok().map(|this| this.with_file_name(name))
}
