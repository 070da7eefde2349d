//! What `--json` prints is what `docs/COMMANDS.md` says, field by field.
//!
//! # Invariants
//!
//! 1. Every field of every output here is in the tables, with its type.
//! 2. Every field of the tables is seen in some output here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tenure_agents::agent::Agent;
use tenure_agents::place::Place;
use tenure_agents::reservations::{Reservations, ReserveOptions, What};

use crate::TENURE;
use crate::bench::Bench;

/// Longer than any test.
const HOUR: Duration = Duration::from_secs(3600);

/// The tables, and which of their fields were seen.
struct Tables {
    types: BTreeMap<(String, String), String>,
    seen: BTreeSet<(String, String)>,
}

impl Tables {
    fn read() -> Self {
        let text = include_str!("../../../../docs/COMMANDS.md");
        let (mut types, mut names) = (BTreeMap::new(), Vec::new());
        for row in text.lines().filter(|line| line.starts_with('|')) {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let [_, first, field, kind, ..] = cells[..] else { panic!("{row}") };
            let Some(field) = field.strip_prefix('`') else { continue };
            if !first.is_empty() {
                names = first.split(", ").map(|name| name.trim_matches('`').to_owned()).collect();
            }
            for name in &names {
                let key = (name.clone(), field.trim_end_matches('`').to_owned());
                assert_eq!(types.insert(key, kind.to_owned()), None, "twice: {row}");
            }
        }
        Self { types, seen: BTreeSet::new() }
    }

    /// An object of this table.
    fn check(&mut self, table: &str, object: &Value) {
        for (field, value) in object.as_object().unwrap_or_else(|| panic!("{table}: {object}")) {
            let key = (table.to_owned(), field.clone());
            let Some(kind) = self.types.get(&key).cloned() else {
                panic!("not documented: {key:?}")
            };
            self.seen.insert(key);
            self.fits(&kind, value, &format!("{table}.{field}"));
        }
    }

