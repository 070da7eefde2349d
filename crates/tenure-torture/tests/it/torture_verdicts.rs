//! Verdicts of `tenure torture` when the torture itself is hindered.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::bench::{Bench, eventually, in_small_disk};
use crate::torture_command::{left, torture, workers_in};

fn row<'a>(verdict: &'a Value, thing: &str) -> &'a Value {
    let rows = verdict["things"].as_array().unwrap();
    rows.iter().find(|row| row["thing"] == thing).unwrap_or_else(|| panic!("{verdict:#}"))
}

/// In memory if possible: a busy disk then delays nothing.
fn in_memory() -> Bench {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { Bench::below(memory) } else { Bench::new() }
}

/// The files do not change once all workers are dead: only a file that cannot be locked is not
/// judged.
#[test]
fn after_a_standstill_the_rest_is_judged() {
    // A disk that is busy for as long as the short patience would be a standstill of the rest.
    let bench = in_memory();
    let args = "--leaky lock --ops lock,doc,journal --minutes 2";
    let verdict = torture(&bench, args).exits(5).json();
    assert_eq!(verdict["verdict"], "standstill_found", "{verdict:#}");
    assert_eq!(row(&verdict, "lock")["judged"], false, "{verdict:#}");
    for thing in ["doc", "journal"] {
        assert_eq!(row(&verdict, thing)["judged"], true, "{verdict:#}");
        assert_eq!(row(&verdict, thing)["found"], serde_json::json!({}), "{verdict:#}");
    }
}

#[test]
fn a_history_that_cannot_be_written_is_a_failure_that_names_it() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("room")).unwrap();
    let script =
        "fill; $T torture ../room --json --operations 5000 --processes 2 --history h.jsonl";
    let Some(ran) = in_small_disk(&bench, script) else { return };
    let verdict = ran.exits(5).json();
    assert_eq!(verdict["verdict"], "failure_found", "{verdict:#}");
    let detail = verdict["findings"][0]["detail"].as_str().unwrap();
    let told = "the history could not be written to h.jsonl: No space left on device";
    assert!(detail.starts_with(told), "{verdict:#}");
    assert_eq!((&verdict["history"], &verdict["found"]), (&Value::Null, &1.into()), "{verdict:#}");
}

/// The reverse case: the history is not at fault.
#[test]
fn a_full_disk_under_a_history_is_not_blamed_on_the_history() {
    let bench = Bench::new();
    let script = "$T torture . --json --minutes 5 --processes 2 --history ../h.jsonl";
    let Some(ran) = in_small_disk(&bench, script) else { return };
    let verdict = ran.exits(5).json();
    assert_eq!(verdict["verdict"], "failure_found", "{verdict:#}");
    for finding in verdict["findings"].as_array().unwrap() {
        let detail = finding["detail"].as_str().unwrap();
        assert!(detail.contains("No space left"), "{verdict:#}");
        assert!(!detail.contains("history"), "{verdict:#}");
    }
    assert_eq!(verdict["history"], "../h.jsonl", "{verdict:#}");
}

#[test]
fn how_long_a_run_of_a_command_may_take_can_be_said() {
    let bench = Bench::new();
    let slow = "sleep 2; echo {key} >>{}";
    let args = ["torture", "--minutes", "0.01", "--file", "log.txt", "--command", slow];
    let ran = bench.tenure(&[&args[..], &["--patience", "500ms"]].concat()).exits(1);
    assert!(ran.stderr.contains("it did not end in 0.5 s; give it more --patience"), "{ran:?}");
    assert!(left(&bench).is_empty());
    bench.tenure(&["torture", "--patience", "1s"]).exits(2);
    let help = bench.tenure(&["torture", "--help"]).ok().stdout;
    assert!(help.contains("--patience <D>"), "{help}");
}

/// Neither a success nor a verdict of damage, and nothing is left behind.
#[test]
fn a_panic_of_the_parent_is_no_verdict() {
    let bench = Bench::new();
    let ran = torture(&bench, "--panics parent --ops lock --operations 20").exits(101);
    assert!(ran.stderr.contains("on purpose"), "{ran:?}");
    assert_eq!(ran.stdout, "");
    assert!(left(&bench).is_empty());
}

#[test]
fn a_panic_of_a_worker_or_of_a_judge_is_a_finding() {
    let crew = ("crew --minutes 1", "ended by itself: ");
    let judge = ("judge --operations 20", "the final check panicked: ");
    for (place, told) in [crew, judge] {
        let bench = Bench::new();
        let args = format!("--ops lock,doc --panics {place}");
        let verdict = torture(&bench, &args).exits(5).json();
        assert_eq!(verdict["verdict"], "failure_found", "{verdict:#}");
        let detail = verdict["findings"][0]["detail"].as_str().unwrap();
        assert!(detail.contains(told) && detail.contains("on purpose"), "{verdict:#}");
        assert_eq!(left(&bench).len(), 1, "it is evidence");
    }
}

/// `timeout` signals both the command and its group: that counts as one signal.
#[test]
fn a_signal_that_comes_twice_leaves_nothing_behind() {
    let bench = Bench::new();
    let save = "touch begun; sleep 4321; echo {key} >>{}";
    let args = ["torture", "--json", "--patience", "1h", "--file", "log.txt", "--command", save];
    let run = bench.unshielded(&args).start();
    eventually(|| bench.path("begun").exists());
    let scratch = left(&bench).remove(0);
    // Sent by one short process: two calls of ours could be any time apart.
    let twice = ["-c", "kill -TERM $0; kill -TERM $0", &run.pid().to_string()];
    assert!(Command::new("sh").args(twice).status().unwrap().success());
    let verdict = run.wait().exits(143).json();
    assert_eq!(verdict["interrupted"], true, "{verdict:#}");
    assert_eq!(verdict["verdict"], "nothing_judged", "{verdict:#}");
    assert!(left(&bench).is_empty());
    eventually(|| workers_in(&scratch) == 0);
}

#[test]
fn a_check_that_hangs_is_told_and_a_signal_ends_it() {
    let bench = Bench::new();
    let check = "touch begun; sleep 4321";
    let args = ["torture", "--json", "--file", "log.txt", "--check", check];
    let save = ["--command", "echo {key} >>{}", "--patience"];
    let ran = bench.tenure(&[&args[..], &save, &["3s"]].concat()).exits(1);
    assert!(ran.stderr.contains("the check failed: it did not end in 3 s"), "{ran:?}");
    std::fs::remove_file(bench.path("begun")).unwrap();
    let run = bench.unshielded(&[&args[..], &save, &["1h"]].concat()).start();
    eventually(|| bench.path("begun").exists());
    run.signal(Signal::TERM);
    let verdict = run.wait().exits(143).json();
    assert_eq!((&verdict["interrupted"], &verdict["operations"]), (&true.into(), &0.into()));
    assert!(left(&bench).is_empty());
}

#[test]
fn too_little_of_anything_is_no_clean_verdict() {
    let bench = Bench::new();
    // So slow that there is time to interrupt it.
    let save = "sleep 0.3; echo {key} >>{}";
    let args = ["torture", "--operations", "1", "--file", "log.txt", "--command", save];
    let ran = bench.tenure(&args).exits(1);
    assert!(ran.stderr.contains("too few to tell"), "{ran:?}");
}
