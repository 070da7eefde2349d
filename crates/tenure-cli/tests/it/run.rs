//! `tenure run`.

use rustix::process::Signal;
use serde_json::json;

use crate::TENURE;
use crate::bench::{Bench, eventually, must_block};

#[test]
fn the_command_runs_and_its_exit_code_is_passed_on() {
    let bench = Bench::new();
    bench.tenure(&["run", "x", "--", "echo", "hello"]).ok().says("hello");
    bench.tenure(&["run", "x", "--", "sh", "-c", "exit 9"]).exits(9);
    bench.tenure(&["run", "x", "--", "sh", "-c", "kill -KILL $$"]).exits(137);
    bench.tenure(&["run", "x", "--", "sh", "-c", "kill -TERM $$"]).exits(143);
}

#[test]
fn a_command_that_cannot_start_is_127_or_126_and_leaves_no_lock() {
    let bench = Bench::new();
    bench.tenure(&["run", "x", "--", "no-such-command"]).exits(127).complains("no-such-command");
    bench.file("data", "no program");
    bench.tenure(&["run", "x", "--", "./data"]).exits(126).complains("./data");
    bench.tenure(&["run", "--wait", "0", "x", "--", "true"]).ok();
}

#[test]
fn a_busy_lock_is_75_and_names_its_holder() {
    let bench = Bench::new();
    let holder = bench.holder(&["--label", "big build"], "x");
    let pid = format!("pid {}", holder.pid());
    let busy = bench.tenure(&["run", "--wait", "0", "x", "--", "true"]).exits(75);
    let busy = busy.complains(&pid).complains("big build").complains("fence");
    assert_eq!(busy.stdout, "");
    bench.tenure(&["run", "--wait", "20ms", "x", "--", "true"]).exits(75).complains(&pid);
    bench.tenure(&["run", "--wait", "0", "--busy-code", "9", "x", "--", "true"]).exits(9);
    bench.command(&["run", "x", "--", "true"]).env("TENURE_WAIT", "0").run().exits(75);
    holder.end().ok();
}

#[test]
fn with_json_the_object_on_stderr_tells_which_it_was() {
    let bench = Bench::new();
    let exited = bench.tenure(&["run", "--json", "x", "--", "sh", "-c", "exit 3"]).exits(3);
    let object = exited.error();
    assert_eq!(object["outcome"], "exited");
    assert_eq!((&object["code"], &object["exit"]), (&json!(3), &json!(3)));
    assert!(object["fence"].as_u64().unwrap() > 0);
    let killed = bench.tenure(&["run", "--json", "x", "--", "sh", "-c", "kill -INT $$"]).exits(130);
    assert_eq!(killed.error()["outcome"], "signaled");
    assert_eq!(killed.error()["signal"], 2);
    let missing = bench.tenure(&["run", "--json", "x", "--", "no-such-command"]).exits(127);
    assert_eq!(missing.error()["outcome"], "command_not_found");
    bench.file("data", "no program");
    let denied = bench.tenure(&["run", "--json", "x", "--", "./data"]).exits(126);
    assert_eq!(denied.error()["outcome"], "not_executable");
    let holder = bench.holder(&["--label", "why"], "x");
    let busy = bench.tenure(&["run", "--json", "--wait", "0", "x", "--", "true"]).exits(75);
    let error = busy.error();
    assert_eq!((error["outcome"].as_str(), error["code"].as_str()), (Some("busy"), Some("busy")));
    assert_eq!(error["holder"]["pid"], holder.pid());
    assert_eq!(error["holder"]["label"], "why");
    assert_eq!(error["holder"]["kind"], "lock");
    for field in ["host", "command", "fence", "since_us"] {
        assert!(!error["holder"][field].is_null(), "{field}");
    }
    assert_eq!(error["exit"], 75);
    assert_eq!(error["path"], bench.path("x").to_str().unwrap());
    for field in ["message", "action", "hint"] {
        assert!(error[field].is_string(), "{field}");
    }
}

#[test]
fn a_waiter_gets_the_lock_when_the_holder_ends() {
    let bench = Bench::new();
    let holder = bench.holder(&[], "x");
    let waiter = bench.command(&["run", "--wait", "forever", "x", "--", "echo", "mine"]).start();
    must_block(&bench.path("x"), waiter.pid());
    holder.end().ok();
    waiter.end().ok().says("mine");
}

#[test]
fn signals_go_to_the_command() {
    let bench = Bench::new();
    for (signal, name) in [
        (Signal::TERM, "TERM"),
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ] {
        // The trap interrupts `wait`; the cat ends when its input does.
        let script = format!(
            "exec 3<&0; trap 'echo got; exit 7' {name}; cat <&3 >/dev/null 2>&1 & echo ready; wait"
        );
        let mut live = bench.unshielded(&["run", "x", "--", "sh", "-c", &script]).start();
        assert_eq!(live.line(), "ready");
        live.signal(signal);
        live.wait().exits(7).says("got");
    }
    let mut live = bench.holder(&[], "x");
    live.signal(Signal::TERM);
    assert_eq!(live.line(), "");
    live.wait().exits(143);
}

