//! `tenure lease`, but for `hold`.

use serde_json::json;

use crate::TENURE;
use crate::bench::Bench;

#[test]
fn acquire_prints_lines_for_eval_and_fields_for_programs() {
    let bench = Bench::new();
    let script = format!(
        "eval \"$({TENURE} lease acquire s --ttl 1h)\" && {TENURE} lease release s --token \"$TENURE_TOKEN\" && echo \"$TENURE_FENCE\""
    );
    let ran = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(bench.path(""))
        .output()
        .unwrap();
    let fence: u64 = String::from_utf8(ran.stdout).unwrap().trim_end().parse().unwrap();
    let args = ["lease", "acquire", "s", "--ttl", "90s", "--owner", "me", "--json"];
    let lease = bench.tenure(&args).ok().json();
    assert!(lease["fence"].as_u64().unwrap() > fence);
    assert_eq!((&lease["owner"], &lease["ttl_ms"]), (&json!("me"), &json!(90_000)));
    assert_eq!(lease["expires_in_ms"], 90_000);
    assert!(lease["token"].as_str().unwrap().len() >= 16);
}

#[test]
fn a_time_to_live_of_nothing_or_a_century_is_2() {
    let bench = Bench::new();
    for ttl in ["0", "0s", "-5s", "100y", "36500d", "soon", ""] {
        bench.tenure(&["lease", "acquire", "s", "--ttl", ttl]).exits(2);
    }
    bench.tenure(&["lease", "acquire", "s"]).exits(2);
    assert!(!bench.path(".tenure").exists());
}

#[test]
fn a_lease_excludes_like_a_lock_and_names_its_owner() {
    let bench = Bench::new();
    let args =
        ["lease", "acquire", "s.json", "--ttl", "1h", "--owner", "alice", "--label", "turn 7"];
    bench.tenure(&args).ok();
    bench.tenure(&["run", "--wait", "0", "s.json", "--", "true"]).exits(75).complains("`alice`");
    bench.tenure(&["doc", "set", "s.json", "1", "--wait", "0"]).exits(75).complains("turn 7");
    let busy =
        bench.tenure(&["lease", "acquire", "s.json", "--ttl", "1h", "--wait", "0", "--json"]);
    let error = busy.exits(75).error();
    assert_eq!((&error["code"], &error["holder"]["owner"]), (&json!("busy"), &json!("alice")));
    assert_eq!(error["holder"]["kind"], "lease");
}

#[test]
fn the_token_makes_acquire_a_renewal() {
    let bench = Bench::new();
    let args = ["lease", "acquire", "s", "--ttl", "1h", "--json", "--token-file", "token"];
    let first = bench.tenure(&args).ok().json();
    let again = bench.tenure(&args).ok().json();
    assert_eq!(first["fence"], again["fence"]);
    assert_eq!(bench.read("token").trim_end(), first["token"]);
    let renew = ["lease", "renew", "s", "--token-file", "token", "--ttl", "2h", "--json"];
    let renewed = bench.tenure(&renew).ok().json();
    assert_eq!((&renewed["fence"], &renewed["ttl_ms"]), (&first["fence"], &json!(7_200_000)));
    let token = first["token"].as_str().unwrap();
    bench.command(&["lease", "renew", "s"]).env("TENURE_TOKEN", token).run().ok().says("");
    // The token of a hold on another target is not this one's.
    bench
        .command(&["lease", "renew", "s"])
        .env("TENURE_TOKEN", token)
        .env("TENURE_TARGET", bench.path("other"))
        .run()
        .exits(2);
    bench.tenure(&["lease", "release", "s", "--token", token]).ok().says("");
    bench.tenure(&["lease", "release", "s", "--token", token]).exits(4);
    bench.tenure(&["lease", "renew", "s", "--token", token]).exits(4);
}

