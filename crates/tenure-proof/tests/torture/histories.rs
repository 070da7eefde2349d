//! What every operation returned, and when: is there one order of all of them that explains it?

use std::path::PathBuf;

use tempfile::TempDir;
use tenure_proof::{Form, History, Judgement, Object, Tally, read_history, seed};

use crate::controls::RUNS;
use crate::run::{Ran, torture};

fn history(words: &[&str]) -> (History, Ran, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let file: PathBuf = dir.path().join("history.jsonl");
    let path = file.to_str().expect("a path");
    let ran = torture(&[&["--history", path, "--minutes", "60"], words].concat()).clean();
    (read_history(&file), ran, dir)
}

#[test]
fn every_history_is_linearizable() {
    let mut tally = Tally::new("torture", "every_history_is_linearizable");
    let seed = seed("torture", "every_history_is_linearizable").to_string();
    let operations = Form::asked().pick("10000", "1000000");
    let words = ["--seed", &seed, "--processes", "8", "--operations", operations];
    let (history, ran, _dir) = history(&words);
    assert_eq!(history.violations(), []);
    // A history without overlap, or without kills and pauses, proves little.
    let (len, concurrent, unanswered) = (history.len(), history.concurrent(), history.unanswered());
    assert!(
        concurrent > len / 20 && unanswered > len / 2000,
        "{concurrent}, {unanswered} of {len}"
    );
    for blow in ["kills", "pauses"] {
        assert!(ran.number(blow) > len / 2000, "{blow}: {:#}", ran.verdict);
        tally.tried(ran.number(blow), &format!("{blow} in histories"));
    }
    tally.tried(len, "operations in linearizable histories");
    tally.tried(unanswered, "operations cut short by a kill");
}

#[test]
fn histories_of_code_that_protects_nothing_are_not() {
    let mut tally = Tally::new("torture", "histories_of_code_that_protects_nothing_are_not");
    let seed = seed("torture", "histories_of_code_that_protects_nothing_are_not");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("history.jsonl");
    let path = file.to_str().expect("a path");
    let mut left = vec![Object::Counter, Object::Register, Object::Queue];
    // A scheduler may let few of them overlap in one run, but not in all.
    for run in 0..RUNS {
        let seed = (seed + run).to_string();
        let words =
            ["--seed", &seed, "--processes", "8", "--operations", "2000", "--minutes", "60"];
        torture(&[&["--history", path, "--control=naive"], &words[..]].concat());
        for (_, object, judgement) in read_history(&file).violations() {
            if judgement == Judgement::NotLinearizable && left.contains(&object) {
                left.retain(|left| *left != object);
                let what = "without locks: a history that is not linearizable";
                tally.caught(&format!("a {object:?} {what}"));
            }
        }
        if left.is_empty() {
            break;
        }
    }
    assert_eq!(left, [], "not found in {RUNS} runs");
}
