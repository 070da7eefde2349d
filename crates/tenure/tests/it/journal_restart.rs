//! The first call after a restart of the machine: the state of the last boot means nothing, and what a power loss
//! left of the log, the journal and the index is checked before anything is built on it (G7, G8).

use crate::journal_stage::{PATH, Stage, durable, no_sync, numbered, sound};
use tenure_testkit::Survival;

/// The same line in several batches: a batch that is missing is not found in the place of another one.
#[test]
fn g7_equal_batches_are_all_in_the_file_after_a_power_loss() {
    for seed in 0..200 {
        let stage = Stage::seeded(seed);
        let _tell = stage.sim.tell_on_panic();
        for _ in 0..4 {
            stage.append(&["tick"]);
        }
        stage.sim.crash();
        assert_eq!(stage.append(&["tick"]), 5);
        assert_eq!(stage.text().lines().filter(|line| *line == "tick").count(), 5, "seed {seed}");
        stage.expect(&["tick"; 5]);
    }
}

/// A missing batch begins like the batches around it: none of those is taken for a torn part of it.
#[test]
fn g7_a_lost_batch_takes_no_other_with_it() {
    for seed in 0..300 {
        let stage = Stage::seeded(seed);
        let _tell = stage.sim.tell_on_panic();
        let line =
            |at: u64| format!("{{\"type\":\"message\",\"session\":\"0123456789\",\"at\":{at}}}");
        let lines: Vec<String> = (0..40).map(line).collect();
        for line in &lines {
            stage.append(&[line]);
        }
        stage.sim.crash();
        stage.append(&["last"]);
        let expected: Vec<&str> = lines.iter().map(String::as_str).chain(["last"]).collect();
        stage.expect(&expected);
        assert_eq!(stage.text().lines().filter(|line| line.starts_with('{')).count(), 40);
    }
}

/// Entries without a sync had numbers; they are not given to others, even if the journal is another file now.
#[test]
fn g7_numbers_are_not_given_out_twice_after_a_power_loss() {
    for replaced in [false, true] {
        for seed in 0..30 {
            let stage = Stage::seeded(seed);
            let _tell = stage.sim.tell_on_panic();
            stage.append(&["one"]);
            for line in ["two", "three", "four"] {
                stage.journal().append(&[line], &no_sync()).unwrap();
            }
            assert_eq!(stage.entries(), numbered(&["one", "two", "three", "four"]));
            stage.sim.crash_with(Survival::Nothing);
            if replaced {
                stage.outsider().replace(PATH, "theirs\n");
            }
            let done = stage.journal().append(&["five"], &durable()).unwrap();
            assert!(done.first > 4, "seed {seed}: {done:?}");
            sound(&stage.journal());
        }
    }
}
