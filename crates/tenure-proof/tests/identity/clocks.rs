//! Clocks: set back, set forward, asleep, and different in every namespace.
//!
//! The wall clock of one process is changed by a function that the dynamic linker puts before the C
//! library's own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tenure_proof::machine::{allows, allows_root};
use tenure_proof::{Form, Tally};

use crate::RING;
use crate::bench::Bench;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const LEASE: [&str; 7] = ["lease", "acquire", "t", "--ttl", "1h", "--token", TOKEN];
/// Somebody else's.
const OTHER_LEASE: [&str; 7] = ["lease", "acquire", "t", "--ttl", "1s", "--wait", "0"];

/// A wall clock that says what it is told to.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    if (clock != CLOCK_REALTIME) return syscall(SYS_clock_gettime, clock, time);
    *time = (struct timespec){ .tv_sec = atoll(getenv("CLOCK_SECONDS")) };
    return 0;
}
"#;

/// The clock, built for the dynamic linker.
fn clock(bench: &Bench) -> PathBuf {
    let (source, built) = (bench.path("clock.c"), bench.path("clock.so"));
    std::fs::File::create_new(&source).unwrap().write_all(CLOCK.as_bytes()).unwrap();
    let mut compiler = Command::new("cc");
    let done = compiler.args(["-shared", "-fPIC", "-o"]).arg(&built).arg(&source).status();
    assert!(done.unwrap().success(), "cc builds what links every Rust program");
    built
}

/// Lets the program see these seconds since 1970.
fn at(clock: &Path, seconds: i64) -> Vec<String> {
    let preload = format!("LD_PRELOAD={}", clock.display());
    vec!["env".to_owned(), preload, format!("CLOCK_SECONDS={seconds}")]
}

fn words(launcher: &[String]) -> Vec<&str> {
    launcher.iter().map(String::as_str).collect()
}

/// Years 2001 and 2096.
const CLOCKS: [i64; 2] = [1_000_000_000, 4_000_000_000];

#[test]
fn g1_g4_a_wall_clock_that_jumps_decides_nothing() {
    let mut tally = Tally::new(RING, "g1_g4_a_wall_clock_that_jumps_decides_nothing");
    let bench = Bench::new();
    let preload = clock(&bench);
    let mut last = bench.fence(&["env"]);
    for clock in CLOCKS.into_iter().cycle().take(Form::asked().pick(6, 60)) {
        // Fences grow, whatever the clock says when they are drawn.
        let jumped = at(&preload, clock);
        for launcher in [words(&jumped), vec!["env"]] {
            let fence = bench.fence(&launcher);
            assert!(fence > last, "{fence} after {last} in the year of {clock}");
            last = fence;
        }
        // A lock is held, whatever the clock of the other says.
        let holder = bench.holder(&["env"]);
        let busy = bench.tenure(&words(&jumped), &["run", "--wait", "0", "t", "--", "true"]);
        assert_eq!(busy.code, Some(75), "in the year of {clock}: {busy:?}");
        assert!(holder.end().is_done());
        // The other two had the clock of the machine.
        tally.tried(2, "commands under another wall clock");
    }
    // The method works: the program does see the other clock.
    let shown = bench.tenure(
        &words(&at(&preload, CLOCKS[1])),
        &["run", "fresh", "--", "sh", "-c", "echo $TENURE_FENCE"],
    );
    let fence: u64 = shown.stdout.trim().parse().unwrap();
    assert!(fence >= 4_000_000_000_000_000, "the clock was not changed: {fence}");
}

/// The life of a lease on `t` that is made under one clock and used under another: it keeps others out,
/// has the time that it was given, is renewed and released, and then the place is free.
fn live_under(bench: &Bench, makes: &[&str], looks: &[&str]) {
    let about = format!("made by {makes:?}, used by {looks:?}");
    let left = || bench.lease(looks)["expires_in_ms"].as_u64().unwrap_or_default();
    assert!(bench.tenure(makes, &LEASE).is_done());
    assert!((3_500_000..=3_600_000).contains(&left()), "{} ms left, {about}", left());
    for wants in [&["run", "--wait", "0", "t", "--", "true"][..], &OTHER_LEASE] {
        let busy = bench.tenure(looks, wants);
        assert_eq!(busy.code, Some(75), "{about}: {busy:?}");
    }
    let renewed = bench.tenure(looks, &["lease", "renew", "t", "--ttl", "2h", "--token", TOKEN]);
    assert!(renewed.is_done(), "{about}: {renewed:?}");
    assert!((7_100_000..=7_200_000).contains(&left()), "{} ms left, {about}", left());
    let released = bench.tenure(looks, &["lease", "release", "t", "--token", TOKEN]);
    assert!(released.is_done(), "{about}: {released:?}");
    assert_eq!(bench.lease(makes)["leased"], false, "{about}");
}

