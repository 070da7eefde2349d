//! `tenure claim`.

use std::collections::BTreeMap;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::TENURE;
use crate::bench::Bench;

fn next(bench: &Bench, flags: &[&str]) -> Option<Value> {
    let args = [&["claim", "next", "q", "--owner", "me", "--ttl", "1h"], flags].concat();
    let ran = bench.tenure(&args);
    match ran.code {
        Some(3) => None,
        _ => Some(ran.ok().json()),
    }
}

fn claim(bench: &Bench, verb: &str, claimed: &Value, flags: &[&str]) -> crate::bench::Ran {
    let (id, token) = (claimed["id"].as_str().unwrap(), claimed["token"].as_str().unwrap());
    bench.tenure(&[&["claim", verb, "q", id, "--token", token], flags].concat())
}

#[test]
fn a_task_goes_from_the_queue_to_one_worker_and_is_done() {
    let bench = Bench::new();
    bench.tenure(&["claim", "next", "q", "--ttl", "1h"]).exits(1).complains("no such directory");
    let id = bench.tenure(&["claim", "add", "q", "{\"n\":1}"]).ok().stdout;
    bench.command(&["claim", "add", "q", "-", "--id", "named"]).stdin("[2]").run().ok();
    bench.tenure(&["claim", "add", "q", "3", "--id", "named"]).ok();
    let first = next(&bench, &[]).unwrap();
    assert_eq!((first["id"].as_str().unwrap(), &first["task"]), (id.trim(), &json!({"n":1})));
    assert_eq!(first["attempt"], 1);
    let second = next(&bench, &["--wait", "1s"]).unwrap();
    assert_eq!((&second["id"], &second["task"]), (&json!("named"), &json!([2])));
    assert_eq!(next(&bench, &["--wait", "20ms"]), None);
    claim(&bench, "renew", &first, &["--ttl", "2h"]).ok();
    claim(&bench, "done", &first, &[]).ok();
    claim(&bench, "done", &first, &[]).ok();
    claim(&bench, "fail", &second, &["--max-attempts", "1"]).ok().says("set_aside");
    let listed = bench.tenure(&["claim", "list", "q", "--json"]).ok().json();
    let states: Vec<_> = listed["tasks"].as_array().unwrap().iter().map(|t| &t["state"]).collect();
    assert_eq!(states, ["done", "set_aside"]);
    bench.tenure(&["claim", "list", "q"]).ok();
    assert_eq!(
        bench.tenure(&["claim", "prune", "q", "--max-age", "0"]).ok().stdout.lines().count(),
        2
    );
    bench.tenure(&["claim", "list", "q"]).ok().says("");
}

#[test]
fn a_filter_chooses_and_one_that_fails_on_a_task_leaves_it() {
    let bench = Bench::new();
    for task in ["\"odd\"", "{\"kind\":\"a\"}", "{\"kind\":\"b\"}"] {
        bench.tenure(&["claim", "add", "q", task]).ok();
    }
    let chosen = ["--filter", ".kind == $k", "--arg", "k", "b"];
    assert_eq!(next(&bench, &chosen).unwrap()["task"]["kind"], "b");
    let args = [&["claim", "next", "q", "--ttl", "1h"], &chosen[..]].concat();
    bench.tenure(&args).exits(3).complains("failed on a task");
    bench.tenure(&["claim", "next", "q", "--ttl", "1h", "--filter", ".["]).exits(2);
}

#[test]
fn a_worker_that_lost_its_claim_is_refused() {
    let bench = Bench::new();
    bench.tenure(&["claim", "add", "q", "{}"]).ok();
    let args = ["claim", "next", "q", "--owner", "slow", "--ttl", "50ms"];
    let lost = bench.tenure(&args).ok().json();
    let taken = next(&bench, &["--wait", "20s"]).unwrap();
    assert_eq!(taken["attempt"], 2);
    for verb in ["done", "fail", "renew"] {
        claim(&bench, verb, &lost, &[]).exits(4);
    }
    let guard =
        |claimed: &Value| format!("{}={}", claimed["target"].as_str().unwrap(), claimed["fence"]);
    bench.tenure(&["doc", "set", "r.json", "1", "--guard", &guard(&lost)]).exits(4);
    bench.tenure(&["doc", "set", "r.json", "2", "--guard", &guard(&taken)]).ok();
    claim(&bench, "done", &taken, &[]).ok();
}

#[test]
fn a_worker_is_woken_by_a_new_task_and_by_a_failed_one() {
    let bench = Bench::new();
    bench.tenure(&["claim", "add", "q", "0", "--id", "first"]).ok();
    let first = next(&bench, &[]).unwrap();
    let waits = ["claim", "next", "q", "--ttl", "1h", "--wait", "60s"];
    let worker = bench.command(&waits).start();
    claim(&bench, "fail", &first, &["--delay", "100ms", "--reason", "x"]).ok().says("delayed");
    assert_eq!(worker.wait().ok().json()["attempt"], 2);
    let worker = bench.command(&waits).start();
    bench.tenure(&["claim", "add", "q", "1", "--id", "second"]).ok();
    assert_eq!(worker.wait().ok().json()["id"], "second");
}

