//! Several leases at once, odd names, and what must not leave a lease behind.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::TENURE;
use crate::bench::{Bench, Ran, eventually, must_block};

/// Runs a script; `$T` is tenure.
fn shell(bench: &Bench, script: &str) -> Ran {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(bench.path("")).env("T", TENURE);
    for name in ["TENURE_TARGET", "TENURE_FENCE", "TENURE_TOKEN", "TENURE_OUTER"] {
        command.env_remove(name);
    }
    Ran::new(command.output().unwrap())
}

#[test]
fn a_check_with_a_token_file_that_is_not_there_is_a_mistake_and_no_answer() {
    let bench = Bench::new();
    bench.tenure(&["lease", "acquire", "s", "--ttl", "60s", "--token-file", "t"]).ok();
    bench.tenure(&["lease", "check", "s", "--token-file", "t"]).exits(0);
    bench.tenure(&["lease", "check", "s", "--token-file", "mistyped"]).exits(2);
}

#[test]
fn check_and_show_tell_four_states_apart_by_their_exit_code() {
    let bench = Bench::new();
    let codes = |code: i32, more: &[&str]| {
        bench.tenure(&[&["lease", "check", "s"], more].concat()).exits(code).says("");
        bench.tenure(&[&["lease", "show", "s", "--exit-status"], more].concat()).exits(code);
        bench.tenure(&[&["lease", "show", "s"], more].concat()).exits(0);
    };
    codes(3, &[]);
    let token = ["--token-file", "token"];
    let acquire = ["lease", "acquire", "s", "--ttl", "1h", "--token-file", "token"];
    bench.tenure(&acquire).ok();
    codes(0, &token);
    codes(75, &[]);
    codes(75, &["--token", "0123456789abcdef"]);
    let shown = bench.tenure(&["lease", "show", "s", "--token-file", "token"]).ok().stdout;
    assert!(shown.starts_with("yours; "), "{shown}");
    let mine = ["lease", "show", "s", "--json", "--token-file", "token"];
    assert_eq!(bench.tenure(&mine).ok().json()["mine"], json!(true));
    let hold = ["lease", "hold", "t", "--ttl", "1h", "--", TENURE, "lease", "check", "t"];
    bench.tenure(&hold).ok();
    bench.tenure(&["lease", "release", "s", "--token-file", "token"]).ok();
    codes(3, &token);
    bench.tenure(&["lease", "acquire", "s", "--ttl", "1ms", "--token-file", "new"]).ok();
    eventually(|| bench.tenure(&["lease", "show", "s", "--json"]).json()["expired"] == true);
    codes(4, &["--token-file", "new"]);
    codes(4, &[]);
    bench.tenure(&["lease", "check", "no/such/x"]).exits(3).says("");
    assert!(!bench.path("no").exists());
}

#[test]
fn several_leases_in_one_shell_do_not_overwrite_each_other() {
    let bench = Bench::new();
    let script = "set -e
        eval \"$($T lease acquire a.json --ttl 1h)\"
        eval \"$($T lease acquire 'b c.json' --ttl 1h)\"
        eval \"$($T lease acquire d.json --ttl 1h)\"
        for file in a.json 'b c.json' d.json; do
            $T lease check \"$file\"
            $T doc set \"$file\" 1 --wait 0
            $T lease renew \"$file\"
            $T run other -- \"$T\" lease renew \"$file\"
            $T lease release \"$file\"
        done";
    shell(&bench, script).ok();
    for name in ["a.json", "b c.json", "d.json"] {
        bench.tenure(&["lease", "show", name]).ok().says("free");
    }
}

#[test]
fn a_token_in_the_environment_works_below_a_run_of_another_target() {
    let bench = Bench::new();
    bench.tenure(&["lease", "acquire", "s", "--ttl", "1h", "--token-file", "token"]).ok();
    let script = "TENURE_TOKEN=$(cat token); export TENURE_TOKEN
        $T run x -- $T run y -- $T lease renew s && $T run x -- $T lease release s";
    shell(&bench, script).ok();
    bench.tenure(&["lease", "show", "s"]).ok().says("free");
}

