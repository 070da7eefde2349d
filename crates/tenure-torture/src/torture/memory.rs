//! Words that all processes of a run share, where the judges keep their data.
//!
//! # Invariants
//!
//! 1. The words are in a mapped file of the scratch directory. No code of tenure touches them.
//! 2. Every access is sequentially consistent: of two processes that announce themselves and then
//!    check the others, at least one sees the other.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap};

/// How many words there are.
pub(super) const WORDS: usize = 512;
const BYTES: usize = WORDS * size_of::<AtomicU64>();

/// The shared words. They stay mapped until the process ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    words: &'static [AtomicU64],
}

impl Memory {
    /// Makes the file, all words zero.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        // Written, not only extended: on a full disk, access to a page without a block would be
        // fatal.
        file.write_all(&[0; BYTES])?;
        Self::map(&file)
    }

    /// Opens the file that another process made.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() != BYTES as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not the words of a run"));
        }
        Self::map(&file)
    }

    fn map(file: &File) -> io::Result<Self> {
        let (read_write, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        #[expect(unsafe_code, reason = "memory that processes share has to be mapped")]
        // SAFETY: a new mapping of a file that has this length and is never truncated; it is never
        // unmapped, page-aligned, and zeroed bytes are valid atomics. Other processes only use
        // atomics on it.
        let words = unsafe {
            let start = mmap(std::ptr::null_mut(), BYTES, read_write, shared, file, 0)?;
            std::slice::from_raw_parts(start.cast::<AtomicU64>(), WORDS)
        };
        Ok(Self { words })
    }

    /// The word at `index`.
    pub(super) fn word(&self, index: usize) -> &'static AtomicU64 {
        &self.words[index]
    }
}
