//! What a command meets: a fault at one system call, or a real limit.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tenure_proof::bounded;
use tenure_proof::strace::{Case, Fault, Struck, Traced};

use super::job::{Job, Subject};

/// A page of memory: the unit in which a file system in memory fills up.
const PAGE: usize = 4096;

/// One kind of trouble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A fault at one call.
    Call(Case),
    /// No file may become longer: a write across the limit is cut short there, the next one fails.
    FileSize(u64),
    /// This many open files, and no more.
    OpenFiles(u64),
    /// This many free pages on the disk; a write that needs more is cut short.
    Pages(usize),
    /// This many more names on the disk.
    Names(usize),
}

impl Trouble {
    /// Whether the process dies of it.
    pub(crate) fn kills(&self) -> bool {
        matches!(self, Self::Call(Case { fault: Fault::Kill, .. }))
    }

    /// Whether the command is asked to report in JSON. Every other one is; `run` always would.
    pub(crate) fn is_json(&self, job: &Job) -> bool {
        let odd = match self {
            Self::Call(case) => case.number.is_multiple_of(2),
            Self::FileSize(limit) | Self::OpenFiles(limit) => limit.is_multiple_of(2),
            Self::Pages(left) | Self::Names(left) => left.is_multiple_of(2),
        };
        odd && job.subject != Subject::Run
    }

    /// Runs the command of `job` in `dir` with it.
    pub(crate) fn strike(&self, job: &Job, dir: &Path) -> Struck {
        let mut args = job.args.to_vec();
        if self.is_json(job) {
            args.insert(0, "--json");
        }
        let limited = |limit: String| {
            // The signal for a file that is too long is ignored: its default is death.
            let mut command = Command::new("sh");
            command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh", "prlimit", &limit, "--"]);
            command.arg(job.program.path()).args(&args).current_dir(dir);
            bounded::run(command)
        };
        let full = |fill: fn(&Path, usize) -> Vec<PathBuf>, left| {
            let fillers = fill(dir, left);
            let mut command = Command::new(job.program.path());
            command.args(&args).current_dir(dir);
            let ended = bounded::run(command);
            for filler in fillers {
                std::fs::remove_file(filler).unwrap();
            }
            ended
        };
        let ended = match self {
            Self::Call(case) => {
                let log = log_of(dir);
                return traced(job, dir, &args, &log).with_fault(case);
            }
            Self::FileSize(limit) => limited(format!("--fsize={limit}")),
            Self::OpenFiles(limit) => limited(format!("--nofile={limit}")),
            Self::Pages(left) => full(fill_pages, *left),
            Self::Names(left) => full(fill_names, *left),
        };
        // A command that succeeds has not met the limit, or survived it.
        let came_about = !ended.is_done();
        Struck { ended, came_about }
    }
}

/// The command of `job`, to be traced.
pub(crate) fn traced<'a>(
    job: &'a Job,
    dir: &'a Path,
    args: &'a [&'a str],
    log: &'a Path,
) -> Traced<'a> {
    Traced { program: job.program.path(), args, dir, lacks: job.lacks, log }
}

/// The log file of strace, beside the directory.
pub(crate) fn log_of(dir: &Path) -> PathBuf {
    dir.with_extension("log")
}

/// Fills the disk up to this many free pages.
pub(crate) fn fill_pages(dir: &Path, left: usize) -> Vec<PathBuf> {
    let path = dir.with_extension("filler");
    let mut file = File::create(&path).unwrap();
    let mut pages = 0;
    while file.write_all(&[b'x'; PAGE]).is_ok() {
        pages += 1;
    }
    assert!(pages >= left, "only {pages} pages were free");
    file.set_len(((pages - left) * PAGE) as u64).unwrap();
    vec![path]
}

/// Uses up all names but this many.
pub(crate) fn fill_names(dir: &Path, left: usize) -> Vec<PathBuf> {
    let path = |number| dir.with_extension(format!("filler{number}"));
    let mut fillers = Vec::new();
    while File::create_new(path(fillers.len())).is_ok() {
        fillers.push(path(fillers.len()));
    }
    assert!(fillers.len() >= left, "only {} names were free", fillers.len());
    for filler in fillers.split_off(fillers.len() - left) {
        std::fs::remove_file(filler).unwrap();
    }
    fillers
}
