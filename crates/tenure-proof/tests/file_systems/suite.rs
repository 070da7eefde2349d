//! What every file system that tenure writes to must show.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use tenure::fs::Trust;
use tenure::{AppendOptions, Document, ErrorKind, Journal, Wait, WriteOptions, json};
use tenure_proof::victim::{self, Ack};
use tenure_proof::{Form, Tally, not_run};

use crate::RING;
use crate::processes::{BUSY, Holder, LONG, crowd, tenure};

/// A check of a file system, with the head of its column in the table.
type Check = (&'static str, fn(&Path) -> Result<(), String>);

/// In this order; the last one leaves nothing behind for the next file system.
const CHECKS: &[Check] = &[
    ("one holder", one_holder),
    ("death frees", death_frees),
    ("no lost update, whole batches", nothing_is_lost),
    ("lease", lease_excludes),
    ("watch and follow", changes_are_seen),
    ("torture", torture),
    ("full disk", full_disk),
];

/// Why FUSE servers are not tortured: the judges find this at once. tenure reads again.
const UNSEEN: &str = "a plain reader may find no document while it is being replaced";

/// Runs every check in `dir`, which is on a file system of its own, small enough to be filled.
pub(crate) fn run(name: &str, dir: &Path) -> Tally {
    let mut tally = Tally::new(RING, name);
    for (what, check) in CHECKS {
        if *what == "torture" && name.starts_with("FUSE") {
            not_run(&format!("torture on {name}: {UNSEEN}"));
            continue;
        }
        let place = dir.join(what.replace([' ', ','], "-"));
        std::fs::create_dir(&place).unwrap();
        if let Err(problem) = check(&place) {
            panic!("{name}: {what}: {problem}");
        }
        tally.tried(1, what);
    }
    let trust = match tenure::disk().trust(dir).unwrap() {
        Trust::Yes | Trust::Unordered => "trusted",
        Trust::Probe => "tested at first use",
        Trust::No(_) => "refused",
    };
    println!("{name}: everything is kept; {trust}");
    tally.tried(1, trust);
    tally
}

fn expect(wanted: i32, (code, text): (i32, String), what: &str) -> Result<(), String> {
    if code == wanted { Ok(()) } else { Err(format!("{what}: exit {code}: {text}")) }
}

/// G1: while one process holds it, another one does not get it; afterwards it does.
fn one_holder(dir: &Path) -> Result<(), String> {
    let target = dir.join("turn");
    let holder = Holder::start(&target)?;
    let second = tenure(&["run", "--wait", "0"], &target, &["--", "true"]);
    expect(BUSY, second, "a second holder")?;
    drop(holder);
    expect(0, tenure(&["run", "--wait", LONG], &target, &["--", "true"]), "the next holder")
}

/// G2: no process waits for a dead one.
fn death_frees(dir: &Path) -> Result<(), String> {
    let target = dir.join("turn");
    for _ in 0..Form::asked().pick(2, 20) {
        Holder::start(&target)?.kill();
        let next = tenure(&["run", "--wait", LONG], &target, &["--", "true"]);
        expect(0, next, "after a kill")?;
    }
    Ok(())
}

/// G6, G7: every change of every process counts, and every batch is there.
fn nothing_is_lost(dir: &Path) -> Result<(), String> {
    let rounds = Form::asked().pick(6, 60);
    let acks = crowd(dir, 3, rounds)?;
    let number = |ack: &Ack| match ack {
        Ack::Document(number) => Some(*number),
        _ => None,
    };
    let numbers: BTreeSet<u64> = acks.iter().filter_map(number).collect();
    if !numbers.iter().copied().eq(1..=3 * rounds) {
        return Err(format!("{} changes of a counter give {numbers:?}", 3 * rounds));
    }
    let next = 4;
    victim::check(&victim::boot(1, &tenure::disk()), dir, &acks, next).map(drop)
}

/// A lease excludes other processes although its own has ended, and ends when it is released.
fn lease_excludes(dir: &Path) -> Result<(), String> {
    let target = dir.join("session");
    let token = dir.join("token");
    let token = token.to_str().ok_or("the path is no text")?;
    let acquire = |wait: &str, more: &[&str]| {
        let words = [&["--ttl", "10m", "--wait", wait], more].concat();
        tenure(&["lease", "acquire"], &target, &words)
    };
    expect(0, acquire(LONG, &["--token-file", token]), "acquire")?;
    expect(BUSY, acquire("0", &[]), "a second lease")?;
    expect(BUSY, tenure(&["run", "--wait", "0"], &target, &["--", "true"]), "a lock beside it")?;
    expect(0, tenure(&["lease", "release"], &target, &["--token-file", token]), "release")?;
    expect(0, acquire(LONG, &[]), "acquire again")
}

/// A watcher of a document and a follower of a journal see what another process changes.
fn changes_are_seen(dir: &Path) -> Result<(), String> {
    let told = |error: tenure::Error| error.to_string();
    let (state, log) = (dir.join("state.json"), dir.join("log.jsonl"));
    expect(0, tenure(&["doc", "set"], &state, &["{\"turn\":1}"]), "set")?;
    let mut watch = Document::open(&state).and_then(|state| state.watch()).map_err(told)?;
    let mut follow = Journal::open(&log).and_then(|log| log.follow(1)).map_err(told)?;
    let wait = || Wait::For(Duration::from_secs(60));
    let set = tenure(&["doc", "set"], &state, &["{\"turn\":2}"]);
    expect(0, set, "set again")?;
    let mut turn = 1;
    while turn != 2 {
        let seen = watch.next(wait()).map_err(told)?.ok_or("the watch saw nothing")?;
        turn = seen.value["turn"].as_u64().unwrap_or(0);
    }
    expect(0, tenure(&["journal", "append"], &log, &["{\"line\":1}"]), "append")?;
    let entry = follow.next(wait()).map_err(told)?.ok_or("the follower saw nothing")?;
    if entry.line == b"{\"line\":1}" { Ok(()) } else { Err(format!("{entry:?}")) }
}

/// Processes that are killed and paused at random, before judges that share no code with tenure.
fn torture(dir: &Path) -> Result<(), String> {
    let operations = Form::asked().pick("3000", "20000");
    let much = ["--operations", operations, "--processes", "4", "--minutes", "5"];
    expect(0, tenure(&["torture"], dir, &much), "torture")
}

/// G10: on a full disk a change fails with an error, the old state is intact, and later changes
/// work.
fn full_disk(dir: &Path) -> Result<(), String> {
    let told = |error: tenure::Error| error.to_string();
    let (state, log) = (dir.join("state.json"), dir.join("log.jsonl"));
    let document = Document::open(&state).map_err(told)?;
    let journal = Journal::open(&log).map_err(told)?;
    let write = WriteOptions::default();
    let append = AppendOptions::default();
    let old = json!({ "old": true });
    document.set(&old, &write).map_err(told)?;
    journal.append(&["first"], &append).map_err(told)?;
    let filler = dir.join("filler");
    fill(&filler);
    let large = "x".repeat(2 << 20);
    let refused = document.set(&json!({ "new": large }), &write);
    let appended = journal.append(&[&large], &append);
    for outcome in [refused.map(drop), appended.map(drop)] {
        match outcome {
            Ok(()) => return Err("a full disk took two megabytes".into()),
            Err(error) if error.kind() == ErrorKind::Io => {}
            Err(error) => return Err(format!("not an I/O error: {error}")),
        }
    }
    let read = document.read().map_err(told)?.map(|found| found.value);
    if read.as_ref() != Some(&old) {
        return Err(format!("the document is {read:?} after a refused change"));
    }
    std::fs::remove_file(&filler).map_err(|err| err.to_string())?;
    document.set(&json!({ "new": true }), &write).map_err(told)?;
    journal.append(&["second"], &append).map_err(told)?;
    let entries = journal.read(1, None).map_err(told)?;
    let lines: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.line)).collect();
    let lines = lines.map_err(told)?;
    if lines != [b"first", &b"second"[..]] {
        return Err(format!("{} lines are in the journal", lines.len()));
    }
    let names = std::fs::read_dir(dir.join(".tenure")).map_err(|err| err.to_string())?;
    let mut names = names.flatten().map(|entry| entry.file_name());
    let left = names.find(|name| name.to_str().is_some_and(|name| name.contains(".tmp.")));
    left.map_or(Ok(()), |name| Err(format!("{} is left over", name.display())))
}

/// Writes until the disk is full.
pub(crate) fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    for size in [1 << 20, 1 << 16, 1 << 12, 512, 1] {
        let piece = vec![b'f'; size];
        // Some accept the bytes and only report later that there is no space.
        while file.write_all(&piece).and_then(|()| file.sync_data()).is_ok() {}
    }
}
