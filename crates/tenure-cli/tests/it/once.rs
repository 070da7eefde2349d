//! `tenure once`.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::bench::{Bench, must_block};

/// Counts its runs, waits for a line on its input, and prints a secret.
const REFRESH: &str = "echo run >> runs; echo started >&2; read go; echo secret; exit ${1:-0}";

#[test]
fn one_runs_and_the_others_get_its_output_and_exit_code() {
    let bench = Bench::new();
    let args = ["once", "token", "--ttl", "1h", "--wait", "60s", "--", "sh", "-c", REFRESH];
    let mut runner = bench.command(&args).start();
    crate::bench::eventually(|| bench.path("runs").exists());
    let others: Vec<_> = (0..4).map(|_| bench.command(&args).start()).collect();
    for other in &others {
        must_block(&bench.path("token~once"), other.pid());
    }
    bench.tenure(&["once", "token", "--ttl", "1h", "--wait", "0", "--", "true"]).exits(75);
    runner.let_go();
    let ran = runner.wait().exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("secret\n", "started\n"));
    for other in others {
        other.wait().ok().says("secret");
    }
    bench.tenure(&args).ok().says("secret");
    assert_eq!(bench.read("runs"), "run\n");
    let mode = std::fs::metadata(bench.path("token~once")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_failure_reaches_those_who_wait_and_is_not_stored() {
    let bench = Bench::new();
    let script = format!("{REFRESH} 2>/dev/null").replace("${1:-0}", "9");
    let args = ["once", "token", "--ttl", "1h", "--wait", "60s", "--", "sh", "-c", &script];
    let mut runner = bench.command(&args).start();
    crate::bench::eventually(|| bench.path("runs").exists());
    let other = bench.command(&args).start();
    must_block(&bench.path("token~once"), other.pid());
    runner.let_go();
    assert_eq!(runner.wait().exits(9).stdout, "secret\n");
    let waited = other.wait().exits(9).complains("failed in the process");
    assert_eq!(waited.stdout, "", "output of a failure is not stored");
    assert_eq!(bench.read("runs"), "run\n");
    bench.tenure(&["once", "token", "--ttl", "1h", "--", "echo", "again"]).ok().says("again");
    bench.tenure(&["once", "other", "--ttl", "1h", "--", "sh", "-c", "kill -9 $$"]).exits(137);
    bench.tenure(&["once", "other", "--ttl", "1h", "--", "no-such-command"]).exits(127);
}

#[test]
fn a_runner_that_dies_hands_over() {
    let bench = Bench::new();
    let args = ["once", "token", "--ttl", "1h", "--wait", "60s", "--", "sh", "-c", REFRESH];
    let mut runner = bench.command(&args).start();
    crate::bench::eventually(|| bench.path("runs").exists());
    let mut next = bench.command(&args).start();
    must_block(&bench.path("token~once"), next.pid());
    // Its command has the lock as long as it lives: it may still be refreshing.
    runner.signal(Signal::KILL);
    must_block(&bench.path("token~once"), next.pid());
    assert_eq!(bench.read("runs"), "run\n");
    runner.kill();
    runner.let_go();
    crate::bench::eventually(|| bench.read("runs") == "run\nrun\n");
    next.let_go();
    assert_eq!(next.wait().exits(0).stdout, "secret\n");
}

/// The secret is not in its words, which a record of the holder has.
const PRINT: &str = "printf 'top%s\\n' secret";

#[test]
fn output_expires_is_erased_and_is_bounded() {
    let bench = Bench::new();
    bench.tenure(&["once", "t", "--ttl", "1ms", "--", "sh", "-c", PRINT]).ok().says("topsecret");
    let ran = bench.tenure(&[
        "once",
        "t",
        "--ttl",
        "1h",
        "--",
        "sh",
        "-c",
        "grep -rl top''secret . || :",
    ]);
    assert_eq!(ran.exits(0).stdout, "", "erased before the command runs, in every file");
    let long = ["once", "long", "--ttl", "1h", "--", "head", "-c", "1100000", "/dev/zero"];
    for _ in 0..2 {
        let ran = bench.tenure(&long).exits(0).complains("was not stored");
        assert_eq!(ran.stdout.len(), 1_100_000);
    }
    // A directory can be the target, and what it has in the background is not waited for.
    std::fs::create_dir(bench.path("dir")).unwrap();
    let script = "echo done; sleep 60 2>/dev/null & echo $! > pid";
    bench.tenure(&["once", "dir", "--ttl", "1h", "--", "sh", "-c", script]).ok().says("done");
    bench.tenure(&["once", "dir", "--ttl", "1h", "--", "false"]).ok().says("done");
    let pid: i32 = bench.read("pid").trim().parse().unwrap();
    let _ =
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), Signal::KILL);
    bench.tenure(&["once", "no/x", "--ttl", "1h", "--", "true"]).exits(1).complains("--parents");
    bench.tenure(&["once", "x", "--", "true"]).exits(2);
}
