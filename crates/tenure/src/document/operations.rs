//! Which operations a version of a document contains, attached to the very file.
//!
//! The record remembers them as well, and that is enough while the machine runs. But a power loss may keep a
//! version and lose its record, or the other way round. What is attached to a file comes and goes with it.
//!
//! # Invariants
//!
//! 1. It counts only for the content that it was made for: who writes into the file in place has another.
//! 2. A version has it before it gets its name.
//! 3. Where files cannot have anything attached, a document works all the same, and a power loss may make
//!    it forget operations: then a repeated one is done again.

use super::content::Content;
use crate::commit::Commit;
use crate::fs::Handle;
use crate::record::OPERATIONS;

/// What it begins with, and its version.
const MAGIC: &[u8; 4] = b"ops1";
/// With the checksum of the content.
const HEAD_BYTES: usize = MAGIC.len() + 16;
const BYTES: usize = HEAD_BYTES + OPERATIONS * 8;

/// Attaches `operations` to a file whose content has this checksum. Whether that could be done.
pub(super) fn attach(
    file: &dyn Handle,
    checksum: [u8; 16],
    operations: &[u64; OPERATIONS],
) -> bool {
    let mut bytes = Vec::with_capacity(BYTES);
    bytes.extend(MAGIC);
    bytes.extend(checksum);
    bytes.extend(operations.iter().flat_map(|operation| operation.to_le_bytes()));
    file.attach(&bytes).is_ok()
}

/// Brings what the record remembers in line with the document, before the record says that it describes it.
/// `asked`: somebody wants to know of an operation.
pub(super) fn reconcile(commit: &mut Commit, found: Option<&Content>, asked: bool) {
    let other_boot = commit.seen.record.published.boot != commit.target.fs.boot_id();
    let record = &mut commit.seen.record;
    let (pending, sum) = record.pending;
    let is_known = |found: &Content| {
        found.checksum == record.published.checksum || (pending != 0 && found.checksum == sum)
    };
    if other_boot && !found.is_some_and(is_known) {
        // A power loss may have taken back what the record remembers as done (race 51).
        record.operations = Default::default();
    }
    if other_boot || asked {
        // Or it has lost the record of what is done.
        for done in found.map(attached).unwrap_or_default() {
            record.remember(done);
        }
    }
}

/// The operations that a version contains, the oldest first, as far as the file tells.
pub(super) fn attached(found: &Content) -> Vec<u64> {
    let bytes = found.handle.attached().unwrap_or_default();
    let is_ours = bytes.len() == BYTES && bytes.starts_with(MAGIC);
    if !is_ours || bytes[MAGIC.len()..HEAD_BYTES] != found.checksum {
        return Vec::new();
    }
    let numbers = bytes[HEAD_BYTES..]
        .chunks_exact(8)
        .map(|number| number.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)));
    numbers.filter(|operation| *operation != 0).collect()
}
