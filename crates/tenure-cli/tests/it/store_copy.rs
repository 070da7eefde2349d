//! `tenure copy`: both ways, compared, and continued after a kill.

use tenure_engines::Postgres;

use crate::stores::{Shelf, each};

/// A collection on files: documents and journals.
fn fill(shelf: &Shelf, documents: usize, entries: usize) {
    for n in 0..documents {
        shelf.bench.file(&format!("data/doc{n}.json"), format!("{{ \"n\" : {n}.50 }}\n"));
    }
    let lines: Vec<_> = (0..entries).map(|n| format!("{{\"entry\":{n}}}")).collect();
    shelf
        .bench
        .command(&["journal", "append", "data/log.jsonl"])
        .stdin(lines.join("\n"))
        .run()
        .ok();
}

#[test]
fn a_directory_goes_to_a_store_and_back_byte_for_byte() {
    each(|shelf| {
        fill(shelf, 5, 200);
        let run = |args: &[&str]| shelf.tenure(args).run();
        let copied = run(&["copy", "data/", "#team/data/", "--json"]).ok().json();
        assert_eq!(copied["documents"]["copied"], 5, "{copied}");
        assert_eq!((&copied["journals"]["copied"], &copied["entries"]), (&1.into(), &200.into()));
        run(&["doc", "get", "team/data/doc3.json", "-c"]).ok().says("{\"n\":3.50}");
        let again = run(&["copy", "data/", "#team/data/", "--json"]).ok().json();
        assert_eq!((&again["documents"]["present"], &again["entries"]), (&5.into(), &0.into()));
        run(&["copy", "#team/data/", "back/"]).ok();
        for name in ["doc0.json", "doc4.json", "log.jsonl"] {
            let (there, back) = (format!("data/{name}"), format!("back/{name}"));
            assert_eq!(shelf.bench.read(&there), shelf.bench.read(&back), "{name}");
        }
        // More entries are appended behind those that are there; one target into a collection.
        shelf.bench.tenure(&["journal", "append", "data/log.jsonl", "more"]).ok();
        let more = run(&["copy", "data/log.jsonl", "#team/data/", "--json"]).ok().json();
        assert_eq!(more["entries"], 1, "{more}");
        run(&["journal", "read", "team/data/log.jsonl", "--last", "1"]).ok().says("more");
    });
}

#[test]
fn what_differs_stays_and_is_3() {
    each(|shelf| {
        let run = |args: &[&str]| shelf.tenure(args).run();
        shelf.bench.file("a.json", "1");
        shelf.bench.file("log.jsonl", "one\ntwo\n");
        run(&["doc", "set", "a.json", "2"]).ok();
        run(&["journal", "append", "log.jsonl", "one", "other"]).ok();
        run(&["copy", "a.json", "#a.json"]).exits(3).complains("other content");
        run(&["doc", "get", "a.json"]).ok().says("2");
        run(&["copy", "#nothing/", "back/"]).exits(1).complains("there is none");
        run(&["copy", "nothing", "#nothing"]).exits(1).complains("there is none");
        run(&["copy", "#a", "back"]).exits(2).complains("write a slash");
        run(&["copy", "a.json", "#a.json", "--overwrite"]).ok();
        run(&["doc", "get", "a.json"]).ok().says("1");
        shelf.bench.tenure(&["journal", "append", "log.jsonl", "three"]).ok();
        let refused = run(&["copy", "log.jsonl", "#log.jsonl", "--json"]).exits(3).json();
        assert_eq!(refused["differing"].as_array().unwrap().len(), 1, "{refused}");
        run(&["journal", "read", "log.jsonl"]).ok().says("one\nother");
    });
}

/// So many entries are copied in many batches.
const ENTRIES: usize = 4000;

/// Kills a copy when its first entry is there. Returns where it went and how many entries are there; `None` if the kill
/// came too late.
fn killed_copy(shelf: &Shelf, attempt: usize) -> Option<(String, usize)> {
    let name = format!("data{attempt}");
    let log = format!("{name}/log.jsonl");
    let mut follower = shelf.tenure(&["journal", "follow", &log, "--count", "1"]).spawn();
    let mut copy = shelf.brief(&["copy", "data/", &format!("#{name}/")]).spawn();
    follower.wait().unwrap();
    copy.kill().unwrap();
    copy.wait().unwrap();
    let there = shelf.tenure(&["journal", "read", &log]).run().ok().stdout.lines().count();
    (1..ENTRIES).contains(&there).then_some((name, there))
}

