//! Two numbers that all processes of a heat share: which one released a lock last, and when.
//!
//! They are in a page of memory, because a write to a file would cost as much as what is measured.

#![expect(unsafe_code, reason = "the only way to share memory between processes")]

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::row::Result;

/// Enough for both numbers, and a page anyway.
const BYTES: usize = 4096;

/// A stamp in shared memory.
#[derive(Debug)]
pub(crate) struct Stamp {
    time: &'static AtomicU64,
    seat: &'static AtomicU64,
}

impl Stamp {
    /// The stamp in this file, which is made if it is not there.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        file.set_len(BYTES as u64)?;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping that nothing else in this process knows, of a file that has this length
        // and is never made shorter.
        let page = unsafe { mmap(std::ptr::null_mut(), BYTES, access, flags, &file, 0)? };
        let words = page.cast::<u64>();
        // SAFETY: the mapping starts at a page and is never unmapped; all processes use its words as
        // atomics only.
        let (time, seat) =
            unsafe { (AtomicU64::from_ptr(words), AtomicU64::from_ptr(words.add(1))) };
        Ok(Self { time, seat })
    }

    /// Notes that `seat` releases at `time`.
    pub(crate) fn set(&self, seat: usize, time: u64) {
        self.seat.store(seat as u64, Ordering::SeqCst);
        self.time.store(time, Ordering::SeqCst);
    }

    /// When the last release was, unless that was by `seat` itself.
    pub(crate) fn of_another(&self, seat: usize) -> Option<u64> {
        let other = self.seat.load(Ordering::SeqCst) != seat as u64;
        other.then(|| self.time.load(Ordering::SeqCst))
    }

    /// The last time, by any seat.
    pub(crate) fn time(&self) -> u64 {
        self.time.load(Ordering::SeqCst)
    }
}
