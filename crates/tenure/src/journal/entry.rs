//! One entry of the log W: a batch that is to be in the journal, or a note about bytes that are.
//!
//! # Invariants
//!
//! 1. (J2) An entry is valid if and only if its magic, epoch and number are the expected ones, its
//!    payload lies inside the file, and its checksum, seeded with the epoch's salt, fits. The salt is
//!    not in the entry, so a payload that looks like an entry is not one.

use crate::checksum;

use super::layout::{Fill, Take};

pub(super) const ENTRY_BYTES: usize = 64;
const MAGIC: &[u8; 4] = b"TJE1";
const CHECKSUM_AT: usize = ENTRY_BYTES - 8;
/// It is written to the journal in the same critical section, without a sync in between.
const DIRECT: u16 = 1;
/// Bytes of others, already in the journal: the payload is only their checksum.
const FOREIGN: u16 = 2;
/// Late lines of a file that was rotated or compacted away: `aux` is where they ended there.
const LATE: u16 = 4;

/// What an entry says, without its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Entry {
    pub(super) epoch: u64,
    pub(super) number: u64,
    /// Of the first line.
    pub(super) seq: u64,
    pub(super) lines: u32,
    pub(super) payload_len: u32,
    /// Checksum of the operation id; 0 is none.
    pub(super) operation: u64,
    pub(super) kind: Kind,
}

/// What kind of entry it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    /// Synced here before it goes to the journal.
    #[default]
    Durable,
    /// Goes to the journal at once.
    Direct,
    /// This many bytes of others.
    Foreign(u64),
    /// Goes to the journal at once; late lines of a displaced file, which end at this offset in it.
    Late(u64),
}

impl Entry {
    /// How many bytes of the journal it stands for.
    pub(super) fn span(&self) -> u64 {
        match self.kind {
            Kind::Foreign(span) => span,
            _ => self.payload_len.into(),
        }
    }

    pub(super) fn is_foreign(&self) -> bool {
        matches!(self.kind, Kind::Foreign(_))
    }

    /// It is written to the journal in the critical section that logs it.
    pub(super) fn is_direct(&self) -> bool {
        matches!(self.kind, Kind::Direct | Kind::Late(_))
    }

    /// It has to survive a power loss: somebody was promised that, or the head relies on it.
    pub(super) fn is_promised(&self) -> bool {
        matches!(self.kind, Kind::Durable | Kind::Late(_))
    }

    /// The sequence number after its last line.
    pub(super) fn next_seq(&self) -> u64 {
        self.seq + u64::from(self.lines)
    }

    /// How many bytes it takes in the log.
    pub(super) fn log_len(&self) -> u64 {
        ENTRY_BYTES as u64 + u64::from(self.payload_len)
    }

    /// Fills the first [`ENTRY_BYTES`] of `bytes`; the payload behind them is there already.
    pub(super) fn seal(&self, bytes: &mut [u8], salt: u64) {
        let (flags, aux) = match self.kind {
            Kind::Durable => (0, 0),
            Kind::Direct => (DIRECT, 0),
            Kind::Foreign(span) => (FOREIGN, span),
            Kind::Late(end) => (DIRECT | LATE, end),
        };
        let mut fill = Fill::new(bytes);
        fill.raw(MAGIC);
        fill.u16(flags);
        fill.u16(0);
        fill.u64(self.epoch);
        fill.u64(self.number);
        fill.u64(self.seq);
        fill.u32(self.lines);
        fill.u32(self.payload_len);
        fill.u64(self.operation);
        fill.u64(aux);
        let sum = sum_of(bytes, salt);
        bytes[CHECKSUM_AT..ENTRY_BYTES].copy_from_slice(&sum.to_le_bytes());
    }

    /// Reads the header; says nothing yet about the payload.
    pub(super) fn peek(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..ENTRY_BYTES).filter(|bytes| bytes.starts_with(MAGIC))?;
        let mut take = Take::new(&bytes[MAGIC.len()..]);
        let flags = take.u16();
        take.u16();
        let mut entry = Self {
            epoch: take.count(),
            number: take.count(),
            seq: take.count(),
            lines: take.u32(),
            payload_len: take.u32(),
            operation: take.u64(),
            kind: Kind::Durable,
        };
        let aux = take.count();
        entry.kind = match flags {
            0 => Kind::Durable,
            DIRECT => Kind::Direct,
            FOREIGN => Kind::Foreign(aux),
            flags if flags == DIRECT | LATE => Kind::Late(aux),
            _ => return None,
        };
        take.could_be().then_some(entry)
    }

    /// Whether `bytes` (header and payload) are exactly what was sealed.
    pub(super) fn is_sound(bytes: &[u8], salt: u64) -> bool {
        bytes[CHECKSUM_AT..ENTRY_BYTES] == sum_of(bytes, salt).to_le_bytes()
    }
}

