//! Reading a document: without a lock, and never a partial one.
//!
//! The content is read first, the record after it. If both have the same checksum they belong together.
//! If not, a change came in between, or the change's record is not written yet, or another tool wrote the
//! file: the reader looks again, a few times.
//!
//! After a power loss a document that was published without a sync may be cut. Readers then get the last
//! synced version from memory ([`last_synced`]); the next writer makes it the document.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::memory::Memory;
use crate::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::file::record::{Published, Record};
use crate::file::seen::Seen;
use crate::file::target::Target;
use crate::fs::{Access, Handle, Kind, Stat, Trust};
use crate::json::{self, Value};
use crate::options::Version;
use crate::printable::command;
use crate::results::Snapshot;
use crate::sys;

/// Another tool that rewrites the file in place gets this much time before its half-written file
/// counts as damaged (race 27).
const SECOND_LOOKS: [u64; 3] = [2, 8, 20];
/// The same for a published document that is missing: a FUSE server that finds files by their paths
/// misses one that is being replaced, about once in fifty lookups.
const GONE_LOOKS: [u64; 6] = [0, 1, 2, 4, 8, 16];
/// A document that grows while it is read is followed in such steps.
const GROWTH_BYTES: usize = 4096;
/// How often a reader starts over because the document changed while it read the version.
const VERSION_TRIES: usize = 16;

/// The bytes of a document and the file they came from.
#[derive(Debug)]
pub(super) struct Content {
    /// Readers close it at once: the last to close a file that was replaced removes it from the disk,
    /// which takes longer than reading it.
    pub(super) handle: Option<Arc<dyn Handle>>,
    pub(super) stat: Stat,
    pub(super) bytes: Vec<u8>,
    pub(super) checksum: [u8; 16],
}

impl Content {
    /// The file as it is, or `None` if there is none.
    pub(super) fn read(target: &Target, path: &Path) -> Result<Option<Self>> {
        let handle = match target.open(path, Access::Read) {
            Ok(handle) => handle,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(err) => {
                return Err(match target.fs.stat(path).map(|found| found.kind) {
                    Ok(Kind::Directory | Kind::Other) => not_a_file(path),
                    _ => Error::io("open document", path, err),
                });
            }
        };
        let stat = handle.stat().map_err(Target::failed("look at document", path))?;
        if stat.kind != Kind::File {
            return Err(not_a_file(path));
        }
        let bytes = read_to_end(handle.as_ref(), stat.size);
        let bytes = bytes.map_err(Target::failed("read document", path))?;
        let checksum = checksum::wide(&bytes);
        Ok(Some(Self { handle: Some(handle), stat, bytes, checksum }))
    }

    pub(super) fn parse(&self, target: &Target) -> Result<Value> {
        if target.is_bytes() {
            return Ok(Value::Null);
        }
        json::read(&self.bytes).map_err(|why| damaged(target, &why))
    }

    pub(super) fn version(&self, published: Published) -> Version {
        let sum = u128::from_be_bytes(self.checksum);
        Version(format!("{:x}-{sum:032x}", published.generation))
    }
}

/// All of a file that had this length a moment ago. One byte more is requested, to find its end.
fn read_to_end(handle: &dyn Handle, size: u64) -> io::Result<Vec<u8>> {
    let size = usize::try_from(size).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    // A sparse file can claim more than there is memory; that is an error, not an abort.
    bytes.try_reserve_exact(size.saturating_add(1)).map_err(|_| io::ErrorKind::OutOfMemory)?;
    bytes.resize(size + 1, 0);
    let mut end = handle.read_at(&mut bytes, 0)?;
    // Otherwise it has changed since, or the read was short: read until nothing comes.
    let mut more = end != size;
    while more {
        if end == bytes.len() {
            bytes.resize(end + GROWTH_BYTES, 0);
        }
        let read = handle.read_at(&mut bytes[end..], end as u64)?;
        end += read;
        more = read > 0;
    }
    bytes.truncate(end);
    Ok(bytes)
}

/// Whether it would still be valid after it was cut: a number is the only such JSON, and any bytes are. So none is
/// published without a sync, displaced by a version without one, or trusted under the temporary name.
pub(super) fn hides_a_cut(target: &Target, bytes: &[u8]) -> bool {
    if target.is_bytes() {
        return true;
    }
    let mut text = bytes.iter().skip_while(|byte| byte.is_ascii_whitespace());
    text.next().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-')
}

/// Reads and parses under the lock; a file that cannot be parsed is looked at again before it counts as
/// damaged.
pub(super) fn read_parsed(target: &Target, memory: &Memory) -> Result<Option<(Content, Value)>> {
    let mut looks = SECOND_LOOKS.iter();
    loop {
        let Some(content) = Content::read(target, target.path())? else { return Ok(None) };
        if let Some(value) = memory.recall(&content.bytes) {
            return Ok(Some((content, value)));
        }
        match (content.parse(target), looks.next()) {
            (Ok(value), _) => return Ok(Some((content, value))),
            (Err(_), Some(ms)) => sys::pause(Duration::from_millis(*ms)),
            (Err(error), None) => return Err(error),
        }
    }
}

