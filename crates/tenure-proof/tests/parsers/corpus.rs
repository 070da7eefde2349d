//! Every file of the corpus, replayed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tenure_proof::inputs::{self, Check, Fate};
use tenure_proof::{Form, Tally, not_run};

use crate::runs::within;

/// The least number of files of its corpus that each target accepts.
const BELIEVED: &[(&str, usize)] = &[("record", 3), ("floor", 5)];

pub(crate) fn directory(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

fn files(target: &str) -> Vec<(String, Vec<u8>)> {
    let read = |file: std::io::Result<std::fs::DirEntry>| {
        let path = file.expect("a file").path();
        (path.display().to_string(), std::fs::read(&path).expect("a readable file"))
    };
    let mut files: Vec<_> =
        std::fs::read_dir(directory(target)).expect("a directory per target").map(read).collect();
    files.sort();
    files
}

/// Every target gets every file: a file that is harmless in its place may be planted in another
/// one. Each target accepts some of its own files: the checksums do not reject all of the corpus.
#[test]
fn every_file_of_the_corpus_is_harmless_and_some_are_believed() {
    let test = "every_file_of_the_corpus_is_harmless_and_some_are_believed";
    let mut tally = Tally::new("parsers", test);
    let all: Vec<_> = inputs::ALL.iter().map(|(target, _)| (*target, files(target))).collect();
    for (home, files) in &all {
        assert!(!files.is_empty(), "{home} has no corpus");
    }
    for (target, check) in inputs::ALL {
        // In parallel: a document that cannot be parsed is read for a while.
        let own = std::thread::scope(|scope| {
            let mut started = Vec::new();
            for (home, files) in &all {
                started.push((home, scope.spawn(move || believed(files, target, *check))));
            }
            let mut own = 0;
            for (home, work) in started {
                let believed = work.join().expect("what went wrong is on the output");
                own += if home == target { believed } else { 0 };
            }
            own
        });
        println!("{target}: {own} inputs of its own corpus were believed");
        let least = BELIEVED.iter().find(|(name, _)| name == target).map_or(1, |(_, least)| *least);
        assert!(own >= least, "{target}: only {own} of its corpus were believed");
        tally.tried(all.iter().map(|(_, files)| files.len() as u64).sum(), "corpus files");
    }
}

/// How many of these files `target` accepted.
fn believed(files: &[(String, Vec<u8>)], target: &str, check: Check) -> usize {
    let was_believed = |(path, bytes): &&(String, Vec<u8>)| {
        let (what, bytes) = (format!("{path} as {target}"), bytes.clone());
        within(Duration::from_secs(20), &what, move || check(&bytes)) == Fate::Believed
    };
    files.iter().filter(was_believed).count()
}

/// The long form continues from the corpus with the fuzzer itself, a minute per target. A missing
/// cargo-fuzz is reported; `TENURE_WITHOUT_FUZZ=1` makes that no failure.
#[test]
fn the_fuzzer_finds_nothing_new() {
    if Form::asked() == Form::Quick {
        println!("not run: the fuzzer is part of the long form");
        return;
    }
    let found = Command::new("cargo").args(["fuzz", "--version"]).output();
    if !found.is_ok_and(|found| found.status.success()) {
        assert!(
            std::env::var_os("TENURE_WITHOUT_FUZZ").is_some(),
            "cargo-fuzz is not installed: `cargo install cargo-fuzz`, or set TENURE_WITHOUT_FUZZ=1"
        );
        not_run("cargo-fuzz is not installed");
        return;
    }
    let mut tally = Tally::new("parsers", "the_fuzzer_finds_nothing_new");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (target, _) in inputs::ALL {
        // New inputs go to a separate directory; the corpus changes only by hand.
        let scratch = tempfile::tempdir().expect("a directory");
        let mut fuzz = Command::new("cargo");
        fuzz.args(["fuzz", "run", target]).arg(scratch.path()).arg(directory(target));
        fuzz.args(["--", "-max_total_time=60", "-timeout=20", "-rss_limit_mb=1024"]);
        // The sanitizers need flags that a stable compiler accepts only like this.
        let status = fuzz.env("RUSTC_BOOTSTRAP", "1").current_dir(&root).status();
        let status = status.expect("cargo can be started");
        assert!(status.success(), "{target}: {status}; the input is in fuzz/artifacts/{target}");
        tally.tried(60, "seconds of fuzzing");
    }
}
