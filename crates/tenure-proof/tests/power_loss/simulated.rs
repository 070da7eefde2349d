//! Ring 5, in the simulation: a mixed load is cut at every operation, the power or the process is
//! lost, any part of what was not synced stays, and it happens again during the recovery. In almost
//! half of the stories syncs of files fail as well: their pages are lost, the caller dies or
//! continues, and others then rely on them.
//!
//! Locks, leases, documents, journals, both together and collections run on a simulated disk that
//! is at least as harsh as a real one. After every crash: what was acknowledged as durable is
//! there, a document is the old or the new one for any reader, batches are whole and in order with
//! their numbers, fences have not decreased, and in the end the next operation works.

mod batches;
mod document;
mod foreign;
mod journal;
mod lies;
mod once;
mod together;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tenure_proof::{Form, Tally, seed};
use tenure_testkit::{Broken, CrashKind, Random};

use self::lies::Lie;
use self::world::{Finding, World};
use crate::RING;

/// Every state is crashed this many times.
const LUCKS: u64 = 16;
/// Crashes of one story after the first: during the recovery.
const ROUNDS: u64 = 3;
/// A quick run has this many stories, the same on every machine; a long one many more.
const STORIES: [u64; 2] = [600, 15_000];
/// They have at least this many crashes.
const CRASHES: [u64; 2] = [600_000, 15_000_000];
/// A reader that finds a log in disorder waits a moment for a writer, so this many stories run in
/// parallel.
const THREADS: u64 = 16;
/// A lie is detected within this many stories.
const STORIES_PER_LIE: u64 = 400;

/// Locks are known by device and inode in the whole process, so each thread has a device.
static DEVICES: AtomicU64 = AtomicU64::new(50_000);

/// What happened in all stories.
#[derive(Debug, Default)]
struct Counts {
    crashes: AtomicU64,
    failed_syncs: Arc<AtomicU64>,
}

/// Cuts the work of one seed at every operation.
fn story(seed: u64, device: u64, lie: Lie, counts: &Counts) -> Finding {
    let mut random = Random::new(seed);
    let mut start = World::new(seed, device, lie, counts.failed_syncs.clone());
    for _ in 0..random.below(5) {
        start.step(&mut random)?;
    }
    let kind = if random.chance(208) { CrashKind::Power } else { CrashKind::Process };
    for nth in 1.. {
        let mut world = start.fork(seed);
        world.sim.fail_after(nth, kind);
        let mut random = Random::new(seed);
        for _ in 0..3 {
            if !world.sim.is_down() {
                world.step(&mut random)?;
            }
        }
        if !world.sim.is_down() {
            return Ok(());
        }
        for luck in 0..LUCKS {
            let mut random = Random::new(seed ^ (nth << 32) ^ (luck << 48));
            let mut world = world.fork(random.bits());
            world.die(kind)?;
            counts.crashes.fetch_add(1, Ordering::Relaxed);
            if random.chance(64) {
                crash_again(world, &mut random, &counts.crashes)?;
            }
        }
    }
    Ok(())
}

/// After a crash: recovery or more work, in which it crashes again; at last a recovery.
fn crash_again(mut world: World, random: &mut Random, crashes: &AtomicU64) -> Finding {
    for _ in 0..ROUNDS {
        let kind = if random.coin() { CrashKind::Power } else { CrashKind::Process };
        world.sim.fail_after(1 + random.below(24), kind);
        if random.coin() {
            world.recover(random)?;
        } else {
            world.step(random)?;
        }
        world.die(kind)?;
        crashes.fetch_add(1, Ordering::Relaxed);
    }
    world.recover(random)?;
    world.die(CrashKind::Process)
}

/// Stories from seed `first` on, until `enough` returns true or a failure is found whose first line
/// contains `wanted`; other failures are ignored.
fn hunt_for(
    wanted: &str,
    first: u64,
    threads: u64,
    lie: Lie,
    enough: impl Fn(u64) -> bool + Sync,
) -> (Counts, Finding) {
    let (counts, next, found) = (Counts::default(), AtomicU64::new(0), AtomicBool::new(false));
    let run = || -> Finding {
        let device = DEVICES.fetch_add(1, Ordering::Relaxed);
        loop {
            let stories = next.fetch_add(1, Ordering::Relaxed);
            if found.load(Ordering::Relaxed) || enough(stories) {
                return Ok(());
            }
            let seed = first + stories;
            match story(seed, device, lie, &counts) {
                Err(finding) if finding.lines().next().is_some_and(|it| it.contains(wanted)) => {
                    found.store(true, Ordering::Relaxed);
                    return Err(format!("{finding}\nTENURE_SEED={seed}"));
                }
                _ => {}
            }
        }
    };
    let outcome = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    });
    (counts, outcome)
}

