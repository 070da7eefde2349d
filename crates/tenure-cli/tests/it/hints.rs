//! Every error line ends with what to do next.

use std::process::Command;

use crate::TENURE;
use crate::bench::{Bench, Ran, in_small_disk};

/// What people meet every day.
#[test]
fn common_errors_say_what_to_do() {
    let bench = Bench::new();
    bench.file("plain", "x");
    bench.file("s.json", "{\"a\":1}");
    std::fs::create_dir(bench.path("dir")).unwrap();
    let long = "n".repeat(300);
    let name = "check the name, and that its directory is there";
    let part = "a part of the path is no directory: name another one";
    let patch = "[{\"op\":\"remove\",\"path\":\"/x\"}]";
    let cases: &[(&[&str], i32, &str)] = &[
        (&["doc", "set", "plain/s.json", "1"], 1, part),
        (&["run", "plain/x", "--", "true"], 1, part),
        (&["collection", "list", "plain"], 1, part),
        (&["doc", "set", &long, "1"], 1, "use a shorter name"),
        (&["journal", "append", "dir", "x"], 2, "name a file"),
        (&["doctor", "none"], 1, name),
        (&["doctor", "plain"], 1, part),
        (&["lease", "acquire", "l", "--ttl", "1m", "--token-file", "none/t"], 1, name),
        (
            &["doc", "set", "s.json", "{"],
            2,
            "quote it for the shell: a JSON string needs quotes of its own",
        ),
        (&["doc", "patch", "s.json", patch], 2, "read the document again and fix the patch"),
        (
            &["doc", "merge", "s.json", "{\"a\":\"x\"}", "--sum", "/a"],
            2,
            "fix the patch or its rules",
        ),
        (
            &["run", "x", "--", "none"],
            127,
            "check its name, its first line if it is a script, and PATH",
        ),
        (&["run", "x", "--", "./plain"], 126, "make it executable: chmod +x"),
    ];
    for (args, code, hint) in cases {
        hints(&bench.tenure(args), *code, hint);
    }
    let none = bench.path("no ne");
    let none = none.display();
    let create = format!("`tenure doc set '{none}' JSON`");
    let hint = format!("check the name, or create it: {create}");
    hints(&bench.tenure(&["doc", "patch", "no ne", "[]"]), 1, &hint);
    hints(&bench.tenure(&["doc", "restore", "no ne"]), 1, &hint);
    hints(&bench.tenure(&["doc", "history", "no ne", "--keep", "2"]), 1, &hint);
    let hint = format!("check the name; `tenure journal append '{none}' LINE` creates one");
    hints(&bench.tenure(&["journal", "read", "no ne"]), 1, &hint);
    let hint = format!("check the name; `tenure file put '{none}' < CONTENT` creates it");
    hints(&bench.tenure(&["file", "get", "no ne"]), 1, &hint);
    bench.set_mode(".", 0o755);
    let closed = bench.path("sub/closed.json");
    hints(
        &bench.as_nobody(&["doc", "set", closed.to_str().unwrap(), "1"]),
        1,
        "run it as a user with access, or change the permissions",
    );
    let few = Command::new("sh")
        .args(["-c", "ulimit -n 5; exec \"$T\" doc set s.json 2"])
        .env("T", TENURE)
        .current_dir(bench.path(""))
        .output();
    let hint = "too many files are open: close some, or raise the limit (ulimit -n)";
    hints(&Ran::new(few.unwrap()), 1, hint);
    assert_eq!(bench.read("s.json"), "{\"a\":1}");
}

/// The last words of the one line on stderr.
#[track_caller]
fn hints(ran: &Ran, code: i32, hint: &str) {
    assert_eq!(ran.code, Some(code), "{ran:?}");
    let line = ran.stderr.lines().last().unwrap_or_default();
    assert!(line.ends_with(&format!("; {hint}")), "no `{hint}` in {ran:?}");
}

/// The library names no flag; the command adds its own.
#[test]
fn a_hint_names_the_flag_for_it() {
    let bench = Bench::new();
    bench.file("s.json", "{\"a\":1}");
    let live = bench.holder(&[], "x");
    let busy = bench.tenure(&["run", "--wait", "0", "x", "--", "true"]).exits(75);
    assert!(busy.stderr.contains("wait longer (--wait 60s), or see `tenure who "), "{busy:?}");
    let object = bench.tenure(&["run", "--json", "--wait", "0", "x", "--", "true"]).exits(75);
    assert!(object.error()["hint"].as_str().unwrap().contains("(--wait 60s)"), "{object:?}");
    drop(live);
    bench.tenure(&["lease", "acquire", "l", "--ttl", "1h"]).ok();
    let busy = bench.tenure(&["run", "--wait", "0", "l", "--", "true"]).exits(75);
    assert!(busy.stderr.contains("wait for its expiry (--wait), or take it over"), "{busy:?}");
    let merge = bench.tenure(&["doc", "merge", "s.json", "[]"]).exits(3);
    assert!(merge.stderr.contains("allow the replacement (--replace)"), "{merge:?}");
}

const FULL: &str = "make room on its disk";

#[test]
fn a_full_disk_says_to_make_room() {
    let bench = Bench::new();
    let long = "x".repeat(5000);
    for write in [
        format!("$T doc set s.json '\"{long}\"'"),
        format!("$T journal append j '{long}'"),
        "$T run --parents x/y/z -- true".to_owned(),
        "$T lease acquire l --ttl 1m".to_owned(),
    ] {
        let Some(ran) = in_small_disk(&bench, &format!("fill; {write}")) else { return };
        hints(&ran, 1, FULL);
    }
    let script = format!("$T doc set s.json 1 && fill; $T doc set s.json '\"{long}\"' --json");
    let Some(ran) = in_small_disk(&bench, &script) else { return };
    assert_eq!(ran.error()["hint"], FULL, "{ran:?}");
}

#[test]
fn a_doctor_on_a_full_disk_does_not_ask_for_another_user() {
    let bench = Bench::new();
    let Some(ran) = in_small_disk(&bench, "fill; $T doctor") else { return };
    hints(&ran, 1, FULL);
}

#[test]
fn a_read_only_disk_says_so() {
    let bench = Bench::new();
    let hint = "it is mounted read-only: mount it for writing, or keep the file elsewhere";
    for write in ["doc set s.json 2", "journal append j x", "run x -- true", "doctor"] {
        let script = format!("$T doc set s.json 1 && mount -o remount,ro . && $T {write}");
        let Some(ran) = in_small_disk(&bench, &script) else { return };
        hints(&ran, 1, hint);
    }
}

#[test]
fn a_filter_that_fails_says_how_to_try_it() {
    let bench = Bench::new();
    bench.tenure(&["doc", "set", "s.json", "{\"a\":1}"]).ok();
    let file = bench.path("s.json").display().to_string();
    let hint = &format!("fix the filter: `tenure doc get {file} FILTER` tries it without a change");
    for filter in [".a.b", "error(\"no\")", "empty", ".,."] {
        let ran = bench.tenure(&["doc", "update", "s.json", filter]);
        assert!(ran.stderr.contains("; nothing was changed; "), "{ran:?}");
        hints(&ran, 1, hint);
    }
    assert_eq!(bench.tenure(&["doc", "get", "s.json", "-r", ".a"]).ok().stdout, "1\n");
}
