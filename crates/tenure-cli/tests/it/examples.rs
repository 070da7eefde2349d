//! Every example of every help, and every command of the README, run as people would run them.
//!
//! Programs that examples name (`make`, `./deploy.sh`, ...) are stand-ins, places outside the directory
//! are moved into it, and what takes minutes or waits for ever gets a shorter limit. A store is one on a real server.

use std::os::unix::fs::symlink;

use crate::TENURE;
use crate::bench::{Bench, Ran};
use crate::help::COMMANDS;

/// Helps whose examples belong together; elsewhere each line stands for itself.
const SEQUENCES: [&str; 3] = ["", "doc version", "lease"];

/// What an example says, and what is run instead.
const INSTEAD: [(&str, &str); 16] = [
    ("/var/lock/", "data/"),
    ("/mnt/data", "data"),
    ("/etc/bash_completion.d/", "data/"),
    ("/usr/local/share/man/man1", "data"),
    ("--wait 30s", "--wait 20ms"),
    ("--wait 5s", "--wait 20ms"),
    ("state.json .status", "state.json .status --wait 20ms"),
    ("log.jsonl --from 42", "log.jsonl --from 42 --wait 20ms"),
    ("log.jsonl --json | while", "log.jsonl --json --wait 20ms | while"),
    ("--minutes 30", ""),
    ("--minutes 1", ""),
    ("tenure torture", "tenure torture --minutes 0.01"),
    // Some runs must succeed, also on a machine that does much else.
    ("--minutes 0.01 --command", "--minutes 0.1 --processes 2 --command"),
    ("tenure bench", "tenure bench --quick"),
    ("demo --quick", "demo"),
    ("tenure demo", "tenure demo --quick"),
];

/// Two durable changes: the second keeps the version of the first.
const CHANGED: &str =
    "tenure doc update state.json '.n += 1'; tenure doc update state.json '.n += 1'";

/// A task that was claimed.
const CLAIMED: &str = r#"tenure claim add tasks 1 --id t >&2; task_id=t
task_token=$(tenure claim next tasks --ttl 1h | sed 's/.*"token":"\([^"]*\)".*/\1/')"#;

/// A variable that an example uses, and how it comes by its value.
const VARIABLES: [(&str, &str); 18] = [
    ("main.rs - --guard", "eval \"$(tenure lease acquire session --ttl 1h)\""),
    ("$file_version", "file_version=$(tenure file version config.toml)"),
    ("file undo", "for n in 1 2; do echo $n | tenure file put config.toml; done"),
    ("claim next", "tenure claim add tasks '{\"kind\":\"build\"}' >&2"),
    ("$task_id", CLAIMED),
    ("release a.rs b.rs", "tenure lease acquire a.rs b.rs --ttl 1h --token-file t >&2"),
    ("copy 'etcd://a:2379/team#log.jsonl'", "tenure copy log.jsonl 'etcd://a:2379/team#log.jsonl'"),
    ("team#plan'", "tenure --store etcd://a:2379/team doc set plan 1"),
    ("$new", "new='{\"n\":2}'"),
    ("$line", "line='{\"event\":\"x\"}'"),
    ("$id", "id=1"),
    ("$filter", "filter='.n += 1'"),
    ("doc diff", CHANGED),
    ("doc undo", CHANGED),
    ("$v", "v=$(tenure doc version state.json)"),
    (".session-token", "tenure lease acquire session --ttl 1h --token-file ~/.session-token >&2"),
    ("$token", "tenure lease acquire session --ttl 1h --token-file t >&2; token=$(cat t)"),
    ("--token \"$TENURE_TOKEN\"", "eval \"$(tenure lease acquire session --ttl 1h)\""),
];

