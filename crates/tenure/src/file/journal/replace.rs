//! Replacing the journal by another file: rotation, compaction, a new header line.
//!
//! In order, with what a crash after each step leaves:
//!
//! 1. The state notes that a replacement begins; the new journal and its index are written under temporary names and
//!    synced: left-overs, which the next writer removes.
//! 2. A checkpoint ends with the intent {old inode, new inode}: the next writer checks the
//!    journal's inode. Old: it abandons the intent. New: it continues with step 4. Neither: it
//!    adopts that file.
//! 3. The two files exchange their names: from here on the new file is the journal.
//! 4. The directories are synced. The old file gets its own name, as an archive or set aside; the
//!    old index follows it, and the new index takes its place. Each step checks inodes and
//!    generations first, so it can be repeated.
//! 5. A log of the new journal begins.
//!
//! # Invariants
//!
//! 1. A replacement is done or abandoned; it never stops the journal. Every failure before step 3 removes its
//!    temporary files and clears the intent.
//! 2. A file that another tool put in the journal's place is never replaced: the exchange is undone.
//! 3. No file of another tool is overwritten by an archive. One that finds its name taken stays beside the
//!    sidecars, where readers look first.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::file::operations;
use crate::file::replace::{Exchange, Temp};
use crate::file::target::Target;
use crate::fs::{Access, Extent, Handle, Stat, if_found};
use crate::random;

use super::archive::{archive_path, aside_path, index_path, replaced_path};
use super::checkpoint::{JOURNAL_TEMP, NEXT_INDEX_TEMP, Next, new_temp, temp_path};
use super::files::has_inode;
use super::format::{
    Flags, HeaderLine, IndexId, Operation, Previous, Range, Replace, State, Title,
};
use super::index::Index;

use super::writer::Writer;

/// Collected writes of this size.
const WRITE_BYTES: usize = 256 * 1024;

/// A file that will become the journal. It is removed otherwise.
#[derive(Debug)]
pub(super) struct NewJournal {
    temp: Temp,
    file: Arc<dyn Handle>,
    pub(super) end: u64,
    buf: Vec<u8>,
    /// Its entries; entries below `first_seq` are in the archives.
    pub(super) ranges: Vec<Range>,
    pub(super) first_seq: u64,
    /// The next entry.
    pub(super) seq: u64,
    pub(super) line: HeaderLine,
    /// The archive that the old file becomes; 0: it is set aside.
    pub(super) archive: u64,
    /// The operation that its last entries are of.
    pub(super) operation: Operation,
}

impl NewJournal {
    /// A file with the attributes of the journal, a header line and nothing else.
    pub(super) fn create(writer: &mut Writer, line: &[u8]) -> Result<Self> {
        writer.state.flags.replacing = true;
        writer.store()?;
        let path = temp_path(&writer.target, JOURNAL_TEMP);
        let _ = writer.target.fs.remove(&path);
        let fill = |file: &dyn Handle| file.copy_attributes(writer.journal.as_ref());
        let failed = |err| Error::io("create", &path, err).committed(false);
        let temp = Temp::create(&writer.target, path.clone(), fill).map_err(failed)?;
        let file = temp.handle().map_err(failed)?;
        let mut new = Self {
            temp,
            file,
            end: 0,
            buf: Vec::new(),
            ranges: Vec::new(),
            first_seq: writer.state.seq,
            seq: writer.state.seq,
            line: HeaderLine::of(line),
            archive: 0,
            operation: Operation::default(),
        };
        new.write(line)?;
        Ok(new)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.buf.extend_from_slice(bytes);
        self.end += bytes.len() as u64;
        if self.buf.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let at = self.end - self.buf.len() as u64;
        let written = self.file.write_all_at(&self.buf, at);
        self.buf.clear();
        written.map_err(|err| Error::io("write", self.temp.path(), err).committed(false))
    }
}

/// The first archive number from `number` on whose names are free. A name that the file system does
/// not allow, or a directory that cannot be read, is an error before anything is changed.
pub(super) fn free_archive(target: &Target, mut number: u64) -> Result<u64> {
    let is_taken = |path: PathBuf| {
        let found = if_found(target.fs.stat(&path)).map(|found| found.is_some());
        found.map_err(|err| Error::io("name the archive", &path, err).committed(false))
    };
    while is_taken(archive_path(target, number))? || is_taken(aside_path(target, number))? {
        number += 1;
    }
    Ok(number)
}

