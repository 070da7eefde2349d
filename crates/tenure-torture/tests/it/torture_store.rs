//! `tenure torture --store`: the short form, on real servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tenure::store::Store;
use tenure_engines::{Etcd, Postgres};

use crate::bench::{Bench, Ran};

/// A store that is ready for use, on PostgreSQL and on etcd.
fn stores() -> Vec<String> {
    let postgres = Postgres::is_here().then(|| Postgres::shared().fresh_url());
    let etcd = Etcd::is_here().then(|| Etcd::shared().fresh_url());
    let urls: Vec<_> = postgres.into_iter().chain(etcd).collect();
    for url in &urls {
        tenure_remote::open_apart(url).unwrap().init().unwrap();
    }
    urls
}

fn torture(url: &str, words: &str) -> Ran {
    let words: Vec<_> = words.split(' ').collect();
    Bench::new().tenure(&[&["torture", "--json", "--store", url], &words[..]].concat())
}

/// What is found of a thing.
fn thing<'a>(verdict: &'a Value, name: &str) -> &'a Value {
    let things = verdict["things"].as_array().unwrap();
    things.iter().find(|thing| thing["thing"] == name).unwrap_or_else(|| panic!("{verdict:#}"))
}

#[test]
fn a_store_stands_it_and_nothing_is_left_there() {
    for url in stores() {
        let verdict = torture(&url, "--minutes 0.15 --processes 6 --seed 7").ok().json();
        assert_eq!(verdict["verdict"], "nothing_found", "{verdict:#}");
        for name in ["lock", "lease", "doc", "journal"] {
            let thing = thing(&verdict, name);
            assert!(thing["operations"].as_u64().unwrap() > 0, "{verdict:#}");
            assert_eq!(thing["judged"], true, "{verdict:#}");
        }
        assert!(verdict["kills"].as_u64().unwrap() > 0, "{verdict:#}");
        assert!(verdict["pauses"].as_u64().unwrap() > 0, "{verdict:#}");
        assert_eq!((&verdict["left"], &verdict["seed"]), (&Value::Null, &Value::from(7)));
        let store: Arc<dyn Store> = Arc::new(tenure_remote::open_apart(&url).unwrap());
        let targets = store.survey(Path::new("/")).unwrap().targets;
        assert!(targets.is_empty(), "something is held: {targets:?}");
    }
}

/// Clients that read and write back, compare no version, count fences themselves and repeat appends.
#[test]
fn clients_without_protection_are_found_out() {
    for url in stores() {
        let ran = torture(&url, "--minutes 0.1 --processes 6 --control naive").exits(5);
        let verdict = ran.json();
        assert_eq!(verdict["verdict"], "damage_found", "{verdict:#}");
        let expected = [
            ("lock", "fence"),
            ("lease", "fence"),
            ("doc", "not_linearizable"),
            ("journal", "done_twice"),
        ];
        for (name, fault) in expected {
            let found = thing(&verdict, name)["found"][fault].as_u64();
            assert!(found.is_some_and(|found| found > 0), "{name}, {fault}: {verdict:#}");
        }
        let kept = PathBuf::from(verdict["kept"].as_str().unwrap());
        let history = std::fs::read_to_string(kept.join("round-1.jsonl")).unwrap();
        assert!(history.lines().count() > 8, "{history}");
        std::fs::remove_dir_all(kept).unwrap();
        assert_eq!(verdict["left"], Value::Null);
    }
}

#[test]
fn what_only_files_have_is_refused_before_anything_is_done() {
    // Nothing listens there: it is not asked.
    let url = "postgres://me:secret@127.0.0.1:1/app";
    for words in [
        "/tmp",
        "--command true",
        "--history file",
        "--load full",
        "--ops lock,collection",
        "--control shipped",
        "--leaky doc",
        "--panics parent",
    ] {
        let ran = torture(url, words).exits(2);
        assert!(ran.stderr.contains("for local files, not for a store"), "{words}: {ran:?}");
        assert!(ran.stderr.contains("--store files"), "{words}: {ran:?}");
        assert!(!ran.stderr.contains("secret"), "{ran:?}");
    }
}

#[test]
fn a_store_that_does_not_answer_is_reported_without_the_password() {
    let url = "postgres://me:secret@127.0.0.1:1/app";
    let ran = torture(url, "--minutes 0.01");
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("127.0.0.1:1"), "{ran:?}");
    assert!(!format!("{ran:?}").contains("secret"), "{ran:?}");
}