/// A lease that is made under one clock and ends by itself under another: not before its time, and not
/// long after it.
fn expire_under(bench: &Bench, makes: &[&str], looks: &[&str]) {
    let started = Instant::now();
    let made = bench.tenure(makes, &["lease", "acquire", "t", "--ttl", "1s", "--token", TOKEN]);
    assert!(made.is_done(), "{made:?}");
    let next = bench.tenure(looks, &["lease", "acquire", "t", "--ttl", "1h", "--wait", "20s"]);
    assert!(next.is_done(), "made by {makes:?}, still not free for {looks:?}: {next:?}");
    let waited = started.elapsed();
    assert!(waited >= Duration::from_secs(1), "made by {makes:?}, {looks:?} had it in {waited:?}");
    let late = bench.tenure(makes, &["lease", "renew", "t", "--token", TOKEN]);
    assert!(!late.is_done(), "made by {makes:?}, lost to {looks:?}, and renewed: {late:?}");
}

#[test]
fn e1_a_wall_clock_that_jumps_neither_ends_nor_extends_a_lease() {
    let test = "e1_a_wall_clock_that_jumps_neither_ends_nor_extends_a_lease";
    let mut tally = Tally::new(RING, test);
    let tools = Bench::new();
    let preload = clock(&tools);
    let [past, future] = CLOCKS.map(|clock| at(&preload, clock));
    let (here, past, future) = (vec!["env"], words(&past), words(&future));
    for (makes, looks) in [
        (&here, &past),
        (&here, &future),
        (&past, &here),
        (&past, &future),
        (&future, &here),
        (&future, &past),
    ] {
        let bench = Bench::new();
        live_under(&bench, makes, looks);
        expire_under(&bench, makes, looks);
        tally.tried(2, "leases between different wall clocks");
    }
}

fn time_namespaces() -> bool {
    let tried = std::process::Command::new("unshare").args(["--time", "--fork", "true"]).output();
    let works = tried.is_ok_and(|output| output.status.success());
    allows(works, "time namespaces", "TENURE_WITHOUT_ROOT")
}

#[test]
fn race_48_e1_a_time_namespace_neither_ends_nor_extends_a_lease() {
    if !allows_root() || !time_namespaces() {
        return;
    }
    let test = "race_48_e1_a_time_namespace_neither_ends_nor_extends_a_lease";
    let mut tally = Tally::new(RING, test);
    for offset in ["1000000", "86400", "-60"] {
        let inside = ["unshare", "--time", "--fork", "--boottime", offset, "--monotonic", offset];
        for (makes, looks) in [(&inside[..], &["env"][..]), (&["env"], &inside)] {
            let bench = Bench::new();
            assert!(bench.tenure(makes, &LEASE).is_done());
            let left = bench.lease(looks)["expires_in_ms"].as_u64().unwrap();
            assert!((3_500_000..=3_600_000).contains(&left), "{left} ms left, offset {offset}");
            let busy = bench.tenure(looks, &["run", "--wait", "0", "t", "--", "true"]);
            assert_eq!(busy.code, Some(75), "offset {offset}: {busy:?}");
            let renewed = bench.tenure(looks, &["lease", "renew", "t", "--token", TOKEN]);
            assert!(renewed.is_done(), "offset {offset}: {renewed:?}");
            tally.tried(1, "leases across time namespaces");
        }
    }
}

/// A machine that slept: the boot clock went on, the monotonic clock stood still. Made with a time
/// namespace whose offset is hidden, so that it passes for time that went by.
fn slept(clock: &str, seconds: &str) -> Vec<String> {
    let hide = "mkdir /dev/shm/$$; cat /proc/sys/kernel/random/boot_id >/dev/shm/$$/id; \
                mount -t tmpfs none /proc; mkdir -p /proc/sys/kernel/random; \
                cp /dev/shm/$$/id /proc/sys/kernel/random/boot_id; rm -r /dev/shm/$$; exec \"$@\"";
    let words = ["unshare", "--time", "--mount", "--fork", clock, seconds, "sh", "-c", hide, "sh"];
    words.map(str::to_owned).to_vec()
}

#[test]
fn race_48_e1_a_lease_counts_the_time_asleep_and_no_other_clock() {
    if !allows_root() || !time_namespaces() {
        return;
    }
    let test = "race_48_e1_a_lease_counts_the_time_asleep_and_no_other_clock";
    let mut tally = Tally::new(RING, test);
    for (clock, seconds, runs) in [
        ("--boottime", "3400", true),
        ("--boottime", "3700", false),
        ("--monotonic", "3700", true),
        ("--monotonic", "1000000", true),
    ] {
        let bench = Bench::new();
        assert!(bench.tenure(&["env"], &LEASE).is_done());
        let later = slept(clock, seconds);
        let shown = bench.lease(&words(&later));
        assert_eq!(shown["leased"], runs, "{clock} {seconds}: {shown}");
        let comes = bench.tenure(&words(&later), &OTHER_LEASE);
        assert_eq!(comes.code, Some(if runs { 75 } else { 0 }), "{clock} {seconds}: {comes:?}");
        // A lock does not end by time, however long it lasts.
        let other = Bench::new();
        let _holder = other.holder(&["env"]);
        let busy = other.tenure(&words(&later), &["run", "--wait", "0", "t", "--", "true"]);
        assert_eq!(busy.code, Some(75), "{clock} {seconds}: {busy:?}");
        tally.tried(3, "commands after a sleep of the machine");
    }
}