impl Writer {
    /// Makes `new` the journal: steps 1 to 5. Everything in the old file has a number.
    pub(super) fn replace_by(&mut self, mut new: NewJournal) -> Result<()> {
        new.flush()?;
        let synced = new.file.sync();
        synced.map_err(|err| Error::io("sync", new.temp.path(), err).committed(false))?;
        let id = new.temp.stat().id;
        let old = self.journal_id()?;
        let generation = random::number()?.max(1);
        let replace = Replace {
            old,
            new: id,
            archive: new.archive,
            index: IndexId { generation, len: new.ranges.len() as u64 },
            end: new.end,
            line: new.line,
            seq: new.seq,
            operation: new.operation,
        };
        let previous = replace.finished(&self.log.header, self.state.journal_end).previous;
        let title = Title { generation, first_seq: new.first_seq, previous, line: new.line };
        self.write_next_index(title, &new.ranges)?;
        let intended = self.section.verify().and_then(|()| self.checkpoint(0, Some(replace)));
        if intended.is_err() {
            let _ = self.target.fs.remove(&temp_path(&self.target, NEXT_INDEX_TEMP));
        }
        intended?;
        drop(new.file); // Not every system replaces a file that is open.
        if let Err(error) = self.exchange(&replace, &mut new.temp) {
            self.abandon(true)?;
            return Err(error.committed(false));
        }
        new.temp.leave(); // The old file is under the temporary name now.
        self.finish_replace(&replace).map_err(|error| error.committed(true))
    }

    fn write_next_index(&self, title: Title, ranges: &[Range]) -> Result<()> {
        let (temp, file) = new_temp(&self.target, NEXT_INDEX_TEMP)?;
        Index::begin(file, title, ranges).map_err(|err| {
            let _ = self.target.fs.remove(&temp); // Give its room back.
            Error::io("write", &temp, err).committed(false)
        })
    }

    /// Step 3. On an error the journal keeps its name.
    fn exchange(&self, replace: &Replace, new: &mut Temp) -> Result<()> {
        let (fs, path) = (&self.target.fs, self.target.path());
        let failed = |err| Error::io("replace", path, err);
        let is_old = |found: &Stat| found.id.ino == replace.old.ino;
        let replaced = match new.exchange(path, is_old)? {
            Exchange::Done => return Ok(()),
            Exchange::Replaced => true,
            Exchange::Unsupported => {
                // A crash between the two leaves no journal; the next writer completes the second.
                let aside = replaced_path(&self.target, replace.old.ino);
                let _ = fs.remove(&aside);
                fs.link(path, &aside).map_err(failed)?;
                // Otherwise a power loss could keep the new file's name and lose the old file's
                // second one.
                fs.sync_dir(self.target.side()).map_err(failed)?;
                !new.rename_over(path, is_old)?
            }
        };
        if replaced {
            // Another tool put its own file there: it stays, and is adopted.
            let detail = "another tool replaced it meanwhile";
            return Err(Error::new(ErrorKind::Busy, "replace", detail).at(path));
        }
        Ok(())
    }

    fn sync_dirs(&self) -> Result<()> {
        for dir in [self.target.side(), self.target.dir()] {
            self.target.fs.sync_dir(dir).map_err(Target::failed("sync directory", dir))?;
        }
        Ok(())
    }

    /// Clears an intent that was not carried out. If the state is not of this boot, the new log of
    /// the recovery has none.
    pub(super) fn abandon(&mut self, known: bool) -> Result<()> {
        for temp in [JOURNAL_TEMP, NEXT_INDEX_TEMP] {
            let _ = self.target.fs.remove(&temp_path(&self.target, temp));
        }
        if known { self.checkpoint(0, None) } else { Ok(()) }
    }

