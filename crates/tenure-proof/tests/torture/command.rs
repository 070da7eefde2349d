//! Save programs as people write them, through `tenure torture --command`.

use tenure_proof::{Form, Tally, seed, tenure};

use crate::controls::RUNS;
use crate::run::torture;

#[test]
fn a_save_through_tenure_passes() {
    let mut tally = Tally::new("torture", "a_save_through_tenure_passes");
    let seed = seed("torture", "a_save_through_tenure_passes").to_string();
    // Long enough for a busy machine, so that no run counts as stuck.
    let long = ["--minutes", "5"];
    let quick = ["--minutes", "60", "--operations", "150"];
    let enough = Form::asked().pick(&quick[..], &long);
    let tenure = tenure().display();
    let document = format!("{tenure} doc update {{}} '.[$k]=1' --arg k {{key}} --wait forever");
    let journal = format!("{tenure} journal append {{}} '\"{{key}}\"' --wait forever");
    for (command, file) in [(document, "state.json"), (journal, "log.jsonl")] {
        let words = ["--command", &command, "--file", file, "--seed", &seed, "--patience", "2m"];
        let ran = torture(&[&words[..], &["--processes", "6"], enough].concat()).clean();
        assert!(ran.number("kills") > 3, "{:#}", ran.verdict);
        tally.tried(ran.operations("command"), "saves by commands under kills");
        tally.tried(ran.number("reads"), "plain reads meanwhile");
    }
}

/// Runs a script until this is found in it, among others.
fn find_out(command: &str, file: &str, fault: &str, seed: u64) {
    let found = (0..RUNS).any(|run| {
        let seed = (seed + run).to_string();
        let words = ["--command", command, "--file", file, "--seed", &seed, "--minutes", "1"];
        torture(&[&words[..], &["--processes", "6"]].concat()).has("command", fault)
    });
    assert!(found, "{fault}: not found in {RUNS} runs of {command}");
}

/// The first script that comes to mind, and the second.
#[test]
fn scripts_that_lose_updates_are_found_out() {
    let mut tally = Tally::new("torture", "scripts_that_lose_updates_are_found_out");
    let seed = seed("torture", "scripts_that_lose_updates_are_found_out");
    let run = |command: &str, fault: &str| find_out(command, "state.json", fault, seed);
    // A read, a pause, and an atomic replacement: whole, but updates are lost.
    run(
        r#"old=$(cat {}); new=$(mktemp {}.XXXXXX); printf '%s,"{key}":1}' "${old%?}" | sed 's/{,/{/' >"$new"; mv "$new" {}"#,
        "lost_update",
    );
    tally.caught("a script that reads, changes and renames: lost updates");
    // The same in place: readers see half of it.
    run(r#"old=$(cat {}); printf '%s,"{key}":1}' "${old%?}" | sed 's/{,/{/' >{}"#, "torn_read");
    tally.caught("a script that writes in place: torn reads");
    // A lock that a killed holder leaves behind.
    run(
        r#"while ! mkdir {}.lock; do sleep 0.01; done 2>/dev/null
           old=$(cat {}); printf '%s,"{key}":1}' "${old%?}" | sed 's/{,/{/' >{}.new && mv {}.new {}
           rmdir {}.lock"#,
        "stuck",
    );
    tally.caught("a lock directory that outlives its holder: a standstill");
}

/// Faults that are there at the end, and not only meanwhile.
#[test]
fn scripts_that_leave_a_mess_are_found_out() {
    let mut tally = Tally::new("torture", "scripts_that_leave_a_mess_are_found_out");
    let seed = seed("torture", "scripts_that_leave_a_mess_are_found_out");
    // A line in two writes: killed in between, or beside another, it stays half a line.
    let in_two = "printf {key} >>{}; sleep 0.02; echo >>{}";
    find_out(in_two, "log.txt", "corrupt_file", seed);
    tally.caught("a script that writes a line in two steps: a corrupt file");
    // New names for new versions, and the files of dead runs are never removed.
    let new_names = r#"new=$(mktemp {}.XXXXXX)
        old=$(cat {}); printf '%s,"{key}":1}' "${old%?}" | sed 's/{,/{/' >"$new"
        sleep 0.02; mv "$new" {}"#;
    find_out(new_names, "state.json", "left_over", seed);
    tally.caught("a script that is killed before it renames: a file left over");
}
