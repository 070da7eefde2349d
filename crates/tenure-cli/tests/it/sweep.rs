//! Every system call of every write: killed there, refused there, interrupted there.
//!
//! A command runs once to see its system calls. Then it runs again for each of them, on a directory
//! made anew, with one fault. After each: everybody sees the old data or the new; an error is one
//! line; the next command of the same kind works at once; and nothing is left over.
//!
//! The quick form samples; `TENURE_SWEEP=full` takes every call with every fault.
//! `TENURE_TEST_SEED` repeats a sample.
#![cfg(target_os = "linux")]

mod job;
mod jobs;
mod strace;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde_json::Value;

use job::{Job, Subject, View};
use strace::{Case, Ended, Fault};

/// How many calls of one kind the quick form takes for one fault.
const SAMPLE: usize = 3;
/// How many of them for a kill before a call that changes something.
const SAMPLE_OF_KILLS: usize = 8;
/// What a command says when its change is visible and the sync failed.
const NOT_DURABLE: &str = "visible but may not survive a power loss";
/// What it says when its batch is logged, but not in the journal yet.
const LATER: &str = "the next write makes it visible";
/// Calls that change nothing: a death before one of them is a death before the next that does.
const LOOKS: [&str; 8] =
    ["fstat", "statx", "statfs", "readlink", "pread64", "read", "getdents64", "flistxattr"];

/// One job, its directory, and what it looks like when nothing goes wrong.
struct Sweep {
    job: Job,
    _root: tempfile::TempDir,
    dir: PathBuf,
    /// Before the command, after it, and after it was given again.
    old: View,
    new: View,
    newer: View,
    /// How the second command ends.
    again: Option<i32>,
    files: Vec<String>,
}

impl Sweep {
    fn new(job: Job) -> Self {
        // Memory, where there is such a place: what is tested here does not depend on a disk.
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let root = tempfile::tempdir_in(parent).unwrap();
        let dir = root.path().canonicalize().unwrap().join("work");
        job.set_up(&dir);
        let old = job.view(&dir);
        let ended = job.run(&dir);
        assert_eq!(ended.code, Some(0), "{job:?}: {ended:?}");
        let new = job.view(&dir);
        let again = job.run(&dir).code;
        let newer = job.view(&dir);
        let files = files(&dir);
        Self { job, _root: root, dir, old, new, newer, again, files }
    }

    /// Every call that the command makes, with every fault that makes sense there.
    fn cases(&self) -> Vec<Case> {
        let log = self.dir.with_extension("log");
        self.job.set_up(&self.dir);
        let mut counts = strace::count(&self.dir, &log, &self.job);
        self.job.set_up(&self.dir);
        counts.extend(strace::count_shared(&self.dir, &log, &self.job, &self.files));
        let full = std::env::var_os("TENURE_SWEEP").is_some_and(|value| value == "full");
        let mut dice = Dice::new();
        let mut cases = Vec::new();
        for (call, count) in counts {
            for fault in faults(&call, full) {
                let mut numbers: Vec<_> = (1..=count).collect();
                let kill = fault == Fault::Kill;
                let sample = if kill { SAMPLE_OF_KILLS } else { SAMPLE };
                while !full && numbers.len() > sample {
                    numbers.swap_remove(dice.below(numbers.len()));
                }
                let case = |number| Case { call: call.clone(), number, fault };
                cases.extend(numbers.into_iter().map(case));
            }
        }
        cases
    }

    /// Runs the command with one fault and judges what it left.
    fn judge(&self, case: &Case) {
        let Self { job, dir, .. } = self;
        job.set_up(dir);
        let ended = strace::with_fault(dir, job, case, &self.files);
        let about = format!("{case:?} in {:?}: {ended:?}", job.args);
        let Said { message, committed } = self.judge_end(case, &ended, &about);
        let seen = job.view(dir);
        let whole = job.plain_is_whole(&seen.plain, &self.old.plain, &self.new.plain);
        assert!(whole, "a plain reader sees {:?} after {about}", seen.plain);
        let (is_old, is_new) = (seen.ours == self.old.ours, seen.ours == self.new.ours);
        assert!(is_old || is_new, "tenure sees {:?} after {about}", seen.ours);
        assert!(is_new || ended.code != Some(0), "acknowledged, but not there after {about}");
        if self.old.ours != self.new.ours {
            let right = match committed {
                Some(true) => is_new || message.contains(LATER),
                Some(false) => is_old,
                None => true,
            };
            assert!(right, "it says committed: {committed:?}, but done: {is_new} after {about}");
        }
        let outcome = Outcome { done: is_new && self.old != self.new, message, about };
        self.judge_next(&outcome);
        self.judge_rest(&outcome);
    }