fn sum_of(bytes: &[u8], salt: u64) -> u64 {
    let mut sum = checksum::Running::default();
    sum.update(&salt.to_le_bytes());
    sum.update(&bytes[..CHECKSUM_AT]);
    sum.update(&bytes[ENTRY_BYTES..]);
    sum.finish()
}

/// An entry and its payload.
#[derive(Debug, Clone)]
pub(super) struct Logged {
    pub(super) entry: Entry,
    pub(super) payload: Vec<u8>,
}

impl Logged {
    /// The checksum that a foreign entry keeps of its bytes.
    pub(super) fn foreign_sum(&self) -> u64 {
        self.payload.as_slice().try_into().map_or(0, u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD: &[u8; 8] = b"one\ntwo\n";

    fn entry(kind: Kind) -> Entry {
        Entry { epoch: 3, number: 9, seq: 40, lines: 2, payload_len: 8, operation: 77, kind }
    }

    fn sealed(kind: Kind, salt: u64) -> Vec<u8> {
        let mut bytes = vec![0xff; ENTRY_BYTES];
        bytes.extend_from_slice(PAYLOAD);
        entry(kind).seal(&mut bytes, salt);
        bytes
    }

    #[test]
    fn j2_the_bytes_are_those_of_the_format() {
        let kinds = [
            (Kind::Durable, 0, 0),
            (Kind::Direct, 1, 0),
            (Kind::Foreign(12), 2, 12),
            (Kind::Late(13), 5, 13),
        ];
        for (kind, flags, aux) in kinds {
            let bytes = sealed(kind, 5);
            let mut take = Take::new(&bytes);
            assert_eq!(take.raw(), *b"TJE1");
            assert_eq!([take.u16(), take.u16()], [flags, 0], "{kind:?}");
            assert_eq!([take.u64(), take.u64(), take.u64()], [3, 9, 40]);
            assert_eq!([take.u32(), take.u32()], [2, 8]);
            assert_eq!([take.u64(), take.u64()], [77, aux]);
            let summed = [&5_u64.to_le_bytes(), &bytes[..56], PAYLOAD].concat();
            assert_eq!(take.u64(), checksum::of(&summed));
            assert_eq!(take.raw(), *PAYLOAD);
            assert_eq!(Entry::peek(&bytes), Some(entry(kind)));
        }
    }

    #[test]
    fn j2_other_flags_another_magic_and_half_a_header_are_no_entry() {
        let bytes = sealed(Kind::Direct, 5);
        assert!(Entry::peek(&bytes[..ENTRY_BYTES]).is_some());
        assert!(Entry::peek(&bytes[..ENTRY_BYTES - 1]).is_none());
        for flags in (0..16_u16).chain([256, 257, u16::MAX]) {
            let mut bytes = bytes.clone();
            bytes[4..6].copy_from_slice(&flags.to_le_bytes());
            assert_eq!(Entry::peek(&bytes).is_some(), [0, 1, 2, 5].contains(&flags), "{flags}");
        }
        for at in 0..4 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            assert!(Entry::peek(&bytes).is_none());
        }
    }

    #[test]
    fn what_an_entry_stands_for_depends_on_its_kind() {
        let kinds = [
            // Span in the journal, foreign, direct, promised.
            (Kind::Durable, 8, false, false, true),
            (Kind::Direct, 8, false, true, false),
            (Kind::Foreign(12), 12, true, false, false),
            (Kind::Late(13), 8, false, true, true),
        ];
        for (kind, span, foreign, direct, promised) in kinds {
            let entry = entry(kind);
            assert_eq!((entry.span(), entry.is_foreign()), (span, foreign), "{kind:?}");
            assert_eq!((entry.is_direct(), entry.is_promised()), (direct, promised), "{kind:?}");
            assert_eq!((entry.next_seq(), entry.log_len()), (42, 72), "{kind:?}");
        }
    }

    #[test]
    fn a_foreign_entry_keeps_a_checksum_and_nothing_else() {
        let sum = |payload: &[u8]| {
            let entry = entry(Kind::Foreign(12));
            Logged { entry, payload: payload.to_vec() }.foreign_sum()
        };
        assert_eq!(sum(&0x0102_0304_0506_0708_u64.to_le_bytes()), 0x0102_0304_0506_0708);
        assert_eq!((sum(&[1; 7]), sum(&[1; 9])), (0, 0));
    }

    #[test]
    fn j2_any_flipped_bit_makes_an_entry_invalid() {
        let bytes = sealed(Kind::Late(12), 5);
        assert!(Entry::is_sound(&bytes, 5));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!Entry::is_sound(&flipped, 5), "bit {bit}");
        }
    }

    #[test]
    fn j2_an_entry_of_another_salt_is_invalid() {
        assert!(!Entry::is_sound(&sealed(Kind::Late(12), 5), 6));
    }
}
