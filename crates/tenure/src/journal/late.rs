//! Lines that come to a file when it is not the journal any more: whoever still has it open may append to it (race 40).
//!
//! # Invariants
//!
//! 1. What lies before [`Displaced::end`] is in the journal, or was; complete lines behind it are
//!    taken over, once.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::fs::Access;
use crate::target::Target;

use super::entry::Kind;
use super::head::{Displaced, Head, Intent};
use super::lines;
use super::publish::archive_path;
use super::session::{Session, tail_sum};
use super::view;

/// Late lines are taken over in pieces of this size.
const LATE_BYTES_MAX: u64 = 16 * 1024 * 1024;

impl Session {
    /// Somebody has cut the journal (`copytruncate`) while its successor was written. What is in it now came after that, and
    /// would go with it.
    pub(super) fn was_cut(&self) -> Error {
        let detail = "somebody cut it meanwhile";
        let error = Error::new(ErrorKind::Busy, "replace", detail).at(self.target.path());
        error.committed(false).hint("nothing was replaced; try again")
    }

    /// Takes over complete lines that somebody has appended to a file after it was displaced.
    pub(super) fn adopt_late(&mut self) -> Result<()> {
        while let Some(displaced) = self.head.displaced {
            let path = displaced_path(&self.target, displaced.archive);
            let Ok(file) = self.target.fs.open(&path, Access::Read) else { return Ok(()) };
            let failed = Target::failed;
            let found = file.stat().map_err(failed("look at", &path))?;
            if found.id.ino != displaced.file.ino || found.size <= displaced.end {
                return Ok(());
            }
            let until = found.size.min(displaced.end + LATE_BYTES_MAX);
            let end = lines::last_line_end(file.as_ref(), displaced.end, until);
            let end = end.map_err(failed("read", &path))?;
            if end == displaced.end {
                return Ok(()); // The line is not finished; neither are we with it.
            }
            let bytes = file.read_range(displaced.end, end).map_err(failed("read", &path))?;
            self.adopt_tail()?;
            self.close_tail()?;
            self.news.adopted += lines::Count::of(&bytes).entries();
            self.log_direct(&bytes, Kind::Late(end))?;
        }
        Ok(())
    }
}

/// What a replacement displaces. If somebody has cut the old file in the last moment, all that is in it is late.
pub(super) fn displaced_by(target: &Target, head: &Head, intent: &Intent) -> Result<Displaced> {
    let (file, archive) = (intent.old, intent.archive);
    let is_cut = is_cut(target, &displaced_path(target, archive), head, intent)?;
    Ok(Displaced { file, end: if is_cut { 0 } else { intent.old_end }, archive })
}

/// Whether `path` is the old file of a replacement and has not the end that it had when that was intended, which `head` still
/// knows: somebody has cut it, and it may be longer again.
pub(super) fn is_cut(target: &Target, path: &Path, head: &Head, intent: &Intent) -> Result<bool> {
    let Some(file) = view::open_if_there(target, path)? else { return Ok(false) };
    let failed = |err| Target::failed("read", path)(err);
    let found = file.stat().map_err(failed)?;
    if found.id.ino != intent.old.ino {
        return Ok(false);
    }
    let known = head.base == intent.old_end; // Its sum is of that end.
    let differs = || Ok(known && tail_sum(file.as_ref(), head.base)? != head.tail_sum);
    Ok(found.size < intent.old_end || differs().map_err(failed)?)
}

/// Where a displaced file is.
pub(super) fn displaced_path(target: &Target, archive: u64) -> PathBuf {
    if archive > 0 { archive_path(target, archive) } else { target.sidecar("displaced") }
}
