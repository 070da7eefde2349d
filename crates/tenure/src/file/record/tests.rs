//! Records as they are on the disk.

use super::*;

fn sample() -> Record {
    Record {
        seq: 7,
        fence: 11,
        ceiling: 1035,
        confirmed: 1035,
        state: State::Leased,
        left: true,
        journal: true,
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
        pending: (9, [2; 16]),
        holder: HolderText::this_process("a \"b\"", ""),
        fence_published: false,
    }
}

#[test]
fn r1_a_record_reads_back_as_it_was_written() {
    for flags in 0..24 {
        let [left, journal, numbered] = [1, 2, 4].map(|flag| flags & flag != 0);
        let synced = [Synced::Unknown, Synced::No, Synced::Yes][flags / 8];
        let published = Published { numbered, synced, ..sample().published };
        // Of every length, which stands right behind the flags.
        let holder = HolderText::this_process(&"x".repeat(flags), "");
        let record = Record { left, journal, published, holder, ..sample() };
        assert_eq!(Record::decode(&record.encode()), Some(record));
    }
}

#[test]
fn r1_any_flipped_bit_makes_a_slot_invalid() {
    let slot = sample().encode();
    for bit in 0..slot.len() * 8 {
        let mut flipped = slot;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Record::decode(&flipped), None, "bit {bit}");
    }
}

#[test]
fn an_overlong_holder_still_fits_the_slot() {
    let long = "\u{1F600}\"\\".repeat(400);
    let record = Record { holder: HolderText::this_process(&long, &long), ..sample() };
    let read = Record::decode(&record.encode()).map(|record| record.holder());
    assert_eq!(read.map(|holder| holder.pid), Some(std::process::id()));
}
