//! The journal: lines in a plain file, appended in batches that are whole or absent, and numbered.
//!
//! A batch is first written to a log beside the journal, synced there together with the batches of other processes, and
//! then appended to the journal. A crash is always rolled forward from the log: nothing that was acknowledged can be lost,
//! and no batch is ever half there. The journal itself stays a file of lines that any tool can read, and append to.
//!
//! Read in this order:
//!
//! - `format`: the bytes of the log and the index. `lines`: what an entry is. `log`, `index`, `archive`: the files.
//! - `writer`: the critical section; `checkpoint`: a new log; `replace`: a new journal; `recover`: entering.
//! - `batch`, `append`: one append, from the caller to the last sync. `maintain`: rotate, compact, header, repair.
//! - `view`, `read`, `follow`, `verify`: reading, without a lock.

mod append;
mod archive;
mod batch;
mod checkpoint;
mod files;
mod follow;
mod format;
mod index;
mod lines;
mod log;
mod maintain;
mod options;
mod read;
mod recover;
mod replace;
mod torn;
mod verify;
mod view;
mod writer;

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::file::commit::Commit;
use crate::file::target::Target;
use crate::fs::Fs;
use crate::options::WriteOptions;
use crate::sys::disk;

pub use self::follow::Follow;
pub use self::options::{AppendOptions, Appended, Compacted, Rotated};
pub use self::read::{Entries, Entry};
pub use self::verify::{Damage, Report};

pub(crate) use self::append::Ticket;
pub(crate) use self::batch::Lines;
use self::files::OpenFiles;
use self::recover::enter;
pub(crate) use self::recover::settle_for_hold;
use self::view::View;
use self::writer::{Section, Writer};

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
        let mut batch = Lines::check(&self.target, batch, options)?;
        self.target.at_home(|target| {
            let journal = self.on(target);
            let commit = Commit::begin(target, &options.write)?;
            let (appended, ticket) = journal.append_in(commit, &mut batch, options)?;
            journal.finish(ticket, options)?;
            Ok(appended)
        })
    }

    /// The same journal, with the sidecars of its owner.
    pub(crate) fn on(&self, target: &Target) -> Cow<'_, Self> {
        if std::ptr::eq(target, &raw const self.target) {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self { target: target.clone(), files: self.files.clone() })
    }

    /// Appends in a critical section, and ends it. The ticket is for [`Self::finish`].
    pub(crate) fn append_in(
        &self,
        commit: Commit,
        batch: &mut Lines,
        options: &AppendOptions,
    ) -> Result<(Appended, Option<Ticket>)> {
        append::append_in(&self.files, commit, batch, options)
    }

    /// Makes what was appended durable, and brings it into the journal.
    pub(crate) fn finish(&self, ticket: Option<Ticket>, options: &AppendOptions) -> Result<()> {
        let Some(ticket) = ticket else { return Ok(()) };
        append::finish(&self.files, &self.target, ticket, options)
    }

    /// The entries with number `from` and above, at most `limit` of them. Takes no lock.
    ///
    /// 0 begins with the oldest entry that is there, whatever its number; any other number reports the entries that
    /// are gone from there on.
    pub fn read(&self, from: u64, limit: Option<u64>) -> Result<Entries> {
        Entries::new(View::of(&*self.target.current()?)?, from, limit)
    }

    /// Lines of other tools that have no number yet, an unterminated one included. Takes no lock; the next
    /// write adopts the complete ones. For both at one moment see [`Entries::pending`].
    pub fn pending(&self) -> Result<Vec<Vec<u8>>> {
        self.read(u64::MAX, None)?.pending()
    }

    /// Entries as they appear, from number `from` on; 0 as for [`Self::read`].
    pub fn follow(&self, from: u64) -> Result<Follow> {
        Ok(Follow::new(self.target.clone(), self.files.clone(), from))
    }

    /// Checks every byte that has a number against what was written, in the archives too. Takes no lock.
    pub fn verify(&self) -> Result<Report> {
        verify::verify(&*self.target.current()?)
    }

    /// Finishes what crashes have left, adopts lines of other tools, and writes back what the log still holds of
    /// damaged batches. What was damaged is copied to the file that the report names, before anything is changed.
    /// A journal that another tool cut short is taken as it is, as every write does; the missing entries are lost.
    pub fn repair(&self, options: &WriteOptions) -> Result<Report> {
        self.writing(options, |writer| maintain::repair(writer, false))
    }

    /// As [`Self::repair`], and takes the rest of the damage as it is: the lines of a damaged range keep their
    /// numbers if they are as many as they were, and get new ones otherwise.
    pub fn accept(&self, options: &WriteOptions) -> Result<Report> {
        self.writing(options, |writer| maintain::repair(writer, true))
    }

    /// Moves the entries so far to a file of their own and starts an empty one.
    pub fn rotate(&self, options: &WriteOptions) -> Result<Rotated> {
        self.writing(options, maintain::rotate)
    }

    /// Writes the journal anew with the entries that `keep` wants. They keep their numbers.
    pub fn compact(
        &self,
        options: &WriteOptions,
        mut keep: impl FnMut(&Entry) -> bool,
    ) -> Result<Compacted> {
        self.writing(options, |writer| maintain::compact(writer, &mut keep))
    }

    /// Does something in a critical section.
    fn writing<T>(
        &self,
        options: &WriteOptions,
        mut act: impl FnMut(&mut Writer) -> Result<T>,
    ) -> Result<T> {
        self.target.at_home(|target| {
            let section = Section::Write(Box::new(Commit::begin(target, options)?));
            act(&mut enter(&self.files, section, options.new_mode)?)
        })
    }
}
