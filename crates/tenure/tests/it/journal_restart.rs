//! The first call after a restart of the machine: the state of the last boot means nothing, and what a power loss
//! left of the log, the journal and the index is checked before anything is built on it (G7, G8).

use crate::altered::Altered;
use crate::journal_stage::{Dir, PATH, Stage, all, durable, no_sync, numbered, overwrite, sound};
use tenure_testkit::Survival;

/// The same line in several batches: a missing batch is not mistaken for another one.
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

/// A missing batch begins like the batches around it: none of them is taken for a torn part of it.
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

/// Entries without a sync had numbers; these are not reused, even if the journal is now another
/// file.
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

/// `chattr +a`: existing bytes cannot be rewritten or blanked. The journal still works.
#[cfg(target_os = "linux")]
#[test]
fn race_57_an_append_only_journal_goes_on_after_a_restart() {
    let chattr = |flag: &str, dir: &Dir| {
        let done = std::process::Command::new("chattr").arg(flag).arg(dir.log()).status();
        done.is_ok_and(|status| status.success())
    };
    for torn in [false, true] {
        let dir = Dir::on_disk();
        let long = "x".repeat(5000);
        dir.journal().append(&["one"], &durable()).unwrap();
        dir.journal().append(&["two", &long], &durable()).unwrap();
        if torn {
            // The power loss took the end of the batch, and another tool appended after it.
            let text = std::fs::read(dir.log()).unwrap();
            overwrite(&dir.log(), &[&text[..4096], b"\ntheirs\n"].concat());
        }
        if !chattr("+a", &dir) {
            println!("not run: no file can be made append-only here");
            return;
        }
        let (fs, _) = Altered::boot(1).mounted();
        let journal = tenure::Journal::open_on(&fs, &dir.log()).unwrap();
        let appended = journal.append(&["last"], &durable());
        assert!(chattr("-a", &dir));
        appended.unwrap();
        let lines: Vec<String> = all(&journal).into_iter().map(|(_, line)| line).collect();
        let count = |line: &str| lines.iter().filter(|found| *found == line).count();
        assert_eq!((count("one"), count(&long), count("last")), (1, 1, 1), "torn: {torn}");
        assert_eq!(count("theirs"), usize::from(torn));
        assert_eq!(all(&journal)[..2], numbered(&["one", "two"]), "numbers stay");
        sound(&journal);
    }
}

/// A writer dies between its record in the log and the state that counts it. What takes the number next, without a
/// sync, is seen by readers; a power loss must not bring the dead writer's batch back under that number.
#[test]
fn g7_a_number_that_was_seen_is_never_that_of_a_batch_that_was_not_counted() {
    let read = |stage: &Stage| -> Vec<(u64, Vec<u8>)> {
        let entries = stage.journal().read(0, None).unwrap().filter_map(Result::ok);
        entries.map(|entry| (entry.seq, entry.line)).collect()
    };
    for (seed, nth) in (0..150).flat_map(|seed| (0..4).map(move |nth| (seed, nth))) {
        let stage = Stage::seeded(seed);
        let _tell = stage.sim.tell_on_panic();
        stage.journal().append(&["a"], &no_sync()).unwrap();
        stage.die_before_nth(nth);
        let _ = stage.journal().append(&["not counted"], &durable());
        stage.restart();
        stage.journal().append(&["c"], &no_sync()).unwrap();
        let seen = read(&stage);
        stage.sim.crash();
        for later in [read(&stage), {
            stage.append(&["d"]);
            read(&stage)
        }] {
            for (seq, line) in &seen {
                let now = later.iter().find(|(other, _)| other == seq);
                assert!(
                    now.is_none_or(|(_, other)| other == line),
                    "{seed}/{nth}: {seen:?} {later:?}"
                );
            }
        }
    }
}