/// Where examples are run.
fn place() -> Bench {
    crate::lab::build();
    let bench = Bench::new();
    bench.file("state.json", r#"{"checked":["a.ts"],"n":1,"name":"x","status":"ok","draft":1}"#);
    bench.file("log.jsonl", "{\"event\":\"start\",\"time\":\"2026-01-01T00:00:00Z\"}\n");
    bench.file("sessions.json", r#"{"a":{},"b":{}}"#);
    bench.file("sessions/active.json", "{}");
    bench.file("tasks/0.json", "{}");
    bench.file("config.toml", "debug = 1\n");
    bench.file("new.rs", "new\n");
    bench.file("data/x", "");
    bench.file("state/x", "");
    bench.file("requests.jsonl", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
    bench.file(".git/HEAD", "");
    bench.file("question.txt", "Why {file}?");
    let payload = r#"{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"file_path":"a"}}"#;
    bench.file("payload.json", payload);
    let jq = r#"if [ -f "${2-}" ]; then exec tenure doc get "$2" "$1"; fi; cat >/dev/null"#;
    let save = r#"tenure doc update "$1" '.[$k] = 1' --arg k "$2""#;
    let programs = [
        ("bin/make", ""),
        ("bin/jq", jq),
        ("bin/gzip", "test -f \"$1\""),
        ("bin/generate", "echo '{\"n\":2}'"),
        ("bin/...", ""),
        ("deploy.sh", ""),
        ("nightly.sh", ""),
        ("report.sh", ""),
        ("move.sh", ""),
        ("refresh-token.sh", "echo secret"),
        ("app", ""),
        ("agent", ""),
        ("save.sh", save),
        ("check.sh", ""),
    ];
    for (name, script) in programs {
        let text = bench.file("text", format!("#!/bin/sh\n{script}\n"));
        bench.program(name, &text);
        std::fs::remove_file(text).unwrap();
    }
    symlink(TENURE, bench.path("bin/tenure")).unwrap();
    bench
}

fn run(bench: &Bench, example: &str) -> Ran {
    let mut script = example.to_owned();
    for (said, instead) in INSTEAD {
        script = script.replace(said, instead);
    }
    let mut before = String::from("set -eu\n");
    for (name, set) in VARIABLES {
        // A shorter name may begin a longer one.
        let used = script.match_indices(name).any(|(at, _)| {
            let next = script[at + name.len()..].chars().next();
            !next.is_some_and(|letter| letter.is_ascii_alphanumeric())
        });
        if used && !script.contains(&format!("{}=", name.trim_start_matches('$'))) {
            before.push_str(set);
            before.push('\n');
        }
    }
    if example.contains("--fence \"$TENURE_FENCE\"") {
        before.push_str("eval \"$(tenure lease acquire state.json --ttl 1h)\"\n");
    }
    let path = std::env::var("PATH").unwrap();
    let output = std::process::Command::new("sh")
        .args(["-c", &on_servers(&format!("{before}{script}"))])
        .current_dir(bench.path(""))
        .env("PATH", format!("{}:{path}", bench.path("bin").display()))
        .env("HOME", bench.path(""))
        .output()
        .unwrap();
    Ran::new(output)
}

/// The script with stores on real servers, prepared, in place of those that it names.
#[cfg(target_os = "linux")]
fn on_servers(script: &str) -> String {
    use tenure_engines::{Etcd, Postgres};
    type Fresh = fn() -> String;
    let mut there = script.to_owned();
    let fresh: [(&str, Fresh); 2] = [
        ("postgres://", || Postgres::shared().fresh_url()),
        ("etcd://", || Etcd::shared().fresh_url()),
    ];
    for (scheme, fresh) in fresh {
        let Some(at) = script.find(scheme) else { continue };
        let end = |rest: &str| rest.find([' ', '\'', '#', '\n']).unwrap_or(rest.len());
        let named = &script[at..at + end(&script[at..])];
        let url = fresh();
        crate::stores::Shelf::at(&url); // Prepared; without `&`, which the shell would read.
        there = there.replace(named, &url);
    }
    there
}

#[cfg(not(target_os = "linux"))]
fn on_servers(script: &str) -> String {
    script.to_owned()
}

/// Whether the example can run here.
fn can_run(example: &str) -> bool {
    if !example.contains("://") {
        return true;
    }
    #[cfg(target_os = "linux")]
    return tenure_engines::Postgres::is_here() && tenure_engines::Etcd::is_here();
    #[cfg(not(target_os = "linux"))]
    return false;
}

/// The examples of a help, without the remarks behind them.
fn examples(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
    let mut found: Vec<String> = Vec::new();
    for line in lines.take_while(|line| !line.is_empty()) {
        let line = line.strip_prefix("  ").unwrap();
        match found.last_mut() {
            Some(last) if line.starts_with(' ') => *last = format!("{last}\n{line}"),
            _ => found.push(line.split("  ").next().unwrap().to_owned()),
        }
    }
    found
}

#[test]
fn every_example_of_every_help_works() {
    for command in std::iter::once(&"").chain(COMMANDS) {
        let bench = place();
        let words = command.split(' ').filter(|word| !word.is_empty()).chain(["--help"]);
        let help = bench.tenure(&words.collect::<Vec<_>>()).ok().stdout;
        let mut examples = examples(&help);
        assert!(!examples.is_empty(), "{command}");
        examples.retain(|example| can_run(example));
        if SEQUENCES.contains(command) {
            examples = vec![examples.join("\n")];
        }
        for example in examples {
            let ran = run(&place(), &example);
            // No news in time, and damage by another program, are what they show.
            let ends_so = |code| match code {
                0 => true,
                75 => example.contains("--count"),
                5 => example.starts_with("tenure torture --command"),
                6 => example.contains("store check"), // Of Debian's etcd.
                _ => false,
            };
            assert!(ran.code.is_some_and(ends_so), "{command}: `{example}`: {ran:?}");
        }
    }
}

#[test]
fn every_command_of_the_readme_works() {
    let text = include_str!("../../../../README.md");
    let blocks: Vec<_> =
        text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 2);
    for block in blocks {
        run(&place(), block).exits(0);
    }
}
