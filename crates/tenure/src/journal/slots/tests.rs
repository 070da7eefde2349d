//! Which of the four slots counts.

use super::super::head::Head;
use super::super::wal::tests::MemoryFile;
use super::*;

const BOOT: [u8; 16] = [7; 16];
const BOOT_BEFORE: [u8; 16] = [6; 16];

/// A log whose slots were written in this order.
struct Log {
    file: MemoryFile,
    head: Head,
}

impl Default for Log {
    fn default() -> Self {
        let (end, applied_end) = (ENTRIES_AT, ENTRIES_AT);
        let head = Head { first_number: 1, end, applied_end, ..Head::default() };
        Self { file: MemoryFile::default(), head }
    }
}

impl Log {
    /// In this boot, with `epoch` to know it by.
    fn anchor(&mut self, boot: [u8; 16], epoch: u64) {
        (self.head.boot, self.head.epoch) = (boot, epoch);
        self.head.anchor(&self.file).unwrap();
    }

    fn hint(&mut self, boot: [u8; 16], epoch: u64) -> Mark {
        (self.head.boot, self.head.epoch) = (boot, epoch);
        self.head.store(&self.file).unwrap()
    }

    fn slots(&self) -> Slots {
        Slots::read(&self.file, Vec::new()).unwrap()
    }

    fn found(&self) -> Loaded {
        self.slots().head(BOOT)
    }

    /// The epoch of the head that counts.
    fn epoch(&self) -> Option<u64> {
        match self.found() {
            Loaded::Head(head) => Some(head.epoch),
            _ => None,
        }
    }

    fn damage(&self, at: usize) {
        let byte = self.file.bytes()[at];
        self.file.write_all(&[byte ^ 1], at);
    }

