//! Every file of the corpus, replayed.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tenure_proof::{Form, Tally, inputs, not_run};

use crate::runs::within;

fn directory(target: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

#[test]
fn every_file_of_the_corpus_is_harmless() {
    let mut tally = Tally::new("parsers", "every_file_of_the_corpus_is_harmless");
    for (target, check) in inputs::ALL {
        let mut files = 0;
        for file in std::fs::read_dir(directory(target)).expect("a directory per target") {
            let path = file.expect("a file").path();
            let bytes = std::fs::read(&path).expect("a readable file");
            within(Duration::from_secs(20), &path.display().to_string(), move || check(&bytes));
            files += 1;
        }
        assert!(files > 0, "{target} has no corpus");
        tally.tried(files, "corpus files");
    }
}

/// The long form goes on from the corpus with the fuzzer itself, a minute per target. Where cargo-fuzz
/// is not installed it says so; `TENURE_WITHOUT_FUZZ=1` makes that no failure.
#[test]
fn the_fuzzer_finds_nothing_new() {
    let mut tally = Tally::new("parsers", "the_fuzzer_finds_nothing_new");
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (target, _) in inputs::ALL {
        // New inputs go to a directory of their own; the corpus changes only by hand.
        let scratch = tempfile::tempdir().expect("a directory");
        let mut fuzz = Command::new("cargo");
        fuzz.args(["fuzz", "run", target]).arg(scratch.path()).arg(directory(target));
        fuzz.args(["--", "-max_total_time=60", "-timeout=20", "-rss_limit_mb=1024"]);
        // The sanitizers are behind flags that a stable compiler takes only like this.
        let status = fuzz.env("RUSTC_BOOTSTRAP", "1").current_dir(&root).status();
        let status = status.expect("cargo can be started");
        assert!(status.success(), "{target}: {status}; the input is in fuzz/artifacts/{target}");
        tally.tried(60, "seconds of fuzzing");
    }
}
