//! `tenure who`.

use serde_json::json;

use crate::bench::{Bench, must_block};

#[test]
fn a_holder_is_shown_with_those_who_wait() {
    let bench = Bench::new();
    let holder = bench.holder(&["--label", "build"], "x");
    let waiter = bench.command(&["run", "--wait", "forever", "x", "--", "true"]).start();
    must_block(&bench.path("x"), waiter.pid());
    let object = bench.tenure(&["who", "--json"]).ok().json();
    let target = &object["targets"][0];
    assert_eq!(target["target"], bench.path("x").to_str().unwrap());
    assert_eq!((&target["kind"], &target["compromised"]), (&json!("lock"), &json!(false)));
    assert_eq!(target["holder"]["pid"], holder.pid());
    assert_eq!(target["holder"]["label"], "build");
    assert_eq!(target["holder"]["fence"], target["fence"]);
    assert_eq!(target["waiters"][0]["pid"], waiter.pid());
    let keeps = target["processes"].as_array().unwrap();
    assert!(keeps.iter().any(|process| process["command"] == "cat"), "{keeps:?}");
    let text = bench.tenure(&["who", "x"]).ok().stdout;
    for part in ["lock", "build", &holder.pid().to_string(), &waiter.pid().to_string()] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    holder.end().ok();
    waiter.end().ok();
    bench.tenure(&["who"]).ok().says("");
    assert_eq!(
        bench.tenure(&["who", "--json"]).ok().json(),
        json!({ "targets": [], "unseen": [] })
    );
}

#[test]
fn free_shared_leased_and_abandoned_targets_are_distinguished() {
    let bench = Bench::new();
    let kind = |name: &str| {
        bench.tenure(&["who", "--json", name]).ok().json()["targets"][0]["kind"].clone()
    };
    let reader = bench.holder(&["--shared"], "x");
    assert_eq!(kind("x"), "shared");
    reader.end().ok();
    assert_eq!(kind("x"), "free");
    bench.tenure(&["lease", "acquire", "x", "--ttl", "1h", "--owner", "o"]).ok();
    assert_eq!(kind("x"), "lease");
    let lease = bench.tenure(&["who", "--json", "x"]).ok().json();
    let left = lease["targets"][0]["expires_in_ms"].as_u64().unwrap();
    assert!(left > 3_500_000 && left <= 3_600_000, "{left}");
    let mut killed = bench.holder(&["--close"], "y");
    killed.kill();
    assert_eq!(kind("y"), "abandoned");
    bench.tenure(&["run", "y", "--", "true"]).exits(0);
    assert_eq!(kind("y"), "free");
    bench.tenure(&["run", "y", "--", "true"]).ok();
    let all = bench.tenure(&["who", "--all", "--json", "."]).ok().json();
    assert_eq!(all["targets"].as_array().unwrap().len(), 2);
}