#[test]
fn a_closed_standard_output_leaves_no_lease() {
    let bench = Bench::new();
    for args in ["acquire s --ttl 1h", "take-over s --ttl 1h --reason r"] {
        let ran = shell(&bench, &format!("$T lease {args} >&-"));
        ran.exits(1).complains("standard output is closed").complains("--token-file");
        bench.tenure(&["lease", "show", "s"]).ok().says("free");
    }
    shell(&bench, "$T lease acquire s --ttl 1h --token-file token >&-").ok();
    bench.tenure(&["lease", "check", "s", "--token-file", "token"]).ok();
}

#[test]
fn a_token_file_is_a_regular_file() {
    let bench = Bench::new();
    assert!(Command::new("mkfifo").arg(bench.path("fifo")).status().unwrap().success());
    std::fs::create_dir(bench.path("dir")).unwrap();
    for file in ["fifo", "dir", "/dev/null"] {
        let args = ["lease", "acquire", "s", "--ttl", "1h", "--token-file", file];
        bench.tenure(&args).exits(2).complains("not a regular file");
        bench.tenure(&["lease", "show", "s"]).ok().says("free");
    }
}

#[test]
fn a_target_that_is_not_utf_8_nests_and_survives_eval() {
    let bench = Bench::new();
    let script = "set -e; f=$(printf 'odd\\377 name'); b=$(printf 'inner\\376')
        eval \"$($T lease acquire \"$f\" --ttl 1h)\"
        $T lease renew \"$f\"
        $T doc set \"$f\" 1 --wait 0
        $T run \"$b\" -- $T run third -- $T doc set \"$f\" 2 --wait 0
        $T run \"$b\" -- $T run third -- $T doc set \"$b\" 3 --wait 0
        $T lease release \"$f\"";
    shell(&bench, script).ok();
    let read = |name: &[u8]| std::fs::read_to_string(bench.path("").join(OsStr::from_bytes(name)));
    assert_eq!(read(b"odd\xff name").unwrap().trim_end(), "2");
    assert_eq!(read(b"inner\xfe").unwrap().trim_end(), "3");
}

/// A user of its own, so that nothing else counts against the limit.
const LIMITED: u32 = 54_321;

#[test]
fn a_hold_without_a_thread_to_spare_keeps_its_lease() {
    if !rustix::process::geteuid().is_root() {
        return; // A limit for one user needs a user of its own.
    }
    let bench = Bench::new();
    bench.set_mode(".", 0o777);
    let tenure = bench.program("tenure", TENURE.as_ref());
    // tenure, its thread for signals, and the command: none is left for the renewals.
    let script = "exec prlimit --nproc=3 \"$0\" lease hold s --ttl 300ms -- cat";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(tenure).current_dir(bench.path("")).uid(LIMITED).gid(LIMITED);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let show = ["lease", "show", "s", "--json"];
    eventually(|| bench.tenure(&show).json()["leased"] == true);
    let fence = bench.tenure(&show).json()["fence"].clone();
    let begun = std::time::Instant::now();
    eventually(|| begun.elapsed().as_millis() > 1200);
    let shown = bench.tenure(&show).json();
    assert_eq!((&shown["leased"], &shown["fence"]), (&json!(true), &fence), "it was renewed");
    let output = child.wait_with_output().unwrap(); // Closes its input.
    Ran::new(output).ok();
    bench.tenure(&["lease", "show", "s"]).ok().says("free");
}