#[test]
fn hostile_ids_and_tasks_stay_in_the_queue() {
    let bench = Bench::new();
    for id in ["../out", "/etc/x", "a\nb", ".bell", "-x", "con", "\u{202e}"] {
        let id = format!("--id={id}");
        bench.tenure(&["claim", "add", "q/in", "1", &id]).ok();
    }
    let left: Vec<_> = std::fs::read_dir(bench.path(""))
        .unwrap()
        .map(|found| found.unwrap().file_name())
        .collect();
    assert_eq!(left, ["q"]);
    assert_eq!(bench.tenure(&["claim", "list", "q/in"]).ok().stdout.lines().count(), 7);
    bench.tenure(&["claim", "add", "q", "1", "--id", ""]).exits(2);
    bench.tenure(&["claim", "add", "q", "{"]).exits(2);
    bench.tenure(&["claim", "done", "q/in", "no", "--token", "0123456789abcdef"]).exits(1);
    bench.tenure(&["claim", "done", "q/in", "con", "--token", "x"]).exits(2);
    std::os::unix::fs::symlink("/etc/passwd", bench.path("q/in/link.json")).unwrap();
    bench.file("q/in/half.json", "{");
}

#[test]
fn what_is_no_task_hides_no_other_one() {
    let bench = Bench::new();
    for name in ["a", "z"] {
        bench.tenure(&["claim", "add", "q", "1", "--id", name]).ok();
    }
    for (to, name) in [("/nonexistent/x", "leads-nowhere"), ("loop.json", "loop")] {
        std::os::unix::fs::symlink(to, bench.path(&format!("q/{name}.json"))).unwrap();
    }
    std::fs::create_dir(bench.path("q/directory.json")).unwrap();
    bench.file("q/half.json", "{");
    for name in ["a", "z"] {
        let next = bench.tenure(&["claim", "next", "q", "--ttl", "1m", "--json"]).ok().json();
        assert_eq!(next["id"], name);
        let token = next["token"].as_str().unwrap();
        bench.tenure(&["claim", "done", "q", name, "--token", token]).ok();
    }
    let listed = bench.tenure(&["claim", "list", "q"]).ok();
    assert_eq!(listed.stdout.matches("damaged").count(), 4, "{listed:?}");
    assert_eq!(bench.tenure(&["claim", "prune", "q", "--max-age", "0"]).ok().stdout, "a\nz\n");
}

/// Workers are killed at any moment: each task is completed once, and none is lost.
#[test]
fn workers_that_are_killed_lose_no_task_and_complete_none_twice() {
    const TASKS: usize = 30;
    let bench = Bench::new();
    for number in 0..TASKS {
        let id = format!("t{number}");
        bench.tenure(&["claim", "add", "q", "{}", "--id", &id, "--no-sync"]).ok();
    }
    let script = format!(
        "while t=$({TENURE} claim next q --ttl 300ms --wait 3s); do \
           id=$(printf %s \"$t\" | sed 's/.*\"id\":\"\\([^\"]*\\)\".*/\\1/'); \
           token=$(printf %s \"$t\" | sed 's/.*\"token\":\"\\([^\"]*\\)\".*/\\1/'); \
           {TENURE} claim done q $id --token $token --json | grep -q '\"replayed\":false' && \
           {TENURE} journal append done.jsonl $id --no-sync >/dev/null; done"
    );
    let start = || {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).current_dir(bench.path("")).stderr(std::process::Stdio::null());
        rustix_group(&mut shell);
        shell.spawn().unwrap()
    };
    let mut workers: Vec<_> = (0..3).map(|_| start()).collect();
    for round in 0..12 {
        let victim = round % workers.len();
        // A little work happens in between; which step is hit does not matter.
        bench.tenure(&["claim", "list", "q"]).ok();
        kill_group(&workers[victim]);
        workers[victim].wait().unwrap();
        workers[victim] = start();
    }
    for mut worker in workers {
        worker.wait().unwrap();
    }
    let listed = bench.tenure(&["claim", "list", "q", "--json"]).ok().json();
    let states = listed["tasks"].as_array().unwrap();
    assert_eq!(states.len(), TASKS);
    assert!(states.iter().all(|task| task["state"] == "done"), "{listed}");
    let mut times = BTreeMap::new();
    for line in bench.read("done.jsonl").lines() {
        *times.entry(line.to_owned()).or_insert(0) += 1;
    }
    // A worker that was killed between `done` and its note leaves no note, and never two.
    assert!(times.values().all(|times| *times == 1), "{times:?}");
}

fn rustix_group(command: &mut std::process::Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

fn kill_group(child: &std::process::Child) {
    let _ =
        rustix::process::kill_process_group(rustix::process::Pid::from_child(child), Signal::KILL);
}