#[test]
fn targets_below_are_found_whatever_their_names() {
    let bench = Bench::new();
    let long = "n".repeat(200);
    for name in ["a/b/x", "~tilde", &long] {
        bench.file(name, "");
        bench.tenure(&["lease", "acquire", name, "--ttl", "1h", "--parents"]).ok();
    }
    let found = bench.tenure(&["who", "--json"]).ok().json();
    let names: Vec<_> = found["targets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|target| target["target"].as_str().unwrap().rsplit('/').next().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["x", &long, "~tilde"]);
}

#[test]
fn looking_creates_nothing() {
    let bench = Bench::new();
    bench.tenure(&["who", "x"]).exits(0);
    bench.tenure(&["who"]).ok();
    assert_eq!(std::fs::read_dir(bench.path("")).unwrap().count(), 0);
    bench.tenure(&["who", "no/such/dir/x"]).exits(0);
}

#[test]
fn a_program_gets_headings_and_tabs() {
    let bench = Bench::new();
    bench.tenure(&["lease", "acquire", "x", "--ttl", "1h"]).ok();
    let text = bench.tenure(&["who"]).ok().stdout;
    let (headings, row) = text.split_once('\n').unwrap();
    assert!(headings.starts_with("TARGET\tKIND\tPID\t"), "{text}");
    assert_eq!(row.split('\t').nth(1), Some("lease"), "{text}");
}

/// What is closed to us does not hide what is not.
#[test]
fn what_cannot_be_looked_at_is_named_and_the_rest_is_shown() {
    let bench = Bench::new();
    for name in ["d/a", "d/b", "d/c", "d/closed/x", "d/shut/x"] {
        bench.tenure(&["lease", "acquire", name, "--ttl", "1h", "--parents"]).ok();
    }
    for dir in [".", "d", "d/shut", "d/.tenure"] {
        bench.set_mode(dir, 0o755);
    }
    let closed = ["d/closed", "d/shut/.tenure", "d/.tenure/b.commit"];
    for (name, mode) in closed.map(|name| (name, 0)) {
        bench.set_mode(name, mode);
    }
    for name in ["d/.tenure/a.commit", "d/.tenure/c.commit"] {
        bench.set_mode(name, 0o644);
    }
    let dir = bench.path("d");
    let dir = dir.to_str().unwrap();
    let ran = bench.as_nobody(&["who", dir, "--json"]).exits(1);
    let below = |list: &str, field: &str| -> Vec<String> {
        let found = ran.json()[list].as_array().unwrap().clone();
        let path = |one: &serde_json::Value| one[field].as_str().unwrap().to_owned();
        found.iter().map(|one| path(one).strip_prefix(dir).unwrap().to_owned()).collect()
    };
    assert_eq!(below("targets", "target"), ["/a", "/c"]);
    assert_eq!(below("unseen", "path"), ["/b", "/closed", "/shut/.tenure"]);
    for unseen in ran.json()["unseen"].as_array().unwrap() {
        assert!(unseen["why"].as_str().unwrap().contains("denied"), "{unseen}");
    }
    let error = ran.error();
    assert_eq!((&error["code"], &error["exit"]), (&json!("io"), &json!(1)), "{error}");
    let ran = bench.as_nobody(&["who", dir]).exits(1);
    assert_eq!(ran.stdout.lines().count(), 3, "{ran:?}");
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 4, "{ran:?}");
    for (line, name) in lines.iter().zip(["/b`", "/closed`", "/shut/.tenure`"]) {
        assert!(line.starts_with("tenure: ") && line.contains(name), "{line}");
        assert!(line.contains("denied"), "{line}");
    }
    assert!(lines[3].contains("3 targets or directories could not be read; "), "{ran:?}");
    bench.set_mode("d/closed", 0o755);
}

/// A typo is said, and nothing is created; a name that was locked once is a target.
#[test]
fn a_path_that_is_not_there_is_said() {
    let bench = Bench::new();
    for name in ["typo", "no/such/typo"] {
        let ran = bench.tenure(&["who", name]).exits(0);
        ran.complains("typo` does not exist, and was never locked");
    }
    let ran = bench.tenure(&["who", "--json", "typo"]).exits(0);
    assert!(ran.error()["warning"].as_str().unwrap().contains("does not exist"), "{ran:?}");
    assert_eq!(ran.json()["targets"][0]["kind"], "free");
    assert!(!bench.path(".tenure").exists());
    bench.tenure(&["run", "x", "--", "true"]).ok();
    bench.tenure(&["who", "x"]).ok();
    bench.file("there", "");
    bench.tenure(&["who", "there"]).ok();
}

