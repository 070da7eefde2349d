//! Enumerated crash states of recorded runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure::fs::Fs;
use tenure_proof::crash_states::{Effort, Rebuilt, Recorder, Recording, State, crash_states};
use tenure_proof::mount::memory;
use tenure_proof::victim::{self, Ack, Broken, Layer, Task, Work};
use tenure_proof::{Form, Tally, seed};
use tenure_testkit::Random;

use crate::RING;

/// The writer that works after a power loss; no victim has its number.
const NEXT: u64 = 1_000_000;

/// A victim does at least this many operations, after each of which it can die.
const DEATHS_MIN: usize = 60;

/// A recorded directory; it is kept as long as its recording is used, with its inode numbers.
struct Recorded {
    recording: Recording,
    /// What its victims did, and what is done after a power loss.
    tasks: Vec<Task>,
    scratch: tempfile::TempDir,
}

fn recorded_directory(scratch: &tempfile::TempDir) -> PathBuf {
    let root = scratch.path().canonicalize().unwrap().join("recorded");
    std::fs::create_dir(&root).unwrap();
    root
}

fn job(dir: &Path, writer: u64, tasks: &[Task], rounds: u64) -> Work {
    Work { dir: dir.to_path_buf(), writer, tasks: tasks.to_vec(), rounds }
}

/// Records victims that work in parallel, a thread each, on a file system that `twist` makes of the
/// recorded one.
fn record(
    victims: u64,
    tasks: &[Task],
    rounds: u64,
    twist: impl Fn(&Arc<dyn Fs>) -> Arc<dyn Fs> + Sync,
) -> Recorded {
    let scratch = memory();
    let root = recorded_directory(&scratch);
    let recorder = Recorder::new(&root);
    let disk = victim::boot(1, &recorder.over(&tenure::disk()));
    std::thread::scope(|scope| {
        for writer in 1..=victims {
            let (recorder, disk, root, twist) = (&recorder, &disk, &root, &twist);
            scope.spawn(move || {
                let work = job(root, writer, tasks, rounds);
                victim::work(&twist(disk), &work, &mut |ack| recorder.acknowledge(ack)).unwrap();
            });
        }
    });
    let tasks = tasks.to_vec();
    Recorded { recording: recorder.finish(State::default()), tasks, scratch }
}

/// A victim that dies after `operations`, and its successor in the same boot. `None` if it was done
/// before that.
fn record_successor(operations: u64, broken: Option<Broken>) -> Option<Recorded> {
    let scratch = memory();
    let root = recorded_directory(&scratch);
    let recorder = Recorder::new(&root);
    let disk = victim::boot(1, &recorder.over(&tenure::disk()));
    recorder.dies_after(Some(operations));
    let mut acknowledge = |ack| recorder.acknowledge(ack);
    for writer in 1..=2 {
        // Each process has its own memory of the directories it has made names in.
        let fs = broken.map_or_else(|| disk.clone(), |broken| broken.over(&disk));
        let done = victim::work(&fs, &job(&root, writer, Task::COMMON, 1), &mut acknowledge);
        if writer == 1 && done.is_ok() {
            return None;
        }
        assert!(writer == 1 || done.is_ok(), "the successor cannot work: {done:?}");
        recorder.dies_after(None);
    }
    let tasks = Task::COMMON.to_vec();
    Some(Recorded { recording: recorder.finish(State::default()), tasks, scratch })
}

fn as_it_is(fs: &Arc<dyn Fs>) -> Arc<dyn Fs> {
    fs.clone()
}

/// A disk that cannot exchange two names, as some are.
fn without_exchange(fs: &Arc<dyn Fs>) -> Arc<dyn Fs> {
    struct WithoutExchange;
    impl Layer for WithoutExchange {
        fn exchange(&self, _: &dyn Fs, _: &Path, _: &Path) -> std::io::Result<()> {
            Err(std::io::ErrorKind::Unsupported.into())
        }
    }
    victim::lay(Arc::new(WithoutExchange), fs)
}

/// What is wrong with a state that the machine finds at boot number `boot`, if anything.
fn finding(state: &State, acks: &[Ack], recorded: &Recorded, boot: u64) -> Option<String> {
    let rebuilt = Rebuilt::new(state, recorded.scratch.path()).unwrap();
    let fs = victim::boot(boot, &rebuilt.fs);
    let next = job(rebuilt.dir.path(), NEXT, &recorded.tasks, 2);
    let problem = victim::check_and_go_on(&fs, acks, &next).err()?;
    Some(format!("{problem}\nacknowledged: {acks:?}\nthe disk:\n{state:?}"))
}

