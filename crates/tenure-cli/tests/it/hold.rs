//! `tenure lease hold`.

use rustix::process::Signal;
use serde_json::json;

use crate::TENURE;
use crate::bench::{Bench, eventually};

const HOLD: [&str; 5] = ["lease", "hold", "s", "--ttl", "1h"];

fn hold<'a>(more: &[&'a str]) -> Vec<&'a str> {
    HOLD.iter().copied().chain(more.iter().copied()).collect()
}

#[test]
fn the_command_runs_under_the_lease_and_ends_it() {
    let bench = Bench::new();
    let script = "echo $TENURE_TARGET $TENURE_FENCE $TENURE_TOKEN; exit 5";
    let ran = bench.tenure(&hold(&["--", "sh", "-c", script])).exits(5);
    let words: Vec<_> = ran.stdout.split_whitespace().collect();
    assert_eq!(words[0], bench.path("s").to_str().unwrap());
    assert!(words[1].parse::<u64>().unwrap() > 0);
    assert!(words[2].len() >= 16);
    bench.tenure(&["lease", "show", "s"]).ok().says("free");
    bench.tenure(&hold(&["--", "no-such-command"])).exits(127);
    bench.tenure(&["lease", "show", "s"]).ok().says("free");
}

#[test]
fn the_environment_lets_nested_writes_and_renewals_in() {
    let bench = Bench::new();
    let script = format!(
        "{TENURE} doc set s 1 --wait 0 && {TENURE} lease renew s && \
         {TENURE} lease hold s --ttl 1h --wait 0 -- true && {TENURE} doc set s 2 --wait 0 && \
         {TENURE} doc set other.json 3 --guard s=$TENURE_FENCE --wait 0"
    );
    bench.tenure(&hold(&["--", "sh", "-c", &script])).ok();
    assert_eq!(bench.read("s").trim_end(), "2");
}

#[test]
fn a_busy_lease_is_75_or_what_was_asked_for() {
    let bench = Bench::new();
    bench.tenure(&["lease", "acquire", "s", "--ttl", "1h", "--owner", "eve"]).ok();
    bench.tenure(&hold(&["--wait", "0", "--", "true"])).exits(75).complains("`eve`");
    bench.tenure(&hold(&["--wait", "0", "--busy-code", "8", "--", "true"])).exits(8);
    let busy = bench.tenure(&hold(&["--wait", "0", "--json", "--", "true"])).exits(75);
    assert_eq!(busy.error()["outcome"], "busy");
}

#[test]
fn it_is_renewed_while_the_command_runs() {
    let bench = Bench::new();
    let args = ["lease", "hold", "s", "--ttl", "300ms", "--", "sh", "-c", "echo ready; cat"];
    let mut live = bench.command(&args).start();
    assert_eq!(live.line(), "ready");
    // Much longer than the time to live; it can only be there still because it was renewed. On a busy
    // machine that may be late once, and is done again.
    let started = std::time::Instant::now();
    eventually(|| started.elapsed().as_millis() > 1200);
    let show = ["lease", "show", "s", "--json"];
    eventually(|| bench.tenure(&show).ok().json()["leased"] == true);
    live.end().ok();
}

#[test]
fn when_the_lease_is_lost_the_command_is_terminated() {
    let bench = Bench::new();
    // The trap interrupts `wait`; the cat ends when its input does.
    let script =
        "exec 3<&0; trap 'echo told; exit 0' TERM; cat <&3 >/dev/null 2>&1 & echo ready; wait";
    let args = ["lease", "hold", "s", "--ttl", "300ms", "--json", "--", "sh", "-c", script];
    let mut live = bench.command(&args).start();
    assert_eq!(live.line(), "ready");
    bench.tenure(&["lease", "take-over", "s", "--ttl", "1h", "--reason", "test"]).ok();
    let ran = live.wait().exits(4).says("told");
    assert_eq!(ran.error()["outcome"], "lease_lost");
    let shown = bench.tenure(&["lease", "show", "s", "--json"]).ok().json();
    assert_eq!(shown["leased"], true, "the new holder's lease is not touched");
}

#[test]
fn a_command_that_ignores_the_loss_is_killed() {
    let bench = Bench::new();
    let script = "trap '' TERM; echo ready; exec cat";
    let args =
        ["lease", "hold", "s", "--ttl", "300ms", "--grace", "10ms", "--", "sh", "-c", script];
    let mut live = bench.command(&args).start();
    assert_eq!(live.line(), "ready");
    bench.tenure(&["lease", "take-over", "s", "--ttl", "1h", "--reason", "test"]).ok();
    live.wait().exits(4).complains("no longer holds it");
}

#[test]
fn signals_and_their_exit_codes_are_passed_on() {
    let bench = Bench::new();
    let mut live = bench.command(&hold(&["--", "sh", "-c", "echo ready; exec cat"])).start();
    assert_eq!(live.line(), "ready");
    live.signal(Signal::TERM);
    live.wait().exits(143);
    bench.tenure(&["lease", "show", "s"]).ok().says("free");
    let exited = bench.tenure(&hold(&["--json", "--", "sh", "-c", "exit 2"])).exits(2);
    assert_eq!(
        (&exited.error()["outcome"], &exited.error()["code"]),
        (&json!("exited"), &json!(2))
    );
}
