//! The journal: lines in a plain file, appended in batches that are whole or absent, and numbered.
//!
//! A batch is first written to a log beside the journal, synced there together with the batches of
//! other processes, and then copied to the journal. A crash is always rolled forward from the log:
//! nothing that was acknowledged can be cut off, and no batch is ever half there. The journal itself
//! stays a file of lines that any tool can read, and append to.
//!
//! The byte formats and what each crash leaves are in docs/FORMAT.md; its invariants J1.. are cited in
//! the files here and in the tests.
//!
//! - `entry`, `head`, `index`: the three formats. `wal`: the log, `slots`: where it keeps its head.
//!   `lines`: what an entry is.
//! - `session`: the critical section, `open_files`: what is kept between two. `plan`, `settle`: log against journal. `adopt`: foreign journals, `tail`: foreign lines.
//! - `batch`, `append`, `log_sync`, `checkpoint`: writing. `publish`: a new file (`rotate`, `compact`, `stamp`).
//! - `view`, `read`, `follow`, `verify`: reading, without locks. `repair`, `salvage`: damage.

mod adopt;
mod append;
mod batch;
mod bound;
mod checkpoint;
mod compact;
mod entry;
mod follow;
mod head;
mod index;
mod late;
mod layout;
mod lines;
mod log_sync;
mod open_files;
mod options;
mod plan;
mod publish;
mod read;
mod repair;
mod rotate;
mod salvage;
mod session;
mod settle;
mod slots;
mod stamp;
mod tail;
mod verify;
mod view;
mod wal;

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::fs::{Fs, disk};
use crate::options::WriteOptions;
use crate::seen::Seen;
use crate::target::Target;
use crate::wait::Request;

pub use self::follow::Follow;
pub use self::options::{AppendOptions, Appended, Compacted, Rotated};
pub use self::read::{Entries, Entry};
pub use self::verify::{Damage, Report};

pub(crate) use self::batch::Batch;
use self::open_files::OpenFiles;
use self::session::{Section, Session};
use self::view::View;

/// The mode of a journal that a crash left without its file.
const NEW_MODE: u32 = 0o600;

/// A file of lines that many processes append to. Opening it touches nothing.
#[derive(Debug, Clone)]
pub struct Journal {
    target: Target,
    files: Arc<OpenFiles>,
}

impl Journal {
    /// The journal at `path`, whether or not there is a file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_on(&disk(), path.as_ref())
    }

    /// The same, on another file system.
    pub fn open_on(fs: &Arc<dyn Fs>, path: &Path) -> Result<Self> {
        Ok(Self { target: Target::resolve(fs, path)?, files: Arc::default() })
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// The resolved path.
    pub fn path(&self) -> &Path {
        self.target.path()
    }

    /// Appends lines as one batch: readers see all of them or none, in this order and with nothing in
    /// between. A line has no newline of its own and is not blank.
    pub fn append(&self, batch: &[impl AsRef<[u8]>], options: &AppendOptions) -> Result<Appended> {
        self.append_batch(batch, options)
    }

    /// The entries with number `from` and above, at most `limit` of them. Takes no lock.
    pub fn read(&self, from: u64, limit: Option<u64>) -> Result<Entries> {
        Entries::new(&View::of(&self.target)?, from, limit)
    }

    /// Entries as they appear, from number `from` on.
    pub fn follow(&self, from: u64) -> Result<Follow> {
        Ok(Follow::new(self.clone(), from))
    }

    /// Checks every byte that is there against what was written. Takes no lock.
    pub fn verify(&self) -> Result<Report> {
        verify::verify(&self.target)
    }

    /// Finishes what crashes have left, numbers and closes lines of others, sets damage aside, and
    /// verifies. Damaged ranges are copied to the file that the report names, before anything is changed
    /// in them; what the log still holds is written back, lines that cannot be read become blanks, and
    /// every other line stays.
    pub fn repair(&self, options: &WriteOptions) -> Result<Report> {
        self.repair_all(options)
    }

    /// Moves the entries so far to a file of their own and starts an empty one.
    pub fn rotate(&self, options: &WriteOptions) -> Result<Rotated> {
        self.settled(options)?.rotate()
    }

    /// Writes the journal anew with the entries that `keep` wants. They keep their numbers.
    pub fn compact(
        &self,
        options: &WriteOptions,
        keep: impl FnMut(&Entry) -> bool,
    ) -> Result<Compacted> {
        self.settled(options)?.compact(keep)
    }
}

/// Lets batches that are on their way into the journal before a hold is granted, so that nothing
/// written earlier appears during it. The caller has the hold; `seen` is the record it found.
pub(crate) fn settle_for_hold(target: &Target, seen: &Seen, request: Request<'_>) -> Result<()> {
    if !seen.record.journal {
        return Ok(());
    }
    let section = Section::finish(target, request)?;
    if !section.has_journal() {
        return Ok(());
    }
    Session::enter(&Arc::default(), section, NEW_MODE)?.apply_pending()
}