/// Checks every state; the first finding ends the search.
fn search(recorded: &Recorded, effort: Effort, random: &mut Random) -> (u64, Option<String>) {
    let mut found = None;
    let mut visit = |state: &State, acks: &[Ack]| {
        found = finding(state, acks, recorded, 2);
        found.is_none()
    };
    let states = crash_states(&recorded.recording, effort, random, &mut visit);
    (states, found)
}

fn effort() -> Effort {
    Form::asked()
        .pick(Effort { newest: 3, older: 1, torn: 3 }, Effort { newest: 4, older: 2, torn: 16 })
}

/// There are many runs with a dead victim, so each is searched less.
fn effort_for_each_death() -> Effort {
    Form::asked()
        .pick(Effort { newest: 0, older: 0, torn: 1 }, Effort { newest: 0, older: 1, torn: 1 })
}

fn survives(test: &str, recorded: &Recorded) {
    let mut tally = Tally::new(RING, test);
    let mut random = Random::new(seed(RING, test));
    let (states, finding) = search(recorded, effort(), &mut random);
    println!("{states} states of {} operations", recorded.recording.ops.len());
    assert!(finding.is_none(), "{}", finding.unwrap());
    assert!(states > 500, "{states} states are too few to mean anything");
    tally.tried(states, "crash states of recorded runs");
}

#[test]
fn g8_a_victim_alone_survives_every_enumerated_power_loss() {
    let rounds = Form::asked().pick(2, 8);
    survives("a_victim_alone", &record(1, Task::COMMON, rounds, as_it_is));
}

#[test]
fn g8_victims_side_by_side_survive_every_enumerated_power_loss() {
    let rounds = Form::asked().pick(1, 4);
    survives("victims_side_by_side", &record(2, Task::COMMON, rounds, as_it_is));
}

#[test]
fn g8_rotation_and_compaction_survive_every_enumerated_power_loss() {
    let tasks = [Task::Journal, Task::Rotate, Task::Journal, Task::Compact];
    let rounds = Form::asked().pick(1, 3);
    survives("rotation_and_compaction", &record(1, &tasks, rounds, as_it_is));
}

#[test]
fn g8_keys_and_headers_survive_every_enumerated_power_loss() {
    let tasks = [Task::Key, Task::Remove, Task::Stamp, Task::Prune];
    let rounds = Form::asked().pick(1, 4);
    survives("keys_and_headers", &record(1, &tasks, rounds, as_it_is));
}

#[test]
fn g5_g8_work_without_a_sync_loses_nothing_that_was_synced() {
    let tasks = [Task::LooseDocument, Task::LooseJournal];
    let rounds = Form::asked().pick(2, 12);
    survives("without_a_sync", &record(1, &tasks, rounds, as_it_is));
}

#[test]
fn g5_a_disk_without_exchange_survives_every_enumerated_power_loss() {
    let tasks = [Task::Document, Task::Both];
    let rounds = Form::asked().pick(1, 8);
    survives("without_exchange", &record(1, &tasks, rounds, without_exchange));
}

/// The compound failure: a process dies, the next one finds its files and acknowledges, and then
/// the power is lost. An existing name is not necessarily durable.
#[test]
fn g8_what_the_successor_of_a_dead_victim_acknowledges_survives() {
    let test = "successor";
    let mut tally = Tally::new(RING, test);
    let mut random = Random::new(seed(RING, test));
    let step = Form::asked().pick(5, 1);
    let mut deaths = 0;
    for operations in (0..).step_by(step) {
        let Some(recorded) = record_successor(operations, None) else { break };
        let (states, finding) = search(&recorded, effort_for_each_death(), &mut random);
        assert!(finding.is_none(), "death after {operations}: {}", finding.unwrap());
        tally.tried(states, "crash states after a death and a successor");
        deaths += 1;
    }
    println!("{deaths} deaths, {} states", tally.cases());
    assert!(deaths >= DEATHS_MIN / step, "only {deaths} deaths");
    assert!(tally.cases() > 500, "{} states are too few to mean anything", tally.cases());
}

