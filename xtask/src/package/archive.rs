//! The archive: the programs with manual pages, completions, licences and the README. Unpacked anywhere, it works.

use std::path::PathBuf;
use std::process::Command;

use super::contents::Contents;
use super::{Job, files, output_of, run_command};
use crate::{root, target_dir};

/// On Windows that of the system, which reads and writes `.zip`; there may be another one in the path.
pub(super) const TAR: &str = if cfg!(windows) { r"C:\Windows\System32\tar.exe" } else { "tar" };

/// Makes `tenure-VERSION-TARGET.tar.gz`, with one directory of that name in it; on Windows a `.zip`.
pub(super) fn make(job: &Job, contents: &Contents) -> Result<PathBuf, String> {
    let name = format!("tenure-{}-{}", job.version, job.platform.target);
    let stage = target_dir().join("archive");
    let top = stage.join(&name);
    files::empty(&stage)?;
    contents.put_programs(&top)?;
    contents.put_licences(&top)?;
    files::copy_all(&contents.made.join("man"), &top.join("man"))?;
    files::copy_all(&contents.made.join("completions"), &top.join("completions"))?;
    for document in ["README.md", "CHANGELOG.md"] {
        files::copy(&root().join(document), &top.join(document))?;
    }
    let windows = job.platform.os == "win32";
    let archive = job.dist.join(format!("{name}.{}", if windows { "zip" } else { "tar.gz" }));
    let mut tar = Command::new(TAR);
    if job.platform.os == "linux" && is_gnu_tar() {
        // The same files give the same archive.
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"]);
    }
    // On Windows tar makes what the name asks for.
    tar.arg(if windows { "-acf" } else { "-czf" }).arg(&archive).arg("-C").arg(&stage).arg(&name);
    run_command(&mut tar)?;
    Ok(archive)
}

fn is_gnu_tar() -> bool {
    output_of(Command::new(TAR).arg("--version")).is_ok_and(|told| told.contains("GNU"))
}