    /// How it ended, and the line in which it said why.
    fn judge_end(&self, case: &Case, ended: &Ended, about: &str) -> Said {
        assert!(!ended.stderr.contains("panicked"), "a panic: {about}");
        let Some(code) = ended.code else {
            assert_eq!((case.fault, ended.signal), (Fault::Kill, Some(9)), "{about}");
            return Said::default();
        };
        assert!(self.job.is_documented(code), "undocumented exit code: {about}");
        let repeated = case.fault != Fault::Interrupted || code == 0;
        assert!(repeated, "an interrupted call was not repeated: {about}");
        let mut lines: Vec<_> = ended.stderr.lines().collect();
        // 137 is the killed command of `run`; there is nothing to add to that.
        let failed = code != 0 && code != 137;
        let line = if failed { lines.pop().unwrap_or_default() } else { "" };
        let warning = if case.is_json(&self.job) { "{\"warning\":" } else { "tenure: warning: " };
        assert!(lines.iter().all(|line| line.starts_with(warning)), "not one line: {about}");
        let mut said = Said::default();
        if failed && case.is_json(&self.job) {
            let object: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{about}"));
            assert_eq!(object["exit"], code, "{about}");
            said.message = format!("tenure: {}", object["message"].as_str().unwrap());
            said.committed = object["committed"].as_bool();
        } else {
            line.clone_into(&mut said.message);
        }
        let told = !failed || said.message.starts_with("tenure: failed to ");
        assert!(told, "it does not say why: {about}");
        said
    }

    /// No lock is left, and the data is whole: the next command works at once.
    fn judge_next(&self, outcome: &Outcome) {
        let Self { job, dir, .. } = self;
        let Outcome { done, message, about } = outcome;
        let next = job.run(dir);
        let now = job.view(dir);
        // Nobody promises durability for what a failed sync covers, a repetition neither (S3).
        if message.contains(NOT_DURABLE) && next.stderr.contains(NOT_DURABLE) {
            assert_eq!((&now, &self.new), (&self.newer, &self.newer), "{next:?} after {about}");
            return;
        }
        let (code, view) = if *done { (self.again, &self.newer) } else { (Some(0), &self.new) };
        // A batch that is logged but not visible yet comes first, whole, with the next write.
        let logged = message.contains(LATER);
        let may_be_logged = job.subject == Subject::Journal && message.is_empty();
        let late = !done && now == self.newer && (logged || may_be_logged);
        assert!(late || next.code == code, "the next command fails: {next:?} after {about}");
        assert!(
            late || (&now == view && (*done || !logged)),
            "the next one left {now:?} after {about}"
        );
    }

    /// No temporary file is left when the next change is through.
    fn judge_rest(&self, outcome: &Outcome) {
        let alone = self.new != self.newer && self.job.subject == Subject::Document;
        if !alone {
            self.job.change(&self.dir); // Not every command makes every kind of temporary file.
        }
        let names = names(&self.dir.join(".tenure"));
        let left: Vec<_> = names.iter().filter(|name| is_temp(name)).collect();
        assert!(left.is_empty(), "left over: {left:?} after {}", outcome.about);
    }
}

/// What the command said about its failure.
#[derive(Default)]
struct Said {
    message: String,
    /// Whether its change was made, as far as it says so.
    committed: Option<bool>,
}

/// What the faulty command left.
struct Outcome {
    /// Whether its change can be seen.
    done: bool,
    /// Why it failed, in its own words.
    message: String,
    /// For people.
    about: String,
}

/// A small generator, so that a sample can be repeated.
struct Dice(u64);

