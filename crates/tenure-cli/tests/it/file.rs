//! `tenure file`, and leases of many short processes.

use crate::TENURE;
use crate::bench::Bench;

#[test]
fn any_file_is_replaced_read_and_undone() {
    let bench = Bench::new();
    bench.tenure(&["file", "get", "a.bin"]).exits(1).complains("file put");
    assert!(!bench.path(".tenure").exists(), "a mistyped name leaves nothing behind");
    for content in [&b"\xff\0{"[..], b"", b"two\n"] {
        bench.command(&["file", "put", "a.bin", "-"]).stdin(content).run().ok();
        assert_eq!(std::fs::read(bench.path("a.bin")).unwrap(), content);
    }
    bench.tenure(&["file", "get", "a.bin"]).ok().says("two");
    let version = bench.tenure(&["file", "version", "a.bin"]).ok().stdout;
    let put = ["file", "put", "a.bin", "--if-version", version.trim()];
    bench.command(&put).stdin("three\n").run().ok();
    bench.command(&put).stdin("four\n").run().exits(3);
    bench.tenure(&["file", "undo", "a.bin"]).ok();
    bench.tenure(&["file", "get", "a.bin"]).ok().says("two");
    bench.command(&["file", "put", "dir/"]).stdin("x").run().exits(2);
}

/// What failed is the guard; what the caller wanted to write is another file.
#[test]
fn an_error_of_a_guard_names_the_file_that_was_not_changed() {
    let bench = Bench::new();
    for content in ["zero", "one"] {
        bench.command(&["file", "put", "a.txt"]).stdin(content).run().ok();
    }
    bench.file("index.json", "{\"k\":1}");
    bench.tenure(&["lease", "acquire", "session", "--ttl", "1h"]).ok();
    let split = ["collection", "split", "index.json", "keys", "--guard", "session=1"];
    for (args, part) in [
        (&["file", "put", "a.txt", "--guard", "session=1"][..], "a.txt` was not changed"),
        (&["file", "undo", "a.txt", "--guard", "session=1"], "a.txt` was not changed"),
        (&["file", "edit", "a.txt", "--guard", "session=1", "--", "cat"], "a.txt` was not changed"),
        (&["doc", "set", "a.txt", "1", "--guard", "session=1"], "a.txt` was not changed"),
        (&split, "the split of `"),
    ] {
        let ran = bench.command(args).stdin("two").run().exits(4).complains(part);
        assert!(ran.stderr.contains("session`") && ran.stderr.contains("this guard protects it"));
    }
    assert_eq!(bench.read("a.txt"), "one");
    let live = bench.holder(&["--parents"], "keys/k.json");
    let busy =
        bench.tenure(&["collection", "split", "index.json", "keys", "--wait", "0"]).exits(75);
    assert!(!busy.stderr.contains("guard"), "a held key is no guard: {busy:?}");
    drop(live);
}

#[test]
fn an_edit_runs_under_the_lock_and_a_failed_one_changes_nothing() {
    let bench = Bench::new();
    let long = "line\n".repeat(100_000);
    bench.file("c.toml", &long);
    bench.tenure(&["file", "edit", "c.toml", "--", "sed", "s/line/word/"]).ok();
    assert_eq!(bench.read("c.toml"), long.replace("line", "word"));
    let fails = ["file", "edit", "c.toml", "--", "sh", "-c", "echo half; exit 4"];
    bench.tenure(&fails).exits(4).complains("left as it is");
    bench.tenure(&["file", "edit", "c.toml", "--", "no-such-command"]).exits(127);
    bench.tenure(&["file", "edit", "no.toml", "--", "cat"]).exits(1);
    assert_eq!(bench.read("c.toml"), long.replace("line", "word"));
    let inside = format!("{TENURE} run --wait 0 c.toml -- true && echo ok");
    bench.tenure(&["file", "edit", "c.toml", "--", "sh", "-c", &inside]).ok();
    assert_eq!(bench.read("c.toml"), "ok\n");
    let holder = bench.holder(&[], "c.toml");
    bench.tenure(&["file", "edit", "--wait", "0", "c.toml", "--", "cat"]).exits(75);
    holder.end().ok();
}

/// Hooks of one agent start at once, each a process of its own.
#[test]
fn processes_that_share_a_token_file_share_the_lease() {
    let bench = Bench::new();
    let acquire = ["lease", "acquire", "x", "--ttl", "1h", "--owner", "agent", "--wait", "0"];
    let acquire = [&acquire[..], &["--token-file", "token", "--json"]].concat();
    let running: Vec<_> = (0..6).map(|_| bench.command(&acquire).start()).collect();
    let results: Vec<_> = running.into_iter().map(crate::bench::Live::wait).collect();
    let taken = bench.tenure(&acquire).ok().json();
    for result in results {
        // One that came while the first one wrote its record is busy; none gets a lease of its own.
        if result.code != Some(75) {
            assert_eq!(result.exits(0).json()["fence"], taken["fence"]);
        }
    }
    let left: Vec<_> = std::fs::read_dir(bench.path("")).unwrap().collect();
    assert_eq!(left.len(), 2, "the token file, the sidecars, and no draft: {left:?}");
    bench.tenure(&["lease", "release", "x", "--token-file", "token"]).ok();
}

#[test]
fn an_undo_keeps_what_another_program_wrote() {
    let bench = Bench::new();
    for content in ["A", "B"] {
        bench.command(&["file", "put", "f"]).stdin(content).run().ok();
    }
    bench.file("f", "C");
    bench.tenure(&["file", "undo", "f"]).ok();
    assert_eq!(std::fs::read_to_string(bench.path("f")).unwrap(), "A");
    bench.tenure(&["file", "undo", "f"]).ok();
    assert_eq!(std::fs::read_to_string(bench.path("f")).unwrap(), "C");
}
