//! The shared sync of the log: one who syncs and lets in for everybody who waits.
//!
//! # Invariants
//!
//! 1. (J7) Nobody is told that a batch is durable unless it is in the journal. A number below the next
//!    one to apply is not enough: the entry may be lost, and the journal gone on without it. So whoever
//!    looks for its number looks at [`Head::lost`] first.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::commit::take_commit;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::Mode;
use crate::group;
use crate::target::Target;
use crate::wait::{Deadline, Request, Wait};

use super::head::Head;
use super::open_files::OpenFiles;
use super::session::{Section, Session, load_head};
use super::wal::Wal;

/// Finishing a logged batch waits at least this long: it is only ever waited for short sections.
pub(super) const FINISH_PATIENCE: Duration = Duration::from_secs(10);
/// A leader that finishes for others waits less than they wait for it.
const LEADER_PATIENCE: Duration = Duration::from_secs(1);

/// The log, synced together with everybody who waits for that.
pub(super) struct LogSync<'a> {
    pub(super) target: &'a Target,
    pub(super) wal: Wal,
    pub(super) files: &'a Arc<OpenFiles>,
    pub(super) new_mode: u32,
    /// How long its caller waits for sections of others, at least [`FINISH_PATIENCE`].
    pub(super) patience: Wait,
}

impl group::Shared for LogSync<'_> {
    /// The newest entry that is completely in the log.
    fn newest(&self) -> Result<u64> {
        let head = load_head(self.target, &self.wal)?.unwrap_or_default();
        Ok(head.next_number().saturating_sub(1))
    }

    fn sync(&self, doubt: bool) -> io::Result<()> {
        if doubt {
            self.write_again().map_err(io::Error::other)?;
        }
        let synced = self.wal.file.sync();
        if synced.is_err() {
            // The next one need not be in doubt; if this fails it has to answer for itself.
            let _ = self.write_again();
        }
        synced
    }

    /// Lets what was synced into the journal for everybody, before they wake: they need no lock then.
    /// If it cannot be done now, each of them finds that out and does it.
    fn finish(&self, reach: u64) {
        let _ = self.apply(reach, Wait::For(LEADER_PATIENCE));
    }
}

impl LogSync<'_> {
    /// Writes the entries up to `reach`, which are durable, to the journal, and tells the head of the
    /// log that counts, which need not be the one that was opened here.
    pub(super) fn apply(&self, reach: u64, patience: Wait) -> Result<Head> {
        let request = Request::until(Deadline::after(patience));
        let section = Section::finish(self.target, request)?;
        let mut session = Session::enter(self.files, section, self.new_mode)?;
        session.apply(reach)?;
        Ok(session.head.clone())
    }

    /// What the head says now. One that is being written is read as the one before; one that cannot be
    /// read says that nothing is applied.
    pub(super) fn head(&self) -> Head {
        load_head(self.target, &self.wal).ok().flatten().unwrap_or_default()
    }

    /// A failed sync may leave pages that the kernel believes to be clean. Writing them again makes
    /// the next sync mean what it says. What was lost already is found when it is let in.
    fn write_again(&self) -> Result<()> {
        let request = Request::until(Deadline::after(self.patience));
        let _turn = take_commit(self.target, Mode::Exclusive, request)?;
        let Some(head) = load_head(self.target, &self.wal)? else { return Ok(()) };
        let path = self.target.sidecar("wal");
        self.wal.rewrite(&head).map_err(Target::failed("write", &path))
    }
}

/// Entries that the head counts cannot be read, or the log is another one: a failed sync, or somebody
/// else, took them.
pub(super) fn lost(target: &Target) -> Error {
    let detail = "a part of the log is lost, with batches that were not in the journal yet";
    let error = Error::new(ErrorKind::Damaged, "let in", detail).at(&target.sidecar("wal"));
    error.hint("look for the batch in the journal, and append it again if it is not there")
}
