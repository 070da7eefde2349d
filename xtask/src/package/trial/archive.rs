//! The archive, unpacked into an empty directory.

use std::path::Path;
use std::process::Command;

use super::super::archive::TAR;
use super::super::{Job, Report, files, run_command};
use super::use_command;

/// Unpacks and uses it. Returns the number of environments.
pub(in super::super) fn run(job: &Job, archive: &Path, report: &mut Report) -> Result<u64, String> {
    let home = job.trial.join("archive");
    files::empty(&home)?;
    run_command(Command::new(TAR).arg("-xf").arg(archive).arg("-C").arg(&home))?;
    let top = home.join(format!("tenure-{}-{}", job.version, job.platform.target));
    for name in [
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "THIRD-PARTY-LICENSES.txt",
        "README.md",
        "man/tenure-run.1",
        "completions/_tenure",
    ] {
        files::read(&top.join(name))?;
    }
    let program = top.join(format!("tenure{}", std::env::consts::EXE_SUFFIX));
    use_command(&program, &home.join("work"), &job.version)?;
    match files::glibc(&program)? {
        _ if job.platform.os != "linux" => {}
        Some((major, minor)) if !is_static(&program) => {
            return Err(format!("the command is not static: it asks for glibc {major}.{minor}"));
        }
        _ => report.note("archive: unpacked and used; the command is static"),
    }
    Ok(1)
}

/// Whether a program of Linux names no loader that links it when it starts.
fn is_static(program: &Path) -> bool {
    let bytes = std::fs::read(program).unwrap_or_default();
    !bytes.windows(8).any(|window| window == b"/ld-linu")
}
