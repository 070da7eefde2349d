//! The bytes of a slot are those of docs/FORMAT.md, and any other is not valid.

use super::super::slots::is_valid;
use super::*;

/// A head in which every number is another one.
fn head() -> Head {
    let id = |dev| FileId { dev, ino: dev + 1 };
    let operation = |id| Operation { id, first: id + 1, lines: id + 2 };
    Head {
        turn: 1,
        anchors: 2,
        epoch: 3,
        salt: 4,
        generation: 5,
        file: id(6),
        journal: id(8),
        boot: *b"0123456789abcdef",
        base: 12,
        base_seq: 13,
        first_number: 14,
        entries: 15,
        end: 16,
        applied: 17,
        applied_end: 18,
        journal_end: 19,
        next_seq: 20,
        partial: 21,
        room: 22,
        index_len: 23,
        tail_sum: 24,
        archive: 25,
        shift: Shift { number: 26, at: 27 },
        displaced: Some(Displaced { file: id(29), end: 31, archive: 32 }),
        intent: Some(Intent {
            old: id(33),
            new: id(35),
            journal_temp: 37,
            index_temp: 38,
            archive: 39,
            old_end: 40,
            new_end: 41,
            generation: 42,
            index_len: 43,
            next_seq: 44,
            operation: operation(45),
        }),
        operations: std::array::from_fn(|at| operation(48 + 3 * at as u64)),
        unanchored: Some(Unanchored { base: 72, index_len: 73 }),
        lost: Lost { first: 74, last: 75, since: 77 },
        pending_seq: 76,
        ..Head::default()
    }
}

fn number_at(slot: &[u8], at: usize) -> u64 {
    Take::new(&slot[at..]).u64()
}

#[test]
fn j1_every_field_is_where_the_format_says() {
    let slot = head().encode();
    assert_eq!(slot[..6], *b"tenwal");
    assert_eq!(slot[6..8], [1, 0]);
    let (boot, flags) = (80, 224);
    for at in (8..624).step_by(8).filter(|at| *at != boot && *at != boot + 8 && *at != flags) {
        assert_eq!(number_at(&slot, at), at as u64 / 8, "at {at}");
    }
    assert_eq!(slot[boot..boot + 16], *b"0123456789abcdef");
    assert_eq!(number_at(&slot, flags), 4 | 8 | 128, "displaced, intent and unanchored are there");
    assert!(slot[624..1016].iter().all(|byte| *byte == 0));
    assert_eq!(number_at(&slot, 1016), checksum::of(&slot[..1016]));
    assert_eq!(decode(&slot), Some(head()));
}

#[test]
fn j1_every_flag_has_a_bit_of_its_own() {
    let unanchored = Some(Unanchored { base: 1, index_len: 2 });
    let heads = [
        (1, Head { begun: true, ..Head::default() }),
        (2, Head { names_synced: true, ..Head::default() }),
        (4, Head { displaced: Some(Displaced::default()), ..Head::default() }),
        (8, Head { intent: Some(Intent::default()), ..Head::default() }),
        (16, Head { open_tail: true, ..Head::default() }),
        (32, Head { unsynced: true, ..Head::default() }),
        (64, Head { promised: true, ..Head::default() }),
        (128, Head { unanchored, ..Head::default() }),
    ];
    for (bit, head) in heads {
        let slot = head.encode();
        assert_eq!(number_at(&slot, 224), bit);
        assert_eq!(decode(&slot), Some(head));
    }
}

/// Salts, checksums, identities and ids may be any number.
#[test]
fn j1_a_slot_that_says_what_nobody_counts_to_is_none() {
    const NO_COUNTS: &[usize] =
        &[32, 40, 48, 56, 64, 72, 80, 88, 192, 224, 232, 240, 264, 272, 280, 288, 336, 360];
    let slot = head().encode();
    let ids = (384..576).step_by(24);
    for at in (8..624).step_by(8) {
        let mut absurd = slot;
        absurd[at..at + 8].copy_from_slice(&((1_u64 << 56) + 1).to_le_bytes());
        let counts = !NO_COUNTS.contains(&at) && ids.clone().all(|id| id != at);
        assert_eq!(decode(&absurd).is_none(), counts, "at {at}");
    }
}

#[test]
fn j1_any_flipped_bit_makes_a_slot_invalid() {
    let slot = head().encode();
    assert!(is_valid(&slot));
    for bit in 0..slot.len() * 8 {
        let mut flipped = slot;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(!is_valid(&flipped), "bit {bit}");
    }
}

#[test]
fn the_last_eight_operations_are_remembered_once_each() {
    let mut head = Head::default();
    let operation = |id| Operation { id, first: 10 * id, lines: id };
    head.remember(operation(0));
    assert_eq!((head.finished(0), head.operations), (None, [Operation::default(); OPERATIONS]));
    for id in 1..=9 {
        head.remember(operation(id));
        head.remember(Operation { first: 0, ..operation(id) });
    }
    assert_eq!(head.finished(1), None);
    assert!((2..=9).all(|id| head.finished(id) == Some(operation(id))));
    assert_eq!(head.operations[0].id, 2, "the oldest is first");
}

#[test]
fn entries_are_numbered_from_the_first_on_and_wait_until_they_are_applied() {
    let mut head = Head { first_number: 7, entries: 3, applied: 2, ..Head::default() };
    assert_eq!((head.next_number(), head.has_pending()), (10, true));
    head.applied = 3;
    assert!(!head.has_pending());
}

#[test]
fn every_loss_widens_the_range_and_takes_its_operations_along() {
    let operation = |first| Operation { id: first, first, lines: 1 };
    let mut head = Head { first_number: 10, entries: 5, applied: 3, ..Head::default() };
    assert!(!head.lost.has(0) && !head.lost.has(13), "older slots have zeros there");
    (20..24).for_each(|seq| head.remember(operation(seq)));
    head.lose(13, 22);
    assert_eq!(head.lost, Lost { first: 13, last: 14, since: 0 });
    assert!(!head.lost.has(12) && head.lost.has(13) && head.lost.has(14) && !head.lost.has(15));
    assert_eq!([20, 21, 22, 23].map(|id| head.finished(id).is_some()), [true, true, false, false]);
    (head.first_number, head.entries) = (40, 2);
    head.lose(41, 0);
    assert_eq!(head.lost, Lost { first: 13, last: 41, since: 0 });
    assert!(head.finished(20).is_some() && head.finished(21).is_some(), "it is not known which");
    head.lost.since = 7;
    assert!(head.lost.has(6) && !head.lost.has(7) && !head.lost.has(12) && head.lost.has(13));
}

#[test]
fn what_is_below_the_next_entry_to_apply_is_in_the_journal() {
    let head = Head { first_number: 7, entries: 3, applied: 2, ..Head::default() };
    assert!(head.has_applied(6) && head.has_applied(8) && !head.has_applied(9));
}
