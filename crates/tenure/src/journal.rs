//! The journal: numbered lines, appended in batches that are whole or absent.
//!
//! This module checks batches, and reads and follows entries. The store keeps them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::file::FileStore;
use crate::fs::Fs;
use crate::options::{AppendOptions, WriteOptions};
use crate::results::{Appended, Compacted, Entry, Report, Rotated};
use crate::store::{EntryReader, Store, Target, Watcher, is_blank};
use crate::wait::{Deadline, Wait};

/// A batch is in memory, and has to fit the store's log.
const BATCH_BYTES_MAX: usize = 1 << 30;
/// A wake-up is only a hint and may never come, so the journal is read again this often.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Lines that many processes append to. Opening it touches nothing.
#[derive(Debug, Clone)]
pub struct Journal {
    target: Arc<dyn Target>,
}

impl Journal {
    /// The journal in a file, whether or not there is one yet.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::on(&FileStore::local(), path)
    }

    /// The journal with this name in a store.
    pub fn on(store: &dyn Store, name: impl AsRef<Path>) -> Result<Self> {
        Ok(Self { target: store.open(name.as_ref())? })
    }

    /// The same, on another file system.
    #[doc(hidden)]
    pub fn open_on(fs: &Arc<dyn Fs>, path: &Path) -> Result<Self> {
        Self::on(&FileStore::on(fs), path)
    }

    /// The resolved name.
    pub fn path(&self) -> &Path {
        self.target.name()
    }

    pub(crate) fn target(&self) -> &dyn Target {
        self.target.as_ref()
    }

    /// Appends lines as one batch: readers see all of them or none, in this order and with nothing in
    /// between. A line has no newline of its own and is not blank.
    pub fn append(&self, batch: &[impl AsRef<[u8]>], options: &AppendOptions) -> Result<Appended> {
        self.target.append(&check(self.path(), batch, options)?, options)
    }

    /// The entries with number `from` and above, at most `limit` of them. Takes no lock.
    ///
    /// 0 begins with the oldest existing entry, whatever its number. With any other number, missing
    /// entries from there on are reported.
    pub fn read(&self, from: u64, limit: Option<u64>) -> Result<Entries> {
        Ok(Entries { reader: self.target.entries(from, limit)? })
    }

    /// Entries as they appear, from number `from` on; 0 as for [`Self::read`].
    pub fn follow(&self, from: u64) -> Result<Follow> {
        let target = self.target.clone();
        Ok(Follow { target, next: from, entries: None, watcher: None, refused: None })
    }

    /// Checks every byte that has a number against what was written, in the archives too. Takes no lock.
    pub fn verify(&self) -> Result<Report> {
        self.target.verify()
    }

    /// Finishes what crashes have left, adopts lines of other tools, and restores damaged batches
    /// that the log still holds. The damaged bytes are first copied to the file that the report
    /// names. If another tool cut the journal short, the rest is kept as it is, as every write
    /// does; the missing entries are lost.
    pub fn repair(&self, options: &WriteOptions) -> Result<Report> {
        self.target.repair(options, false)
    }

    /// Like [`Self::repair`], and also accepts the remaining damage as it is: the lines of a
    /// damaged range keep their numbers if their count is unchanged, and get new ones otherwise.
    pub fn accept(&self, options: &WriteOptions) -> Result<Report> {
        self.target.repair(options, true)
    }

    /// Moves the entries so far to an archive and starts an empty file.
    pub fn rotate(&self, options: &WriteOptions) -> Result<Rotated> {
        self.target.rotate(options)
    }

    /// Rewrites the journal with the entries that `keep` accepts. They keep their numbers.
    pub fn compact(
        &self,
        options: &WriteOptions,
        mut keep: impl FnMut(&Entry) -> bool,
    ) -> Result<Compacted> {
        self.target.compact(options, &mut keep)
    }
}

/// The lines of a batch, if every store can take them.
pub(crate) fn check<'a>(
    path: &Path,
    batch: &'a [impl AsRef<[u8]>],
    options: &AppendOptions,
) -> Result<Vec<&'a [u8]>> {
    let invalid =
        |detail: String| Error::new(ErrorKind::Invalid, "append", detail).at(path).committed(false);
    if batch.is_empty() && options.header.is_none() {
        return Err(invalid("the batch is empty, and there is no header to set".to_owned()));
    }
    if options.write.if_version.is_some() {
        return Err(invalid("a journal has no version; use the fence or a guard".to_owned()));
    }
    let lines: Vec<&[u8]> = batch.iter().map(AsRef::as_ref).collect();
    if lines.iter().map(|line| line.len() + 1).sum::<usize>() > BATCH_BYTES_MAX {
        return Err(invalid("the batch is larger than 1 GiB".to_owned()));
    }
    for (at, line) in lines.iter().enumerate() {
        let wrong = |why: &str| invalid(format!("line {} of the batch {why}", at + 1));
        if memchr::memchr(b'\n', line).is_some() {
            return Err(wrong("contains a newline"));
        }
        if is_blank(line) {
            return Err(wrong("is blank"));
        }
        if options.json {
            let parsed = serde_json::from_slice::<serde::de::IgnoredAny>(line);
            parsed.map_err(|err| wrong(&format!("is not JSON: {err}")))?;
        }
    }
    Ok(lines)
}