#[test]
fn an_ignored_signal_stays_ignored_below() {
    let bench = Bench::new();
    let script = format!("trap '' HUP; exec {TENURE} run x -- sh -c 'kill -HUP $$; echo alive'");
    let ran = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(bench.path(""))
        .output()
        .unwrap();
    assert_eq!(ran.stdout, b"alive\n");
}

#[test]
fn the_lock_outlives_a_killed_tenure_as_long_as_its_command_runs() {
    let bench = Bench::new();
    let mut holder = bench.holder(&[], "x");
    holder.kill();
    bench.tenure(&["run", "--wait", "0", "x", "--", "true"]).exits(75);
    let waiter = bench.command(&["run", "--wait", "forever", "x", "--", "echo", "mine"]).start();
    must_block(&bench.path("x"), waiter.pid());
    holder.let_go();
    let ran = waiter.end().exits(0).says("mine");
    ran.complains(&format!("pid {}", holder.pid())).complains("died holding");
}

#[test]
fn with_close_the_lock_ends_with_tenure() {
    let bench = Bench::new();
    let mut holder = bench.holder(&["--close"], "x");
    holder.kill();
    bench.tenure(&["run", "--wait", "0", "x", "--", "true"]).exits(0).complains("died holding");
}

#[test]
fn a_background_child_keeps_the_hold_unless_closed() {
    let bench = Bench::new();
    let script = "cat <&3 >/dev/null 2>&1 & echo started";
    // Scripts use the numbers with one digit as they like.
    let script = format!("exec 3<&0 4<&0 5<&0 6<&0 7<&0 8<&0 9<&0; {script}");
    let mut kept = bench.command(&["run", "x", "--", "sh", "-c", &script]).start();
    assert_eq!(kept.line(), "started");
    while kept.is_running() {
        std::thread::yield_now();
    }
    bench.tenure(&["run", "--wait", "0", "x", "--", "true"]).exits(75);
    // The shell has a child at once; it is that program a moment later.
    eventually(|| {
        let status = tenure::status::of(bench.path("x")).unwrap();
        status.processes.iter().any(|process| process.command == "cat")
    });
    kept.end().exits(0);
    let mut closed = bench.command(&["run", "--close", "y", "--", "sh", "-c", &script]).start();
    assert_eq!(closed.line(), "started");
    while closed.is_running() {
        std::thread::yield_now();
    }
    bench.tenure(&["run", "--wait", "0", "y", "--", "true"]).ok();
    closed.end().exits(0);
}

#[test]
fn readers_share_and_exclude_writers() {
    let bench = Bench::new();
    let reader = bench.holder(&["--shared"], "x");
    bench.tenure(&["run", "--shared", "--wait", "0", "x", "--", "true"]).ok();
    bench.tenure(&["run", "--wait", "0", "x", "--", "true"]).exits(75);
    reader.end().ok();
    let environment =
        bench.tenure(&["run", "--shared", "x", "--", "sh", "-c", "echo $TENURE_FENCE"]);
    environment.ok().says("");
}

#[test]
fn a_nested_run_proves_the_hold_instead_of_waiting_for_itself() {
    let bench = Bench::new();
    let nested = [TENURE, "run", "--wait", "0", "x", "--", "sh", "-c", "echo $TENURE_FENCE"];
    let mut args = vec!["run", "x", "--", "sh", "-c", "echo $TENURE_FENCE; \"$@\"", "sh"];
    args.extend(nested);
    let ran = bench.tenure(&args).ok();
    let fences: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(fences.len(), 2);
    assert_eq!(fences[0], fences[1]);
    // The hold has ended: its fence proves nothing any more.
    bench.tenure(&["run", "--fence", fences[0], "x", "--", "true"]).exits(4).complains("ended");
}

#[test]
fn outer_holds_are_known_below_inner_ones() {
    let bench = Bench::new();
    let inner = format!(
        "{TENURE} run --wait 0 y -- {TENURE} run --wait 0 'z \\n' -- sh -c \
         'printf \"%s\\n\" \"$TENURE_TARGET\"; {TENURE} run --wait 0 x -- true && \
          {TENURE} run --wait 0 y -- true && {TENURE} run --wait 0 \"z \\\\n\" -- true && echo proven'"
    );
    let ran = bench.tenure(&["run", "x", "--", "sh", "-c", &inner]).ok();
    let target = bench.path("z \\n");
    assert_eq!(ran.stdout, format!("{}\nproven\n", target.display()));
}