#[test]
fn a_token_file_that_others_can_read_is_refused() {
    let bench = Bench::new();
    let file = bench.file("token", "0123456789abcdef0123456789abcdef\n");
    let mode = |mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&file, mode).unwrap();
    };
    mode(0o640);
    let args = ["lease", "acquire", "s", "--ttl", "1h", "--token-file", "token"];
    bench.tenure(&args).exits(2).complains("others may read");
    mode(0o600);
    bench.tenure(&args).ok();
    bench.tenure(&["lease", "release", "s"]).exits(2).complains("TENURE_TOKEN");
    bench.tenure(&["lease", "release", "s", "--token", "short"]).exits(2);
    bench.tenure(&["lease", "release", "s", "--token-file", "token"]).ok();
    bench.tenure(&["lease", "release", "s", "--token", "a", "--token-file", "token"]).exits(2);
}

#[test]
fn show_tells_who_has_it() {
    let bench = Bench::new();
    bench.tenure(&["lease", "show", "s"]).ok().says("free");
    let free = bench.tenure(&["lease", "show", "s", "--json"]).ok().json();
    assert_eq!(free["leased"], false);
    bench.tenure(&["lease", "acquire", "s", "--ttl", "1h", "--owner", "bob"]).ok();
    let shown = bench.tenure(&["lease", "show", "s"]).ok();
    assert!(shown.stdout.contains("`bob`"), "{shown:?}");
    let object = bench.tenure(&["lease", "show", "s", "--json"]).ok().json();
    assert_eq!((&object["leased"], &object["owner"]), (&json!(true), &json!("bob")));
    assert!(object["expires_in_ms"].as_u64().unwrap() > 3_500_000);
    assert_eq!(object["holder"]["kind"], "lease");
    bench.tenure(&["lease", "acquire", "t", "--ttl", "1ms"]).ok();
    crate::bench::eventually(|| {
        bench.tenure(&["lease", "show", "t", "--json"]).json()["expired"] == true
    });
}

#[test]
fn a_take_over_needs_a_reason_and_is_written_down() {
    let bench = Bench::new();
    let first = bench.tenure(&["lease", "acquire", "s", "--ttl", "1h", "--json"]).ok().json();
    bench.tenure(&["lease", "take-over", "s", "--ttl", "1h"]).exits(2);
    bench.tenure(&["lease", "take-over", "s", "--ttl", "1h", "--reason", " "]).exits(2);
    let args = ["lease", "take-over", "s", "--ttl", "1h", "--reason", "it hangs", "--json"];
    let taken = bench.tenure(&args).ok().json();
    assert!(taken["fence"].as_u64() > first["fence"].as_u64());
    let token = first["token"].as_str().unwrap();
    let lost = bench.tenure(&["--json", "lease", "renew", "s", "--token", token]).exits(4);
    assert_eq!(lost.error()["code"], "lease_lost");
    let events = bench.tenure(&["who", "--events", "--json", "s"]).ok().json();
    let event = &events["targets"][0]["events"][0];
    assert_eq!(
        (&event["event"], &event["detail"]["reason"]),
        (&json!("take_over"), &json!("it hangs"))
    );
    let text = bench.tenure(&["who", "--events", "s"]).ok();
    assert!(text.stdout.contains("it hangs"), "{text:?}");
}

#[test]
fn a_lock_is_never_taken_over() {
    let bench = Bench::new();
    let holder = bench.holder(&[], "s");
    let args = ["lease", "take-over", "s", "--ttl", "1h", "--reason", "r", "--wait", "0"];
    bench.tenure(&args).exits(75).complains(&format!("pid {}", holder.pid()));
    holder.end().ok();
}

#[test]
fn a_busy_lease_tells_how_long_it_lasts_and_who_took_it() {
    let bench = Bench::new();
    bench.tenure(&["lease", "acquire", "s", "--ttl", "1h"]).ok();
    let again = ["lease", "acquire", "s", "--ttl", "1h", "--wait", "0"];
    let busy = bench.tenure(&again).exits(75);
    busy.complains(" s left)").complains("tenure lease acquire s --ttl 1h)");
    let error = bench.tenure(&[&again[..], &["--json"]].concat()).exits(75).error();
    let left = error["expires_in_ms"].as_u64().unwrap();
    assert!(left > 3_500_000 && left <= 3_600_000, "{error}");
    let holder = bench.holder(&[], "x");
    let busy = bench.tenure(&["run", "--wait", "0", "--json", "x", "--", "true"]).exits(75);
    assert!(busy.error()["expires_in_ms"].is_null(), "a lock has no end");
    holder.end().ok();
}

