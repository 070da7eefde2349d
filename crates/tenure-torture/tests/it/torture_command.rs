//! `tenure torture`: what it finds, what it leaves, and how it ends. The long runs are ring 3.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::bench::{Bench, Ran, eventually, in_small_disk, terminal};

/// The directories that runs have left.
pub(crate) fn left(bench: &Bench) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(bench.path("")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.to_string_lossy().contains("tenure-torture-")).collect()
}

pub(crate) fn torture(bench: &Bench, words: &str) -> Ran {
    let words: Vec<_> = words.split(' ').collect();
    bench.tenure(&[&["torture", "--json", "--seed", "7", "--processes", "4"], &words[..]].concat())
}

#[test]
fn a_run_without_a_finding_leaves_nothing() {
    let bench = Bench::new();
    // A thing that is named twice is judged once.
    torture(&bench, "--operations 50 --ops doc,doc").ok();
    let ran = torture(&bench, "--operations 3000 --minutes 60").ok();
    let verdict = ran.json();
    assert_eq!(verdict["verdict"], "nothing_found");
    assert_eq!(verdict["kept"], Value::Null);
    assert!(verdict["operations"].as_u64().unwrap() > 0, "{verdict}");
    for thing in verdict["things"].as_array().unwrap() {
        assert!(thing["operations"].as_u64().unwrap() > 0, "{verdict}");
    }
    assert_eq!(left(&bench), [""; 0].map(PathBuf::from));
}

#[test]
fn a_finding_is_5_keeps_the_evidence_and_says_how_to_repeat_it() {
    let bench = Bench::new();
    let args = ["torture", "--control=naive", "--ops", "doc", "--minutes", "0.2", "--seed", "7"];
    let ran = bench.tenure(&args).exits(5);
    let kept = left(&bench);
    assert_eq!(kept.len(), 1, "{ran:?}");
    assert!(ran.stdout.contains(&format!("kept: {}", kept[0].display())), "{ran:?}");
    assert!(ran.stdout.contains("DAMAGE FOUND"), "{ran:?}");
    let last = ran.stdout.lines().last().unwrap();
    assert!(last.starts_with("repeat: tenure torture "), "{last}");
    assert!(last.contains("--seed 7 --ops doc"), "{last}");
    assert!(!ran.stdout.contains('\x1b'), "colour is for terminals: {ran:?}");
}

#[test]
fn its_help_says_what_is_found_and_how_it_ends() {
    let help = Bench::new().tenure(&["torture", "--help"]).ok().stdout;
    for part in ["anything that hangs", "Ctrl-C once: stop, check and report."] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

/// A run that was interrupted is not a finished one.
#[test]
fn a_signal_ends_it_with_the_verdict_so_far_and_its_own_code() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let bench = Bench::new();
        let args = ["torture", "--json", "--minutes", "60", "--processes", "4"];
        let run = bench.unshielded(&args).start();
        eventually(|| left(&bench).iter().any(|dir| dir.join("doc.json").exists()));
        run.signal(signal);
        let verdict = run.wait().exits(code).json();
        assert_eq!(verdict["interrupted"], true);
        assert_eq!(verdict["verdict"], "nothing_found");
        assert_eq!(left(&bench).len(), 0);
    }
}

/// A standstill is found even in a run that is shorter than the patience.
#[test]
fn a_short_run_waits_for_what_may_stand_still() {
    let bench = Bench::new();
    let verdict = torture(&bench, "--leaky doc --ops doc --minutes 0.09").exits(5).json();
    assert_eq!(verdict["verdict"], "standstill_found", "{verdict:#}");
    let detail = verdict["findings"][0]["detail"].as_str().unwrap();
    assert!(detail.starts_with("no change for "), "{verdict:#}");
    // Reads do not pass the gate.
    assert_eq!(verdict["things"][0]["judged"], true, "{verdict:#}");
}

