//! The index by itself: its bytes as docs/FORMAT.md has them, groups that count, and finding a number.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::fs::{Mode, RawHandle, Stat, disk};

const TITLE: Title = Title {
    generation: 77,
    journal: FileId { dev: 5, ino: 6 },
    first_seq: 40,
    header: Header { len: 9, sum: 0x1234 },
    archive: 3,
};
const EPOCH: u64 = 12;

/// An index in a directory of its own.
struct Place {
    dir: PathBuf,
    target: Target,
}

impl Place {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tenure-index-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().canonicalize().unwrap().join(name);
        let _ = std::fs::remove_dir_all(&dir); // Of an earlier process with our number.
        std::fs::create_dir(&dir).unwrap();
        let target = Target::resolve(&disk(), &dir.join("data")).unwrap();
        Self { dir, target }
    }

    fn path(&self) -> PathBuf {
        self.dir.join("index")
    }

    fn file(&self) -> Arc<dyn Handle> {
        disk().open(&self.path(), Access::Create(0o600)).unwrap()
    }

    fn begin(&self) -> Index {
        Index::begin(self.file(), TITLE).unwrap()
    }

    /// An index with these records.
    fn with(&self, records: &[Record]) -> Index {
        let index = self.begin();
        index.append(0, records).unwrap();
        index
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.path()).unwrap()
    }

    fn alter(&self, at: usize) {
        let byte = self.bytes()[at];
        self.file().write_all_at(&[byte ^ 1], at as u64).unwrap();
    }

    fn open(&self) -> Result<Option<Index>> {
        Index::open(&self.target, &self.path(), Access::Read)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Record `number` of many: ten lines, and a gap of ten numbers behind them.
fn record(number: u64) -> Record {
    let segment = Segment {
        start: number * 100,
        end: number * 100 + 90,
        seq: 1 + number * 20,
        lines: 10,
        foreign: 4,
        sum: 1000 + number,
    };
    Record { segment, epoch: EPOCH, reach: 0, number: 0 }
}

fn many(count: u64) -> Vec<Record> {
    (0..count).map(record).collect()
}

/// The same as one complete group.
fn group(count: u64) -> Vec<Record> {
    let mut records = many(count);
    let last = records.last_mut().unwrap();
    (last.reach, last.number) = (5000, 600);
    records
}

fn number_at(bytes: &[u8], at: usize) -> u64 {
    Take::new(&bytes[at..]).u64()
}

fn reseal(bytes: &mut [u8]) {
    let sum = checksum::of(&bytes[..HEADER_LEN - 8]);
    bytes[HEADER_LEN - 8..HEADER_LEN].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn the_title_is_where_the_format_says_and_reads_back() {
    let place = Place::new();
    assert!(place.open().unwrap().is_none(), "there is none");
    place.begin();
    let bytes = place.bytes();
    assert_eq!((bytes.len(), &bytes[..8]), (128, &b"tenidx\x01\0"[..]));
    let numbers = [8, 16, 24, 32, 40, 48, 56].map(|at| number_at(&bytes, at));
    assert_eq!(numbers, [77, 5, 6, 40, 9, 3, 0x1234]);
    assert_eq!(bytes[64..120], [0; 56]);
    assert_eq!(number_at(&bytes, 120), checksum::of(&bytes[..120]));
    assert_eq!(place.open().unwrap().unwrap().title, TITLE);
}

#[test]
fn j4_what_is_not_whole_is_no_index() {
    let place = Place::new();
    place.begin();
    for at in 0..HEADER_LEN {
        place.alter(at);
        assert!(place.open().unwrap().is_none(), "byte {at}");
        place.alter(at);
    }
    let file = place.file();
    file.set_len(127).unwrap();
    assert!(place.open().unwrap().is_none(), "cut");
    // A shorter title whose checksum would fit is none either.
    let mut zeros = vec![0; HEADER_LEN];
    reseal(&mut zeros);
    file.write_all_at(&zeros, 0).unwrap();
    assert!(place.open().unwrap().is_none(), "another magic");
}

#[test]
fn a_newer_format_and_an_index_that_cannot_be_opened_are_errors() {
    let place = Place::new();
    place.begin();
    let mut bytes = place.bytes();
    bytes[6] = 2;
    reseal(&mut bytes);
    place.file().write_all_at(&bytes, 0).unwrap();
    assert_eq!(place.open().unwrap_err().kind(), ErrorKind::NewerFormat);
    std::fs::remove_file(place.path()).unwrap();
    std::fs::create_dir(place.path()).unwrap();
    place.open().unwrap_err();
}

#[test]
fn j4_a_record_is_where_the_format_says_and_any_altered_byte_or_generation_makes_it_invalid() {
    let place = Place::new();
    let last = Record { reach: 8, number: 9, ..record(1) };
    let index = place.with(&[record(0), last]);
    let bytes = place.bytes();
    assert_eq!(bytes.len(), 128 + 2 * 72);
    let second = &bytes[200..];
    assert_eq!([0, 8, 16].map(|at| number_at(second, at)), [100, 190, 21]);
    assert_eq!((&second[24..28], &second[28..32]), (&[10, 0, 0, 0][..], &[4, 0, 0, 0][..]));
    assert_eq!([32, 40, 48, 56].map(|at| number_at(second, at)), [1001, EPOCH, 8, 9]);
    assert_eq!(index.records(0, 9).unwrap(), [Some(record(0)), Some(last)]);
    for at in 200..272 {
        place.alter(at);
        assert_eq!(index.records(0, 9).unwrap(), [Some(record(0)), None], "byte {at}");
        assert_eq!(index.record(1).unwrap(), None);
        place.alter(at);
    }
    let title = Title { generation: 78, ..TITLE };
    let other = Index { title, ..index };
    assert_eq!(other.records(0, 9).unwrap(), [None, None]);
}

#[test]
fn records_are_read_up_to_a_limit_and_whole() {
    let place = Place::new();
    let index = place.with(&many(70));
    assert_eq!(index.capacity().unwrap(), 70);
    assert_eq!(index.records(0, 100).unwrap().len(), 64, "no more in one read");
    assert_eq!(index.records(3, 2).unwrap(), [Some(record(3)), Some(record(4))]);
    assert_eq!(index.records(68, 64).unwrap(), [Some(record(68)), Some(record(69))]);
    assert!(index.records(70, 64).unwrap().is_empty());
    assert_eq!(index.record(69).unwrap(), Some(record(69)));
    assert_eq!(index.record(70).unwrap(), None);
    index.file.set_len(offset_of(70) - 1).unwrap();
    assert_eq!(index.records(68, 64).unwrap(), [Some(record(68))]);
    assert_eq!(index.capacity().unwrap(), 69);
    index.file.set_len(offset_of(0)).unwrap();
    assert_eq!(index.capacity().unwrap(), 0);
    index.file.set_len(5).unwrap();
    assert_eq!(index.capacity().unwrap(), 0);
}

#[test]
fn a_group_goes_behind_the_records_that_count_and_nothing_stays_behind_it() {
    let place = Place::new();
    let index = place.with(&many(9));
    index.write(2, &[record(50), record(51)]).unwrap();
    let expected = [0, 1, 50, 51].map(|number| Some(record(number)));
    assert_eq!(index.records(0, 64).unwrap(), expected);
    assert_eq!(place.bytes().len(), 128 + 4 * 72);
    index.append(4, &[record(52)]).unwrap();
    assert_eq!(index.capacity().unwrap(), 5);
    index.cut(5).unwrap();
    assert_eq!(index.capacity().unwrap(), 5, "there is nothing to cut");
    index.cut(6).unwrap();
    assert_eq!(index.capacity().unwrap(), 5, "a file is not made longer");
    index.cut(1).unwrap();
    assert_eq!((place.bytes().len(), index.record(0).unwrap()), (200, Some(record(0))));
}

#[test]
fn j5_a_group_counts_if_it_is_complete_and_of_the_epoch() {
    for (before, count) in [(0, 1), (0, 2), (3, 64), (3, 65), (60, 10), (1, 130)] {
        let place = Place::new();
        let index = place.with(&many(before));
        index.append(before, &group(count)).unwrap();
        let len = before + count;
        let next_seq = record(count - 1).segment.next_seq();
        let whole = Group { len, reach: 5000, number: 600, next_seq };
        assert_eq!(index.group_behind(before, EPOCH).unwrap(), Some(whole), "{count}");
        assert_eq!(index.group_behind(before, EPOCH + 1).unwrap(), None, "of another epoch");
        assert_eq!(index.group_behind(len, EPOCH).unwrap(), None, "nothing is behind it");
        // What is behind it does not belong to it.
        index.append(len, &group(2)).unwrap();
        assert_eq!(index.group_behind(before, EPOCH).unwrap(), Some(whole), "{count}");
        index.cut(len - 1).unwrap();
        assert_eq!(index.group_behind(before, EPOCH).unwrap(), None, "its end is missing");
    }
}

#[test]
fn j5_a_group_with_a_record_that_is_damaged_or_of_another_epoch_does_not_count() {
    let place = Place::new();
    let mut records = group(3);
    let index = place.with(&records);
    for at in 0..3 {
        let byte = 128 + at * 72;
        place.alter(byte);
        assert_eq!(index.group_behind(0, EPOCH).unwrap(), None, "record {at}");
        place.alter(byte);
        records[at].epoch += 1;
        index.append(0, &records).unwrap();
        assert_eq!(index.group_behind(0, EPOCH).unwrap(), None, "record {at}");
        records[at].epoch -= 1;
        index.append(0, &records).unwrap();
    }
    // A journal of one byte is one.
    (records[2].reach, records[2].number) = (1, 1);
    index.append(0, &records).unwrap();
    assert_eq!(index.group_behind(0, EPOCH).unwrap().unwrap().reach, 1);
    // Records may be in any order of their places; the largest number counts.
    records[0].segment.seq = 900;
    index.append(0, &records).unwrap();
    assert_eq!(index.group_behind(0, EPOCH).unwrap().unwrap().next_seq, 910);
}

#[test]
fn a_number_is_found_in_its_record_or_in_the_first_one_behind_it() {
    for count in [0, 1, 2, 64, 65, 200] {
        let place = Place::new();
        let index = place.with(&many(count));
        // Around the first number, the last one and the gap of every record.
        for seq in (0..=count).flat_map(|at| [0, 1, 10, 11].map(|more| at * 20 + more)) {
            let expected = (0..count).find(|at| record(*at).segment.next_seq() > seq);
            let found = index.find(count, seq).unwrap();
            assert_eq!(found, expected.unwrap_or(count), "{seq} in {count}");
        }
    }
}

#[test]
fn records_that_do_not_count_are_not_found() {
    let place = Place::new();
    let index = place.with(&many(130));
    for len in [0, 2, 64, 100] {
        assert_eq!(index.find(len, 2500).unwrap(), len);
    }
}

#[test]
fn j4_a_damaged_record_matters_only_where_the_number_could_be_in_it() {
    let place = Place::new();
    let index = place.with(&many(9));
    let found = |seq| index.find(9, seq).map_err(|error| error.to_string());
    let damaged = |at| Err(Index::damaged(at).to_string());
    place.alter(128 + 3 * 72);
    place.alter(128 + 4 * 72);
    // Behind record 2 ends number 50, before record 5 begins 101: in between could be anything.
    for seq in (0..51).chain(101..200) {
        let expected = (0..9).find(|at| record(*at).segment.next_seq() > seq);
        assert_eq!(found(seq), Ok(expected.unwrap_or(9)), "{seq}");
    }
    for seq in 51..101 {
        assert_eq!(found(seq), damaged(3), "{seq}");
    }
    place.alter(128 + 8 * 72);
    assert_eq!((found(150), found(151), found(500)), (Ok(7), damaged(8), damaged(8)));
    // The one in the middle of many tells the way.
    let place = Place::new();
    let index = place.with(&many(100));
    place.alter(128 + 50 * 72);
    for seq in [1, 1001, 1999] {
        let error = index.find(100, seq).unwrap_err();
        assert_eq!(error.to_string(), Index::damaged(50).to_string(), "{seq}");
    }
}

/// A file whose syncs fail, with a list of what is written to it.
#[derive(Debug)]
struct Unsyncable {
    inner: Arc<dyn Handle>,
    written: Mutex<Vec<(u64, Vec<u8>)>>,
}

impl Handle for Unsyncable {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.written.lock().unwrap().push((offset, buf.to_vec()));
        self.inner.write_at(buf, offset)
    }
    fn append(&self, buf: &[u8]) -> io::Result<usize> {
        self.inner.append(buf)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::Other.into())
    }
    fn stat(&self) -> io::Result<Stat> {
        self.inner.stat()
    }
    fn try_lock(&self, mode: Mode) -> io::Result<bool> {
        self.inner.try_lock(mode)
    }
    fn lock(&self, mode: Mode) -> io::Result<()> {
        self.inner.lock(mode)
    }
    fn unlock(&self) -> io::Result<()> {
        self.inner.unlock()
    }
    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.inner.set_mode(mode)
    }
    fn copy_attributes(&self, model: &dyn Handle) -> io::Result<()> {
        self.inner.copy_attributes(model)
    }
    fn raw(&self) -> Option<RawHandle> {
        self.inner.raw()
    }
}

#[test]
fn race_54_records_that_no_anchor_counts_are_written_again() {
    let place = Place::new();
    let index = place.with(&many(9));
    let file = Arc::new(Unsyncable { inner: index.file.clone(), written: Mutex::default() });
    let unsyncable = Index { file: file.clone(), ..index };
    unsyncable.write_again(2, 5).unwrap();
    unsyncable.write_again(9, 9).unwrap();
    let again = place.bytes()[128 + 2 * 72..128 + 5 * 72].to_vec();
    assert_eq!(*file.written.lock().unwrap(), [(128 + 2 * 72, again)]);
    assert!(unsyncable.append(9, &many(1)).is_err(), "a group that is not synced is none");
}
