//! The Debian package: the programs are linked statically, so it depends on nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::contents::{Contents, LICENCES, NOTICES};
use super::{Job, Report, files, is_here, run_command};
use crate::{root, target_dir};

/// Makes `tenure_VERSION_ARCHITECTURE.deb`, where dpkg is installed.
pub(super) fn make(
    job: &Job,
    contents: &Contents,
    report: &mut Report,
) -> Result<Option<PathBuf>, String> {
    let Some(architecture) = job.platform.debian else { return Ok(None) };
    if !is_here("dpkg-deb") {
        report.not_made("a Debian package: there is no dpkg-deb");
        return Ok(None);
    }
    let stage = target_dir().join("deb");
    files::empty(&stage)?;
    contents.put_programs(&stage.join("usr/bin"))?;
    let share = stage.join("usr/share");
    contents.put_share(&share)?;
    for page in files::list(&share.join("man/man1"))? {
        run_command(Command::new("gzip").args(["-9", "-n"]).arg(page))?;
    }
    let doc = share.join("doc/tenure");
    for name in LICENCES.into_iter().chain([NOTICES]) {
        files::copy(&contents.made.join(name), &doc.join(name))?;
    }
    files::write(&doc.join("copyright"), COPYRIGHT)?;
    for name in ["README.md", "CHANGELOG.md"] {
        files::copy(&root().join(name), &doc.join(name))?;
    }
    let size: u64 = files::list(&stage)?.iter().map(|path| length(path)).sum();
    let control = control(&job.version, architecture, size.div_ceil(1024));
    files::write(&stage.join("DEBIAN/control"), &control)?;
    let deb = job.dist.join(format!("tenure_{}_{architecture}.deb", debian_version(&job.version)));
    let mut command = Command::new("dpkg-deb");
    command.args(["--root-owner-group", "-Zxz", "--build"]).arg(&stage).arg(&deb);
    run_command(command.env("SOURCE_DATE_EPOCH", "0"))?;
    Ok(Some(deb))
}

/// A candidate sorts before the release there: `1.0.0~rc.1`.
fn debian_version(version: &str) -> String {
    version.replace('-', "~")
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len())
}

fn control(version: &str, architecture: &str, kilobytes: u64) -> String {
    let version = debian_version(version);
    format!(
        "Package: tenure\nVersion: {version}\nArchitecture: {architecture}\nSection: utils\nPriority: optional\n\
         Maintainer: The tenure authors <packages@tenure.invalid>\nInstalled-Size: {kilobytes}\n\
         Homepage: {}\nDescription: {}\n \
         A lock that the kernel releases when its holder dies, a JSON document that\n \
         loses no update, a JSONL journal whose batches are whole or absent, and a\n \
         lease whose former owner can no longer write. No server.\n",
        env!("CARGO_PKG_REPOSITORY"),
        env!("CARGO_PKG_DESCRIPTION"),
    )
}

const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: tenure

Files: *
Copyright: the tenure authors
License: MIT or Apache-2.0
 Their texts are in LICENSE-MIT and LICENSE-APACHE beside this file; those of what is
 linked in are in THIRD-PARTY-LICENSES.txt.
";

#[cfg(test)]
mod tests {
    use super::{control, debian_version};

    #[test]
    fn a_candidate_is_older_than_its_release() {
        assert_eq!(debian_version("1.2.3-rc.1"), "1.2.3~rc.1");
        let control = control("1.2.3", "amd64", 7);
        assert!(control.contains("\nVersion: 1.2.3\nArchitecture: amd64\n"), "{control}");
        assert!(control.lines().skip(9).all(|line| line.starts_with(' ')), "{control}");
    }
}
