//! The crates: complete packages, and the commands installed by cargo.

use std::path::PathBuf;

use super::super::crates::listed;
use super::super::{Form, Job, Report, run_command};
use super::use_command;
use crate::pipeline::cargo;

/// Looks into the packages; unless in the quick form, installs the commands. Returns the number of environments.
pub(in super::super) fn run(
    job: &Job,
    crates: &[PathBuf],
    report: &mut Report,
) -> Result<u64, String> {
    for packed in crates {
        let files = listed(packed)?;
        for name in ["LICENSE-MIT", "LICENSE-APACHE", "README.md", "Cargo.lock"] {
            if !files.iter().any(|file| file == name) {
                return Err(format!("`{}` has no {name}", packed.display()));
            }
        }
    }
    if job.form == Form::Quick {
        report.note(
            "crates: complete; not built from their packages (cargo xtask package does that)",
        );
        return Ok(0);
    }
    let home = job.trial.join("cargo");
    for name in ["tenure-cli", "tenure-torture"] {
        let mut install = cargo(&["install", "--locked", "--force", "--path"]);
        install.arg(format!("crates/{name}")).arg("--root").arg(&home);
        run_command(&mut install)?;
    }
    let program = home.join("bin").join(format!("tenure{}", std::env::consts::EXE_SUFFIX));
    use_command(&program, &job.trial.join("cargo-work"), &job.version)?;
    report.note("crates: built from their packages; cargo install --locked --path, used");
    Ok(1)
}