/// The power is lost again during the recovery from the first loss.
#[test]
fn g8_a_second_power_loss_during_recovery_loses_nothing() {
    let test = "second_power_loss";
    let mut tally = Tally::new(RING, test);
    let mut random = Random::new(seed(RING, test));
    let recorded = record(1, Task::COMMON, 2, as_it_is);
    let (first, second) = Form::asked().pick((30, 25), (400, 120));
    let mut samples = Vec::new();
    let mut visit = |state: &State, acks: &[Ack]| {
        samples.push((state.clone(), acks.to_vec()));
        true
    };
    crash_states(&recorded.recording, effort(), &mut random, &mut visit);
    for _ in 0..first {
        let (state, acks) = &samples[random.index(samples.len())];
        let rebuilt = Rebuilt::new(state, recorded.scratch.path()).unwrap();
        let root = rebuilt.dir.path().canonicalize().unwrap();
        let recorder = Recorder::new(&root);
        let fs = victim::boot(2, &recorder.over(&rebuilt.fs));
        for ack in acks {
            recorder.acknowledge(*ack);
        }
        let work = job(&root, 2, Task::COMMON, 1);
        victim::work(&fs, &work, &mut |ack| recorder.acknowledge(ack)).unwrap();
        let recovery = recorder.finish(state.clone());
        let mut states = Vec::new();
        let few = Effort { newest: 1, older: 1, torn: 1 };
        crash_states(&recovery, few, &mut random, &mut |state, acks| {
            states.push((state.clone(), acks.to_vec()));
            true
        });
        for _ in 0..second.min(states.len()) {
            let (again, acks) = states.swap_remove(random.index(states.len()));
            let found = finding(&again, &acks, &recorded, 3);
            assert!(found.is_none(), "{}\nafter the first loss:\n{state:?}", found.unwrap());
            tally.tried(1, "crash states of a recovery");
        }
    }
    println!("{} states", tally.cases());
    let least = first * second as u64 / 2;
    assert!(tally.cases() >= least, "{} of {least} states", tally.cases());
}

/// The power loss removes all that was not synced, and nothing else.
const HARSHEST: Effort = Effort { newest: 0, older: 0, torn: 0 };

/// Enough for a careless victim.
const SMALL: Effort = Effort { newest: 2, older: 0, torn: 1 };

/// What is found for a broken victim; one kind takes a death and a successor.
fn found_out(broken: Broken, random: &mut Random) -> Option<String> {
    if broken != Broken::TrustsNames {
        let tasks = [Task::Document, Task::Journal];
        return search(&record(1, &tasks, 3, |fs| broken.over(fs)), SMALL, random).1;
    }
    (0..100).find_map(|operations| {
        let recorded = record_successor(operations, Some(broken));
        search(&recorded.expect("it dies before it is done"), HARSHEST, random).1
    })
}

/// Each kind of work has its own check, and a careless victim for it.
#[test]
fn a_broken_victim_of_each_kind_of_work_is_found_out() {
    let test = "a_broken_victim_of_each_kind";
    let mut tally = Tally::new(RING, test);
    let mut random = Random::new(seed(RING, test));
    let cases: [(&str, &[Task], Broken, &str); 8] = [
        ("an archive", &[Task::Journal, Task::Rotate], Broken::NoDirSync, "log.jsonl"),
        ("a compacted journal", &[Task::Journal, Task::Compact], Broken::NoFileSync, "log.jsonl"),
        ("a header", &[Task::Stamp], Broken::NoFileSync, "stamped.jsonl"),
        ("a key", &[Task::Key], Broken::NoDirSync, "keys: "),
        ("a removed key", &[Task::Remove], Broken::NoDirSync, "has come back"),
        ("a pruned key", &[Task::Prune], Broken::NoDirSync, "has come back"),
        ("a version to fall back to", &[Task::LooseDocument], Broken::NoFileSync, "loose.json"),
        ("a batch before a durable one", &[Task::LooseJournal], Broken::NoLogSync, "loose.jsonl"),
    ];
    for (what, tasks, broken, told) in cases {
        let recorded = record(1, tasks, 4, |fs| broken.over(fs));
        // By its own check: others may detect it as well, and first.
        let mut found = None;
        crash_states(&recorded.recording, SMALL, &mut random, &mut |state, acks| {
            found = finding(state, acks, &recorded, 2).filter(|found| found.contains(told));
            found.is_none()
        });
        let found = found.unwrap_or_else(|| panic!("{what}, {}: not found out", broken.name()));
        println!("{what}, {}: {}", broken.name(), found.lines().next().unwrap_or_default());
        tally.caught(&format!("{what}, {}", broken.name()));
    }
}

#[test]
fn every_broken_victim_is_found_out() {
    let test = "every_broken_victim";
    let mut tally = Tally::new(RING, test);
    let mut random = Random::new(seed(RING, test));
    for broken in Broken::ALL {
        let found = found_out(*broken, &mut random);
        let found = found.unwrap_or_else(|| panic!("{} is not found out", broken.name()));
        println!("{}: {}", broken.name(), found.lines().next().unwrap_or_default());
        tally.caught(broken.name());
    }
}