/// The final check hangs at a gate; an interruption prints what is known.
#[test]
fn a_signal_ends_the_last_look_with_the_verdict_so_far() {
    let bench = Bench::new();
    let (mut screen, slave) = terminal();
    let output = std::fs::File::create(bench.path("output")).unwrap();
    let args = ["torture", "--json", "--leaky", "doc", "--ops", "doc", "--processes", "4"];
    let mut run = bench.unshielded(&args).with_stdout(output).with_stderr(slave).spawn();
    eventually(|| left(&bench).iter().any(|dir| dir.join("judge.memory").exists()));
    // Closed before any worker enters, or by one that forgot it or was killed inside.
    let gate = left(&bench)[0].join("doc.gate");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) && std::fs::File::create_new(&gate).is_err() {}
    let interrupt = || kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    interrupt();
    see(&mut screen, "final check: doc");
    interrupt();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let verdict: Value = serde_json::from_str(&bench.read("output")).unwrap();
    assert_eq!(verdict["verdict"], "nothing_judged", "{verdict:#}");
    assert_eq!(verdict["interrupted"], true, "{verdict:#}");
    assert_eq!(verdict["things"][0]["judged"], false, "{verdict:#}");
    assert_eq!(left(&bench).len(), 0);
}

/// A check that was interrupted has no result.
#[test]
fn a_signal_is_no_answer_of_a_check() {
    let bench = Bench::new();
    let (mut screen, slave) = terminal();
    let output = std::fs::File::create(bench.path("output")).unwrap();
    let check = "if test -e slow; then touch asleep; exec sleep 600; fi; touch slow";
    let save = "echo {key} >>{}";
    let args = ["torture", "--json", "--processes", "2", "--minutes", "0.01", "--file", "log.txt"];
    let more = ["--check", check, "--command", save];
    let args = [&args[..], &more].concat();
    let mut command = bench.unshielded(&args).with_stdout(output).with_stderr(slave).unstarted();
    let mut run = command.process_group(0).spawn().unwrap();
    see(&mut screen, "the final check of this round");
    eventually(|| bench.path("asleep").exists());
    // From the keyboard it goes to the whole group.
    kill_process_group(Pid::from_child(&run), Signal::INT).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let verdict: Value = serde_json::from_str(&bench.read("output")).unwrap();
    assert_eq!(verdict["verdict"], "nothing_judged", "{verdict:#}");
    assert_eq!(verdict["things"][0]["judged"], false, "{verdict:#}");
}

/// Reads the terminal until it contains this.
fn see(screen: &mut impl Read, text: &str) -> Vec<u8> {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(text) {
        let mut bytes = [0; 256];
        let count = screen.read(&mut bytes).unwrap();
        seen.extend_from_slice(&bytes[..count]);
    }
    seen
}

/// Processes with this path among their arguments.
#[cfg(target_os = "linux")]
pub(crate) fn workers_in(dir: &Path) -> usize {
    let dir = dir.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|one| std::fs::read(one.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(dir)).count()
}

/// The numbers of the workers in a directory, without their children.
#[cfg(target_os = "linux")]
fn worker_pids(dir: &Path) -> Vec<i32> {
    let work = format!("torture-worker\0work\0{}", dir.display());
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let workers = processes.filter(|one| {
        let line = std::fs::read(one.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&work)
    });
    workers.filter_map(|one| one.file_name().to_str()?.parse().ok()).collect()
}

