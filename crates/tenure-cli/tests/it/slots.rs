//! `tenure run --slots`.

use rustix::process::Signal;

use crate::bench::{Bench, eventually};

#[test]
fn at_most_so_many_commands_run_at_once() {
    let bench = Bench::new();
    let one = bench.holder(&["--slots", "2", "--label", "first"], "x");
    let other = bench.holder(&["--slots", "2", "--label", "second"], "x");
    let busy = bench.tenure(&["run", "--slots", "2", "--wait", "0", "x", "--", "true"]).exits(75);
    busy.complains("all of 2 slots are taken").complains(bench.path("x").to_str().unwrap());
    bench.tenure(&["run", "--slots", "2", "--wait", "20ms", "x", "--", "true"]).exits(75);
    // Others exclude all of them, and are excluded.
    bench.tenure(&["run", "--wait", "0", "x", "--", "true"]).exits(75);
    bench.tenure(&["doc", "set", "--wait", "0", "x", "1"]).exits(75);
    let who = bench.tenure(&["who", "x"]).ok();
    for holder in [&one, &other] {
        assert!(who.stdout.contains(&holder.pid().to_string()), "{who:?}");
    }
    assert!(who.stdout.contains("first") && who.stdout.contains("second"), "{who:?}");
    one.end().ok();
    bench.tenure(&["run", "--slots", "2", "--wait", "0", "x", "--", "true"]).ok();
    // The locks of free slots are removed now and then, as a sweep does here.
    for part in ["hold", "commit"] {
        std::fs::remove_file(bench.path(&format!(".tenure/x~slot0.{part}"))).unwrap();
    }
    let who = bench.tenure(&["who", "x"]).ok();
    assert!(who.stdout.contains("x~slot1"), "{who:?}");
    other.end().ok();
    bench.tenure(&["run", "--wait", "0", "x", "--", "true"]).ok();
}

#[test]
fn a_slot_has_no_fence_and_a_command_below_it_cannot_write() {
    let bench = Bench::new();
    let script = "echo \"${TENURE_FENCE-none}\"";
    bench.tenure(&["run", "--slots", "2", "x", "--", "sh", "-c", script]).ok().says("none");
    for wrong in ["0", "65", "-1", "x"] {
        bench.tenure(&["run", "--slots", wrong, "x", "--", "true"]).exits(2);
    }
    bench.tenure(&["run", "--slots", "2", "--shared", "x", "--", "true"]).exits(2);
}

#[test]
fn the_death_of_a_holder_frees_its_slot_at_once() {
    let bench = Bench::new();
    let mut dies = bench.holder(&["--slots", "2", "--close"], "x");
    let stays = bench.holder(&["--slots", "2", "--close"], "x");
    let waits = ["run", "--slots", "2", "--wait", "60s", "x", "--", "echo", "mine"];
    let waiters = [bench.command(&waits).start(), bench.command(&waits).start()];
    eventually(|| {
        let who = bench.tenure(&["who", "x", "--json"]).ok().json();
        let waiting = |slot: &serde_json::Value| slot["waiters"].as_array().unwrap().len();
        who["targets"].as_array().unwrap().iter().map(waiting).sum::<usize>() >= 2
    });
    dies.signal(Signal::KILL);
    dies.kill();
    for waiter in waiters {
        let waited = waiter.wait().exits(0);
        assert_eq!(waited.stdout, "mine\n");
    }
    stays.end().ok();
}

#[test]
fn a_head_of_the_queue_that_dies_or_is_paused_and_killed_lets_the_next_one_in() {
    let bench = Bench::new();
    let holder = bench.holder(&["--slots", "1", "--close"], "x");
    let waits = ["run", "--slots", "1", "--close", "--wait", "60s", "x", "--", "echo", "mine"];
    let mut head = bench.command(&waits).start();
    crate::bench::must_block(&bench.path("x~slot0"), head.pid());
    let next = bench.command(&waits).start();
    crate::bench::must_block(&bench.path("x~slots"), next.pid());
    head.signal(Signal::STOP);
    eventually(|| is_stopped(head.pid()));
    holder.end().ok();
    let busy =
        bench.tenure(&["run", "--slots", "2", "--wait", "50ms", "x", "--", "true"]).exits(75);
    busy.complains(&format!("held by pid {}", head.pid())).complains("first in the queue");
    head.kill();
    assert_eq!(next.wait().exits(0).stdout, "mine\n");
}

/// Whether all threads of the process are stopped: one that is not could still be granted a lock.
fn is_stopped(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks.flatten().all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap();
        stat.rsplit(") ").next().unwrap().starts_with('T')
    })
}