#[test]
fn a_removed_lock_file_is_noticed() {
    let bench = Bench::new();
    let holder = bench.holder(&[], "x");
    std::fs::remove_file(bench.path(".tenure/x.hold")).unwrap();
    let status = tenure::status::of(bench.path("x")).unwrap();
    assert!(status.compromised, "{status:?}");
    let ran = holder.end().exits(4);
    ran.complains("removed or replaced");
    let holder = bench.holder(&["--json"], "y");
    std::fs::remove_file(bench.path(".tenure/y.hold")).unwrap();
    let ran = holder.end().exits(4);
    assert_eq!(ran.error()["outcome"], "compromised");
}

#[test]
fn a_removed_lock_file_is_noticed_while_the_command_runs() {
    let bench = Bench::new();
    let mut holder = bench.command(&["run", "x", "--", "sh", "-c", "echo ready; cat"]).start();
    assert_eq!(holder.line(), "ready");
    std::fs::remove_file(bench.path(".tenure/x.hold")).unwrap();
    let warning = holder.warning();
    assert!(warning.contains("removed or replaced"), "{warning}");
    assert!(holder.is_running());
    holder.end().exits(4);
}

#[test]
fn a_lock_file_of_choice_excludes_others_who_lock_it() {
    let bench = Bench::new();
    let lock_file = bench.file("app.lock", "");
    let holder = bench.holder(&["--lock-file", "app.lock"], "x");
    let flock = |args: &[&str]| {
        std::process::Command::new("flock").args(args).arg(&lock_file).arg("true").status().unwrap()
    };
    assert_eq!(flock(&["-n"]).code(), Some(1));
    holder.end().ok();
    assert_eq!(flock(&["-n"]).code(), Some(0));
}

#[test]
fn wrong_use_is_2_and_one_line() {
    let bench = Bench::new();
    bench.tenure(&["run"]).exits(2).complains("<TARGET>");
    bench.tenure(&["run", "x"]).exits(2).complains("<CMD>");
    bench.tenure(&["run", "--wait", "soon", "x", "--", "true"]).exits(2).complains("soon");
    bench.tenure(&["run", "", "--", "true"]).exits(2);
    bench.command(&["run", "x", "--", "true"]).env("TENURE_WAIT", "x").run().exits(2);
    bench
        .command(&["run", "x", "--", "true"])
        .env("TENURE_TARGET", bench.path("x"))
        .env("TENURE_FENCE", "many")
        .run()
        .exits(2)
        .complains("TENURE_FENCE");
    let json = bench.tenure(&["run", "--json"]).exits(2);
    assert_eq!(json.error()["code"], "usage");
}

/// The wrapper is dead and its command is not: a caller that is refused learns who has it now.
#[cfg(target_os = "linux")]
#[test]
fn busy_names_the_command_that_outlived_its_wrapper() {
    let bench = Bench::new();
    let args = ["run", "--label", "big", "x", "--", "sh", "-c", "echo $$; exec cat >/dev/null"];
    let mut holder = bench.command(&args).start();
    let command: u64 = holder.line().parse().unwrap();
    let line = format!("/proc/{command}/cmdline");
    eventually(|| std::fs::read(&line).unwrap() == b"cat\0"); // The shell spoke before it became that.
    holder.kill();
    for wait in ["0", "20ms"] {
        let turned_away = ["run", "--json", "--wait", wait, "x", "--", "true"];
        let error = bench.tenure(&turned_away).exits(75).error();
        assert_eq!(error["holder"]["pid"], command, "{error:#}");
        assert_eq!(error["holder"]["command"], "cat", "{error:#}");
        assert_eq!(error["holder"]["label"], "big", "{error:#}");
        assert!(error["holder"]["fence"].as_u64().unwrap() > 0, "{error:#}");
        let gone = format!("pid {} that took it is gone", holder.pid());
        assert!(error["message"].as_str().unwrap().contains(&gone), "{error:#}");
    }
    holder.let_go();
    bench.tenure(&["run", "x", "--", "true"]).exits(0);
}

/// Only for display, and still: the same number is not the same process.
#[cfg(target_os = "linux")]
#[test]
fn a_number_that_came_again_is_another_process() {
    use tenure::status::Holder;
    let here = Holder::this_process("", "");
    assert_eq!(here.seems_alive(), Some(true));
    let before = Holder { start: here.start - 1, ..here.clone() };
    assert_eq!(before.seems_alive(), Some(false));
    let unknown = Holder { start: 0, ..here.clone() };
    assert_eq!(unknown.seems_alive(), None);
    let elsewhere = Holder { pid_namespace: here.pid_namespace + 1, ..here };
    assert_eq!(elsewhere.seems_alive(), None);
}
