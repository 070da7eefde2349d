//! `run` and `lease hold` on a store: nested commands, the death of tenure, and a hold that is lost.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure_engines::{Postgres, Proxy, Replication};

use crate::TENURE;
use crate::bench::{Live, eventually};
use crate::stores::{Shelf, each};

/// A session lives for two seconds here, and a server may take a moment longer to notice its end.
const SOON: Duration = Duration::from_secs(8);

/// Starts a holder of `target` that ends with its input, and whose session is short.
fn holder(shelf: &Shelf, flags: &[&str], target: &str) -> Live {
    let mut args = vec!["run"];
    args.extend(flags);
    args.extend([target, "--", "sh", "-c", "echo ready; exec cat >/dev/null"]);
    let mut live = shelf.brief(&args).start();
    assert_eq!(live.line(), "ready");
    live
}

#[test]
fn commands_below_find_the_store_and_the_hold() {
    each(|shelf| {
        // --store, not the environment: it reaches the commands below all the same.
        let script = format!(
            r#"{TENURE} doc set deploy 1 --wait 0 &&
               {TENURE} doc set other 2 --guard "$TENURE_TARGET=$TENURE_FENCE" &&
               {TENURE} doc get "$TENURE_TARGET" &&
               {TENURE} run deploy --wait 0 -- true &&
               {TENURE} run inner -- {TENURE} doc set deploy 3 --wait 0 &&
               {TENURE} run --store files here -- {TENURE} doc set here 4 --wait 0"#
        );
        let args = ["run", "--store", &shelf.url, "deploy", "--", "sh", "-c", &script];
        shelf.bench.tenure(&args).ok().says("1");
        shelf.tenure(&["doc", "get", "deploy"]).run().ok().says("3");
        shelf.bench.tenure(&["doc", "get", "here"]).ok().says("4");
        shelf.tenure(&["doc", "get", "here"]).run().exits(1);
    });
}

