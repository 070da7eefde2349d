//! Which version is worth keeping: what is displaced, and what a change that died has left.

use super::{File, Process, Published, State};
use crate::document::Fault;

impl State {
    /// Only a version that is known to be synced becomes the good copy. A change without a sync needs one
    /// to fall back to: a version whose state is not known is synced, and written down as such, before it
    /// is displaced.
    pub(super) fn keep_as(&mut self, process: &Process, fault: Fault) -> bool {
        let Some(base) = process.base.filter(|base| !base.cut) else { return false };
        let same_file = self.record.file == base.id || fault == Fault::TagNotCompared;
        let known = self.record.content == base.content && same_file;
        if fault == Fault::KeepsUnsynced || (known && self.record.synced) {
            return true;
        }
        let ours_unsynced = known && self.record.this_boot;
        if process.durable || ours_unsynced {
            return false;
        }
        self.change_file(base.id, |file| file.synced = true);
        (self.record.content, self.record.file) = (base.content, base.id);
        self.record.synced = true;
        true
    }

    /// A version that the record does not know is written down before the next temporary file is made. What a
    /// power loss cut is restored first, which is a change of its own.
    pub(super) fn settle_found(&mut self, base: Option<File>, fault: Fault) {
        let unknown = |base: &File| !base.cut && base.content != self.record.content;
        if let Some(base) = base.filter(unknown) {
            self.clear_left_over(Some(base), fault);
            self.record =
                Published { content: base.content, file: base.id, synced: false, this_boot: false };
        }
    }

    /// `clear_left_over`: of a change that died. Its bytes are enough to know it, because it is synced again.
    pub(super) fn clear_left_over(&mut self, base: Option<File>, fault: Fault) {
        let Some(left) = self.names.temp else { return };
        let known = self.record.content == left.content;
        if known && self.record.synced && !left.cut && fault != Fault::LeftOverRemoved {
            self.change_file(left.id, |file| file.synced = true);
            self.rename(|names| names.good = names.temp.take());
        } else {
            let exchanged = base.is_some_and(|base| base.content != self.record.content);
            if exchanged && !known && !left.cut {
                self.aside |= left.content;
            }
            self.rename(|names| names.temp = None);
        }
    }
}
