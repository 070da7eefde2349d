//! What a person at a terminal sees, and a program does not.

use std::io::BufRead;
use std::time::{Duration, Instant};

use crate::bench::{Bench, terminal};

#[test]
fn a_long_wait_is_explained_once() {
    let bench = Bench::new();
    let holder = bench.holder(&["--label", "slow build"], "x");
    let (mut screen, slave) = terminal();
    let args = ["run", "--wait", "forever", "x", "--", "sh", "-c", "echo done >&2"];
    let mut waiter = bench.command(&args).with_stderr(slave).spawn();
    let mut line = String::new();
    screen.read_line(&mut line).unwrap();
    for part in ["tenure: waiting for", "slow build", &format!("pid {}", holder.pid())] {
        assert!(line.contains(part), "no {part} in {line}");
    }
    assert!(line.contains("; waits without a limit (--wait)"), "{line}");
    holder.end().ok();
    let mut line = String::new();
    screen.read_line(&mut line).unwrap();
    assert_eq!(line.trim_end(), "done");
    assert!(waiter.wait().unwrap().success());
}

/// Unlike flock(1), which waits for ever, a command gives up; the first line says when.
#[test]
fn the_first_waiting_line_says_when_it_gives_up() {
    let bench = Bench::new();
    let holder = bench.holder(&[], "x");
    let (mut screen, slave) = terminal();
    let args = ["run", "--wait", "1500ms", "x", "--", "true"];
    let mut waiter = bench.command(&args).with_stderr(slave).spawn();
    let mut line = String::new();
    screen.read_line(&mut line).unwrap();
    assert!(line.contains("; gives up after 1.5s at "), "{line}");
    assert!(line.trim_end().ends_with(" (--wait)"), "{line}");
    assert_eq!(waiter.wait().unwrap().code(), Some(75));
    holder.end().ok();
}

#[test]
fn a_program_gets_no_notice() {
    let bench = Bench::new();
    let holder = bench.holder(&[], "x");
    let started = Instant::now();
    let ran = bench.tenure(&["doc", "set", "x", "1", "--wait", "1s"]).exits(75);
    assert!(
        started.elapsed() >= Duration::from_secs(1),
        "a person would have got the notice by then"
    );
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    holder.end().ok();
}

#[test]
fn who_is_a_table() {
    let bench = Bench::new();
    let holder = bench.holder(&["--label", "why"], "x");
    let (mut screen, slave) = terminal();
    let mut who = bench.command(&["who"]).with_stdout(slave).spawn();
    let (mut headings, mut row) = (String::new(), String::new());
    screen.read_line(&mut headings).unwrap();
    screen.read_line(&mut row).unwrap();
    assert!(who.wait().unwrap().success());
    for heading in ["TARGET", "KIND", "PID", "FENCE", "SINCE", "WAIT"] {
        assert!(headings.contains(heading), "{headings}");
    }
    let column = headings.find("KIND").unwrap();
    assert_eq!(&row[column..column + 4], "lock");
    assert!(row.contains("why"), "{row}");
    holder.end().ok();
}