/// A worker that crashes is not one that was killed: its operation may have crashed it.
#[cfg(target_os = "linux")]
#[test]
fn a_worker_that_crashes_is_a_finding() {
    use std::cell::RefCell;
    for words in [&["--ops", "doc"][..], &["--history", "h.jsonl"]] {
        let bench = Bench::new();
        let args = ["torture", "--json", "--minutes", "60", "--processes", "4"];
        let run = RefCell::new(bench.command(&[&args[..], words].concat()).start());
        eventually(|| {
            for pid in left(&bench).iter().flat_map(|dir| worker_pids(dir)).take(1) {
                // It may be gone by now; then another one is chosen.
                let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::ABORT);
            }
            !run.borrow_mut().is_running()
        });
        let verdict = run.into_inner().wait().exits(5).json();
        let finding = &verdict["findings"][0];
        assert_eq!(finding["fault"], "failed", "{verdict:#}");
        assert_eq!(verdict["verdict"], "failure_found", "{verdict:#}");
        let detail = finding["detail"].as_str().unwrap();
        assert!(detail.contains("ended by itself: signal: 6"), "{detail}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn no_worker_survives_its_parent() {
    let bench = Bench::new();
    let mut run = bench.command(&["torture", "--minutes", "60", "--processes", "4"]).start();
    eventually(|| left(&bench).first().is_some_and(|dir| workers_in(dir) > 0));
    run.kill();
    eventually(|| workers_in(&left(&bench)[0]) == 0);
}

#[test]
fn a_person_sees_how_far_it_is() {
    let bench = Bench::new();
    let (mut screen, slave) = terminal();
    let args =
        ["torture", "--operations", "500", "--processes", "2", "--ops", "lock", "--seed", "7"];
    let mut run = bench.command(&args).with_stderr(slave).spawn();
    let seen = see(&mut screen, "operations,");
    assert!(seen.starts_with(b"\r["), "a bar");
    // The terminal must be read on, or its buffer fills and the run waits; its end is an error
    // here.
    let _ = std::io::copy(&mut screen, &mut std::io::sink());
    assert!(run.wait().unwrap().success());
}

#[test]
fn a_script_that_forgets_is_found_out() {
    let bench = Bench::new();
    // A path relative to the caller's directory; the file that it saves is elsewhere.
    bench.file(
        "save.sh",
        "old=$(cat \"$1\")\nnew=$(mktemp \"$1.XXXXXX\")\n\
        printf '%s,\"%s\":1}' \"${old%?}\" \"$2\" | sed 's/{,/{/' >\"$new\"\nmv \"$new\" \"$1\"\n",
    );
    let naive = "sh ./save.sh {} {key}";
    let words = ["torture", "--json", "--processes", "4", "--minutes", "1", "--command"];
    let verdict = bench.tenure(&[&words[..], &[naive]].concat()).exits(5).json();
    let found = &verdict["things"][0]["found"]["lost_update"];
    assert!(found.as_u64().unwrap() > 0, "{verdict:#}");
}

#[test]
fn the_check_and_the_environment_are_used() {
    let bench = Bench::new();
    let save = "echo $TENURE_TORTURE_KEY >>$TENURE_TORTURE_FILE";
    let with_check = |check: &str| {
        let words = ["torture", "--json", "--processes", "2", "--minutes", "0.05"];
        let more = ["--file", "log.txt", "--command", save, "--check", check];
        bench.tenure(&[&words[..], &more].concat())
    };
    with_check("test -s {}").ok();
    with_check("echo rotten >&2; test $(wc -l <{}) -lt 3").exits(5);
    with_check("echo rotten >&2; false").exits(1);
}

#[test]
fn a_command_that_cannot_be_tested_is_told_why() {
    let bench = Bench::new();
    let try_out = |words: &[&str]| {
        let ran = bench.tenure(&[&["torture", "--minutes", "0.01"], words].concat());
        assert_eq!(left(&bench).len(), 0, "{ran:?}");
        ran
    };
    try_out(&["--command", "echo no >&2; false"]).exits(1).complains("no");
    try_out(&["--command", "true"]).exits(1).complains("not in the file");
    try_out(&["--command", "true", "--file", "a/b"]).exits(2).complains("without directories");
    try_out(&["--command", "true", "--init", "{"]).exits(2).complains("--init is no JSON");
    try_out(&["--command", "true", "--operations", "0"]).exits(2);
    try_out(&["--check", "true"]).exits(2);
    try_out(&["--minutes", "0"]).exits(2);
    try_out(&["--ops", "nonsense"]).exits(2);
    try_out(&["--processes", "65"]).exits(2);
    bench.tenure(&["torture", "no-such-directory"]).exits(1);
}

/// Runs that were all killed give no result.
#[test]
fn too_few_runs_are_no_clean_verdict() {
    let bench = Bench::new();
    let slow = "sleep 1; echo {key} >>{}";
    let args = ["torture", "--minutes", "0.01", "--file", "log.txt", "--command", slow];
    let ran = bench.tenure(&args).exits(1);
    assert!(ran.stderr.contains("too few to tell; give it more --minutes"), "{ran:?}");
    assert!(left(&bench).is_empty());
}

#[test]
fn a_standstill_is_called_one() {
    let bench = Bench::new();
    let stuck = "mkdir {}.lock || exec sleep 60; kill -9 $$";
    let script = format!("if test -e dead; then {stuck}; fi; echo {{key}} >>{{}}");
    let check = "touch dead";
    let args = ["torture", "--minutes", "0.1", "--patience", "5s", "--file", "log.txt"];
    let more = ["--check", check, "--command", &script];
    let ran = bench.tenure(&[&args[..], &more].concat()).exits(5);
    assert!(ran.stdout.contains("STANDSTILL FOUND"), "{ran:?}");
    assert!(ran.stdout.contains("it did not end in 5 s"), "{ran:?}");
}

/// A program that fails on a full disk, and reports it, is not at fault.
#[test]
fn a_full_disk_is_no_damage() {
    let bench = Bench::new();
    let script = "$T torture --minutes 0.03 --processes 2 --file log.txt --check 'fill() { head \
        -c 1m /dev/zero >fill; }; fill 2>/dev/null; touch full' --command 'test ! -e full && echo {key} >>{}'";
    let Some(ran) = in_small_disk(&bench, script) else { return };
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("its disk is full"), "{ran:?}");
}

