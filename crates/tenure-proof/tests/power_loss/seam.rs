//! The recordings are complete: every system call of a victim passes through the seam.
//!
//! The crash states are made from what is recorded at the seam. A write or a rename below it, or a
//! sync that is promised there and not made, would be missing; `strace` sees both.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use tenure_proof::crash_states::{Change, Op, Recorder, State};
use tenure_proof::mount::memory;
use tenure_proof::victim::{self, Task, Work};
use tenure_proof::{Tally, not_run};

use crate::RING;

const ROUNDS: u64 = 3;
/// All calls that change or sync a file system, or could change a file.
const CALLS: &str = "trace=open,openat,openat2,creat,write,pwrite64,writev,pwritev,pwritev2,truncate,\
                     ftruncate,fallocate,copy_file_range,sendfile,fsync,fdatasync,sync,syncfs,\
                     sync_file_range,msync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,rmdir,\
                     mkdir,mkdirat,symlink,symlinkat,mknod,mknodat";

/// How often each kind of operation was done.
type Counts = BTreeMap<&'static str, u64>;

/// A run as the seam sees it.
fn recorded(dir: &Path) -> Counts {
    let recorder = Recorder::new(dir);
    let fs = victim::boot(0, &recorder.over(&tenure::disk()));
    let work = Work { dir: dir.to_path_buf(), writer: 1, tasks: Task::all(), rounds: ROUNDS };
    victim::work(&fs, &work, &mut |_| {}).unwrap();
    let mut counts = Counts::new();
    for op in recorder.finish(State::default()).ops {
        let kind = match op {
            Op::Change(Change::Names(_)) => "names",
            Op::Change(Change::Write { .. }) => "writes",
            Op::Change(Change::Length { .. }) => "lengths",
            Op::Sync(_) => "syncs",
            Op::SyncNames(_) => "syncs of directories",
            Op::Ack(_) => continue,
        };
        *counts.entry(kind).or_default() += 1;
    }
    counts
}

/// The same run as the kernel sees it.
fn traced(dir: &Path, log: &Path) -> Counts {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-qq", "-s", "0", "-e", "signal=none", "-e", CALLS, "-o"]).arg(log);
    strace.arg(env!("CARGO_BIN_EXE_victim")).arg(dir);
    strace.args([
        "--boot",
        "0",
        "--writer",
        "1",
        "--tasks",
        "all",
        "--rounds",
        &ROUNDS.to_string(),
    ]);
    let status = strace.stdin(Stdio::null()).stdout(Stdio::null()).status();
    assert!(status.expect("strace can be started").success());
    let mut counts = Counts::new();
    for call in calls(&std::fs::read_to_string(log).unwrap()) {
        if let Some(kind) = kind_of(&call, dir) {
            *counts.entry(kind).or_default() += 1;
        }
    }
    counts
}

/// The calls of a log; a call that another thread interrupted is reassembled.
fn calls(log: &str) -> Vec<String> {
    let mut begun: BTreeMap<&str, &str> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in log.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        if let Some((start, _)) = call.split_once("<unfinished ...>") {
            begun.insert(thread, start);
        } else if let Some((_, end)) = call.split_once(" resumed>") {
            calls.push(format!("{}{end}", begun.remove(thread).unwrap_or_default()));
        } else {
            calls.push(call.to_owned());
        }
    }
    calls
}

/// What a call did below `dir`, if it did anything.
fn kind_of(call: &str, dir: &Path) -> Option<&'static str> {
    let (name, rest) = call.split_once('(')?;
    let failed = rest.rsplit_once(" = ").is_none_or(|(_, result)| result.starts_with(['-', '?']));
    if failed || !rest.contains(dir.to_str()?) {
        return None;
    }
    match name {
        "open" | "openat" | "openat2" | "creat" => rest.contains("O_CREAT").then_some("names"),
        "rename" | "renameat" | "renameat2" | "link" | "linkat" | "unlink" | "unlinkat"
        | "mkdir" | "mkdirat" => Some("names"),
        "write" | "pwrite64" => Some("writes"),
        "ftruncate" => Some("lengths"),
        "fsync" if is_of_a_directory(rest) => Some("syncs of directories"),
        "fdatasync" | "fsync" => Some("syncs"),
        _ => panic!("unknown call `{call}`"),
    }
}

/// Whether the descriptor of a call is a directory: `NUMBER</path>) = 0`.
fn is_of_a_directory(rest: &str) -> bool {
    let path = rest.split_once('<').and_then(|(_, path)| path.split_once('>'));
    path.is_some_and(|(path, _)| Path::new(path).is_dir())
}

#[test]
fn a_recording_at_the_seam_misses_nothing_that_the_kernel_does() {
    let test = "a_recording_at_the_seam_misses_nothing";
    if std::env::var_os("TENURE_WITHOUT_STRACE").is_some_and(|value| value == "1") {
        not_run(&format!("{test}: there is no strace here (TENURE_WITHOUT_STRACE=1)"));
        return;
    }
    let mut tally = Tally::new(RING, test);
    let scratch = memory();
    let root = scratch.path().canonicalize().unwrap();
    let [one, other] = ["one", "other"].map(|name| root.join(name));
    std::fs::create_dir(&one).unwrap();
    std::fs::create_dir(&other).unwrap();
    let (recorded, traced) = (recorded(&one), traced(&other, &root.join("log")));
    println!("{traced:?}");
    assert_eq!(recorded, traced);
    tally.tried(traced.values().sum(), "system calls compared with a recording");
}
