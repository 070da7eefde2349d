//! Process numbers that are reused, in a PID namespace where that can be forced.

use tenure_proof::machine::allows_root;
use tenure_proof::{Form, Tally, bounded};

use crate::RING;
use crate::bench::Bench;

const OWN_PIDS: [&str; 4] = ["unshare", "--pid", "--fork", "--mount-proc"];

/// Defines `as_pid NUMBER COMMAND...`: starts the command in the background with exactly that number.
const AS_PID: &str = r#"
as_pid() {
    number=$1; shift
    while :; do
        echo $((number - 1)) >/proc/sys/kernel/ns_last_pid
        "$@" & [ $! = "$number" ] && return
        kill -9 $!
    done
}
"#;

/// The holder dies and another process gets its number; the next process gets the lock at once.
/// Then the new holder itself gets the number of a dead holder.
const LOCK: &str = r#"
"$1" run --close t -- sh -c 'echo $PPID >pid; exec sleep 100' &
while [ ! -s pid ]; do :; done
dead=$(cat pid)
kill -9 "$dead"; wait "$dead" 2>/dev/null
as_pid "$dead" sleep 100
"$1" run --wait 0 t -- true; echo "after a stranger: $?"
kill -9 "$dead"; wait "$dead" 2>/dev/null
as_pid "$dead" "$1" run --wait 0 t -- true
wait "$dead"; echo "with its number: $?"
"#;

/// A lease outlives its process: no other process with its number, old or new, has it.
const LEASE: &str = r#"
"$1" lease acquire t --ttl 1h --token 0123456789abcdef0123456789abcdef >out &
dead=$!; wait "$dead"
as_pid "$dead" sleep 100
"$1" lease acquire t --ttl 1h --wait 0 2>/dev/null; echo "a newcomer: $?"
kill -9 "$dead"; wait "$dead" 2>/dev/null
as_pid "$dead" "$1" lease acquire t --ttl 1h --wait 0 2>/dev/null
wait "$dead"; echo "with its number: $?"
"$1" lease release t --token 0123456789abcdef0123456789abcdef; echo "the holder: $?"
"#;

/// The old way, with the same deaths: the number in the file is alive again, and no process gets
/// the lock.
const PID_FILE: &str = r#"
mkfifo in; "$2" broken-pid-file lock <in >out & dead=$!
exec 3>in
while [ ! -s out ]; do :; done
kill -9 "$dead"; wait "$dead" 2>/dev/null
as_pid "$dead" sleep 100
"$2" broken-pid-file lock </dev/null
"#;

fn run(bench: &Bench, script: &str) -> String {
    let ended = bounded::run(bench.script(&OWN_PIDS, &format!("{AS_PID}{script}")));
    assert!(ended.is_done() || !ended.stdout.is_empty(), "{ended:?}");
    ended.stdout
}

#[test]
fn race_07_g1_a_recycled_process_number_neither_keeps_nor_gives_a_lock() {
    if !allows_root() {
        return;
    }
    let test = "race_07_g1_a_recycled_process_number_neither_keeps_nor_gives_a_lock";
    let mut tally = Tally::new(RING, test);
    for _ in 0..Form::asked().pick(3, 50) {
        let said = run(&Bench::new(), LOCK);
        assert_eq!(said, "after a stranger: 0\nwith its number: 0\n");
        tally.tried(2, "recycled process numbers and a lock");
    }
}

#[test]
fn race_07_g3_a_recycled_process_number_neither_ends_nor_inherits_a_lease() {
    if !allows_root() {
        return;
    }
    let test = "race_07_g3_a_recycled_process_number_neither_ends_nor_inherits_a_lease";
    let mut tally = Tally::new(RING, test);
    for _ in 0..Form::asked().pick(3, 50) {
        let said = run(&Bench::new(), LEASE);
        assert_eq!(said, "a newcomer: 75\nwith its number: 75\nthe holder: 0\n");
        tally.tried(2, "recycled process numbers and a lease");
    }
}

#[test]
fn race_07_the_old_way_is_found_out() {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "race_07_the_old_way_is_found_out");
    assert_eq!(run(&Bench::new(), PID_FILE), "busy\n", "it is not held");
    tally.caught("a lock file with a process number in it");
}