    fn fits(&mut self, kind: &str, value: &Value, at: &str) {
        if let Some(kind) = kind.strip_suffix(" or null") {
            if !value.is_null() {
                self.fits(kind, value, at);
            }
            return;
        }
        if let Some(kind) = kind.strip_suffix("[]") {
            let list = value.as_array().unwrap_or_else(|| panic!("{at} is no list: {value}"));
            return list.iter().for_each(|one| self.fits(kind, one, at));
        }
        let fits = match kind {
            "any" => true,
            "string" => value.is_string(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            table => return self.check(table, value),
        };
        assert!(fits, "{at} is no {kind}: {value}");
    }

    /// Everything that a command printed.
    fn results(&mut self, bench: &Bench, table: &str, args: &[&str]) {
        let ran = bench.tenure(&[args, &["--json"]].concat());
        assert!(!ran.stdout.is_empty(), "{args:?}: {ran:?}");
        for line in ran.stdout.lines() {
            self.check(table, &serde_json::from_str(line).unwrap());
        }
    }

    /// The object on stderr of `run`, `lease hold` or a refused command.
    fn outcome(&mut self, bench: &Bench, table: &str, args: &[&str]) {
        self.check(table, &bench.tenure(args).error());
    }
}

/// Runs a verb, named by its first two words.
fn verbs(tables: &mut Tables, bench: &Bench, lines: &[&[&str]]) {
    for args in lines {
        tables.results(bench, &args[..2].join(" "), args);
    }
}

fn documents(tables: &mut Tables, bench: &Bench) {
    verbs(
        tables,
        bench,
        &[
            &["doc", "set", "s.json", "{\"n\":1}"],
            &["doc", "update", "s.json", ".n += 1"],
            &["doc", "merge", "s.json", "{}"],
            &["doc", "patch", "s.json", "[]"],
            &["doc", "restore", "s.json"],
            &["doc", "diff", "s.json"],
            &["doc", "undo", "s.json"],
            &["doc", "history", "s.json"],
            &["doc", "version", "s.json"],
            &["doc", "get", "s.json"],
            &["doc", "get", "s.json", ".n"],
        ],
    );
    for filter in [&[][..], &["."]] {
        let args = [&["doc", "watch", "s.json", "--count", "1", "--json"], filter].concat();
        let mut watch = bench.command(&args).start();
        while watch.is_running() {
            bench.tenure(&["doc", "update", "s.json", ".n += 1", "--no-sync"]).ok();
        }
        tables.check("doc watch", &watch.end().ok().json());
    }
}

fn journals(tables: &mut Tables, bench: &Bench) {
    bench.file("j", b"theirs\n\xff\n");
    verbs(
        tables,
        bench,
        &[
            &["journal", "append", "j", "[1]", "[2]"],
            &["journal", "read", "j"],
            &["journal", "follow", "j", "--count", "4"],
            &["journal", "verify", "j"],
        ],
    );
    let bytes = std::fs::read(bench.path("j")).unwrap();
    let broken: Vec<_> =
        bytes.iter().map(|byte| if *byte == b'2' { b'#' } else { *byte }).collect();
    bench.file("j", broken);
    verbs(
        tables,
        bench,
        &[
            &["journal", "verify", "j"],
            &["journal", "repair", "j"],
            &["journal", "compact", "j", "--from", "2"],
            &["journal", "rotate", "j"],
        ],
    );
    std::fs::remove_file(bench.path("j.1")).unwrap();
    bench.tenure(&["journal", "append", "j", "[3]"]).ok();
    bench.file("j", "");
    bench.tenure(&["journal", "append", "j", "[4]"]).ok();
    verbs(tables, bench, &[&["journal", "read", "j"], &["journal", "verify", "j"]]);
    let follow = ["journal", "follow", "j", "--from", "1", "--wait", "0", "--json"];
    for line in bench.tenure(&follow).exits(5).stdout.lines() {
        tables.check("journal follow", &serde_json::from_str(line).unwrap());
    }
}

fn leases(tables: &mut Tables, bench: &Bench) {
    tables.results(bench, "lease show", &["lease", "show", "l"]);
    let token = ["--token-file", "token"];
    let acquire = [&["lease", "acquire", "l", "--ttl", "1h"], &token[..]].concat();
    let renew = [&["lease", "renew", "l"], &token[..]].concat();
    let release = [&["lease", "release", "l"], &token[..]].concat();
    let take_over = ["lease", "take-over", "l", "--ttl", "1h", "--reason", "r"];
    verbs(tables, bench, &[&acquire, &renew, &["lease", "show", "l"], &release, &take_over]);
    let busy = ["lease", "acquire", "l", "--ttl", "1h", "--wait", "0", "--json"];
    tables.outcome(bench, "error", &busy);
}

fn collections(tables: &mut Tables, bench: &Bench) {
    bench.file("index.json", r#"{"a":1,"b":2}"#);
    bench.tenure(&["doc", "set", "all/b.json", "3"]).ok();
    verbs(
        tables,
        bench,
        &[
            &["collection", "split", "index.json", "all"],
            &["collection", "split", "index.json", "all"],
            &["collection", "list", "all"],
            &["collection", "prune", "all", "--max-count", "1"],
        ],
    );
}

fn agents(tables: &mut Tables, bench: &Bench) {
    std::fs::create_dir(bench.path(".git")).unwrap();
    let payload = serde_json::json!({
        "session_id": "s", "cwd": bench.path(""), "hook_event_name": "PreToolUse",
        "tool_name": "Write", "tool_input": { "file_path": "a.txt" },
    });
    bench.command(&["hook", "edit"]).stdin(payload.to_string()).run().ok();
    let place = Place::of_directory(&bench.path("")).unwrap();
    let options = ReserveOptions { ttl: HOUR, purpose: String::new(), ends_with_turn: false };
    let agent = Agent::new("s", None).unwrap();
    let wanted = [What::Pattern("b/**".to_owned())];
    Reservations::open(&place).unwrap().reserve(&agent, &wanted, &options).unwrap();
    tables.results(bench, "hook who", &["hook", "who"]);
    std::fs::create_dir(bench.path(".codex")).unwrap();
    for action in ["--gate", "--log", "--uninstall"] {
        tables.results(bench, "init", &["init", action]);
    }
    verbs(tables, bench, &[&["settings", "merge", "x.json", "{\"a\":1}"]]);
    verbs(tables, bench, &[&["settings", "merge", "x.json", "{\"b\":1}"]]);
    std::fs::remove_dir_all(bench.path(".git")).unwrap();
}

fn files(tables: &mut Tables, bench: &Bench) {
    for content in ["a", "b"] {
        let put = bench.command(&["file", "put", "f.txt", "--json"]).stdin(content).run().ok();
        tables.check("file put", &put.json());
    }
    let edited = bench.tenure(&["file", "edit", "f.txt", "--json", "--", "cat"]).ok();
    tables.check("file edit", &edited.json());
    verbs(tables, bench, &[&["file", "undo", "f.txt"], &["file", "version", "f.txt"]]);
}

fn claims(tables: &mut Tables, bench: &Bench) {
    for task in ["{}", "1"] {
        verbs(tables, bench, &[&["claim", "add", "q", task]]);
        tables.results(bench, "claim next", &["claim", "next", "q", "--ttl", "1h"]);
    }
    let claim = |last: &[&str]| {
        bench.tenure(&["claim", "add", "q", "{}"]).ok();
        let claimed = bench.tenure(&["claim", "next", "q", "--ttl", "1h"]).ok().json();
        let (id, token) = (claimed["id"].as_str().unwrap(), claimed["token"].as_str().unwrap());
        let words = ["claim", last[0], "q", id, "--token", token];
        [&words[..], &last[1..]].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for last in [&["renew"][..], &["done"], &["fail", "--delay", "1h", "--reason", "r"]] {
        let words = claim(last);
        verbs(tables, bench, &[&words.iter().map(String::as_str).collect::<Vec<_>>()]);
    }
    verbs(tables, bench, &[&["claim", "list", "q"], &["claim", "prune", "q", "--max-age", "0"]]);
}

fn looks(tables: &mut Tables, bench: &Bench) {
    let holder = bench.holder(&[], "x");
    let waiter = bench.command(&["run", "--wait", "forever", "x", "--", "true"]).start();
    crate::bench::must_block(&bench.path("x"), waiter.pid());
    tables.results(bench, "who", &["who", "--all", "--events"]);
    bench.file("s.json", "{");
    bench.file(".tenure/s.json.tmp.0123456789abcdef", "");
    bench.file("d/session.json.tmp", "{");
    tables.results(bench, "doctor", &["doctor"]);
    holder.end().ok();
    waiter.end().ok();
}

fn outcomes(tables: &mut Tables, bench: &Bench) {
    tables.outcome(bench, "ended", &["run", "--json", "y", "--", "false"]);
    tables.outcome(bench, "ended", &["lease", "hold", "y", "--ttl", "1h", "--json", "--", "true"]);
    tables.outcome(bench, "error", &["run", "--json", "y", "--", "no-such-command"]);
    for _ in 0..2 {
        tables.outcome(bench, "once", &["once", "o", "--ttl", "1h", "--json", "--", "true"]);
    }
    let hold = ["lease", "hold", "y", "--ttl", "300ms", "--json", "--", "sh", "-c"];
    let script =
        format!("{TENURE} lease take-over y --ttl 1h --reason r --json >/dev/null; exec cat");
    tables.check("lost", &bench.command(&[&hold[..], &[&script]].concat()).start().wait().error());
    bench.tenure(&["lease", "acquire", "t", "--ttl", "1h", "--token-file", "kept"]).ok();
    let renew = ["lease", "acquire", "t", "--ttl", "1h", "--token-file", "kept", "--owner", "x"];
    tables.outcome(bench, "warning", &[&renew[..], &["--json"]].concat());
}

#[cfg(target_os = "linux")]
fn stores(tables: &mut Tables) {
    use crate::stores::Shelf;
    if !tenure_engines::Postgres::is_here() {
        return tables.seen.extend(tables.types.keys().filter(|key| in_store(key)).cloned());
    }
    let shelf = Shelf::at(&tenure_engines::Postgres::shared().fresh_url());
    let mut check = |table: &str, args: &[&str]| {
        let ran = shelf.tenure(&[args, &["--json"]].concat()).run();
        tables.check(table, &ran.json());
    };
    for verb in ["init", "upgrade", "check"] {
        check(&format!("store {verb}"), &["store", verb]);
    }
    shelf.bench.file("data/a.json", "1");
    shelf.bench.file("data/b.json", format!("\"{}\"", "x".repeat(1 << 20)));
    check("copy", &["copy", "data", "#data/"]);
    check("who", &["who"]);
    check("doctor --store", &["doctor"]);
    let refused = shelf.tenure(&["doc", "undo", "data/a.json", "--json"]).run();
    tables.check("error", &refused.error());
}

/// Tables that only a server fills.
#[cfg(target_os = "linux")]
fn in_store((table, field): &(String, String)) -> bool {
    let only_there = ["store", "death_frees"].contains(&field.as_str());
    only_there
        || ["store ", "copy", "doctor --store", "health", "copied", "failed"]
            .iter()
            .any(|start| table.starts_with(start))
}

#[test]
fn every_field_is_documented_and_every_documented_field_is_printed() {
    let (mut tables, bench) = (Tables::read(), Bench::new());
    documents(&mut tables, &bench);
    journals(&mut tables, &bench);
    leases(&mut tables, &bench);
    collections(&mut tables, &bench);
    claims(&mut tables, &bench);
    files(&mut tables, &bench);
    agents(&mut tables, &bench);
    looks(&mut tables, &bench);
    outcomes(&mut tables, &bench);
    #[cfg(target_os = "linux")]
    stores(&mut tables);
    crate::lab::build();
    tables.results(&bench, "bench", &["bench", "--quick"]);
    tables.results(&bench, "demo", &["demo", "--quick"]);
    let naive =
        ["torture", "--control=naive", "--ops", "doc", "--operations", "2000", "--minutes", "0.2"];
    tables.results(&bench, "torture", &naive);
    let documented: BTreeSet<_> = tables.types.keys().cloned().collect();
    let unseen: Vec<_> = documented.difference(&tables.seen).collect();
    assert!(unseen.is_empty(), "documented, but never printed: {unseen:?}");
}