#[test]
fn a_release_with_the_wrong_token_says_so() {
    let bench = Bench::new();
    let release = ["lease", "release", "s", "--token", "0123456789abcdef"];
    bench.tenure(&release).exits(4).complains("failed to release").complains("was released");
    bench.tenure(&["lease", "acquire", "s", "--ttl", "1h", "--owner", "bob"]).ok();
    bench.tenure(&release).exits(4).complains("another one does").complains("`bob`");
    let error = bench.tenure(&[&release[..], &["--json"]].concat()).exits(4).error();
    assert_eq!((&error["code"], &error["holder"]["owner"]), (&json!("lease_lost"), &json!("bob")));
}

#[test]
fn a_refused_guard_names_the_file_that_was_not_written() {
    let bench = Bench::new();
    for args in [&["doc", "set", "s.json", "1"][..], &["journal", "append", "s.json", "x"]] {
        let guarded = [args, &["--guard", "session=5"]].concat();
        let refused = bench.tenure(&guarded).exits(4).complains("/session`");
        refused.complains("s.json` was not changed: this guard protects it");
    }
    let hint = format!("tenure doc restore {}`", bench.path("u.json").display());
    for n in ["[1]", "[2]"] {
        bench.tenure(&["doc", "set", "u.json", n]).ok();
    }
    bench.file("u.json", "[");
    bench.tenure(&["doc", "get", "u.json"]).exits(5).complains(&hint);
}

/// Below a hold an acquire renews: the lease stays that of its owner.
#[test]
fn another_owner_below_a_hold_is_refused() {
    let bench = Bench::new();
    let hold = ["lease", "hold", "s", "--ttl", "1h", "--owner", "alice", "--", TENURE, "lease"];
    let acquire =
        |owner: &[&'static str]| [&hold[..], &["acquire", "s", "--ttl", "1h"], owner].concat();
    let refused = bench.tenure(&acquire(&["--owner", "bob"])).exits(2);
    refused.complains("`alice`").complains("--owner");
    let nested = ["hold", "s", "--ttl", "1h", "--owner", "bob", "--", "true"];
    bench.tenure(&[&hold[..], &nested].concat()).exits(2).complains("`alice`");
    bench.tenure(&acquire(&["--owner", "alice"])).ok();
    bench.tenure(&acquire(&[])).ok();
    // With a token of its own it is reported, since the lease is renewed by then.
    let kept = ["lease", "acquire", "t", "--ttl", "1h", "--token-file", "token", "--owner"];
    bench.tenure(&[&kept[..], &["alice"]].concat()).ok();
    bench.tenure(&[&kept[..], &["alice"]].concat()).ok();
    bench.tenure(&[&kept[..], &["bob"]].concat()).exits(0).complains("renewed for `alice`");
}

/// A hook, a cron job or a container often has no name for its user: a number is better than nothing.
#[test]
fn without_a_name_the_owner_is_the_number_of_the_user() {
    let bench = Bench::new();
    let owner = |variables: &[(&str, &str)]| {
        let mut command = bench.command(&["lease", "acquire", "x", "--ttl", "1h", "--json"]);
        for name in ["LOGNAME", "USER", "USERNAME"] {
            command = command.without_env(name);
        }
        for (name, value) in variables {
            command = command.env(name, value);
        }
        let leased = command.run().ok().json();
        let token = leased["token"].as_str().unwrap();
        bench.tenure(&["lease", "release", "x", "--token", token]).ok();
        leased["owner"].as_str().unwrap().to_owned()
    };
    let number = format!("uid {}", rustix::process::geteuid().as_raw());
    assert_eq!(owner(&[]), number);
    assert_eq!(owner(&[("USER", ""), ("LOGNAME", "")]), number);
    assert_eq!(owner(&[("LOGNAME", "lou")]), "lou");
    assert_eq!(owner(&[("USER", "una")]), "una");
    assert_eq!(owner(&[("USER", "una"), ("LOGNAME", "lou")]), "lou");
}
