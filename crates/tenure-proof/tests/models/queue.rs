//! The real queue of waiters (`gate.rs`, `wait.rs`) under shuttle, which decides which thread runs
//! next.
//!
//! The build script copies the source and replaces the standard threads, mutexes and condition
//! variables by shuttle's. The stage provides the rest: a kernel with locks that belong to open
//! files, and targets whose lock file can be replaced. A hang is a deadlock that shuttle reports
//! with the schedule that leads to it. There are no timeouts; callers leave by cancellation.
//!
//! The registry is per process in production (`process_local.rs`) and per run here.

mod scenes;
pub(crate) mod stage;

use shuttle::scheduler::PctScheduler;
use tenure_proof::{Form, Tally, seed};

use self::scenes::Scene;

/// One copy of the queue, as it is or broken, and the scenes played with it.
macro_rules! copies {
    ($($name:ident: $file:literal),* $(,)?) => {
        $(
            mod $name {
                #[expect(dead_code, clippy::collapsible_if, reason = "the core uses what the scenes do not")]
                mod gate {
                    include!(concat!(env!("OUT_DIR"), "/", $file));
                }

                pub(super) fn play(scene: super::Scene) {
                    super::scenes::play(scene, &|target, path, mode, request| {
                        gate::take(target, path, mode, request)
                            .map(|turn| Box::new(turn) as Box<dyn std::any::Any>)
                    });
                }
            }
        )*
    };
}

copies! {
    real: "gate.rs",
    forgotten_wake: "gate_forgotten_wake.rs",
    kept_grant: "gate_kept_grant.rs",
    kept_late_grant: "gate_kept_late_grant.rs",
    double_handle: "gate_double_handle.rs",
    unseen_cancel: "gate_unseen_cancel.rs",
    one_for_both: "gate_one_for_both.rs",
}

fn schedules(play: fn(Scene), scene: Scene, count: usize, seed: u64) {
    shuttle::check_random_with_seed(move || play(scene), seed, count);
    // Like `check_pct`, which takes its seed from the system and could not be repeated.
    let scheduler = PctScheduler::new_from_seed(seed, 3, count / 4);
    shuttle::Runner::new(scheduler, shuttle::Config::default()).run(move || play(scene));
}

#[test]
fn everybody_gets_the_lock_and_nobody_keeps_it() {
    let mut tally = Tally::new("models", "everybody_gets_the_lock_and_nobody_keeps_it");
    let seed = seed("models", "everybody_gets_the_lock_and_nobody_keeps_it");
    let count = Form::asked().pick(2_000, 100_000);
    for scene in Scene::ALL {
        schedules(real::play, scene, count, seed);
        tally.tried((count + count / 4) as u64, "schedules of the real queue");
    }
}

/// The fault, the copy that has it, and the scene that shows it.
type Broken = (&'static str, fn(Scene), Scene);

#[test]
fn broken_queues_are_found_out() {
    let mut tally = Tally::new("models", "broken_queues_are_found_out");
    let seed = seed("models", "broken_queues_are_found_out");
    let broken: [Broken; 6] = [
        ("the next one is not woken", forgotten_wake::play, Scene::Crowd),
        ("the grant of a departed waiter is kept", kept_grant::play, Scene::Departed),
        ("a late grant that no caller waits for is kept", kept_late_grant::play, Scene::AllGone),
        ("the parked handle is locked by a caller", double_handle::play, Scene::Cancelled),
        ("a cancellation wakes no waiter", unseen_cancel::play, Scene::Waiting),
        ("a reader relies on the thread of a writer", one_for_both::play, Scene::Shares),
    ];
    for (fault, play, scene) in broken {
        // On a separate thread: a schedule that ends in the middle of a panic leaves its thread
        // panicking.
        let played = std::thread::spawn(move || schedules(play, scene, 50_000, seed)).join();
        assert!(played.is_err(), "{fault}: not found in the scene {scene:?}");
        println!("{fault}: found in the scene {scene:?}");
        tally.caught(fault);
    }
}
