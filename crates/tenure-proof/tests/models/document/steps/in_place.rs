//! A change that writes the document in place: the control that the model must refute.

use super::{At, State};

impl State {
    /// The known-bad way: truncate, then write, in two steps on one file.
    pub(super) fn write_in_place(&mut self, index: usize) {
        let process = self.processes[index];
        let id = self.names.document.map_or(0, |file| file.id);
        if self.names.document.is_some_and(|file| !file.cut) {
            // The first visit truncates it, the second writes; the content is kept in between.
            let content = self.view() | process.bit();
            self.processes[index].content = content;
            self.processes[index].at = At::Read;
            self.change_file(id, |file| file.cut = true);
            return;
        }
        let content = process.content;
        self.change_file(id, |file| {
            (file.content, file.cut, file.synced) = (content, false, false);
        });
        self.processes[index].at = At::SyncNames;
    }
}
