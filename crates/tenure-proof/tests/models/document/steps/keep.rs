//! Which version is kept: what is displaced, and the leftover of a change that died.

use super::{Aim, File, Process, State, Synced};
use crate::document::Fault;

impl State {
    /// `is_published`: the exact file that the record names, not only the same bytes.
    pub(super) fn is_published(&self, file: Option<File>, fault: Fault) -> bool {
        file.is_some_and(|file| {
            let same_file = self.record.file == file.id || fault == Fault::TagNotCompared;
            self.record.content == file.content && same_file
        })
    }

    /// `syncs`: a version that displaces an unknown one is always synced.
    pub(super) fn syncs(&self, process: &Process, fault: Fault) -> bool {
        let unknown = self.record.synced == Synced::Unknown && fault != Fault::UnknownNotSynced;
        process.durable || process.aim != Aim::Change || unknown
    }

    /// Only a version that is known to be synced becomes the good copy.
    pub(super) fn keeps(&self, process: &Process, fault: Fault) -> bool {
        let is_synced = match fault {
            Fault::KeepsUnsynced => self.record.synced != Synced::Unknown,
            Fault::KeepsUnknown => self.record.synced != Synced::No,
            _ => self.record.synced == Synced::Yes,
        };
        process.aim != Aim::Restore && is_synced
    }

    /// Whether the temporary file has the content of the good copy: a restore that died made it
    /// from that.
    pub(super) fn is_copy(&self, fault: Fault) -> bool {
        let content = |file: Option<File>| file.map(|file| file.content);
        let same = content(self.names.temp) == content(self.names.good);
        same && fault != Fault::CopyBelieved
    }

    /// `clear`: the leftover of a change that died.
    pub(super) fn clear_left_over(&mut self, document: Option<File>, fault: Fault) {
        let Some(left) = self.names.temp else { return };
        let is_lost = self.record.content == 0;
        let exchanged = (self.record.this_boot || is_lost) && !self.is_published(document, fault);
        let is_known = match fault {
            Fault::LeftOverByBytes => left.content == self.record.content,
            _ => self.is_published(Some(left), fault),
        };
        if exchanged && !left.cut && is_known && self.record.synced == Synced::Yes {
            return self.rename(|names| names.good = names.temp.take());
        }
        if exchanged && !left.cut && left.content != self.record.content {
            self.aside |= left.content;
        }
        self.rename(|names| names.temp = None);
    }
}
