//! Forged records: planted numbers with a checksum that fits (docs/FORMAT.md).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

/// Where the two slots of a record are.
pub(crate) const SLOTS: [u64; 2] = [4096, 8192];
/// Where the two copies of its reservation are.
pub(crate) const RESERVATIONS: [u64; 2] = [12288, 16384];

/// Changes the given slots that exist, and corrects their checksums.
pub(crate) fn forge(path: &Path, slots: [u64; 2], change: impl Fn(&mut [u8])) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    for offset in slots {
        let mut slot = [0; 1024];
        if file.read_exact_at(&mut slot, offset).is_err() || !slot.starts_with(b"tenure") {
            continue;
        }
        change(&mut slot);
        let sum = xxh3_64(&slot[..1016]);
        slot[1016..].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(&slot, offset).unwrap();
    }
}

/// The slot that counts.
pub(crate) fn newest_slot(path: &Path) -> Vec<u8> {
    let file = std::fs::read(path).unwrap();
    let slots = SLOTS.map(|offset| usize::try_from(offset).unwrap());
    let slots = slots.map(|offset| file[offset..offset + 1024].to_vec());
    slots.into_iter().max_by_key(|slot| number_in(slot, 8)).unwrap()
}

pub(crate) fn number_in(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}
