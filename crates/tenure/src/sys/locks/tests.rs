//! The lines of `/proc/locks`.

use super::*;

#[test]
fn holders_and_waiters_are_told_apart() {
    let file = FileId { dev: number(0xfe, 1), ino: 10_256_433 };
    let held = parse("1: FLOCK  ADVISORY  WRITE 22493 fe:01:10256433 0 EOF");
    assert_eq!(held, Some(KernelLock { waiting: false, exclusive: true, pid: 22493, file }));
    let waits = parse("1: -> FLOCK  ADVISORY  READ 22494 fe:01:10256433 0 EOF");
    assert_eq!(waits, Some(KernelLock { waiting: true, exclusive: false, pid: 22494, file }));
}

#[test]
fn other_kinds_of_locks_and_garbage_are_skipped() {
    let others = [
        "2: POSIX  ADVISORY  WRITE 42 08:01:131 0 EOF",
        "3: OFDLCK ADVISORY  READ -1 00:31:7 0 EOF",
        "4: LEASE  ACTIVE    READ 42 08:01:131 0 EOF",
        "",
        "FLOCK",
        "5: FLOCK  ADVISORY  WRITE x 08:01:131 0 EOF",
    ];
    for line in others {
        assert_eq!(parse(line), None, "{line}");
    }
}
