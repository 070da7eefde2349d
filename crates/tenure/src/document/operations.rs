//! Which operations a version of a document contains, attached to the very file.
//!
//! The record remembers them as well, and that is enough while the machine runs. But a power loss may keep a
//! version and lose its record, or the other way round. What is attached to a file comes and goes with it.
//!
//! # Invariants
//!
//! 1. It counts only for the content and for the very file that it was made for: who writes into the file in
//!    place has another content, and a copy with all attributes is another file. A rename keeps the file. Its last
//!    newline is no part of the content.
//! 2. A version has it before it gets its name.
//! 3. Where files cannot have anything attached, a document works all the same, and a power loss may make
//!    it forget operations: then a repeated one is done again.

use super::content::Content;
use super::publish;
use crate::checksum;
use crate::commit::Commit;
use crate::fs::Handle;
use crate::record::OPERATIONS;

/// What it begins with, and its version.
const MAGIC: &[u8; 4] = b"ops2";
/// With the checksum of the content, and behind it the number of the inode and its birth, or 0.
const FILE_AT: usize = MAGIC.len() + 16;
const BORN_AT: usize = FILE_AT + 8;
const HEAD_BYTES: usize = BORN_AT + 8;
const BYTES: usize = HEAD_BYTES + OPERATIONS * 8;

/// Attaches `operations` to a file whose content has this checksum. Whether that could be done.
pub(super) fn attach(
    file: &dyn Handle,
    checksum: [u8; 16],
    operations: &[u64; OPERATIONS],
) -> bool {
    let Ok(extent) = file.extent() else { return false };
    let mut bytes = Vec::with_capacity(BYTES);
    bytes.extend(MAGIC);
    bytes.extend(checksum);
    bytes.extend(extent.id.ino.to_le_bytes());
    bytes.extend(extent.born_us.to_le_bytes());
    bytes.extend(operations.iter().flat_map(|operation| operation.to_le_bytes()));
    file.attach(&bytes).is_ok()
}

/// Brings what the record remembers in line with the document, before the record says that it describes it.
/// `asked`: somebody wants to know of an operation.
pub(super) fn reconcile(commit: &mut Commit, found: Option<&Content>, asked: bool) {
    let other_boot = !commit.seen.record.published.is_of(commit.target.fs.boot_id());
    let record = &mut commit.seen.record;
    let (pending, sum) = record.pending;
    let is_known = |found: &Content| {
        found.checksum == record.published.checksum || (pending != 0 && found.checksum == sum)
    };
    if other_boot && !found.is_some_and(is_known) {
        // A power loss may have taken back what the record remembers as done (race 51).
        record.operations = Default::default();
    }
    // What the record says of this very file was written after everything that is attached to it, unless a power
    // loss took that back.
    let published = record.published;
    let newer = |found: &Content| !other_boot && publish::is_published(found, published);
    if (other_boot || asked) && !found.is_some_and(newer) {
        // Or it has lost the record of what is done. If it knows the newest, it knows more than the file.
        let attached = found.map(attached).unwrap_or_default();
        if attached.last().is_some_and(|newest| !record.has_done(*newest)) {
            for done in attached {
                record.remember(done);
            }
        }
    }
}

/// The operations that a version contains, the oldest first, as far as the file tells.
pub(super) fn attached(found: &Content) -> Vec<u64> {
    let bytes = found.handle.attached().unwrap_or_default();
    let is_ours = bytes.len() == BYTES && bytes.starts_with(MAGIC);
    let is_for = |checksum: [u8; 16]| bytes[MAGIC.len()..FILE_AT] == checksum;
    // A power loss that took no more than the last newline has left this version.
    let is_cut = || is_for(checksum::wide(&[&found.bytes[..], b"\n"].concat()));
    if !is_ours || !(is_for(found.checksum) || is_cut()) || !is_of(found, &bytes) {
        return Vec::new();
    }
    let numbers = bytes[HEAD_BYTES..].chunks_exact(8).map(number);
    numbers.filter(|operation| *operation != 0).collect()
}

/// Whether it was made for this very file. An inode number is given out again, so its birth counts as well,
/// where both know it.
fn is_of(found: &Content, bytes: &[u8]) -> bool {
    let born_us = number(&bytes[BORN_AT..HEAD_BYTES]);
    let is_born_then = |now_us: u64| now_us == born_us || now_us == 0 || born_us == 0;
    number(&bytes[FILE_AT..BORN_AT]) == found.stat.id.ino
        && found.handle.extent().is_ok_and(|extent| is_born_then(extent.born_us))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