#[test]
fn a_guard_of_another_store_is_invalid() {
    each(|shelf| {
        let script = format!(
            r#"{TENURE} --store files doc set x 1 --guard "$TENURE_TARGET=$TENURE_FENCE"; echo $?;
               {TENURE} --store files doc get "$TENURE_TARGET"; echo $?"#
        );
        let ran = shelf.tenure(&["run", "deploy", "--", "sh", "-c", &script]).run();
        assert!(ran.exits(0).says("2\n2").stderr.contains("target of a store"));
        let script =
            format!(r#"{TENURE} doc set --store "$1" x 1 --guard "$TENURE_TARGET=$TENURE_FENCE""#);
        let args = ["run", "local", "--", "sh", "-c", &script, "sh", &shelf.url];
        shelf.bench.tenure(&args).exits(2).complains("local file");
        let guard = "postgres://other@host:5432/db#/deploy=7";
        let refused = shelf.tenure(&["doc", "set", "x", "1", "--guard", guard]).run();
        refused.exits(2).complains("another store");
        shelf.tenure(&["doc", "get", "x"]).run().exits(1);
    });
}

#[test]
fn a_busy_target_names_its_holder() {
    each(|shelf| {
        let hold =
            ["run", "--label", "nightly", "x", "--", "sh", "-c", "echo ready; exec cat >/dev/null"];
        let mut holder = shelf.tenure(&hold).start();
        assert_eq!(holder.line(), "ready");
        let error = shelf.tenure(&["run", "--json", "--wait", "0", "x", "--", "true"]).run();
        let error = error.exits(75).error();
        assert_eq!(error["holder"]["pid"], holder.pid(), "{error}");
        assert_eq!(error["holder"]["label"], "nightly", "{error}");
        assert!(error["store"].as_str().unwrap().contains("://"), "{error}");
        let waiter = shelf.tenure(&["run", "--wait", "30s", "x", "--", "echo", "mine"]).start();
        eventually(|| {
            let seen = shelf.tenure(&["who", "x", "--json"]).run().ok().json();
            seen["targets"][0]["waiters"].as_array().unwrap().len() == 1
        });
        holder.end().ok();
        waiter.wait().ok().says("mine");
    });
}

#[test]
fn the_death_of_tenure_frees_at_the_time_to_live() {
    each(|shelf| {
        let mut holder = holder(shelf, &[], "x");
        holder.kill();
        let killed = Instant::now();
        shelf.tenure(&["run", "--wait", "0", "x", "--", "true"]).run().exits(75);
        let seen = shelf.tenure(&["who", "x"]).run().ok();
        assert!(seen.stdout.contains("its process died; free at its time to live"), "{seen:?}");
        let next = shelf.tenure(&["run", "--wait", "30s", "x", "--", "true"]).run();
        assert!(next.exits(0).stderr.contains("died holding"), "the next holder is warned");
        assert!(killed.elapsed() < SOON, "{:?}", killed.elapsed());
    });
}

/// The process is stopped for longer than its session lives: it finds its hold lost.
#[test]
fn a_lost_hold_is_said_at_once_and_is_4() {
    each(|shelf| {
        let mut holder = holder(shelf, &[], "x");
        holder.signal(Signal::STOP);
        let next = shelf.tenure(&["run", "--wait", "30s", "x", "--", "true"]).run();
        assert!(next.exits(0).stderr.contains("died holding"), "the next holder is warned");
        holder.signal(Signal::CONT);
        let warning = holder.warning(); // While the command runs.
        assert!(warning.contains("/x"), "{warning}");
        assert!(holder.is_running());
        holder.end().exits(4);
    });
}

#[test]
fn a_command_can_be_ended_with_its_hold() {
    each(|shelf| {
        let args = ["run", "--end-on-loss", "--grace", "200ms", "--json", "x", "--", "sh", "-c"];
        let stubborn = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
        let mut holder = shelf.brief(&[&args[..], &[stubborn]].concat()).start();
        assert_eq!(holder.line(), "ready");
        holder.signal(Signal::STOP);
        let next = shelf.tenure(&["run", "--wait", "30s", "x", "--", "true"]).run();
        assert!(next.exits(0).stderr.contains("died holding"), "the next holder is warned");
        holder.signal(Signal::CONT);
        let ran = holder.wait().exits(4);
        assert!(ran.stderr.contains("being ended"), "{ran:?}");
        assert_eq!(ran.error()["exit"], 4, "{ran:?}");
    });
}

/// The promoted standby knows the session of the holder, and not its lock: it was granted later.
#[test]
fn a_command_ends_whose_lock_a_failover_lost() {
    if !Postgres::is_here() {
        return;
    }
    let mut primary = Postgres::start();
    let standby = primary.standby(Replication::Asynchronous);
    let both = format!("{},{}", primary.address(), standby.address());
    let shelf = Shelf::at(&primary.url_at(&both));
    let url = shelf.url.replace("ttl=60s", "ttl=10s");
    let command = ["x", "--", "sh", "-c", "echo ready; exec cat >/dev/null"];
    let mut former = shelf.tenure(&[&["run"], &command[..]].concat()).start();
    assert_eq!(former.line(), "ready");
    let args = [&["run", "--end-on-loss", "--wait", "60s"], &command[..]].concat();
    let mut holder = shelf.bench.command(&args).env("TENURE_STORE", &url).start();
    let waits = "select count(*) from tenure.ticket";
    eventually(|| standby.sql(waits).trim() == "1");
    primary.stall_replication();
    former.end().exits(0);
    assert_eq!(holder.line(), "ready");
    primary.kill();
    standby.promote();
    let ran = holder.wait().exits(4);
    assert!(ran.stderr.contains("forgot") && ran.stderr.contains("being ended"), "{ran:?}");
}

/// Behind a partition a renewal has no answer for a long time. The command does not wait for it.
#[test]
fn lease_hold_ends_its_command_in_time_behind_a_partition() {
    if !Postgres::is_here() {
        return;
    }
    let server = Postgres::shared();
    let shelf = Shelf::at(&server.fresh_url());
    let proxy = Proxy::start(&server.address());
    let url = shelf.url.replace(&server.address(), &proxy.address());
    let args = ["lease", "hold", "s", "--ttl", "3s", "--grace", "100ms", "--", "sh", "-c"];
    let args = [&args[..], &["echo ready; exec cat >/dev/null"]].concat();
    let mut holder = shelf.bench.command(&args).env("TENURE_STORE", &url).start();
    assert_eq!(holder.line(), "ready");
    proxy.swallow();
    let cut = Instant::now();
    let ran = holder.wait().exits(4);
    assert!(cut.elapsed() < SOON, "{:?}", cut.elapsed());
    assert!(ran.stderr.contains("did not answer"), "{ran:?}");
}

/// Once per process, to people only, and not below another hold.
#[test]
fn what_a_failover_could_lose_is_said_with_the_first_session() {
    if !Postgres::is_here() {
        return;
    }
    let primary = Postgres::start();
    let standby = primary.standby(Replication::Asynchronous);
    let shelf = Shelf::at(&primary.url());
    let nested = format!("{TENURE} run inner -- true");
    let ran = shelf.tenure(&["run", "x", "--", "sh", "-c", &nested]).run().exits(0);
    assert_eq!(ran.stderr.matches("asynchronous standby").count(), 1, "{ran:?}");
    let ran = shelf.tenure(&["run", "--json", "x", "--", "true"]).run().exits(0);
    assert!(!ran.stderr.contains("asynchronous"), "{ran:?}");
    let ran = shelf.tenure(&["doc", "set", "y", "1"]).run().ok();
    assert_eq!(ran.stderr, "", "no session, no question");
    drop(standby);
}

#[test]
fn lease_hold_ends_its_command_when_the_lease_is_gone() {
    each(|shelf| {
        let args = ["lease", "hold", "s", "--ttl", "2s", "--", "sh", "-c"];
        let mut holder =
            shelf.tenure(&[&args[..], &["echo ready; exec cat >/dev/null"]].concat()).start();
        assert_eq!(holder.line(), "ready");
        let take = ["lease", "take-over", "s", "--ttl", "60s", "--reason", "a test"];
        shelf.tenure(&take).run().ok();
        let ran = holder.wait().exits(4);
        assert!(ran.stderr.contains("being ended"), "{ran:?}");
    });
}
