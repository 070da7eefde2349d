//! Reading a document: without a lock, and never half of it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::memory::Memory;
use crate::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Access, Handle, Kind, Stat, Trust};
use crate::json;
use crate::options::Version;
use crate::record::{Publications, Published};
use crate::seen::newer_format;
use crate::sys;
use crate::target::Target;
use crate::wait;

/// A foreign writer that rewrites in place is given these moments before its half-written file
/// counts as damaged (race 27).
const SECOND_LOOKS: [Duration; 3] =
    [Duration::from_millis(2), Duration::from_millis(8), Duration::from_millis(20)];
/// A document that grows while it is read is followed in such steps.
const GROWTH_BYTES: usize = 4096;
/// After these moments a reader looks again for a document that was published and is not there: a FUSE
/// server that finds files by their paths misses one that is being replaced, about once in fifty looks.
const GONE_LOOKS: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(4),
    Duration::from_millis(8),
    Duration::from_millis(16),
];
/// How often a reader starts over because the document changed while it read the version.
const VERSION_TRIES: usize = 16;

/// A document as it was at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// What it says.
    pub value: Value,
    /// The very bytes of the file.
    pub bytes: Vec<u8>,
    /// For `compare_and_set` and `if_version`.
    pub version: Version,
    /// The file was cut by a power loss; this is its last synced version.
    pub repaired: bool,
}

/// The bytes of a document and the file they came from, which is open or closed.
#[derive(Debug)]
pub(super) struct Content<File = Arc<dyn Handle>> {
    pub(super) handle: File,
    pub(super) stat: Stat,
    pub(super) bytes: Vec<u8>,
    pub(super) checksum: [u8; 16],
}

/// A file that was read and closed.
#[derive(Debug)]
pub(super) struct Closed;

impl Content {
    /// The file as it is, or `None` if there is none.
    pub(super) fn read(target: &Target, path: &Path) -> Result<Option<Self>> {
        Self::read_and(target, path, |handle| handle)
    }
}

impl Content<Closed> {
    /// The same, with the file closed at once. One that was replaced meanwhile has no name any more, and
    /// who closes it last removes it from the disk: that takes longer than reading it.
    fn read_and_close(target: &Target, path: &Path) -> Result<Option<Self>> {
        Self::read_and(target, path, |_| Closed)
    }
}

impl<File> Content<File> {
    fn read_and(
        target: &Target,
        path: &Path,
        go_on: impl FnOnce(Arc<dyn Handle>) -> File,
    ) -> Result<Option<Self>> {
        let handle = match target.fs.open(path, Access::Read) {
            Ok(handle) => handle,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(err) => return Err(refused(target, path, err)),
        };
        let failed = Target::failed;
        let stat = handle.stat().map_err(failed("look at document", path))?;
        if stat.kind != Kind::File {
            return Err(not_a_file(path));
        }
        let bytes = read_to_end(handle.as_ref(), stat.size);
        let bytes = bytes.map_err(failed("read document", path))?;
        let handle = go_on(handle);
        let checksum = checksum::wide(&bytes);
        Ok(Some(Self { handle, stat, bytes, checksum }))
    }

    pub(super) fn parse(&self, target: &Target) -> Result<Value> {
        json::parse(&self.bytes).map_err(|why| damaged(target, &why))
    }

    /// Whether the document is another file by now. Of a closed file the number may have been given out
    /// again; then this is not noticed.
    fn is_displaced(&self, target: &Target) -> bool {
        target.fs.extent(target.path()).is_ok_and(|found| found.id != self.stat.id)
    }

    pub(super) fn version(&self, published: Published) -> Version {
        let sum = u128::from_be_bytes(self.checksum);
        Version(format!("{:x}-{sum:032x}", published.generation))
    }
}