/// The entries of a journal from some number on, oldest first. Made by [`Journal::read`]; later appends are not part
/// of it.
///
/// Entries that can no longer be read (an archive was moved away, a power loss took them) are
/// reported once as an error whose [`Error::gap`] has their numbers; the iteration then continues
/// after them. After any other error it ends.
#[derive(Debug)]
pub struct Entries {
    reader: Box<dyn EntryReader>,
}

impl Entries {
    /// The next entry without a copy of its own: its number, and its line, which is valid until the next
    /// call. For callers that look at each entry once and keep none.
    ///
    /// ```no_run
    /// # fn main() -> tenure::Result<()> {
    /// # let journal = tenure::Journal::open("log")?;
    /// let (mut entries, mut bytes) = (journal.read(1, None)?, 0);
    /// while let Some((_seq, line)) = entries.next_line()? {
    ///     bytes += line.len();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn next_line(&mut self) -> Result<Option<(u64, &[u8])>> {
        self.reader.next()
    }

    /// Lines of other tools that had no number when this was made, an unterminated one included. A
    /// line that a writer is appending at that moment may be among them.
    pub fn pending(&self) -> Result<Vec<Vec<u8>>> {
        self.reader.pending()
    }
}

impl Iterator for Entries {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        let owned = |(seq, line): (u64, &[u8])| Entry { seq, line: line.to_vec() };
        self.next_line().map(|next| next.map(owned)).transpose()
    }
}

/// The entries of a journal as they appear, across rotations, resumed by their numbers. Made by [`Journal::follow`].
///
/// Each entry comes once and in the order of the numbers. An entry that can no longer be read is
/// reported ([`Error::gap`]), never skipped silently. Lines of other tools come when they are
/// adopted: a follower that may write adopts them itself, one that may not leaves them to the next
/// writer.
#[derive(Debug)]
pub struct Follow {
    target: Arc<dyn Target>,
    next: u64,
    entries: Option<Box<dyn EntryReader>>,
    watcher: Option<Box<dyn Watcher>>,
    /// Adopting was refused; this is why.
    refused: Option<ErrorKind>,
}

impl Follow {
    /// The number to resume from later.
    pub fn position(&self) -> u64 {
        self.next.max(1)
    }

    /// Whether lines of other tools wait for a writer, since this follower may not adopt them.
    pub fn is_waiting_for_writer(&self) -> Result<bool> {
        if self.refused.is_none() {
            return Ok(false);
        }
        Ok(!self.target.entries(u64::MAX, None)?.pending()?.is_empty())
    }

    /// The next entry; `None` if there is none after this wait.
    pub fn next(&mut self, wait: Wait) -> Result<Option<Entry>> {
        let deadline = Deadline::after(wait);
        loop {
            if let Some(entry) = self.at_hand()? {
                return Ok(Some(entry));
            }
            if deadline.has_passed() {
                return Ok(None);
            }
            let sleep = deadline.remaining().map_or(LOOK_EVERY, |time| time.min(LOOK_EVERY));
            if let Some(watcher) = &mut self.watcher {
                watcher.wait(sleep)?;
            } else {
                // From now on changes are noticed, so check once more for those that came before.
                self.watcher = Some(self.target.watch()?);
            }
        }
    }

    /// The next entry that exists already.
    fn at_hand(&mut self) -> Result<Option<Entry>> {
        for _ in 0..2 {
            let entries = match &mut self.entries {
                Some(entries) => entries,
                entries => {
                    if self.refused.is_none() {
                        let adopted = self.target.adopt().map_err(|error| error.kind());
                        self.refused = adopted.err().filter(|kind| *kind != ErrorKind::Busy);
                    }
                    entries.insert(self.target.entries(self.next, None)?)
                }
            };
            match entries.next() {
                Ok(Some((seq, line))) => {
                    self.next = seq + 1;
                    return Ok(Some(Entry { seq, line: line.to_vec() }));
                }
                Ok(None) => self.entries = None,
                Err(error) => {
                    // It continues after a reported gap; after any other error it reads again.
                    match error.gap() {
                        Some((_, last)) => self.next = last + 1,
                        None => self.entries = None,
                    }
                    return Err(error);
                }
            }
        }
        Ok(None)
    }
}
