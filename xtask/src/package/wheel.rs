//! The wheel and the source package for Python.
//!
//! maturin builds the wheel; the programs, their manual pages and the licences of what is linked in are put in afterwards,
//! since maturin packs one library. `pip` then installs the programs themselves, and not scripts that start them.
//!
//! # Invariants
//!
//! 1. The tag of the wheel is true: auditwheel, which reads the symbols, agrees with it.
//! 2. The wheel that ships runs with the GNU C library [`GLIBC`], the oldest that Rust supports.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::contents::{Contents, NOTICES};
use super::{Job, Report, files, output_of, run_command};
use crate::{python, root, target_dir};

/// The oldest GNU C library that what ships must run with: that of manylinux2014.
pub(super) const GLIBC: (u32, u32) = (2, 17);

/// What is made for Python.
#[derive(Debug)]
pub(super) struct Wheel {
    pub(super) wheel: PathBuf,
    pub(super) source: PathBuf,
}

/// zig as a linker: it has the symbols of every version of the C library.
#[derive(Debug)]
pub(super) struct Zig {
    bin: PathBuf,
}

impl Zig {
    /// Lets cargo and maturin find it.
    pub(super) fn reach<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let old = std::env::var_os("PATH").unwrap_or_default();
        let dirs = [self.bin.clone()].into_iter().chain(std::env::split_paths(&old));
        let path = std::env::join_paths(dirs).unwrap_or(old.clone());
        command.env("PATH", path)
    }
}

/// zig, from PyPI, where it is needed: for what ships, on Linux with the GNU C library.
pub(super) fn zig(job: &Job) -> Result<Option<Zig>, String> {
    if job.form == super::Form::Quick || !job.platform.has_old_glibc() {
        return Ok(None);
    }
    let python = job.python.as_ref().ok_or("there is no Python to install zig with")?;
    python::install(python, &["ziglang", "cargo-zigbuild"])?;
    let bin = python.parent().unwrap_or(Path::new("/")).to_owned();
    Ok(Some(Zig { bin }))
}

/// Makes both, where there is a Python.
pub(super) fn make(
    job: &Job,
    contents: &Contents,
    report: &mut Report,
) -> Result<Option<Wheel>, String> {
    let Some(python) = &job.python else {
        report.not_made("a wheel: there is no Python 3.9 or later with venv");
        return Ok(None);
    };
    let package = root().join("bindings/python");
    let home = target_dir().join("wheel");
    files::empty(&home)?;
    let built = home.join("built");
    let mut maturin = Command::new(python);
    maturin.args(["-m", "maturin", "build", "--profile", job.form.binding()]);
    maturin.arg("--interpreter").arg(python).arg("--out").arg(&built).current_dir(&package);
    if let Some(zig) = zig(job)? {
        maturin.args(["--zig", "--compatibility", "manylinux2014"]);
        maturin.arg("--target-dir").arg(target_dir().join("python/zig"));
        run_command(zig.reach(&mut maturin))?;
    } else {
        // The directory of the Python step: the module is built already.
        maturin.arg("--target-dir").arg(target_dir().join("python/build"));
        run_command(&mut maturin)?;
    }
    let wheel = fill(job, python, &files::only(&built, ".whl")?, &home, contents)?;
    if job.platform.os == "linux" && job.platform.libc == Some("glibc") {
        audit(python, &wheel, report)?;
    }
    let mut maturin = Command::new(python);
    maturin.args(["-m", "maturin", "sdist", "--out"]).arg(&job.dist).current_dir(&package);
    run_command(&mut maturin)?;
    let source = job.dist.join(format!("tenure-{}.tar.gz", python_version(&job.version)));
    if !source.is_file() {
        return Err(format!("maturin did not make `{}`", source.display()));
    }
    Ok(Some(Wheel { wheel, source }))
}

/// A candidate is called so there: `1.0.0rc1`.
fn python_version(version: &str) -> String {
    version.replace("-rc.", "rc")
}

/// Puts the programs and what belongs to them into a wheel.
fn fill(
    job: &Job,
    python: &Path,
    wheel: &Path,
    home: &Path,
    contents: &Contents,
) -> Result<PathBuf, String> {
    let open = home.join("open");
    files::directory(&open)?;
    run_command(
        Command::new(python).args(["-m", "wheel", "unpack", "--dest"]).arg(&open).arg(wheel),
    )?;
    let top = format!("tenure-{}", python_version(&job.version));
    let open = open.join(&top);
    contents.put_programs(&open.join(format!("{top}.data/scripts")))?;
    contents.put_share(&open.join(format!("{top}.data/data/share")))?;
    let info = open.join(format!("{top}.dist-info"));
    files::copy(&contents.made.join(NOTICES), &info.join("licenses").join(NOTICES))?;
    let metadata = info.join("METADATA");
    let text = files::read(&metadata)?;
    let named =
        text.replacen("\nLicense-File: ", &format!("\nLicense-File: {NOTICES}\nLicense-File: "), 1);
    if named == text {
        return Err(format!("`{}` names no licence file", metadata.display()));
    }
    files::write(&metadata, &named)?;
    let mut pack = Command::new(python);
    pack.args(["-m", "wheel", "pack", "--dest-dir"]).arg(&job.dist).arg(&open);
    run_command(pack.env("SOURCE_DATE_EPOCH", "315532800"))?;
    files::only(&job.dist, ".whl")
}

/// Asks auditwheel which C library the wheel really needs.
fn audit(python: &Path, wheel: &Path, report: &mut Report) -> Result<(), String> {
    let told = output_of(Command::new(python).args(["-m", "auditwheel", "show"]).arg(wheel))?;
    let name = super::contents::name(wheel);
    let tags = name.trim_end_matches(".whl").rsplit('-').next().unwrap_or_default();
    // A wheel may have several tags, one of which is an old name of another.
    let Some(tag) = tags.split('.').find(|tag| told.contains(&format!("\"{tag}\""))) else {
        return Err(format!("auditwheel does not agree with the name {name}:\n{told}"));
    };
    report.note(format!("wheel: auditwheel measures {tag}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::python_version;

    #[test]
    fn a_candidate_has_the_name_that_python_gives_it() {
        assert_eq!(python_version("1.2.3"), "1.2.3");
        assert_eq!(python_version("1.2.3-rc.4"), "1.2.3rc4");
    }
}