/// All of a file that was this long a moment ago. It is asked for a byte more: where none comes, it ends.
fn read_to_end(handle: &dyn Handle, size: u64) -> io::Result<Vec<u8>> {
    let size = usize::try_from(size).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    // A sparse file can claim more than there is memory; that is an error, not the end of us.
    bytes.try_reserve_exact(size.saturating_add(1)).map_err(|_| io::ErrorKind::OutOfMemory)?;
    bytes.resize(size + 1, 0);
    let mut end = handle.read_at(&mut bytes, 0)?;
    // Otherwise it has changed since, or less was given than asked for: until nothing comes.
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

/// Reads and parses; a file that cannot be parsed is looked at again before it counts as damaged.
pub(super) fn read_parsed(target: &Target, memory: &Memory) -> Result<Option<(Content, Value)>> {
    let mut looks = SECOND_LOOKS.iter();
    loop {
        let Some(content) = Content::read(target, target.path())? else { return Ok(None) };
        if let Some(value) = memory.recall(&content.bytes) {
            return Ok(Some((content, value)));
        }
        match content.parse(target) {
            Ok(value) => return Ok(Some((content, value))),
            Err(error) => match looks.next() {
                Some(moment) => wait::pause(*moment),
                None => return Err(error),
            },
        }
    }
}

/// A consistent pair of document and version, without any lock. Parsed is only what goes with its
/// version: beside a busy writer the rest is read more than once.
///
/// The content is read first, the record after it. If the record is of another version, then either that
/// came while we read: then ours stood before it, the other slot says so, and ours is not there any more.
/// What is not there any more was the document when we began, which is all that a read can tell. Or ours
/// is there, and its record is not written yet, or never will be (a foreign edit): look again.
pub(super) fn snapshot(target: &Target) -> Result<Option<Snapshot>> {
    let mut looks = SECOND_LOOKS.iter();
    let mut before: Option<Published> = None;
    let (mut tries_left, mut gone_looks) = (VERSION_TRIES, GONE_LOOKS.iter());
    loop {
        let Some(content) = Content::read_and_close(target, target.path())? else {
            match gone_looks.next() {
                Some(moment) if may_be_missed(target)? => wait::pause(*moment),
                _ => return Ok(None),
            }
            continue;
        };
        let is_of = |published: &Published| published.checksum == content.checksum;
        let record = peek(target)?;
        let published = match (record.last, record.before) {
            (last, _) if is_of(&last) => last,
            (_, Some(earlier)) if is_of(&earlier) && content.is_displaced(target) => earlier,
            (last, _) => match before {
                Some(before) if is_of(&before) => before,
                // It was published while we read: the record may be of the other one.
                _ if before != Some(last) && last != Published::default() && tries_left > 0 => {
                    before = Some(last);
                    tries_left -= 1;
                    continue;
                }
                _ => last,
            },
        };
        let version = content.version(published);
        let error = match content.parse(target) {
            Ok(value) => {
                let bytes = content.bytes;
                return Ok(Some(Snapshot { value, bytes, version, repaired: false }));
            }
            Err(error) => error,
        };
        if let Some(moment) = looks.next() {
            wait::pause(*moment);
            continue;
        }
        return Ok(last_synced(target, error)?.map(|(good, value, repaired)| {
            let version = good.version(published);
            Snapshot { value, bytes: good.bytes, version, repaired }
        }));
    }
}

/// Whether a document that was not found may be there: it was published, and where a name is being replaced
/// this file system may show none.
fn may_be_missed(target: &Target) -> Result<bool> {
    let is_known = |trust: Trust| matches!(trust, Trust::Yes | Trust::Unordered);
    let replaces_whole = target.fs.trust(target.dir()).is_ok_and(is_known);
    Ok(!replaces_whole && peek(target)?.last != Published::default())
}

/// What tenure published, read without a lock and without creating anything.
pub(super) fn peek(target: &Target) -> Result<Publications> {
    let path = target.commit_file();
    let file = match target.fs.open(path, Access::Read) {
        // A reader who may not see the sidecars still reads the document.
        Err(err) if is_absent(target, &err) => return Ok(Publications::default()),
        opened => opened.map_err(Target::failed("open record", path))?,
    };
    let loaded = Publications::load(file.as_ref());
    let loaded = loaded.map_err(Target::failed("read record", path))?;
    loaded.map_err(|major| newer_format(path, major))
}

fn is_absent(target: &Target, err: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(err.kind(), NotFound | PermissionDenied | NotADirectory)
        || target.fs.stat(target.side()).is_ok_and(|found| found.kind != Kind::Directory)
}

/// After a power loss a file that was published without a sync may be empty; the last synced version
/// stands in for it (G5). A file that was published in this boot was not cut by a power loss: it is
/// what it is, the error; and so is one that somebody else has written since. The power loss may have
/// taken the record, too, or taken it back to an older one; neither names this boot.
pub(super) fn last_synced(target: &Target, error: Error) -> Result<Option<(Content, Value, bool)>> {
    if peek(target)?.last.boot == target.fs.boot_id() || written_since_boot(target) {
        return Err(error);
    }
    match good(target)? {
        Some(good) => Ok(Some((good.content, good.value, true))),
        None => Err(error),
    }
}

/// Somebody's typo must not be mistaken for the work of a power loss and replaced (race 27). A wrong
/// clock can only keep a repair from happening by itself; `restore` does it then.
fn written_since_boot(target: &Target) -> bool {
    let booted_us = sys::wall_time_us().saturating_sub(sys::boot_time_us());
    let found = target.fs.stat(target.path());
    found.is_ok_and(|found| found.modified_ns > i128::from(booted_us) * 1000)
}

/// A good copy, and where it is.
pub(super) struct Good {
    pub(super) path: PathBuf,
    pub(super) content: Content,
    pub(super) value: Value,
}

/// The newest good copy. A crash between the exchange and the renaming to `.good` leaves it under the
/// temporary name; whatever is there is newer than `.good`, since every version passes through it.
pub(super) fn good(target: &Target) -> Result<Option<Good>> {
    let mut unreadable = None;
    for path in [target.document_temp(), target.sidecar("good")] {
        match Content::read(target, &path) {
            Ok(Some(content)) => {
                if let Ok(value) = content.parse(target) {
                    return Ok(Some(Good { path, content, value }));
                }
            }
            Ok(None) => {}
            Err(error) => unreadable = unreadable.or(Some(error)),
        }
    }
    // That there is none cannot be said if one could not be read.
    unreadable.map_or(Ok(None), Err)
}

pub(super) fn damaged(target: &Target, why: &str) -> Error {
    let restorable = target.fs.stat(&target.sidecar("good")).is_ok();
    let hint = if restorable {
        "it was left as it is; `tenure doc restore` brings back the last good version"
    } else {
        "it was left as it is, and there is no good copy: mend it, or move it away to start anew"
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

fn refused(target: &Target, path: &Path, err: io::Error) -> Error {
    match target.fs.stat(path).map(|found| found.kind) {
        Ok(Kind::Directory | Kind::Other) => not_a_file(path),
        _ => Error::io("open document", path, err),
    }
}
