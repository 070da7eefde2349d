//! Limits that are real: short writes, full disks, full tables of open files.

use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;

use tenure_proof::machine::{allows_root, mount_memory, own_mounts};
use tenure_proof::{Form, Tally, bounded, seed, strace};
use tenure_testkit::Random;

use super::job::{Job, Program, Subject, tenure};
use super::jobs::{OPERATIONS, document};
use super::sweep::{RING, Sweep};
use super::trouble::{Trouble, fill_pages};

/// Space for every operation, in pages; little, since it is filled up each time.
const DISK: &str = "size=256k,nr_inodes=100";

/// At least this many limits of a kind make a command fail.
const FELT_MIN: u64 = 20;

/// The name of an operation that writes much.
const LARGE: &str = "a large document";

/// A value of three pages, so that a write can be cut.
fn large() -> Job {
    let value: &'static str = format!("{:?}", "x".repeat(12_000)).leak();
    let args = vec!["doc", "set", "d.json", value].leak();
    document(&[&["doc", "set", "d.json", "1"]], args)
}

/// Every operation, and one that writes much. A command started by `run` is not judged.
fn operations() -> Vec<(&'static str, Job)> {
    let ours = OPERATIONS.iter().copied().filter(|(_, job)| job.subject != Subject::Run);
    let traced = ours.filter(|(_, job)| job.lacks.is_none());
    traced.chain([(LARGE, large())]).collect()
}

/// All of them, or a few in the quick form.
fn sample(name: &str, mut troubles: Vec<Trouble>, random: &mut Random) -> Vec<Trouble> {
    let sampled = Form::asked() == Form::Quick && name != LARGE;
    while sampled && troubles.len() > 3 {
        troubles.swap_remove(random.index(troubles.len()));
    }
    troubles
}

/// Runs every operation into what `troubles` names; the quick form takes a few of each.
fn limits(test: &str, what: &str, in_memory: bool, troubles: impl Fn(&Sweep) -> Vec<Trouble>) {
    let mut tally = Tally::new(RING, test);
    let mut random = Random::new(seed(RING, test));
    let root = tempfile::tempdir().unwrap();
    if in_memory {
        own_mounts();
        mount_memory(root.path(), DISK);
    }
    let dir = root.path().canonicalize().unwrap().join("work");
    let (mut bad, mut wide) = (Vec::new(), 0);
    for (name, job) in operations() {
        let sweep = Sweep::at(job, dir.clone(), None).unwrap();
        let troubles = sample(name, troubles(&sweep), &mut random);
        bad.extend(sweep.findings(&troubles));
        let missed = sweep.missed.take();
        tally.tried(troubles.len() as u64 - missed, what);
        wide += missed;
        std::fs::remove_dir_all(&dir).unwrap();
    }
    assert!(bad.is_empty(), "{} bad:\n{}", bad.len(), bad.join("\n"));
    assert!(tally.cases() > FELT_MIN, "too few {what} are felt: {tally:?}, {wide} are not");
}

#[test]
fn g10_race_43_writes_that_are_cut_short_by_a_limit_on_the_length_of_files() {
    if strace::available() {
        let test = "g10_race_43_writes_that_are_cut_short_by_a_limit_on_the_length_of_files";
        let sizes = |sweep: &Sweep| sweep.file_sizes().into_iter().map(Trouble::FileSize).collect();
        limits(test, "limits on the length of files", false, sizes);
    }
}

#[test]
fn g10_race_43_writes_that_are_cut_short_while_recovering_from_a_crash() {
    if !strace::available() {
        return;
    }
    let test = "g10_race_43_writes_that_are_cut_short_while_recovering_from_a_crash";
    let mut tally = Tally::new(RING, test);
    let mut random = Random::new(seed(RING, test));
    let mut bad = Vec::new();
    for (name, job) in operations() {
        let first = Sweep::new(job);
        if first.is_of_a_reader() {
            continue;
        }
        let crash = first.a_crash(&mut random);
        let Some(again) = Sweep::at(job, first.dir.clone(), Some(crash)) else { continue };
        let sizes = again.file_sizes().into_iter().map(Trouble::FileSize).collect();
        let troubles = sample(name, sizes, &mut random);
        bad.extend(again.findings(&troubles));
        tally.tried(
            troubles.len() as u64 - again.missed.take(),
            "limits on the length of files while recovering from a crash",
        );
    }
    assert!(bad.is_empty(), "{} bad:\n{}", bad.len(), bad.join("\n"));
    assert!(tally.cases() > 20, "too little to tell: {tally:?}");
}

#[test]
fn g10_race_13_no_more_open_files() {
    // With fewer than four the program itself cannot be loaded; above twelve no command is
    // affected.
    let numbers = |_: &Sweep| (4..=12).map(Trouble::OpenFiles).collect();
    limits("g10_race_13_no_more_open_files", "limits on open files", false, numbers);
}

#[test]
fn g10_race_43_a_full_disk() {
    if allows_root() {
        let pages = |_: &Sweep| (0..=8).map(Trouble::Pages).collect();
        limits("g10_race_43_a_full_disk", "disks with a few free pages", true, pages);
    }
}

#[test]
fn g10_a_disk_without_room_for_names() {
    if allows_root() {
        let names = |_: &Sweep| (0..=8).map(Trouble::Names).collect();
        limits("g10_a_disk_without_room_for_names", "disks with a few free names", true, names);
    }
}

/// Whether a write in this log of strace was cut short: some bytes, but fewer than requested.
fn has_short_write(log: &Path) -> bool {
    let short = |line: &str| {
        let (call, result) = line.rsplit_once(" = ")?;
        let result: u64 = result.parse().ok()?;
        let arguments = call.split_once("write")?.1.split_once("\"..., ")?.1;
        let length: u64 = arguments.split([',', ')']).next()?.parse().ok()?;
        Some(0 < result && result < length)
    };
    read_to_string(log).unwrap().lines().any(|line| short(line) == Some(true))
}

#[test]
fn the_limits_cut_writes_short() {
    if !strace::available() || !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "the_limits_cut_writes_short");
    own_mounts();
    let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    mount_memory(root.path(), DISK);
    let (dir, log, job) = (root.path().join("work"), outside.path().join("log"), large());
    let traced = |script: &str| {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-s", "0", "-e", "trace=write,pwrite64", "-o"]).arg(&log);
        command.args(["sh", "-c", script, "sh"]).arg(Program::Tenure.path()).args(job.args);
        command.current_dir(&dir);
        let ended = bounded::run(command);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(has_short_write(&log), "no write was cut: {}", read_to_string(&log).unwrap());
    };
    job.set_up(&dir);
    traced("trap '' XFSZ; exec prlimit --fsize=5000 -- \"$@\"");
    let fillers = fill_pages(&dir, 2);
    traced("exec \"$@\"");
    for filler in fillers {
        std::fs::remove_file(filler).unwrap();
    }
    assert_eq!(tenure(&dir, &["doc", "get", "d.json"]).stdout, "1\n");
    tally.tried(2, "kinds of limits that cut a write short");
}