#[test]
fn g4_g5_g7_g8_any_crash_of_a_mixed_load_leaves_what_was_promised() {
    let name = "simulated::g4_g5_g7_g8_any_crash_of_a_mixed_load_leaves_what_was_promised";
    let mut tally = Tally::new(RING, name);
    let form = Form::asked();
    let enough = form.pick(STORIES[0], STORIES[1]);
    let (counts, outcome) =
        hunt_for("", seed(RING, name), THREADS, Lie::None, |stories| stories >= enough);
    if let Err(finding) = outcome {
        panic!("{finding}");
    }
    let crashes = counts.crashes.into_inner();
    tally.tried(crashes, "crashes of the simulated machine");
    let failed = counts.failed_syncs.load(Ordering::Relaxed);
    tally.tried(failed, "syncs of the simulated disk that failed");
    assert!(failed > crashes / 1000, "{failed} syncs failed in {crashes} crashes");
    let floor = form.pick(CRASHES[0], CRASHES[1]);
    assert!(crashes >= floor, "only {crashes} crashes, {floor} are the least");
}

#[test]
fn every_lie_of_a_file_system_is_found_out() {
    let mut tally = Tally::new(RING, "simulated::every_lie_of_a_file_system_is_found_out");
    let truth = Broken::default();
    let lies = [
        ("no file is synced", Lie::Disk(Broken { ignore_sync: true, ..truth })),
        (
            "content that is synced in order comes after its name",
            Lie::Disk(Broken { ignore_order: true, ..truth }),
        ),
        ("no directory is synced", Lie::Disk(Broken { ignore_sync_dir: true, ..truth })),
        (
            "an exchange of names can be cut in half",
            Lie::Disk(Broken { break_exchange_atomicity: true, ..truth }),
        ),
        (
            "a failed sync is reported as a success",
            Lie::Disk(Broken { hide_sync_failures: true, ..truth }),
        ),
        ("the log is not synced", Lie::SkipsSync(".jsonl.log")),
        ("a new log is not synced", Lie::SkipsSync(".jsonl.tmp.0000000000000001")),
        ("the journal is not synced", Lie::SkipsSyncOf("/d/log.jsonl")),
        ("the index is not synced", Lie::SkipsSync(".jsonl.index")),
        ("a new index is not synced", Lie::SkipsSync(".jsonl.tmp.0000000000000002")),
        ("a new document is not synced", Lie::SkipsSync(".tmp.0000000000000000")),
        ("a new document is synced after it has its name", Lie::SyncsLate(".tmp.0000000000000000")),
        ("a version to fall back to is not synced", Lie::SkipsSync("/loose.json.tmp")),
        (
            "a journal that is written anew is not synced",
            Lie::SkipsSync("/log.jsonl.tmp.0000000000000003"),
        ),
        ("the index of a new journal is not synced", Lie::SkipsSync(".jsonl.tmp.0000000000000004")),
        ("the directory of a collection is not synced", Lie::SkipsDirSync("keys")),
        ("the directory of the data is not synced", Lie::SkipsDirSync("d")),
        ("the directory of the sidecars is not synced", Lie::SkipsDirSync(".tenure")),
    ];
    // The process that asks again detects it, not the check after the power loss.
    let forgets =
        ("the memory of operations is not synced", Lie::SkipsSync(".ops"), "/d/once.json");
    let lies = lies.into_iter().map(|(name, lie)| (name, lie, "after Power"));
    for (name, lie, wanted) in lies.chain([forgets]) {
        let (counts, outcome) =
            hunt_for(wanted, 1, THREADS, lie, |stories| stories >= STORIES_PER_LIE);
        let crashes = counts.crashes.into_inner();
        assert!(outcome.is_err(), "{name}: not found in {crashes} crashes");
        println!("{name}, {crashes}: {}", outcome.unwrap_err().lines().next().unwrap_or_default());
        tally.tried(crashes, "crashes of a machine that lies, until it was found out");
        tally.caught(name);
    }
}

/// What the log has before a durable batch is as durable as that one, also when it is no longer in
/// the log: the journal is synced for it.
#[test]
fn the_sync_that_a_batch_owes_to_those_before_it_is_missed() {
    let name = "simulated::the_sync_that_a_batch_owes_to_those_before_it_is_missed";
    let mut tally = Tally::new(RING, name);
    for (fault, lie) in [
        ("the journal is not synced for a durable batch", Lie::SkipsSyncOf("/d/log.jsonl")),
        ("the log is not synced for a durable batch", Lie::SkipsSync("/log.jsonl.log")),
    ] {
        let (counts, outcome) =
            hunt_for("a loose batch", 1, THREADS, lie, |stories| stories >= STORIES_PER_LIE);
        let crashes = counts.crashes.into_inner();
        assert!(outcome.is_err(), "{fault}: no batch before it is missed in {crashes} crashes");
        println!("{fault}: {}", outcome.unwrap_err().lines().next().unwrap_or_default());
        tally.tried(crashes, "crashes of a machine that lies, until it was found out");
        tally.caught(fault);
    }
}
