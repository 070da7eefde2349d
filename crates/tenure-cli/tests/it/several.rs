//! Several targets at once: `tenure run A B` and `tenure lease acquire A B`.

use rustix::process::Signal;

use crate::TENURE;
use crate::bench::{Bench, must_block};

#[test]
fn a_command_runs_under_all_its_targets_or_not_at_all() {
    let bench = Bench::new();
    let holder = bench.holder(&[], "b");
    let busy = bench.tenure(&["run", "--wait", "0", "a", "b", "c", "--", "echo", "ran"]).exits(75);
    assert_eq!(busy.stdout, "");
    assert!(busy.stderr.contains(bench.path("b").to_str().unwrap()), "{busy:?}");
    for free in ["a", "c"] {
        bench.tenure(&["run", "--wait", "0", free, "--", "true"]).ok();
    }
    holder.end().ok();
    let script = format!("for t in a b c; do {TENURE} run --wait 0 $t -- true; echo $?; done");
    let mut held = bench.command(&["run", "c", "a", "b", "--", "sh", "-c", "echo in; cat"]).start();
    assert_eq!(held.line(), "in");
    let from_outside = std::process::Command::new("sh");
    let tried = run_in(&bench, from_outside, &script);
    assert_eq!(tried, "75\n75\n75\n");
    held.end().ok();
}

fn run_in(bench: &Bench, mut shell: std::process::Command, script: &str) -> String {
    let ran = shell.args(["-c", script]).current_dir(bench.path("")).output().unwrap();
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn commands_below_several_targets_write_all_of_them() {
    let bench = Bench::new();
    let script = format!(
        "echo $TENURE_TARGET; for t in b.json a.json c.json; do {TENURE} doc set --wait 0 $t 1 || exit; done; \
         {TENURE} run --wait 0 a.json b.json -- true"
    );
    let run = ["run", "b.json", "a.json", "./b.json", "c.json", "--", "sh", "-c", &script];
    bench.tenure(&run).ok().says(bench.path("b.json").to_str().unwrap());
    for name in ["a.json", "b.json", "c.json"] {
        assert_eq!(bench.read(name).trim(), "1");
    }
    let ended = bench.tenure(&["run", "--json", "y", "x", "--", "true"]).exits(0).error();
    assert_eq!(ended["target"], bench.path("y").to_str().unwrap());
    assert_eq!(ended["targets"][1]["target"], bench.path("x").to_str().unwrap());
}

#[test]
fn the_death_of_the_holder_of_several_frees_all_at_once() {
    let bench = Bench::new();
    let mut holder = bench.holder(&["--close", "a", "b"], "c");
    let waiter = bench.command(&["run", "--wait", "60s", "c", "b", "--", "echo", "mine"]).start();
    must_block(&bench.path("b"), waiter.pid());
    // The waiter has nothing: it waits for the first in order.
    bench.tenure(&["run", "--wait", "0", "c", "--", "true"]).exits(75);
    holder.signal(Signal::KILL);
    holder.kill();
    let waited = waiter.wait().exits(0);
    assert_eq!(waited.stderr.matches("died holding").count(), 2, "{waited:?}");
    assert_eq!(waited.stdout, "mine\n");
}

#[test]
fn options_of_one_target_are_refused_for_several() {
    let bench = Bench::new();
    bench.tenure(&["run", "--fence", "7", "a", "b", "--", "true"]).exits(2).complains("--fence");
    bench.tenure(&["run", "--lock-file", "l", "a", "b", "--", "true"]).exits(2);
    bench.tenure(&["run", "a", "no/b", "--", "true"]).exits(1).complains("--parents");
}

#[test]
fn several_leases_have_one_token() {
    let bench = Bench::new();
    let acquire = ["lease", "acquire", "b", "a", "--ttl", "1h", "--token-file", "t", "--json"];
    let taken = bench.tenure(&acquire).ok().json();
    assert_eq!(taken["target"], bench.path("b").to_str().unwrap());
    assert_eq!(taken["targets"].as_array().unwrap().len(), 2);
    assert_eq!(bench.tenure(&acquire).ok().json()["targets"], taken["targets"], "a renewal");
    bench.tenure(&["run", "--wait", "0", "a", "--", "true"]).exits(75);
    let other = ["lease", "acquire", "a", "c", "--ttl", "1h", "--wait", "0", "--token-file", "u"];
    bench.tenure(&other).exits(75);
    bench.tenure(&["run", "--wait", "0", "c", "--", "true"]).ok();
    bench.tenure(&["lease", "renew", "a", "b", "--token-file", "t"]).ok();
    bench.tenure(&["lease", "release", "a", "b", "--token-file", "t"]).ok();
    bench.tenure(&["lease", "release", "a", "b", "--token-file", "t"]).exits(4);
    let script = format!(
        "l=$({TENURE} lease acquire x.json y.json --ttl 1h) || exit; eval \"$l\"; \
         {TENURE} doc set --wait 0 y.json 1 && {TENURE} doc set --wait 0 x.json 2 && \
         {TENURE} lease release x.json y.json && \
         unset TENURE_TARGET TENURE_FENCE TENURE_OUTER TENURE_TOKEN && {TENURE} run --wait 0 y.json x.json -- echo free"
    );
    assert_eq!(run_in(&bench, std::process::Command::new("sh"), &script), "free\n");
}