    /// Steps 4 and 5, after the exchange. The new file is under the journal's name.
    pub(super) fn finish_replace(&mut self, replace: &Replace) -> Result<()> {
        // The index follows only a journal that stays.
        self.sync_dirs()?;
        self.name_old(replace)?;
        self.sync_dirs()?;
        let has_late = self.move_index(replace)?;
        self.sync_dirs()?;
        if replace.operation.id != 0 {
            let Operation { id, first, lines } = replace.operation;
            operations::remember_for_another(&self.target, id, operations::Done { first, lines })?;
        }
        let path = self.target.path();
        let opened = self.target.fs.open(path, Access::Append);
        self.journal = opened.map_err(Target::failed("open", path))?;
        let (old_end, late_end) = (self.state.journal_end, self.state.late_end);
        let previous = self.log.header.previous;
        self.update_size()?;
        self.log.header = replace.finished(&self.log.header, old_end);
        self.state = State {
            seq: self.state.seq.max(replace.seq),
            journal_end: replace.end,
            late_end: old_end,
            flags: Flags::default(),
            ..self.state
        };
        self.begin_log(Next::default())?;
        if !has_late {
            self.drop_previous(previous, late_end);
        }
        Ok(())
    }

    /// Gives the old file its own name.
    fn name_old(&self, replace: &Replace) -> Result<()> {
        let (target, fs) = (&self.target, &self.target.fs);
        let temp = temp_path(target, JOURNAL_TEMP);
        let aside = replaced_path(target, replace.old.ino);
        let is_old = |path: &Path| has_inode(target, path, replace.old.ino);
        let from = if is_old(&temp)? {
            &temp
        } else if is_old(&aside)? {
            &aside // Where names cannot be exchanged, the old file has this one.
        } else {
            return Ok(()); // It has its name already.
        };
        let named = match replace.archive {
            0 if *from == aside => Ok(()),
            0 => fs.rename(from, &aside),
            // One that cannot have its name stays beside the sidecars, and is found there.
            number => fs
                .rename_new(from, &archive_path(target, number))
                .or_else(|_| fs.rename(from, &aside_path(target, number))),
        };
        named.map_err(Target::failed("name the old file of", target.path()))
    }

    /// Removes the file that a compaction or a header had set aside before this replacement, if
    /// nothing was appended to it since. Otherwise another tool may still have it open, and an
    /// archive may have entries in it: it stays. A crash before the removal leaves it, too;
    /// `doctor` lists it.
    fn drop_previous(&self, previous: Previous, late_end: u64) {
        if previous.ino == 0 || previous.is_archive {
            return;
        }
        let path = replaced_path(&self.target, previous.ino);
        let is_all = |found: Extent| found.id.ino == previous.ino && found.size <= late_end;
        if self.target.fs.extent(&path).is_ok_and(is_all) {
            let _ = self.target.fs.remove(&path);
        }
    }

    /// The old index stays with an archive; the new one takes its name. Returns whether lines were adopted in the file
    /// that the old journal had replaced.
    fn move_index(&self, replace: &Replace) -> Result<bool> {
        let (target, fs) = (&self.target, &self.target.fs);
        let (path, temp) = (target.sidecar("index"), temp_path(target, NEXT_INDEX_TEMP));
        let failed = Target::failed;
        let current = Index::open(target, &path, Access::ReadWrite)?;
        let is_new = |index: &Index| index.title.generation == replace.index.generation;
        if current.as_ref().is_some_and(is_new) {
            return Ok(true); // A crash came behind this: it is not known any more.
        }
        let late_begins = |index: &Index| index.title.previous.end;
        let has_late = current.as_ref().map_or(0, late_begins) < self.state.late_end;
        if let Some(index) = current.filter(|_| replace.archive > 0) {
            // From now on all of its records count.
            let cut = index.cut(self.log.header.index.len).and_then(|()| index.file.sync());
            let kept = index_path(target, replace.archive);
            cut.and_then(|()| fs.rename(&path, &kept)).map_err(failed("move index", &path))?;
        }
        fs.rename(&temp, &path).map_err(failed("move index", &path))?;
        Ok(has_late)
    }
}

/// The possible places of the old journal of an unfinished replacement.
pub(super) fn old_paths(target: &Target, replace: &Replace) -> Vec<PathBuf> {
    let (temp, aside) = (temp_path(target, JOURNAL_TEMP), replaced_path(target, replace.old.ino));
    let mut paths = vec![target.path().to_path_buf(), temp, aside];
    if replace.archive > 0 {
        paths.push(archive_path(target, replace.archive));
        paths.push(aside_path(target, replace.archive));
    }
    paths
}
