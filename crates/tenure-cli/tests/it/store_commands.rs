//! Every command on a store: the same verbs and exit codes as on files.

use crate::TENURE;
use crate::bench::{Bench, eventually};
use crate::stores::{Shelf, each};

#[test]
fn documents_are_read_and_changed() {
    each(|shelf| {
        let run = |args: &[&str]| shelf.tenure(args).run();
        run(&["doc", "get", "a.json"]).exits(1).complains("there is none");
        run(&["doc", "set", "a.json", r#"{"n": 1.50, "big": 12345678901234567890}"#]).ok();
        run(&["doc", "update", "a.json", ".seen = true"]).ok();
        run(&["doc", "merge", "a.json", r#"{"list":["x"]}"#, "--union", "/list"]).ok();
        run(&["doc", "patch", "a.json", r#"[{"op":"add","path":"/p","value":1}]"#]).ok();
        let text = r#"{"n":1.50,"big":12345678901234567890,"seen":true,"list":["x"],"p":1}"#;
        run(&["doc", "get", "a.json", "-c"]).ok().says(text);
        let version = run(&["doc", "version", "a.json"]).ok().stdout;
        let version = version.trim_end();
        run(&["doc", "set", "a.json", "1", "--if-version", version]).ok();
        run(&["doc", "set", "a.json", "2", "--if-version", version]).exits(3);
        let again = ["doc", "update", "a.json", ".+1", "--op-id", "once", "--json"];
        assert_eq!(run(&again).ok().json()["replayed"], false);
        assert_eq!(run(&again).ok().json()["replayed"], true);
        run(&["doc", "get", "a.json"]).ok().says("2");
        let watch = ["doc", "watch", "a.json", "--count", "1", "--wait", "30s"];
        let watch = shelf.tenure(&watch).start();
        let value = std::cell::Cell::new(3);
        let mut watch = Some(watch);
        eventually(|| {
            value.set(value.get() + 1); // The watch may not have begun at the first change.
            shelf.tenure(&["doc", "set", "a.json", &value.get().to_string()]).run().ok();
            value.get() > 8
        });
        let seen: i32 = watch.take().unwrap().wait().ok().stdout.trim().parse().unwrap();
        assert!((4..=value.get()).contains(&seen), "{seen}");
        assert!(!shelf.bench.path(".tenure").exists(), "nothing is written to the directory");
    });
}

#[test]
fn journals_are_appended_to_and_read() {
    each(|shelf| {
        let run = |args: &[&str]| shelf.tenure(args).run();
        run(&["journal", "read", "log.jsonl"]).exits(1).complains("there is none");
        let first = run(&["journal", "append", "log.jsonl", "a", "b", "--json"]).ok().json();
        let from = first["first"].as_u64().unwrap();
        run(&["journal", "append", "log.jsonl", "c", "--op-id", "x"]).ok();
        run(&["journal", "append", "log.jsonl", "c", "--op-id", "x"]).ok();
        run(&["journal", "read", "log.jsonl"]).ok().says("a\nb\nc");
        run(&["journal", "read", "log.jsonl", "--last", "2"]).ok().says("b\nc");
        let after = (from + 1).to_string();
        run(&["journal", "read", "log.jsonl", "--from", &after]).ok().says("b\nc");
        let mut follow = shelf.tenure(&["journal", "follow", "log.jsonl", "--count", "4"]).start();
        for line in ["a", "b", "c"] {
            assert_eq!(follow.line(), line);
        }
        run(&["journal", "append", "log.jsonl", "d"]).ok();
        follow.wait().ok().says("d");
    });
}

#[test]
fn leases_are_held_proven_and_taken_over() {
    each(|shelf| {
        let run = |args: &[&str]| shelf.tenure(args).run();
        let leased = run(&["lease", "acquire", "s", "--ttl", "60s", "--owner", "me", "--json"]);
        let leased = leased.ok().json();
        let (token, fence) = (leased["token"].as_str().unwrap(), leased["fence"].to_string());
        run(&["doc", "set", "s", "1", "--wait", "0"]).exits(75).complains("leased to `me`");
        run(&["doc", "set", "s", "1", "--wait", "0", "--fence", &fence]).ok();
        let guard = format!("s={fence}");
        run(&["doc", "set", "other", "1", "--guard", &guard]).ok();
        run(&["lease", "check", "s", "--token", token]).ok();
        run(&["lease", "check", "s"]).exits(75);
        run(&["lease", "renew", "s", "--token", token]).ok();
        let shown = run(&["lease", "show", "s", "--json"]).ok().json();
        assert_eq!(shown["owner"], "me");
        run(&["lease", "take-over", "s", "--ttl", "60s", "--reason", "it hangs"]).ok();
        run(&["doc", "set", "other", "2", "--guard", &guard]).exits(4);
        run(&["lease", "renew", "s", "--token", token]).exits(4);
        run(&["lease", "release", "s", "--token", token]).exits(4);
        let events = run(&["who", "--events", "s"]).ok().stdout;
        assert!(events.contains("it hangs"), "{events}");
        run(&["lease", "acquire", "t", "--ttl", "1s"]).exits(6).complains("2s");
        let script = format!("{TENURE} doc set held 1 --wait 0 && {TENURE} lease check held");
        run(&["lease", "hold", "held", "--ttl", "60s", "--", "sh", "-c", &script]).ok();
        run(&["lease", "check", "held"]).exits(3);
    });
}

#[test]
fn collections_are_listed_pruned_and_made() {
    each(|shelf| {
        let run = |args: &[&str]| shelf.tenure(args).run();
        run(&["doc", "set", "index.json", r#"{"a":1,"B":2,"c/d":3}"#]).ok();
        run(&["collection", "split", "index.json", "sessions"]).ok();
        run(&["collection", "list", "sessions"]).ok().says("B\na\nc/d");
        run(&["doc", "get", "sessions/%42.json"]).ok().says("2");
        run(&["collection", "prune", "sessions", "--max-count", "1", "--keep", "a"]).ok();
        run(&["collection", "list", "sessions", "--json"]).ok();
        run(&["doc", "get", "sessions/a.json"]).ok().says("1");
    });
}

#[test]
fn what_needs_files_is_6() {
    each(|shelf| {
        let run = |args: &[&str]| shelf.tenure(args).run();
        run(&["journal", "append", "log", "a"]).ok();
        run(&["doc", "set", "d.json", "1"]).ok();
        for args in [
            &["journal", "rotate", "log"][..],
            &["journal", "verify", "log"],
            &["journal", "repair", "log"],
            &["journal", "compact", "log", "--from", "1"],
            &["journal", "append", "log", "b", "--header", "h"],
            &["journal", "append", "log", "b", "--lock-file", "f"],
            &["doc", "set", "d.json", "2", "--lock-file", "f"],
            &["doc", "undo", "d.json"],
            &["doc", "diff", "d.json"],
            &["doc", "history", "d.json"],
            &["doc", "restore", "d.json"],
            &["run", "--shared", "x", "--", "true"],
            &["run", "--lock-file", "f", "x", "--", "true"],
            &["doctor", "--fix"],
        ] {
            let ran = run(args).exits(6);
            assert!(ran.stderr.contains("store"), "{args:?}: {ran:?}");
            let error = run(&[args, &["--json"][..]].concat());
            if args[0] != "run" {
                assert_eq!(error.error()["code"], "unsupported", "{args:?}");
            }
        }
        run(&["doc", "get", "d.json"]).ok().says("1");
        run(&["journal", "read", "log"]).ok().says("a");
    });
}

#[test]
fn the_environment_or_an_option_names_the_store() {
    each(|shelf| {
        shelf.tenure(&["doc", "set", "x", "1"]).run().ok();
        let bench = &shelf.bench;
        bench.tenure(&["doc", "get", "x", "--store", &shelf.url]).ok().says("1");
        bench.tenure(&["--store", &shelf.url, "doc", "get", "x"]).ok().says("1");
        // The option comes first, and `files` are the local ones.
        shelf.tenure(&["doc", "set", "x", "2", "--store", "files"]).run().ok();
        bench.tenure(&["doc", "get", "x"]).ok().says("2");
        shelf.tenure(&["doc", "get", "x"]).run().ok().says("1");
        shelf.tenure(&["completions", "bash"]).run().ok();
        bench.tenure(&["man", ".", "--store", &shelf.url]).exits(2).complains("no targets");
        // A command in a hint finds the store as this one did.
        let update = ["doc", "update", "missing.json", ".n"];
        let named = bench.tenure(&[&update[..], &["--store", &shelf.url]].concat()).exits(1);
        named.complains("`tenure --store ");
        let known = shelf.tenure(&update).run().exits(1);
        assert!(!known.stderr.contains("--store"), "{known:?}");
    });
}

#[test]
fn who_and_doctor_see_all_machines() {
    each(|shelf| {
        let run = |args: &[&str]| shelf.tenure(args).run();
        let nested = ["run", "team/build", "--label", "nightly", "--", "sh", "-c"];
        let script =
            format!("{TENURE} who --json; {TENURE} who team/build; {TENURE} doctor || true");
        let ran = run(&[&nested[..], &[&script]].concat()).exits(0);
        let (first, rest) = ran.stdout.split_once('\n').unwrap();
        let seen: serde_json::Value = serde_json::from_str(first).unwrap();
        assert_eq!(seen["death_frees"], false);
        assert_eq!(seen["targets"][0]["target"], "/team/build");
        let holder = &seen["targets"][0]["holder"];
        assert_eq!(holder["label"], "nightly");
        assert!(!holder["host"].as_str().unwrap().is_empty());
        assert!(holder["since_us"].as_u64().unwrap() > 0);
        assert!(rest.contains("nightly") && rest.contains("1 held"), "{rest}");
        assert!(rest.contains("\nserver "), "{rest}");
        run(&["who"]).ok().says("");
        run(&["who", "nothing"]).exits(0).complains("never locked");
    });
}

#[test]
fn the_health_of_a_server_is_told() {
    each(|shelf| {
        // Debian's etcd has a known defect, which is a problem.
        let ran = shelf.tenure(&["store", "check", "--json"]).run();
        let object = ran.json();
        let problems = object["problems"].as_u64().unwrap();
        assert_eq!(ran.code, Some(if problems == 0 { 0 } else { 6 }), "{ran:?}");
        assert_eq!(object["bytes_max"], 1 << 20);
        let findings = object["findings"].as_array().unwrap();
        assert!(findings.iter().any(|found| found["what"] == "server"), "{object}");
        let bench = &shelf.bench;
        let text = bench.tenure(&["store", "check", &shelf.url]).stdout;
        assert!(text.starts_with("store  ") && text.contains("limits "), "{text}");
        bench.tenure(&["store", "upgrade", &shelf.url]).ok();
    });
    Bench::new().tenure(&["store", "check"]).exits(2).complains("TENURE_STORE");
}

/// An asynchronous standby may lose what was acknowledged: that endangers a guarantee.
#[test]
fn a_problem_of_the_server_is_6() {
    use tenure_engines::{Postgres, Replication};
    if !Postgres::is_here() {
        return;
    }
    let server = Postgres::start();
    let shelf = Shelf::at(&server.url());
    let _standby = server.standby(Replication::Asynchronous);
    eventually(|| shelf.tenure(&["store", "check"]).run().code == Some(6));
    let ran = shelf.tenure(&["store", "check"]).run().exits(6).complains("replication");
    assert!(ran.stdout.contains("PROBLEM "), "{ran:?}");
    let object = shelf.tenure(&["store", "check", "--json"]).run().exits(6).json();
    assert!(object["problems"].as_u64().unwrap() > 0, "{object}");
}

#[test]
fn bench_measures_a_store_and_leaves_nothing() {
    crate::lab::build();
    each(|shelf| {
        let report = shelf.tenure(&["bench", "--quick", "--json"]).run().ok().json();
        let rows = report["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 5, "{report}");
        assert!(rows.iter().all(|row| row["tenure_us"].as_f64().unwrap() > 0.0), "{report}");
        let listed = shelf.tenure(&["who", "--all", "--json"]).run().ok().json();
        for target in listed["targets"].as_array().unwrap() {
            assert_eq!(target["kind"], "free", "{target}");
        }
    });
}
