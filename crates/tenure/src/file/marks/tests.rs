//! Marks as they are on the disk.

use super::*;

#[test]
fn a_mark_counts_for_its_own_fence_and_place_only() {
    let mut bytes = [0; MARKS_OFFSET + 2 * MARK_BYTES];
    let at = Mark::Ended.offset();
    bytes[at..at + MARK_BYTES].copy_from_slice(&Mark::Ended.encode(7, 11));
    assert_eq!(Mark::Ended.read(&bytes), Some((7, 11)));
    assert_eq!(Mark::Published.read(&bytes), None);
    bytes.copy_within(at..at + MARK_BYTES, Mark::Published.offset());
    assert_eq!(Mark::Published.read(&bytes), None, "moved");
    for bit in 0..MARK_BYTES * 8 {
        let mut flipped = bytes;
        flipped[at + bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Mark::Ended.read(&flipped), None, "bit {bit}");
    }
}

#[test]
fn a_mark_is_as_the_format_says() {
    for (mark, place) in [(Mark::Ended, 0), (Mark::Published, 24)] {
        let published = [&7_u64.to_le_bytes()[..], &11_u64.to_le_bytes(), &[place]].concat();
        let sum = checksum::of(&published).to_le_bytes();
        assert_eq!(mark.encode(7, 11).as_slice(), [&published[..16], &sum].concat());
    }
}

#[test]
fn where_nothing_was_written_no_mark_is_set() {
    assert_eq!(Mark::Ended.read(&[0; 2048]), None);
    assert_eq!(Mark::Published.read(&[]), None);
}