    /// Writes a slot of another version, with a checksum that fits.
    fn put_version(&self, at: usize, major: u16, sound: bool) {
        let mut slot = self.file.bytes()[at..at + SLOT_BYTES].to_vec();
        slot[6..8].copy_from_slice(&major.to_le_bytes());
        let sum = checksum::of(&slot[..CHECKSUM_AT]) ^ u64::from(!sound);
        slot[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        self.file.write_all(&slot, at);
    }
}

#[test]
fn j1_slots_are_where_the_format_says_and_written_in_turn() {
    let mut log = Log::default();
    let mut written = Vec::new();
    for epoch in 1..=4 {
        log.anchor(BOOT, epoch);
        written.push(log.file.last_write());
        log.hint(BOOT, epoch);
        written.push(log.file.last_write());
    }
    let starts: Vec<u64> = written.iter().map(|(at, _)| *at).collect();
    assert_eq!(starts, [4096, 8192, 0, 8192, 4096, 8192, 0, 8192], "each hint has an even turn");
    assert!(written.iter().all(|(_, len)| *len == 1024));
    log.hint(BOOT, 5);
    assert_eq!(log.file.last_write(), (9216, 1024));
    log.hint(BOOT, 6);
    assert_eq!(log.file.last_write(), (8192, 1024));
    assert_eq!((log.head.turn, log.head.anchors), (10, 4));
}

#[test]
fn j1_an_anchor_is_unsynced_and_no_longer_unanchored() {
    let mut log = Log::default();
    log.head.unanchored = Some(super::super::head::Unanchored { base: 1, index_len: 1 });
    log.hint(BOOT, 1);
    let Loaded::Head(head) = log.found() else { panic!("a head") };
    assert!(head.unanchored.is_some() && !head.unsynced);
    log.anchor(BOOT, 2);
    let Loaded::Head(head) = log.found() else { panic!("a head") };
    assert!(head.unanchored.is_none() && head.unsynced);
}

#[test]
fn j1_the_newest_valid_slot_of_this_boot_counts() {
    let mut log = Log::default();
    assert!(matches!(log.found(), Loaded::Empty));
    for epoch in 1..=3 {
        log.anchor(BOOT, epoch * 10);
        assert_eq!(log.epoch(), Some(epoch * 10));
        log.hint(BOOT, epoch * 10 + 1);
        assert_eq!(log.epoch(), Some(epoch * 10 + 1));
        log.hint(BOOT, epoch * 10 + 2);
        assert_eq!(log.epoch(), Some(epoch * 10 + 2));
    }
    // Turns 7 (anchor), 8 (hint at 8192), 9 (hint at 9216): each torn leaves the one before.
    for (at, left) in [(9216, 31), (8192, 30), (4096, 20)] {
        log.damage(at + 100);
        assert_eq!(log.epoch(), Some(left));
    }
    log.damage(100);
    assert!(matches!(log.found(), Loaded::Garbage), "nothing is valid, but something is there");
}

#[test]
fn j1_a_head_that_does_not_add_up_is_none() {
    let changes: [fn(&mut Head); 5] = [
        |head| head.first_number = 0,
        |head| head.applied = 1,
        |head| head.applied_end = ENTRIES_AT - 1, // What is written there would overwrite the slots.
        |head| (head.applied_end, head.end) = (ENTRIES_AT - 1, ENTRIES_AT - 1),
        |head| head.applied_end = ENTRIES_AT + 1,
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut log = Log::default();
        log.hint(BOOT, 1);
        change(&mut log.head);
        log.hint(BOOT, 2);
        assert_eq!(log.epoch(), Some(1), "{at}");
    }
}

#[test]
fn j1_after_a_restart_the_newest_anchor_counts() {
    let mut log = Log::default();
    log.head.generation = 5;
    log.anchor(BOOT_BEFORE, 1);
    log.head.next_seq = 20;
    log.anchor(BOOT_BEFORE, 2);
    log.head.next_seq = 30;
    log.hint(BOOT_BEFORE, 3);
    let Loaded::Head(head) = log.found() else { panic!("a head") };
    assert_eq!((head.epoch, head.next_seq, head.turn), (2, 30, 3), "no number is given out twice");
    // A hint of another generation knows nothing of these numbers.
    (log.head.generation, log.head.next_seq) = (6, 40);
    log.hint(BOOT_BEFORE, 4);
    let Loaded::Head(head) = log.found() else { panic!("a head") };
    assert_eq!((head.epoch, head.next_seq, head.turn), (2, 20, 4));
    // One that knows less takes nothing back.
    (log.head.generation, log.head.next_seq) = (5, 10);
    log.hint(BOOT_BEFORE, 5);
    let Loaded::Head(head) = log.found() else { panic!("a head") };
    assert_eq!((head.epoch, head.next_seq, head.turn), (2, 20, 5));
    // The newest anchor is torn, then both: hints alone are not believed.
    log.damage(100);
    assert_eq!(log.epoch(), Some(1));
    log.damage(4096 + 100);
    assert!(matches!(log.found(), Loaded::Garbage));
    // In the boot that wrote them they are.
    assert!(matches!(log.slots().head(BOOT_BEFORE), Loaded::Head(head) if head.epoch == 5));
}

#[test]
fn a_slot_of_a_newer_version_is_not_touched_and_one_of_an_older_does_not_count() {
    for at in [0, 4096, 8192, 9216] {
        let mut log = Log::default();
        log.anchor(BOOT, 1);
        log.anchor(BOOT, 2);
        log.hint(BOOT, 3);
        log.hint(BOOT, 4);
        log.put_version(at, MAJOR + 1, true);
        assert!(matches!(log.found(), Loaded::Newer(major) if major == MAJOR + 1), "at {at}");
        log.put_version(at, MAJOR + 1, false);
        let left = if at == 8192 { 3 } else { 4 };
        assert_eq!(log.epoch(), Some(left), "a torn one says nothing, at {at}");
        log.put_version(at, MAJOR - 1, true);
        assert_eq!(log.epoch(), Some(left), "at {at}");
        log.file.write_all(b"tenwol", at);
        log.put_version(at, MAJOR + 1, true);
        assert_eq!(log.epoch(), Some(left), "not a slot at all, at {at}");
        log.put_version(at, MAJOR, true);
        assert_eq!(log.epoch(), Some(left), "at {at}");
    }
}

#[test]
fn j1_a_single_byte_is_something() {
    for at in [0, 1023, 4096, 8192, 9216, 10239] {
        let log = Log::default();
        log.file.write_all(&[1], at);
        assert!(matches!(log.found(), Loaded::Garbage), "at {at}");
    }
    let log = Log::default();
    log.file.write_all(&[1], 10240);
    assert!(matches!(log.found(), Loaded::Empty), "that is behind the slots");
}

#[test]
fn a_head_is_known_again_by_its_hint_while_nobody_has_written_a_slot() {
    let mut log = Log::default();
    log.anchor(BOOT, 1);
    let first = log.hint(BOOT, 2);
    assert!(log.slots().end_with(first));
    let second = log.hint(BOOT, 2);
    assert!(log.slots().end_with(second) && !log.slots().end_with(first));
    // The same turn by somebody else.
    let other = Mark { sum: second.sum ^ 1, ..second };
    assert!(!log.slots().end_with(other));
    log.anchor(BOOT, 3);
    assert!(!log.slots().end_with(second), "an anchor is newer");
    // An anchor is not recognised, however new it is.
    let anchor = Mark::of(&log.file.bytes()[..SLOT_BYTES]);
    assert_eq!(anchor.turn, 4);
    assert!(!log.slots().end_with(anchor));
}

#[test]
fn what_was_read_before_does_not_show_through_a_shorter_log() {
    let mut log = Log::default();
    log.anchor(BOOT, 1);
    log.hint(BOOT, 2);
    let room = log.slots().into_room();
    assert_eq!(room.len(), ALL_BYTES);
    let cut = MemoryFile::default();
    cut.write_all(&log.file.bytes()[..4096], 0);
    assert!(matches!(Slots::read(&cut, room).unwrap().head(BOOT), Loaded::Empty));
}