#[test]
fn the_label_of_a_write_is_shown_to_waiters() {
    let bench = Bench::new();
    bench.file("s.json", "{}");
    let args = ["doc", "update", "s.json", "def f: f; f", "--label", "nightly import"];
    let mut endless = bench.command(&args).start();
    let pid = endless.pid();
    eventually(|| {
        let holder = tenure::status::of(bench.path("s.json")).unwrap().holder;
        holder.is_some_and(|holder| holder.pid == pid)
    });
    let busy = bench.tenure(&["doc", "set", "s.json", "1", "--wait", "0", "--json"]).exits(75);
    assert_eq!(busy.error()["holder"]["label"], "nightly import", "{busy:?}");
    bench
        .tenure(&["doc", "set", "s.json", "1", "--wait", "0"])
        .exits(75)
        .complains(", \"nightly import\")");
    let waiter = bench.command(&["doc", "set", "s.json", "1", "--wait", "forever"]).start();
    must_block(&bench.path("s.json"), waiter.pid());
    let shown = bench.tenure(&["who", "s.json"]).ok().stdout;
    assert!(shown.contains("\tnightly import\t"), "{shown}");
    endless.kill();
    waiter.end().ok();
}

/// U+202E turns the rest of a line around: `gnp.exe` would be shown as `exe.png`.
#[test]
fn characters_that_turn_text_around_are_escaped() {
    let bench = Bench::new();
    let name = "a\u{202e}b\u{2066}c";
    let is_clean = |ran: Ran| {
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!text.contains(['\u{202e}', '\u{2066}']), "{text:?}");
        text
    };
    let text = is_clean(bench.tenure(&["doc", "get", name]));
    assert!(text.contains("a\\u{202e}b\\u{2066}c"), "{text}");
    bench.tenure(&["lease", "acquire", name, "--ttl", "1h", "--owner", name, "--label", name]).ok();
    is_clean(bench.tenure(&["lease", "acquire", name, "--ttl", "1h", "--wait", "0"]));
    is_clean(bench.tenure(&["lease", "show", name]));
    is_clean(bench.tenure(&["who"]));
    is_clean(bench.tenure(&["who", name]));
    bench.tenure(&["lease", "take-over", name, "--ttl", "1h", "--reason", name]).exits(0);
    is_clean(bench.tenure(&["who", "--events", name]));
    is_clean(bench.tenure(&["doctor"]));
    is_clean(bench.tenure(&["run", "x", "--", name]));
    is_clean(bench.tenure(&["doc", "set", "s.json", "1", "--guard", &format!("{name}=1")]));
}

#[test]
fn a_path_with_a_slash_at_its_end_is_no_document() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("dir")).unwrap();
    for path in ["dir/", "new/"] {
        for args in [
            &["doc", "set", path, "1"][..],
            &["doc", "update", path, ".", "--init", "1"],
            &["doc", "get", path],
            &["journal", "append", path, "x"],
            &["journal", "read", path],
        ] {
            bench.tenure(args).exits(2).complains("names a directory");
        }
    }
    let names: Vec<_> = std::fs::read_dir(bench.path("")).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn a_restore_of_a_missing_document_claims_no_copy() {
    let bench = Bench::new();
    bench.tenure(&["doc", "set", "s.json", "[1]"]).ok();
    bench.tenure(&["doc", "set", "s.json", "[2]"]).ok();
    std::fs::remove_file(bench.path("s.json")).unwrap();
    let ran = bench.tenure(&["doc", "restore", "s.json"]).ok();
    assert!(ran.stdout.contains("there was no document"), "{ran:?}");
    assert!(!ran.stdout.contains("aside"), "{ran:?}");
    bench.file("s.json", "[");
    let ran = bench.tenure(&["doc", "restore", "s.json"]).ok();
    assert!(ran.stdout.contains("kept aside"), "{ran:?}");
}

#[test]
fn a_shell_that_still_has_a_released_lease_learns_what_to_unset() {
    let bench = Bench::new();
    let script = format!(
        "lease=$({TENURE} lease acquire s --ttl 5m --owner a) && eval \"$lease\"; \
         {TENURE} lease release s; {TENURE} run s -- true"
    );
    let ran = shell(&bench, &script);
    ran.exits(4).complains("after a release, unset TENURE_TARGET, TENURE_FENCE and TENURE_TOKEN");
}
