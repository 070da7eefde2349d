//! The chain of entries, its end, and the room that is made for it.

use std::sync::{Mutex, MutexGuard};

use super::super::entry::Kind;
use super::super::head::ENTRIES_AT;
use super::*;
use crate::fs::{FileId, Mode, RawHandle, Stat};

/// A file in memory. It tells what was done to it, and can be full, or fail to sync.
#[derive(Debug, Default)]
pub(in crate::journal) struct MemoryFile {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    /// Where and how long.
    writes: Vec<(u64, u64)>,
    reads: usize,
    longest_read: usize,
    syncs: usize,
    sync_fails: bool,
    /// No byte can be written from here on.
    full_from: Option<u64>,
}

impl MemoryFile {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(in crate::journal) fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    pub(in crate::journal) fn write_all(&self, bytes: &[u8], at: usize) {
        self.write_at(bytes, at as u64).unwrap();
    }

    pub(in crate::journal) fn last_write(&self) -> (u64, u64) {
        *self.state().writes.last().unwrap()
    }
}

impl Handle for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state();
        state.reads += 1;
        state.longest_read = state.longest_read.max(buf.len());
        let start = usize::try_from(offset).unwrap().min(state.bytes.len());
        let len = buf.len().min(state.bytes.len() - start);
        buf[..len].copy_from_slice(&state.bytes[start..start + len]);
        Ok(len)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state();
        let (start, end) = (offset, offset + buf.len() as u64);
        if state.full_from.is_some_and(|full| end > full) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.writes.push((start, end - start));
        let (start, end) = (usize::try_from(start).unwrap(), usize::try_from(end).unwrap());
        let len = state.bytes.len().max(end);
        state.bytes.resize(len, 0);
        state.bytes[start..end].copy_from_slice(buf);
        Ok(buf.len())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        state.syncs += 1;
        if state.sync_fails { Err(io::Error::other("a bad disk")) } else { Ok(()) }
    }

    fn stat(&self) -> io::Result<Stat> {
        Ok(Stat {
            id: FileId::default(),
            links: 1,
            size: self.state().bytes.len() as u64,
            mode: 0o600,
            uid: 0,
            gid: 0,
            modified_ns: 0,
            kind: crate::fs::Kind::File,
            mount_root: false,
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.state().bytes.resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn append(&self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn try_lock(&self, _: Mode) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn lock(&self, _: Mode) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn unlock(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_mode(&self, _: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn copy_attributes(&self, _: &dyn Handle) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn raw(&self) -> Option<RawHandle> {
        None
    }
}

/// A log with the head that it has in memory.
struct Log {
    file: Arc<MemoryFile>,
    wal: Wal,
    head: Head,
}

impl Log {
    fn new() -> Self {
        let file = Arc::new(MemoryFile::default());
        let head = Head {
            epoch: 3,
            salt: 99,
            first_number: 10,
            end: ENTRIES_AT,
            applied_end: ENTRIES_AT,
            room: ENTRIES_AT,
            ..Head::default()
        };
        Self { wal: Wal { file: file.clone() }, file, head }
    }

    /// Logs a payload; `counted` by the head or not.
    fn log(&mut self, payload: &[u8], kind: Kind, counted: bool) -> Entry {
        let entry = Entry {
            epoch: self.head.epoch,
            number: self.head.next_number(),
            payload_len: u32::try_from(payload.len()).unwrap(),
            kind,
            ..Entry::default()
        };
        let mut bytes = vec![0; ENTRY_BYTES];
        bytes.extend_from_slice(payload);
        self.wal.write(&mut self.head, &entry, &mut bytes).unwrap();
        if counted {
            self.head.entries += 1;
            self.head.end += entry.log_len();
        }
        entry
    }

    fn payloads(&self, offset: u64, number: u64, reach: Reach) -> Vec<String> {
        let chain = self.wal.chain(&self.head, offset, number, reach).unwrap();
        let text = |logged: Logged| String::from_utf8(logged.payload).unwrap();
        chain.into_iter().map(text).collect()
    }

    fn found(&self, reach: Reach) -> Vec<String> {
        self.payloads(ENTRIES_AT, self.head.first_number, reach)
    }
}

/// Three entries, the last of which the head does not count.
fn with_one_more(kind: Kind) -> Log {
    let mut log = Log::new();
    log.log(b"one", Kind::Durable, true);
    log.log(b"two", Kind::Direct, true);
    log.log(b"three", kind, false);
    log
}

#[test]
fn j3_a_chain_is_followed_from_any_entry_with_its_number() {
    let log = with_one_more(Kind::Durable);
    assert_eq!(log.found(Reach::Counted), ["one", "two"]);
    let second = ENTRIES_AT + 64 + 3;
    assert_eq!(log.payloads(second, 11, Reach::Counted), ["two"]);
    assert!(log.payloads(second, 10, Reach::All).is_empty(), "that is not its number");
    assert!(log.payloads(second + 1, 11, Reach::All).is_empty());
    assert!(log.payloads(log.head.end, 12, Reach::Counted).is_empty());
    assert_eq!(log.payloads(log.head.end, 12, Reach::All), ["three"]);
    assert!(log.payloads(log.head.end + 1000, 12, Reach::All).is_empty(), "behind the end");
}

#[test]
fn j3_what_the_head_counts_is_read_at_once() {
    let mut log = Log::new();
    for _ in 0..20 {
        log.log(b"entry", Kind::Durable, true);
    }
    log.file.state().reads = 0;
    assert_eq!(log.found(Reach::Counted).len(), 20);
    assert_eq!(log.file.state().reads, 2, "those, and the header behind them");
}

#[test]
fn j3_an_entry_that_is_not_counted_is_followed_if_it_is_direct_or_all_are_wanted() {
    for kind in [Kind::Durable, Kind::Foreign(5), Kind::Direct, Kind::Late(5)] {
        let log = with_one_more(kind);
        let direct = matches!(kind, Kind::Direct | Kind::Late(_));
        assert_eq!(log.found(Reach::Counted).len(), if direct { 3 } else { 2 }, "{kind:?}");
        assert_eq!(log.found(Reach::All), ["one", "two", "three"], "{kind:?}");
    }
}

#[test]
fn j2_j3_a_chain_ends_before_the_first_entry_that_is_not_valid() {
    let second = usize::try_from(ENTRIES_AT + 64 + 3).unwrap();
    for byte in 0..64 + 3 {
        let log = with_one_more(Kind::Direct);
        let was = log.file.bytes()[second + byte];
        log.file.write_all(&[was ^ 0x10], second + byte);
        for reach in [Reach::Counted, Reach::All] {
            assert_eq!(log.found(reach), ["one"], "byte {byte}");
        }
    }
}

#[test]
fn j3_entries_of_another_epoch_or_salt_end_the_chain() {
    let mut log = with_one_more(Kind::Direct);
    log.head.salt += 1;
    assert!(log.found(Reach::All).is_empty());
    let mut log = with_one_more(Kind::Direct);
    log.head.epoch += 1;
    assert!(log.found(Reach::All).is_empty());
    // A new epoch overwrites the first one and leaves the others: they are stale.
    (log.head.first_number, log.head.entries, log.head.end) = (13, 0, ENTRIES_AT);
    log.log(b"new", Kind::Durable, true);
    assert_eq!(log.found(Reach::All), ["new"]);
}

#[test]
fn j2_an_entry_that_the_file_ends_in_is_not_valid() {
    let log = with_one_more(Kind::Direct);
    let third = log.head.end;
    for (len, left) in [(64 + 5, 3), (64 + 4, 2), (64, 2), (63, 2), (0, 2)] {
        log.wal.file.set_len(third + len).unwrap();
        assert_eq!(log.found(Reach::All).len(), left, "{len} bytes of it");
    }
}

#[test]
fn an_entry_that_claims_more_than_there_is_takes_no_memory() {
    for (len, found) in [(5, 3), (6, 2), (1 << 24, 2)] {
        let log = with_one_more(Kind::Direct);
        let at = usize::try_from(log.head.end).unwrap();
        log.file.write_all(&u32::to_le_bytes(len), at + 36);
        assert_eq!(log.found(Reach::All).len(), found);
        assert!(log.file.state().longest_read < 1000, "{len}");
    }
}

/// How long the file is, and how much of it is promised to be there.
fn room(log: &Log) -> (u64, u64) {
    (log.file.bytes().len() as u64, log.head.room)
}

#[test]
fn the_log_grows_by_its_own_size_with_zeros_ahead_of_the_entries() {
    let mut log = Log::new();
    log.log(b"x", Kind::Direct, true);
    assert_eq!(room(&log), (2 * ENTRIES_AT, 2 * ENTRIES_AT));
    let pages = [(12288, 4096), (16384, 4096), (20480, 4096), (12288, 65)];
    assert_eq!(log.file.state().writes, pages);
    // Exactly full: nothing is added. A byte more: as much again.
    let rest = usize::try_from(2 * ENTRIES_AT - log.head.end).unwrap() - ENTRY_BYTES;
    log.log(&vec![b'x'; rest], Kind::Direct, true);
    assert_eq!(room(&log), (2 * ENTRIES_AT, 2 * ENTRIES_AT));
    assert_eq!(log.file.state().writes.len(), 5);
    log.log(b"", Kind::Direct, true);
    assert_eq!(room(&log), (4 * ENTRIES_AT, 4 * ENTRIES_AT));
    assert!(log.file.bytes()[usize::try_from(log.head.end).unwrap()..].iter().all(|b| *b == 0));
    // An entry that is longer than a step fills it itself.
    let writes = log.file.state().writes.len();
    let long = vec![b'x'; 1 << 20];
    log.log(&long, Kind::Direct, true);
    assert_eq!(room(&log), (log.head.end, log.head.end));
    assert_eq!(log.file.state().writes.len(), writes + 1);
    // No step is longer than 256 KiB.
    let end = log.head.end;
    log.log(b"x", Kind::Direct, true);
    assert_eq!(room(&log), (end + 256 * 1024, end + 256 * 1024));
}

#[test]
fn an_entry_as_long_as_a_step_is_laid_on_zeros_and_a_longer_one_not() {
    for (more, writes) in [(0, 4), (1, 1)] {
        let mut log = Log::new();
        let len = usize::try_from(ENTRIES_AT).unwrap() - ENTRY_BYTES + more;
        log.log(&vec![b'x'; len], Kind::Direct, true);
        assert_eq!(log.file.state().writes.len(), writes);
        let len = 2 * ENTRIES_AT + more as u64;
        assert_eq!(room(&log), (len, len));
    }
}

#[test]
fn a_log_that_claims_no_room_yet_is_given_a_page() {
    let mut log = Log::new();
    (log.head.room, log.head.end) = (100, 0);
    log.log(b"", Kind::Direct, false);
    assert!(log.file.state().writes == [(0, 64)], "it is inside of the room");
    log.head.end = 60;
    log.log(b"", Kind::Direct, false);
    assert_eq!(room(&log), (100 + 4096, 100 + 4096));
    // A step that is not made of whole pages.
    (log.head.room, log.head.end) = (5000, 5000);
    log.log(b"", Kind::Direct, false);
    assert_eq!(room(&log), (10_000, 10_000));
}

#[test]
fn a_full_disk_is_noticed_before_the_entry_is_written() {
    let mut log = Log::new();
    log.file.state().full_from = Some(ENTRIES_AT + 2 * 4096);
    let mut bytes = vec![0; ENTRY_BYTES];
    let entry = Entry { epoch: 3, number: 10, ..Entry::default() };
    let error = log.wal.write(&mut log.head, &entry, &mut bytes).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(room(&log), (ENTRIES_AT + 8192, ENTRIES_AT + 8192), "what is there is there");
    assert!(log.found(Reach::All).is_empty());
}

#[test]
fn j1_an_anchor_is_written_synced_and_followed_by_a_hint() {
    let mut log = Log::new();
    log.wal.anchor(&mut log.head).unwrap();
    assert_eq!(log.file.state().writes, [(4096, 1024), (8192, 1024)]);
    assert_eq!((log.file.state().syncs, log.head.unsynced, log.head.turn), (1, false, 2));
    log.file.state().sync_fails = true;
    log.wal.anchor(&mut log.head).unwrap_err();
    assert!(log.head.unsynced, "nobody may rely on it");
    let again = (0, log.head.end.min(log.file.bytes().len() as u64));
    assert_eq!(log.file.state().writes[2..], [(0, 1024), again]);
}
