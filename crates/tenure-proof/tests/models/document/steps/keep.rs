//! Which version is worth keeping: what is displaced, and what a change that died has left.

use super::{Aim, File, Process, State};
use crate::document::Fault;

impl State {
    /// `is_published`: the very file that the record tells of, and not only the same bytes.
    pub(super) fn is_published(&self, file: File, fault: Fault) -> bool {
        let same_file = self.record.file == file.id || fault == Fault::TagNotCompared;
        self.record.content == file.content && same_file
    }

    /// `syncs`: what displaces a version in doubt is synced in any case.
    pub(super) fn syncs(&self, process: &Process, fault: Fault) -> bool {
        let published = process.base.is_some_and(|base| self.is_published(base, fault));
        let in_doubt = self.record.failed && published;
        process.durable || (in_doubt && fault != Fault::DoubtNotSynced)
    }

    /// `keep::name_for`: only a version that is known to be synced becomes the good copy.
    pub(super) fn keeps(&self, process: &Process, fault: Fault) -> bool {
        let Some(base) = process.base.filter(|_| process.aim != Aim::Restore) else { return false };
        let published = self.is_published(base, fault);
        let in_doubt = self.record.failed && published;
        fault == Fault::KeepsUnsynced
            || (fault == Fault::KeepsDoubtful && in_doubt)
            || (published && self.record.synced)
    }

    /// A change without a sync needs a version to fall back to: one whose state is not known is synced, and
    /// written down as such, before it is displaced.
    pub(super) fn syncs_found(&self, process: &Process, fault: Fault) -> bool {
        let Some(base) = process.base.filter(|_| process.aim != Aim::Restore) else { return false };
        let known = self.is_published(base, fault);
        let ours_unsynced = known && (self.record.failed || self.record.this_boot);
        !process.durable && !ours_unsynced
    }

    /// Whether what lies under the temporary name is the last synced version: the very file. The same bytes in
    /// another one may be of a sync that failed, and syncing that again says nothing.
    pub(super) fn keeps_left_over(&self, fault: Fault) -> bool {
        let known = |left: File| match fault {
            Fault::LeftOverRemoved => false,
            Fault::LeftOverByBytes => left.content == self.record.content,
            _ => self.is_published(left, fault),
        };
        self.record.synced && self.names.temp.is_some_and(|left| !left.cut && known(left))
    }

    /// Whether what lies there says the same as the good copy: a restore that died has made it from that.
    pub(super) fn is_copy(&self, fault: Fault) -> bool {
        let content = |file: Option<File>| file.map(|file| file.content);
        let same = content(self.names.temp) == content(self.names.good);
        same && fault != Fault::CopyBelieved
    }

    pub(super) fn keep_left_over(&mut self) {
        let left = self.names.temp.map_or(0, |left| left.id);
        self.sync_file(left);
        self.rename(|names| names.good = names.temp.take());
    }

    /// `clear_left_over`: of a change that died.
    pub(super) fn clear_left_over(&mut self, base: Option<File>, fault: Fault) {
        let Some(left) = self.names.temp else { return };
        if self.keeps_left_over(fault) {
            return self.keep_left_over();
        }
        let known = self.record.content == left.content;
        let exchanged = base.is_some_and(|base| base.content != self.record.content);
        if exchanged && !known && !left.cut {
            self.aside |= left.content;
        }
        self.rename(|names| names.temp = None);
    }
}