#[test]
fn only_living_processes_are_named_with_times_of_the_clock() {
    let bench = Bench::new();
    let acquired = bench.command(&["lease", "acquire", "l", "--ttl", "1h", "--owner", "o"]).start();
    let pid = acquired.pid().to_string();
    acquired.end().ok();
    let text = bench.tenure(&["who", "l"]).ok().stdout;
    let cells: Vec<_> = text.lines().nth(1).unwrap().split('\t').collect();
    assert_eq!((cells[1], cells[2], cells[8]), ("lease", "-", "o"), "{text}");
    assert!(!text.contains(&pid) || pid.len() < 3, "{text}");
    // `14:02:11 (0.6s)`, and `59m59s (until 15:02:10)`; a date may stand before it around midnight.
    assert!(cells[5].contains(':') && cells[5].ends_with("s)"), "{text}");
    assert!(cells[6].contains(" (until ") && cells[6].contains(':'), "{text}");
    let busy = bench.tenure(&["lease", "acquire", "l", "--ttl", "1h", "--wait", "0"]).exits(75);
    assert!(!busy.stderr.contains(" by pid "), "{busy:?}");
    assert!(busy.stderr.contains(" s ago, at ") && !busy.stderr.contains("UTC"), "{busy:?}");
    let mut killed = bench.holder(&["--close"], "y");
    killed.kill();
    let text = bench.tenure(&["who", "y"]).ok().stdout;
    assert!(text.contains("abandoned\t-\t"), "{text}");
    let holder = bench.holder(&["--label", "nightly"], "x");
    let busy = bench.tenure(&["run", "--wait", "0", "x", "--", "true"]).exits(75);
    let parts = [&format!("held by pid {}", holder.pid()), ", \"nightly\") for ", " s, since "];
    for part in parts {
        assert!(busy.stderr.contains(part), "no {part} in {busy:?}");
    }
    let hint = format!("tenure who {}`", bench.path("x").display());
    assert!(busy.stderr.contains(&hint), "{busy:?}");
    holder.end().ok();
}

#[test]
fn a_terminal_says_that_nothing_is_held() {
    use std::io::BufRead;
    let bench = Bench::new();
    let (mut screen, terminal) = crate::bench::terminal();
    let mut child = bench.command(&["who"]).with_stdout(terminal).spawn();
    let mut line = String::new();
    screen.read_line(&mut line).unwrap();
    assert_eq!(line.trim_end(), "nothing is held");
    assert!(child.wait().unwrap().success());
}

#[test]
fn events_are_sentences() {
    let bench = Bench::new();
    let mut killed = bench.holder(&["--close", "--label", "night"], "lock");
    let pid = killed.pid();
    killed.kill();
    bench.tenure(&["run", "lock", "--", "true"]).exits(0);
    let mut killed = bench.holder(&["--close"], "doc.json");
    killed.kill();
    bench.tenure(&["doc", "set", "doc.json", "[1]"]).ok();
    bench.tenure(&["doc", "set", "doc.json", "[2]"]).ok();
    bench.file("doc.json", "[2");
    bench.tenure(&["doc", "update", "doc.json", "."]).exits(5);
    bench.tenure(&["doc", "restore", "doc.json"]).exits(0);
    bench.tenure(&["lease", "acquire", "l", "--ttl", "1h", "--owner", "a"]).ok();
    let args = ["lease", "take-over", "l", "--ttl", "1h", "--owner", "b", "--reason", "it hangs"];
    bench.tenure(&args).ok();
    bench.file("j", "theirs\n");
    bench.tenure(&["journal", "append", "j", "[1]"]).ok();
    bench.file("new", "other\nlines\n");
    let mut replace = std::process::Command::new("mv");
    assert!(replace.arg(bench.path("new")).arg(bench.path("j")).status().unwrap().success());
    bench.tenure(&["journal", "append", "j", "[2]"]).ok();
    let text = bench.tenure(&["who", "--events"]).ok().stdout;
    for part in [
        &format!("pid {pid} on "),
        ", \"night\") died while it held the lock, fence ",
        "/doc.json  ",
        "its 2 bytes were copied aside",
        "its last good version was restored",
        "`b` took the lease over from `a`: it hangs",
        "the journal was adopted as it is, since ",
        "s ago)  ",
    ] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    assert!(!text.contains('{'), "{text}");
    let object = bench.tenure(&["who", "--events", "--json"]).ok().json();
    assert!(object["targets"].as_array().unwrap().len() >= 4, "{object}");
}
