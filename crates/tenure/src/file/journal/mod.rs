//! The journal: lines in a plain file, appended in batches that are whole or absent, and numbered.
//!
//! A batch is first written to a log beside the journal, synced there together with the batches of
//! other processes, and then appended to the journal. Recovery always rolls forward from the log:
//! no acknowledged batch is lost, and none is ever partly visible. The journal itself stays a file
//! of lines that any tool can read and append to.
//!
//! Read in this order:
//!
//! - `format`: the bytes of the log and the index. `lines`: what an entry is. `log`, `index`,
//!   `archive`: the files.
//! - `writer`: the critical section; `checkpoint`: a new log; `replace`: a new journal; `recover`:
//!   entering.
//! - `batch`, `append`: one append, from the caller to the last sync. `maintain`: rotate, compact,
//!   header, repair.
//! - `view`, `read`, `verify`: reading, without a lock.

mod append;
mod archive;
mod batch;
mod checkpoint;
mod files;
mod format;
mod index;
mod lines;
mod log;
mod maintain;
mod read;
mod recover;
mod replace;
mod torn;
mod verify;
mod view;
mod writer;

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::Result;
use crate::file::commit::Commit;
use crate::file::target::Target;
use crate::options::{AppendOptions, WriteOptions};
use crate::results::{Appended, Compacted, Entry, Report, Rotated};

pub(crate) use self::batch::Lines;
use self::files::OpenFiles;
pub(crate) use self::read::Entries;
pub(crate) use self::recover::settle_for_hold;
use self::recover::{adopt, enter};
use self::view::View;
use self::writer::{Section, Writer};

/// A file of lines that many processes append to.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    target: Target,
    files: Arc<OpenFiles>,
}

impl Journal {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, files: Arc::default() }
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Appends checked lines as one batch.
    pub(crate) fn append(&self, lines: &[&[u8]], options: &AppendOptions) -> Result<Appended> {
        let mut batch = Lines::new(lines, options);
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

    pub(crate) fn read(&self, from: u64, limit: Option<u64>) -> Result<Entries> {
        Entries::new(View::of(&*self.target.current()?)?, from, limit)
    }

    pub(crate) fn adopt(&self) -> Result<()> {
        adopt(&self.files, &self.target)
    }

    pub(crate) fn verify(&self) -> Result<Report> {
        verify::verify(&*self.target.current()?)
    }

    pub(crate) fn repair(&self, options: &WriteOptions, accept: bool) -> Result<Report> {
        self.writing(options, |writer| maintain::repair(writer, accept))
    }

    pub(crate) fn rotate(&self, options: &WriteOptions) -> Result<Rotated> {
        self.writing(options, maintain::rotate)
    }

    pub(crate) fn compact(
        &self,
        options: &WriteOptions,
        keep: &mut dyn FnMut(&Entry) -> bool,
    ) -> Result<Compacted> {
        self.writing(options, |writer| maintain::compact(writer, &mut *keep))
    }

    /// Does something in a critical section.
    fn writing<T>(
        &self,
        options: &WriteOptions,
        mut act: impl FnMut(&mut Writer) -> Result<T>,
    ) -> Result<T> {
        self.target.at_home(|target| {
            let section = Section::Write(Box::new(Commit::begin(target, options)?));
            act(&mut enter(&self.files, section, options.file.new_mode)?)
        })
    }
}
