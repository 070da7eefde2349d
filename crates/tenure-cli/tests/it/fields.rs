//! What `--json` prints is what `docs/COMMANDS.md` says, field by field.
//!
//! # Invariants
//!
//! 1. Every field of every output here is in the tables, with its type.
//! 2. Every field of the tables is seen in some output here.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::TENURE;
use crate::bench::Bench;

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
            let Some(kind) = self.types.get(&key).cloned() else { panic!("not told: {key:?}") };
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
    let hold = ["lease", "hold", "y", "--ttl", "300ms", "--json", "--", "sh", "-c"];
    let script =
        format!("{TENURE} lease take-over y --ttl 1h --reason r --json >/dev/null; exec cat");
    tables.check("lost", &bench.command(&[&hold[..], &[&script]].concat()).start().wait().error());
    bench.tenure(&["lease", "acquire", "t", "--ttl", "1h", "--token-file", "kept"]).ok();
    let renew = ["lease", "acquire", "t", "--ttl", "1h", "--token-file", "kept", "--owner", "x"];
    tables.outcome(bench, "warning", &[&renew[..], &["--json"]].concat());
}

#[test]
fn every_field_is_told_and_every_told_field_is_there() {
    let (mut tables, bench) = (Tables::read(), Bench::new());
    documents(&mut tables, &bench);
    journals(&mut tables, &bench);
    leases(&mut tables, &bench);
    collections(&mut tables, &bench);
    looks(&mut tables, &bench);
    outcomes(&mut tables, &bench);
    crate::lab::build();
    tables.results(&bench, "bench", &["bench", "--quick"]);
    tables.results(&bench, "demo", &["demo", "--quick"]);
    let naive =
        ["torture", "--control=naive", "--ops", "doc", "--operations", "2000", "--minutes", "0.2"];
    tables.results(&bench, "torture", &naive);
    let told: BTreeSet<_> = tables.types.keys().cloned().collect();
    let unseen: Vec<_> = told.difference(&tables.seen).collect();
    assert!(unseen.is_empty(), "told, but never printed: {unseen:?}");
}
