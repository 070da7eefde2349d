//! What the record says of the document: the version that was published last.

use crate::file::layout::array;

/// Flags of a slot.
const SYNCED: u8 = 1;
const NOT_SYNCED: u8 = 8;
const NUMBERED: u8 = 16;

/// What tenure last published as the document, or found in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Published {
    /// Grows with every change that tenure made.
    pub(crate) generation: u64,
    /// No larger generation was given out before. Not known of a record of another boot, or of one that
    /// was copied or put back.
    pub(crate) numbered: bool,
    pub(crate) checksum: [u8; 16],
    /// Of the very file: another program may write the same bytes, and not sync them. 0: there was no
    /// document.
    pub(crate) tag: u32,
    pub(crate) synced: Synced,
    /// The boot in which tenure published it or found it whole, if that is known. The record's own boot is
    /// no help: any lock renews that.
    pub(crate) boot: [u8; 16],
}

/// Whether the content of a version was synced before it was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Synced {
    /// Another program wrote it, its process died, or a sync of its name failed.
    #[default]
    Unknown,
    /// Published without a sync: the last synced version is kept as `.good`.
    No,
    /// It is on the disk before its name is.
    Yes,
}

impl Published {
    /// The number of the next change. The numbers of a boot, and those that follow a copied record, start at
    /// the clock: those that a power loss may have taken back do not come again.
    pub(crate) fn next_generation(&self, clock_us: u64) -> u64 {
        let newest = if self.numbered { 0 } else { clock_us };
        self.generation.max(newest) + 1
    }

    /// It may be of another boot, or of another file.
    pub(crate) fn doubt(&mut self) {
        (self.boot, self.numbered) = (Default::default(), false);
    }

    /// Its part of the flags of a slot.
    pub(super) fn flags(self) -> u8 {
        let synced = match self.synced {
            Synced::Unknown => 0,
            Synced::No => NOT_SYNCED,
            Synced::Yes => SYNCED,
        };
        synced | if self.numbered { NUMBERED } else { 0 }
    }

    /// As a valid slot says.
    pub(super) fn of(slot: &[u8]) -> Self {
        Self {
            generation: u64::from_le_bytes(array(slot, 120)),
            checksum: array(slot, 128),
            tag: u32::from_le_bytes(array(slot, 44)),
            synced: match slot[41] & (SYNCED | NOT_SYNCED) {
                SYNCED => Synced::Yes,
                NOT_SYNCED => Synced::No,
                _ => Synced::Unknown,
            },
            numbered: slot[41] & NUMBERED != 0,
            boot: array(slot, 232),
        }
    }
}
