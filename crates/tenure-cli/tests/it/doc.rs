//! `tenure doc`.

use serde_json::json;

use crate::TENURE;
use crate::bench::{Bench, must_block};

#[test]
fn get_prints_like_jq() {
    let bench = Bench::new();
    bench.file("s.json", r#"{"z":1.10,"a":[1,"x"],"n":123456789012345678901234567890,"f":false}"#);
    bench.tenure(&["doc", "get", "s.json", ".a"]).ok().says("[\n  1,\n  \"x\"\n]");
    bench.tenure(&["doc", "get", "-c", "s.json", ".a, .z"]).ok().says("[1,\"x\"]\n1.10");
    bench.tenure(&["doc", "get", "s.json", "-r", ".a[1]"]).ok().says("x");
    bench.tenure(&["doc", "get", "s.json", ".a[1]"]).ok().says("\"x\"");
    bench.tenure(&["doc", "get", "s.json", "empty"]).ok().says("");
    let whole = bench.tenure(&["doc", "get", "-c", "s.json"]).ok();
    assert_eq!(whole.stdout.trim_end(), bench.read("s.json"));
    bench.command(&["doc", "get", "s.json", "-"]).stdin(".z").run().ok().says("1.10");
    let named =
        ["doc", "get", "-c", "s.json", "[$s, $j]", "--arg", "s", "-v", "--argjson", "j", "[1]"];
    bench.tenure(&named).ok().says("[\"-v\",[1]]");
    assert!(!bench.path(".tenure").exists(), "a read creates nothing");
}

#[test]
fn get_json_carries_the_version() {
    let bench = Bench::new();
    bench.file("s.json", r#"{"a":1}"#);
    let object = bench.tenure(&["doc", "get", "--json", "s.json"]).ok().json();
    assert_eq!((&object["value"], &object["repaired"]), (&json!({"a": 1}), &json!(false)));
    let version = bench.tenure(&["doc", "version", "s.json"]).ok();
    assert_eq!(object["version"], version.stdout.trim_end());
    let object = bench.tenure(&["doc", "get", "--json", "s.json", ".a, .b"]).ok().json();
    assert_eq!(object["values"], json!([1, null]));
}

#[test]
fn exit_status_tells_true_from_false() {
    let bench = Bench::new();
    bench.file("s.json", r#"{"t":0,"f":false,"n":null}"#);
    for (filter, code) in
        [(".t", 0), (".f", 3), (".n", 3), (".none", 3), ("empty", 3), (".f, .t", 0), (".t, .n", 3)]
    {
        bench.tenure(&["doc", "get", "-e", "s.json", filter]).exits(code);
    }
    bench.tenure(&["doc", "get", "s.json", ".f"]).exits(0);
}

#[test]
fn a_missing_document_is_1() {
    let bench = Bench::new();
    bench.tenure(&["doc", "get", "s.json"]).exits(1).complains("s.json");
    bench.tenure(&["doc", "version", "s.json"]).exits(1);
    bench.tenure(&["doc", "update", "s.json", "."]).exits(1).complains("--init");
    assert!(!bench.path("s.json").exists());
    let error = bench.tenure(&["--json", "doc", "get", "s.json"]).exits(1).error();
    assert_eq!(error["code"], "not_found");
}

#[test]
fn a_damaged_document_is_5_and_can_be_restored() {
    let bench = Bench::new();
    bench.tenure(&["doc", "set", "s.json", r#"{"n":1}"#]).ok();
    bench.tenure(&["doc", "set", "s.json", r#"{"n":2}"#]).ok();
    bench.file("s.json", "{\"n\":");
    bench.tenure(&["doc", "get", "s.json"]).exits(5).complains("s.json");
    let error = bench.tenure(&["--json", "doc", "update", "s.json", ".n += 1"]).exits(5).error();
    assert_eq!((error["code"].as_str(), error["exit"].as_u64()), (Some("damaged"), Some(5)));
    assert_eq!(bench.read("s.json"), "{\"n\":");
    bench.tenure(&["doc", "restore", "s.json"]).ok();
    bench.file("t.json", "{");
    let alone = bench.tenure(&["--json", "doc", "restore", "t.json"]).exits(5).error();
    assert!(alone["hint"].as_str().unwrap().contains("no good copy"), "{alone}");
    bench.tenure(&["doc", "get", "s.json", ".n | type"]).ok().says("\"number\"");
}

#[test]
fn set_and_update_write_what_they_say() {
    let bench = Bench::new();
    let written = bench.tenure(&["doc", "set", "--json", "s.json", r#"{"n":1}"#]).ok().json();
    assert_eq!((&written["changed"], &written["replayed"]), (&json!(true), &json!(false)));
    let version = bench.tenure(&["doc", "version", "--json", "s.json"]).ok().json();
    assert_eq!(written["version"], version["version"]);
    let same = bench.tenure(&["doc", "set", "--json", "s.json", r#"{"n":1}"#]).ok().json();
    assert_eq!((&same["changed"], &same["version"]), (&json!(false), &written["version"]));
    bench.command(&["doc", "set", "s.json", "-"]).stdin("[1]").run().ok().says("");
    bench.tenure(&["doc", "get", "-c", "s.json"]).ok().says("[1]");
    bench.tenure(&["doc", "set", "s.json", "-1"]).ok();
    bench.tenure(&["doc", "get", "s.json"]).ok().says("-1");
    let init =
        ["doc", "update", "u.json", ".c += [$k]", "--arg", "k", "a", "--init", r#"{"c":[]}"#];
    bench.tenure(&init).ok();
    bench.tenure(&init).ok();
    bench.tenure(&["doc", "get", "-c", "u.json"]).ok().says(r#"{"c":["a","a"]}"#);
    let mode = std::fs::metadata(bench.path("u.json")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o600);
}

#[test]
fn updates_keep_order_digits_and_unknown_fields() {
    let bench = Bench::new();
    let text = r#"{"z":1.10,"a":123456789012345678901234567890,"e":1E400,"m":-0,"n":1}"#;
    bench.file("s.json", text);
    bench.tenure(&["doc", "update", "s.json", ".n += 1"]).ok();
    assert_eq!(bench.read("s.json").trim_end(), text.replace("\"n\":1", "\"n\":2"));
}

#[test]
fn a_filter_may_recurse_deeper_than_a_usual_stack() {
    let bench = Bench::new();
    bench.file("s.json", "0");
    let deep = "def down: if . == 0 then 0 else 1 + (. - 1 | down) end; 5000 | down";
    bench.tenure(&["doc", "get", "s.json", deep]).ok().says("5000");
    // Where the limit cannot be raised, it runs on a thread.
    let limited = format!("ulimit -s 8192; exec '{TENURE}' doc get s.json '{deep}'");
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", &limited]).current_dir(bench.path(".")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "5000", "{output:?}");
}

#[test]
fn a_wrong_filter_is_2_and_a_failing_one_1_and_nothing_changes() {
    let bench = Bench::new();
    bench.file("s.json", r#"{"a":1}"#);
    for filter in [".a |", "nonsense", "$x", "input", "import \"a\" as a; ."] {
        bench.tenure(&["doc", "update", "s.json", filter]).exits(2).complains("filter");
        bench.tenure(&["doc", "get", "s.json", filter]).exits(2);
    }
    for filter in [".a.b", "error(\"no\")", "empty", "1, 2", "nan", "halt", "halt_error"] {
        let failed = bench.tenure(&["--json", "doc", "update", "s.json", filter]).exits(1);
        assert_eq!(failed.error()["code"], "filter", "{filter}");
    }
    let deep = "reduce range(1000) as $i (0; [.])";
    bench.tenure(&["doc", "update", "s.json", deep]).exits(1).complains("deeper than 127");
    assert_eq!(bench.read("s.json"), r#"{"a":1}"#);
    for json in ["{", "", "[1", "nul", "{\"a\":1}}"] {
        bench.tenure(&["doc", "set", "s.json", json]).exits(2).complains("JSON");
    }
    bench.tenure(&["doc", "update", "s.json", ".", "--argjson", "j", "{"]).exits(2);
    bench.tenure(&["doc", "update", "s.json", ".", "--arg", "1x", "v"]).exits(2);
    assert_eq!(bench.read("s.json"), r#"{"a":1}"#);
}

/// Others wait as long as they want to, and learn whom to blame; a kill changes nothing.
#[test]
fn a_filter_that_never_ends_is_named_and_can_be_killed() {
    let bench = Bench::new();
    bench.file("s.json", "{}");
    let mut endless = bench.command(&["doc", "update", "s.json", "def f: f; f"]).start();
    let write = ["doc", "set", "s.json", "1", "--wait", "0"];
    crate::bench::eventually(|| {
        tenure::status::of(bench.path("s.json"))
            .unwrap()
            .holder
            .is_some_and(|holder| holder.pid == endless.pid())
    });
    let pid = format!("pid {}", endless.pid());
    bench.tenure(&write).exits(75).complains(&pid).complains("def f: f; f");
    endless.kill();
    assert_eq!(bench.read("s.json"), "{}");
    bench.tenure(&write).ok();
}

#[test]
fn merge_follows_its_rules() {
    let bench = Bench::new();
    bench.file("s.json", r#"{"u":[1],"x":5,"i":5,"s":5,"l":{"a":1},"gone":1}"#);
    let patch = r#"{"u":[1,2],"x":9,"i":1,"s":2,"l":{"b":null},"gone":null}"#;
    let rules = ["--union", "/u", "--max", "/x", "--min", "/i", "--sum", "/s", "--last", "/l"];
    let mut args = vec!["doc", "merge", "s.json", patch];
    args.extend(rules);
    bench.tenure(&args).ok();
    let merged = bench.tenure(&["doc", "get", "-c", "s.json"]).ok();
    merged.says(r#"{"u":[1,2],"x":9,"i":1,"s":7,"l":{"b":null}}"#);
    bench.tenure(&["doc", "merge", "s.json", "{}", "--union", "u"]).exits(2);
    bench.command(&["doc", "merge", "new.json", "-"]).stdin(r#"{"a":1}"#).run().ok();
}

#[test]
fn patch_is_whole_or_nothing() {
    let bench = Bench::new();
    bench.file("s.json", r#"{"n":1}"#);
    let patch = |value: u32| {
        json!([{ "op": "test", "path": "/n", "value": value },
               { "op": "replace", "path": "/n", "value": 2 }])
        .to_string()
    };
    bench.tenure(&["doc", "patch", "s.json", &patch(7)]).exits(3);
    assert_eq!(bench.read("s.json"), r#"{"n":1}"#);
    bench.tenure(&["doc", "patch", "s.json", &patch(1)]).ok();
    bench.tenure(&["doc", "get", "s.json", ".n"]).ok().says("2");
    bench.tenure(&["doc", "patch", "s.json", r#"[{"op":"nonsense"}]"#]).exits(2);
    bench.tenure(&["doc", "patch", "none.json", "[]"]).exits(1);
}

#[test]
fn a_version_that_differs_is_3() {
    let bench = Bench::new();
    bench.tenure(&["doc", "set", "s.json", "1"]).ok();
    let version = bench.tenure(&["doc", "version", "s.json"]).ok().stdout.trim_end().to_owned();
    bench.tenure(&["doc", "set", "s.json", "2", "--if-version", &version]).ok();
    let late = bench.tenure(&["--json", "doc", "set", "s.json", "3", "--if-version", &version]);
    assert_eq!(late.exits(3).error()["code"], "conflict");
    bench.tenure(&["doc", "get", "s.json"]).ok().says("2");
    bench.tenure(&["doc", "set", "s.json", "3", "--if-version", "no version!"]).exits(2);
}

#[test]
fn an_operation_is_done_once() {
    let bench = Bench::new();
    let once =
        ["doc", "update", "--json", "s.json", ".n += 1", "--init", r#"{"n":0}"#, "--op-id", "a"];
    let first = bench.tenure(&once).ok().json();
    assert_eq!(first["replayed"], false);
    let again = bench.tenure(&once).ok().json();
    assert_eq!(again["replayed"], true);
    bench.tenure(&["doc", "get", "s.json", ".n"]).ok().says("1");
}

#[test]
fn no_update_of_many_processes_is_lost() {
    let bench = Bench::new();
    let script = format!(
        "for i in 1 2 3 4 5; do {TENURE} doc update n.json '.n += 1' --no-sync || exit; done"
    );
    bench.tenure(&["doc", "set", "n.json", r#"{"n":0}"#]).ok();
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", &script]).current_dir(bench.path("")).spawn().unwrap()
        })
        .collect();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    bench.tenure(&["doc", "get", "n.json", ".n"]).ok().says("40");
}

#[test]
fn a_hold_keeps_unproven_writes_out_and_lets_its_own_in() {
    let bench = Bench::new();
    bench.tenure(&["doc", "set", "s.json", "0"]).ok();
    let holder = bench.holder(&[], "s.json");
    let fence = tenure::status::of(bench.path("s.json")).unwrap().fence.to_string();
    let pid = format!("pid {}", holder.pid());
    bench.tenure(&["doc", "set", "s.json", "1", "--wait", "0"]).exits(75).complains(&pid);
    bench.tenure(&["doc", "get", "s.json"]).ok().says("0");
    bench.tenure(&["doc", "set", "s.json", "2", "--wait", "0", "--fence", &fence]).ok();
    // By the environment, on that very target and through another spelling of it.
    bench
        .command(&["doc", "set", "./s.json", "3", "--wait", "0"])
        .env("TENURE_TARGET", bench.path("s.json"))
        .env("TENURE_FENCE", &fence)
        .run()
        .ok();
    bench
        .command(&["doc", "set", "s.json", "4", "--wait", "0"])
        .env("TENURE_TARGET", bench.path("other.json"))
        .env("TENURE_FENCE", &fence)
        .run()
        .exits(75);
    let waiter = bench.command(&["doc", "set", "s.json", "5", "--wait", "forever"]).start();
    must_block(&bench.path("s.json"), waiter.pid());
    holder.end().ok();
    waiter.end().ok();
    let stale = bench.tenure(&["doc", "set", "s.json", "6", "--fence", &fence]).exits(4);
    stale.complains(&fence);
    bench.tenure(&["doc", "get", "s.json"]).ok().says("5");
}

#[test]
fn a_guard_on_another_target_is_checked() {
    let bench = Bench::new();
    let lease = bench.tenure(&["lease", "acquire", "a=b", "--ttl", "1h", "--json"]).ok().json();
    let guard = format!("a=b={}", lease["fence"]);
    bench.tenure(&["doc", "set", "s.json", "1", "--guard", &guard]).ok();
    let reason = ["lease", "take-over", "a=b", "--ttl", "1h", "--reason", "test"];
    bench.tenure(&reason).ok();
    let late = bench.tenure(&["--json", "doc", "set", "s.json", "2", "--guard", &guard]).exits(4);
    assert_eq!(late.error()["code"], "fenced");
    bench.tenure(&["doc", "get", "s.json"]).ok().says("1");
    bench.tenure(&["doc", "set", "s.json", "2", "--guard", "nonsense"]).exits(2);
}

#[test]
fn a_hard_link_is_6_unless_it_may_be_broken() {
    let bench = Bench::new();
    let file = bench.file("s.json", "1");
    std::fs::hard_link(&file, bench.path("t.json")).unwrap();
    bench
        .tenure(&["doc", "set", "s.json", "2"])
        .exits(6)
        .complains("break the link (--break-link)");
    bench.tenure(&["doc", "set", "s.json", "2", "--break-link"]).ok();
    assert_eq!(bench.read("t.json"), "1");
}

#[test]
fn watch_prints_changes_and_ends_after_its_wait_or_its_count() {
    let bench = Bench::new();
    bench.tenure(&["doc", "set", "s.json", r#"{"n":0}"#]).ok();
    let mut watch = bench.command(&["doc", "watch", "s.json", ".n", "--count", "2"]).start();
    // Until it sees a change, changes are made; each is a number above the last.
    let mut number = 0;
    let mut change = || {
        number += 1;
        bench.tenure(&["doc", "update", "s.json", ".n += 1", "--no-sync"]).ok();
    };
    while watch.is_running() {
        change();
    }
    let seen = watch.end().ok();
    let numbers: Vec<u64> = seen.stdout.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(numbers.len(), 2);
    assert!(numbers[0] < numbers[1], "{numbers:?}");
    bench
        .tenure(&["doc", "watch", "s.json", "-n", "1", "--wait", "10ms"])
        .exits(75)
        .says("")
        .complains("1 more expected");
    bench.tenure(&["doc", "watch", "s.json", "--wait", "10ms"]).exits(0).says("");
}

#[test]
fn a_closed_reader_is_no_failure() {
    let bench = Bench::new();
    let many: Vec<_> = (0..100_000).collect();
    bench.file("s.json", json!(many).to_string());
    let script = format!("{{ {TENURE} doc get s.json '.[]'; echo $? >&2; }} | head -1");
    let ran = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(bench.path(""))
        .output()
        .unwrap();
    assert_eq!((ran.stdout.as_slice(), ran.stderr.as_slice()), (&b"0\n"[..], &b"0\n"[..]));
}