/// Two writes for one line mix with those of other runs; that shows in the lines of a .jsonl file.
#[test]
fn lines_of_a_jsonl_file_are_json() {
    let bench = Bench::new();
    let half = "printf '{\"k\":' >>{}; printf '\"{key}\"}\\n' >>{}";
    let words = ["torture", "--json", "--minutes", "1", "--processes", "8", "--file", "log.jsonl"];
    let verdict = bench.tenure(&[&words[..], &["--command", half]].concat()).exits(5).json();
    let found = &verdict["things"][0]["found"];
    assert!(found["torn_read"].is_u64() || found["corrupt_file"].is_u64(), "{verdict:#}");
    let bare = ["--command", "echo {key} >>{}"];
    let told = bench.tenure(&[&words[..], &bare].concat()).exits(1);
    assert!(told.stderr.contains("a line that is no JSON"), "{told:?}");
}

/// It hangs only beside others; alone, before and after, it succeeds.
#[test]
fn one_that_hangs_in_the_storm_is_a_standstill() {
    let bench = Bench::new();
    let save = "flock -n {}.lock sh -c 'echo {key} >>{}; sleep 0.02' || exec sleep 60";
    let words = ["torture", "--json", "--minutes", "0.1", "--processes", "4", "--file", "log.txt"];
    let more = ["--patience", "3s", "--command", save];
    let verdict = bench.tenure(&[&words[..], &more].concat()).exits(5).json();
    assert!(verdict["things"][0]["found"]["stuck"] == 1, "{verdict:#}");
    let detail = verdict["findings"][0]["detail"].as_str().unwrap();
    assert!(detail.ends_with("when no other was alive: it did not end in 3 s"), "{verdict:#}");
}

#[test]
fn a_history_has_calls_and_returns() {
    let bench = Bench::new();
    let ran = bench.tenure(&["torture", "--operations", "100", "--history", "h.jsonl"]).ok();
    assert!(ran.stdout.contains("h.jsonl, which is for a checker and not judged here"), "{ran:?}");
    let args = ["torture", "--json", "--operations", "100", "--history", "h.jsonl"];
    assert_eq!(bench.tenure(&args).ok().json()["history"], "h.jsonl");
    let text = bench.read("h.jsonl");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answered = lines.iter().filter(|line| !line["return"].is_null()).count();
    assert!(answered > 100, "{answered} of {}", lines.len());
    for line in lines {
        let Some(end) = line["return"].as_u64() else { continue };
        assert!(line["call"].as_u64().unwrap() <= end && line["answer"].is_array(), "{line}");
    }
}