#[test]
fn a_copy_that_was_killed_is_continued() {
    each(|shelf| {
        fill(shelf, 40, ENTRIES);
        let (name, there) = (0..10)
            .find_map(|attempt| killed_copy(shelf, attempt))
            .expect("a copy was never killed between its first and its last entry");
        let to = format!("#{name}/");
        let rest = shelf.tenure(&["copy", "data/", &to, "--wait", "30s", "--json"]).run();
        let rest = rest.ok().json();
        assert!(rest["entries"].as_u64().unwrap() <= (ENTRIES - there) as u64, "{rest}");
        let all = shelf.bench.read("data/log.jsonl");
        shelf
            .tenure(&["journal", "read", &format!("{name}/log.jsonl")])
            .run()
            .ok()
            .says(all.trim_end());
        // Back, killed as well: the lock of a file ends with its process.
        let mut back = shelf.tenure(&["copy", &to, "back/"]).spawn();
        crate::bench::eventually(|| shelf.bench.path("back/log.jsonl").exists());
        back.kill().unwrap();
        back.wait().unwrap();
        shelf.tenure(&["copy", &to, "back/"]).run().ok();
        assert_eq!(shelf.bench.read("back/log.jsonl"), all);
        assert_eq!(shelf.bench.read("back/doc39.json"), shelf.bench.read("data/doc39.json"));
    });
}

/// After a failover the numbers go on in another epoch.
#[test]
fn a_journal_of_two_epochs_is_copied_both_ways() {
    if !Postgres::is_here() {
        return;
    }
    let server = Postgres::shared();
    let shelf = Shelf::at(&server.fresh_url());
    let (_, schema) = shelf.url.split_once("schema=").expect("a schema");
    let schema = schema.split('&').next().expect("its name");
    let fail_over = || server.sql(&format!("update {schema}.meta set base = base + 1"));
    let run = |args: &[&str]| shelf.tenure(args).run();
    run(&["journal", "append", "log.jsonl", "one", "two"]).ok();
    fail_over();
    run(&["journal", "append", "log.jsonl", "three"]).ok();
    let copied = run(&["copy", "#log.jsonl", "log.jsonl"]).exits(0);
    assert!(copied.stderr.contains("1 gaps"), "{copied:?}");
    assert_eq!(shelf.bench.read("log.jsonl"), "one\ntwo\nthree\n");
    shelf.bench.tenure(&["journal", "append", "log.jsonl", "four"]).ok();
    fail_over();
    for entries in [1, 0] {
        let copied = run(&["copy", "log.jsonl", "#log.jsonl", "--json"]).ok().json();
        assert_eq!(copied["entries"], entries, "{copied}");
    }
    run(&["copy", "#log.jsonl", "other.jsonl"]).exits(0);
    assert_eq!(shelf.bench.read("other.jsonl"), shelf.bench.read("log.jsonl"));
}

/// One that is too large does not keep the others from being copied.
#[test]
fn a_failure_is_named_and_the_rest_is_copied() {
    each(|shelf| {
        shelf.bench.file("data/a.json", format!("\"{}\"", "x".repeat(1 << 20)));
        shelf.bench.file("data/b.json", "1");
        shelf.bench.file("data/A File.txt", "1");
        let ran = shelf.tenure(&["copy", "data", "#data/", "--json"]).run().exits(2);
        assert!(ran.stderr.contains("A File.txt"), "{ran:?}");
        let object = ran.json();
        assert_eq!(object["failed"][0]["name"], "a", "{object}");
        assert_eq!(object["documents"]["copied"], 1, "{object}");
        shelf.tenure(&["doc", "get", "data/b.json"]).run().ok().says("1");
    });
}

#[test]
fn wrong_ends_are_usage_errors() {
    each(|shelf| {
        let run = |args: &[&str]| shelf.tenure(args).run();
        shelf.bench.file("x", "1");
        run(&["copy", "x", "#x"]).exits(2).complains("--content");
        run(&["copy", "x", "#x", "--content", "document"]).ok();
        run(&["copy", "#x", "#x", "--content", "document"]).exits(2).complains("same target");
        run(&["copy", "no.json", "#no.json"]).exits(1).complains("there is none");
        let url = shelf.url.as_str();
        run(&["copy", "x", url]).exits(2).complains("URL#NAME");
        shelf.bench.tenure(&["copy", "x", "#x"]).exits(2).complains("no store is named");
        shelf.bench.tenure(&["copy", "x.json", "redis://a#x"]).exits(2).complains("etcd://");
    });
}
