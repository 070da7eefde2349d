//! Rotation: the entries so far move to an archive, `<name>.1`, `<name>.2` and so on, never renumbered.

use crate::error::Result;

use super::index::Header;
use super::options::Rotated;
use super::publish::{self, Publication};
use super::session::Session;

impl Session {
    /// Rotates a settled journal.
    pub(super) fn rotate(mut self) -> Result<Rotated> {
        self.adopt_late()?;
        self.checkpoint(true)?;
        let header = self.header()?;
        if self.head.journal_end == header.len() as u64 {
            return Ok(Rotated { archive: None, next: self.head.next_seq });
        }
        let archive = publish::free_archive(&self.target, self.head.archive + 1);
        let mut new = self.new_journal()?;
        new.write(&header).map_err(|err| self.journal_failed("write", err))?;
        let next_seq = self.head.next_seq;
        let what = Publication {
            header: Header::of(&header),
            archive,
            first_seq: next_seq,
            next_seq,
            ..Publication::default()
        };
        self.publish(new, &what)?;
        let archive = Some(publish::archive_path(&self.target, self.head.archive));
        Ok(Rotated { archive, next: self.head.next_seq })
    }

    /// The header line with its newline; empty if there is none.
    pub(super) fn header(&self) -> Result<Vec<u8>> {
        let len = self.matching_index()?.map_or(0, |index| index.title.header.len);
        self.journal.read_range(0, len).map_err(|err| self.journal_failed("read", err))
    }
}
