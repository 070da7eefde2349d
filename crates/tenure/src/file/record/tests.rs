//! Records as they are on the disk.

use std::sync::Arc;

use super::*;
use crate::fs::Access;
use crate::sys::disk;

/// A file without a name, for the test of this name.
fn file(name: &str) -> Arc<dyn Handle> {
    let name = format!("tenure-record-{}-{name}", std::process::id());
    let path = std::env::temp_dir().canonicalize().unwrap().join(name);
    let file = disk().open(&path, Access::Create(0o600)).unwrap();
    disk().remove(&path).unwrap();
    file
}

fn load(file: &Arc<dyn Handle>) -> (Record, bool) {
    Record::load(file.as_ref(), Path::new("record")).unwrap()
}

/// Writes the record into both slots.
fn store(file: &Arc<dyn Handle>, record: &mut Record) {
    record.store(file.as_ref()).unwrap();
    record.store(file.as_ref()).unwrap();
}

fn sample() -> Record {
    Record {
        seq: 7,
        fence: 11,
        ceiling: 1035,
        confirmed: 1035,
        state: State::Leased,
        left: true,
        journal: true,
        history: 9,
        since_us: 1_700_000_000_000_000,
        boot: [3; 16],
        file: FileId { dev: 5, ino: 9 },
        file_born_us: 12,
        written_us: 13,
        lease: LeaseTerms { token: [8; 16], ttl_us: 60_000_000, expires_us: 99 },
        published: Published {
            generation: 4,
            checksum: [6; 16],
            tag: 7,
            synced: Synced::Yes,
            numbered: true,
            boot: [1; 16],
        },
        pending: Pending { id: 9, checksum: [2; 16] },
        holder: HolderText::this_process("a \"b\"", ""),
        fence_published: false,
    }
}

#[test]
fn r1_a_record_reads_back_as_it_was_written() {
    let file = file("back");
    for flags in 0..24 {
        let [left, journal, numbered] = [1, 2, 4].map(|flag| flags & flag != 0);
        let synced = [Synced::Unknown, Synced::No, Synced::Yes][flags / 8];
        let published = Published { numbered, synced, ..sample().published };
        // Of every length, which is right after the flags.
        let holder = HolderText::this_process(&"x".repeat(flags), "");
        let mut record = Record { left, journal, published, holder, ..sample() };
        store(&file, &mut record);
        assert_eq!(load(&file), (record, false));
    }
}

#[test]
fn r1_any_flipped_bit_makes_a_slot_invalid() {
    let file = file("flipped");
    let mut record = Record { seq: 0, ..sample() };
    record.store(file.as_ref()).unwrap();
    let slot = file.read_range(8192, 8192 + 1024).unwrap();
    for bit in 0..slot.len() * 8 {
        let (at, byte) = (8192 + bit as u64 / 8, slot[bit / 8]);
        file.write_all_at(&[byte ^ 1 << (bit % 8)], at).unwrap();
        assert_eq!(load(&file), (Record::default(), true), "bit {bit}");
        file.write_all_at(&[byte], at).unwrap();
    }
    assert_eq!(load(&file), (record, false));
}

#[test]
fn an_overlong_holder_still_fits_the_slot() {
    let (file, long) = (file("overlong"), "\u{1F600}\"\\".repeat(400));
    let mut record = Record { holder: HolderText::this_process(&long, &long), ..sample() };
    store(&file, &mut record);
    assert_eq!(load(&file).0.holder().pid, std::process::id());
}
