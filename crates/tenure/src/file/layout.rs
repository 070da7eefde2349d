//! Fixed-size records on disk: fields one after the other, little endian; and the version of all of them.

use std::path::Path;

use crate::error::{Error, ErrorKind};

/// The major version of every format below `.tenure/`.
pub(crate) const MAJOR: u16 = 2;

/// The refusal of R3.
pub(crate) fn newer_format(path: &Path, major: u16) -> Error {
    let detail = format!("format version {major}, this tenure knows {MAJOR}");
    Error::new(ErrorKind::NewerFormat, "use", detail)
        .at(path)
        .hint("upgrade tenure; nothing was changed")
}

/// `N` bytes at `offset`, which are there.
pub(crate) fn array<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[offset + index])
}

/// Sanity limit against corruption: no count, offset or number of ours comes near it, and none may wrap.
pub(crate) const COUNT_MAX: u64 = 1 << 56;

/// Fills a record from its first byte on.
#[derive(Debug)]
pub(crate) struct Fill<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Fill<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn raw(&mut self, value: &[u8]) {
        self.bytes[self.at..self.at + value.len()].copy_from_slice(value);
        self.at += value.len();
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.raw(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.raw(&value.to_le_bytes());
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.raw(&value.to_le_bytes());
    }
}

/// Reads a record from its first byte on. The caller has checked its length.
#[derive(Debug)]
pub(crate) struct Take<'a> {
    bytes: &'a [u8],
    at: usize,
    absurd: bool,
}

impl<'a> Take<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, absurd: false }
    }

    pub(crate) fn raw<const N: usize>(&mut self) -> [u8; N] {
        let mut value = [0; N];
        value.copy_from_slice(&self.bytes[self.at..self.at + N]);
        self.at += N;
        value
    }

    /// A number that is counted with, or a place in a file.
    pub(crate) fn count(&mut self) -> u64 {
        let count = self.u64();
        self.absurd |= count > COUNT_MAX;
        count
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.raw())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.raw())
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.raw())
    }

    /// Whether every count so far is one that tenure can have written.
    pub(crate) fn is_sane(&self) -> bool {
        !self.absurd
    }
}