/// A consistent pair of document and version, without any lock. Only what goes with its version is
/// parsed: beside a busy writer the rest is read more than once.
pub(super) fn snapshot(target: &Target) -> Result<Option<Snapshot>> {
    let (mut looks, mut gone_looks) = (SECOND_LOOKS.iter(), GONE_LOOKS.iter());
    let mut before: Option<Published> = None;
    let mut tries_left = VERSION_TRIES;
    loop {
        let Some(mut content) = Content::read(target, target.path())? else {
            match gone_looks.next() {
                Some(ms) if may_be_missed(target)? => sys::pause(Duration::from_millis(*ms)),
                _ => return Ok(None),
            }
            continue;
        };
        content.handle = None;
        let is_of = |published: &Published| published.checksum == content.checksum;
        let last = peek(target)?;
        let published = match before {
            _ if is_of(&last) => last,
            // It was the document when we began, which is all that a read can say.
            Some(before) if is_of(&before) => before,
            // The record may be of a change that came while we read.
            _ if before != Some(last) && last.tag != 0 && tries_left > 0 => {
                before = Some(last);
                tries_left -= 1;
                continue;
            }
            _ => last,
        };
        match (content.parse(target), looks.next()) {
            (Ok(value), _) => {
                let version = content.version(published);
                return Ok(Some(Snapshot {
                    value,
                    bytes: content.bytes,
                    version,
                    repaired: false,
                }));
            }
            (Err(_), Some(ms)) => sys::pause(Duration::from_millis(*ms)),
            (Err(error), None) => {
                let (good, value) = last_synced(target, error)?;
                let version = good.version(published);
                return Ok(Some(Snapshot { value, bytes: good.bytes, version, repaired: true }));
            }
        }
    }
}

/// Whether a document that was not found may exist: it was published, and this file system may show
/// no name while one is being replaced.
fn may_be_missed(target: &Target) -> Result<bool> {
    let trust = target.fs.trust(target.dir());
    let replaces_whole = matches!(trust, Ok(Trust::Yes | Trust::Unordered));
    Ok(!replaces_whole && peek(target)?.tag != 0)
}

/// What tenure published, read without a lock and without creating anything.
pub(super) fn peek(target: &Target) -> Result<Published> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    let path = target.commit_file();
    let is_absent = |err: &io::Error| {
        matches!(err.kind(), NotFound | PermissionDenied | NotADirectory)
            || target.fs.stat(target.side()).is_ok_and(|found| found.kind != Kind::Directory)
    };
    let file = match target.open(path, Access::Read) {
        // A reader that may not read the sidecars still reads the document.
        Err(err) if is_absent(&err) => return Ok(Published::default()),
        opened => opened.map_err(Target::failed("open record", path))?,
    };
    Ok(Record::load(file.as_ref(), path)?.0.published)
}

/// How many versions the record keeps besides `.good`, read without a lock.
pub(super) fn history(target: &Target) -> Result<u64> {
    Ok(Seen::peek(target)?.map_or(0, |(_, seen)| seen.record.history))
}

/// Whether a document that cannot be parsed was cut by a power loss (G5): tenure has not seen it whole in
/// this boot, and it was last written before. Otherwise it is an editor's typo, which is not ours to
/// replace (race 27). A wrong clock can only keep a repair from happening by itself.
pub(super) fn was_cut(target: &Target) -> Result<bool> {
    let booted_us = sys::wall_time_us().saturating_sub(sys::boot_time_us());
    let is_older = |stat: Stat| stat.modified_ns <= i128::from(booted_us) * 1000;
    Ok(peek(target)?.boot != target.fs.boot_id()
        && target.fs.stat(target.path()).is_ok_and(is_older))
}

/// The last synced version, in place of a document that a power loss cut; else the error.
pub(super) fn last_synced(target: &Target, error: Error) -> Result<(Content, Value)> {
    if !was_cut(target)? {
        return Err(error);
    }
    match left_over(target) {
        Ok(Some(found)) => Ok(found),
        unreadable => match good(target)? {
            Some(found) => Ok(found),
            // If one could not be read, "there is none" cannot be said.
            None => Err(unreadable.err().unwrap_or(error)),
        },
    }
}

/// After a power loss: a whole version under the temporary name. It is newer than `.good`, since every
/// version passes through that name.
pub(super) fn left_over(target: &Target) -> Result<Option<(Content, Value)>> {
    let found = parsed(target, &target.document_temp())?;
    Ok(found.filter(|(found, _)| !hides_a_cut(target, &found.bytes)))
}

/// The version to fall back to.
pub(super) fn good(target: &Target) -> Result<Option<(Content, Value)>> {
    parsed(target, &target.sidecar("good"))
}

fn parsed(target: &Target, path: &Path) -> Result<Option<(Content, Value)>> {
    let found = Content::read(target, path)?;
    Ok(found.and_then(|found| found.parse(target).ok().map(|value| (found, value))))
}

fn damaged(target: &Target, why: &str) -> Error {
    let restorable = target.fs.stat(&target.sidecar("good")).is_ok();
    let hint = if restorable {
        let restore = command("doc restore", target.path());
        format!("it was left as it is; {restore} brings back the version before the last change")
    } else {
        "it was left as it is, and there is no good copy: correct it, or move it away to start anew"
            .to_owned()
    };
    Error::new(ErrorKind::Damaged, "read document", format!("it {why}"))
        .at(target.path())
        .hint(hint)
}

fn not_a_file(path: &Path) -> Error {
    Error::new(ErrorKind::Invalid, "read document", "it is not a regular file")
        .at(path)
        .hint("name a file")
}