impl Dice {
    #[expect(clippy::print_stdout, reason = "shown with a failure")]
    fn new() -> Self {
        let given = std::env::var("TENURE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed: u64 = given.unwrap_or_else(|| std::process::id().into());
        println!("run again with TENURE_TEST_SEED={seed}");
        Self(seed.wrapping_mul(2_654_435_769) | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// The faults that make sense at a call.
fn faults(call: &str, full: bool) -> Vec<Fault> {
    let errors: &[&str] = match call {
        "open" | "openat" | "openat2" => &["EMFILE", "EACCES", "EROFS", "EIO", "ENOSPC"],
        "write" | "pwrite64" | "copy_file_range" | "fallocate" | "ftruncate" => {
            &["ENOSPC", "EIO", "EDQUOT"]
        }
        "fsync" | "fdatasync" => &["EIO", "ENOSPC", "EDQUOT"],
        "rename" | "renameat" | "renameat2" | "link" | "linkat" => {
            &["ENOSPC", "EIO", "EACCES", "EROFS"]
        }
        "mkdir" | "mkdirat" => &["ENOSPC", "EACCES", "EROFS", "EDQUOT"],
        "unlink" | "unlinkat" => &["EIO", "EACCES", "EROFS"],
        "fchmod" | "fchown" => &["EIO", "EPERM", "EROFS"],
        "flock" => &["ENOLCK", "EIO"],
        "statx" | "readlink" => &["EIO", "EACCES"],
        "fstat" | "statfs" | "read" | "pread64" | "getdents64" | "flistxattr" => &["EIO"],
        "clone3" => &["EAGAIN"],
        // A failed close would keep the file open here, which Linux never does.
        _ => &[],
    };
    let mut faults = Vec::new();
    if full || !LOOKS.contains(&call) {
        faults.push(Fault::Kill);
    }
    faults.extend(errors.iter().copied().map(Fault::Once));
    match call {
        // A full disk stays full, a broken one broken, and a table of open files full.
        "pwrite64" | "mkdir" => faults.push(Fault::Always("ENOSPC")),
        "fsync" | "fdatasync" => faults.push(Fault::Always("EIO")),
        "openat2" => faults.push(Fault::Always("EMFILE")),
        "renameat" | "renameat2" | "linkat" | "unlink" => faults.push(Fault::Always("EROFS")),
        _ => {}
    }
    if ["flock", "fsync", "fdatasync", "read", "pread64", "write", "pwrite64"].contains(&call) {
        faults.push(Fault::Interrupted);
    }
    faults
}

/// Every name in a directory, if there is one.
fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Every file that the command touches, but for those with random names.
fn files(dir: &Path) -> Vec<String> {
    let hidden = dir.join(".tenure");
    let path = |dir: &Path, name: &str| dir.join(name).into_os_string().into_string().unwrap();
    let mut files: Vec<_> = names(dir).iter().map(|name| path(dir, name)).collect();
    files.extend(names(&hidden).iter().map(|name| path(&hidden, name)));
    files.push(path(&hidden, "d.json.tmp.0000000000000000"));
    files.push("/proc/sys/kernel/random/boot_id".to_owned());
    files
}

fn is_temp(name: &str) -> bool {
    let random = name.rsplit_once("tmp.").map_or("", |(_, random)| random);
    random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[expect(clippy::print_stdout, reason = "how much was tried; shown with a failure or on request")]
fn sweep(job: Job) {
    if !strace::available() {
        return;
    }
    let sweep = Sweep::new(job);
    let cases = sweep.cases();
    let kills = cases.iter().filter(|case| case.fault == Fault::Kill).count();
    println!("{} cases, {kills} of them kills: {:?}", cases.len(), job.args);
    assert!(kills > 5 && cases.len() > 30, "too little to tell: {cases:?}");
    // All of them, because one cause often shows at several calls.
    let judge = |case: &&Case| catch_unwind(AssertUnwindSafe(|| sweep.judge(case))).is_err();
    let bad: Vec<_> = cases.iter().filter(judge).collect();
    assert!(bad.is_empty(), "{} bad: {bad:?}", bad.len());
}
