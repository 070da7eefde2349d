//! Fixed-size records on disk: fields one after the other, little endian; how they are sealed; and the version of
//! all of them.

use std::cmp::Ordering;
use std::path::Path;

use crate::checksum;
use crate::error::{Error, ErrorKind};
use crate::fs::FileId;

/// The major version of every format below `.tenure/`.
pub(crate) const MAJOR: u16 = 2;

/// The refusal of R3.
pub(crate) fn newer_format(path: &Path, major: u16) -> Error {
    let detail = format!("format version {major}, this tenure knows {MAJOR}");
    Error::new(ErrorKind::NewerFormat, "use", detail)
        .at(path)
        .hint("upgrade tenure; nothing was changed")
}

/// Sanity limit against corruption: no count, offset or number of ours comes near it, and none may wrap.
pub(crate) const COUNT_MAX: u64 = 1 << 56;

/// What has a fixed length on the disk.
pub(crate) trait Layout: Sized {
    /// Its length on the disk.
    const BYTES: usize;
    fn put(&self, fill: &mut Fill<'_>);
    fn take(take: &mut Take<'_>) -> Self;
}

/// A struct whose fields are on the disk one after the other. The word before a field says what it is there:
///
/// - `count`: a number that is counted with, or a place in a file. One beyond any sense makes the record invalid.
/// - `bits`: any 64 bits, such as a checksum or a random id.
/// - `flag`: one or zero, in 8 bytes.
/// - `part`: a value with a layout of its own.
/// - `memory`: nothing; the field is not stored.
macro_rules! layout {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$doc:meta])* $seen:vis $what:ident $field:ident: $type:ty,)*
    }) => {
        $(#[$meta])*
        $vis struct $name { $($(#[$doc])* $seen $field: $type,)* }

        impl $crate::file::layout::Layout for $name {
            const BYTES: usize = 0 $(+ layout!(@bytes $what $type))*;

            fn put(&self, fill: &mut $crate::file::layout::Fill<'_>) {
                $(layout!(@put $what fill, self.$field);)*
            }

            fn take(take: &mut $crate::file::layout::Take<'_>) -> Self {
                Self { $($field: layout!(@take $what take),)* }
            }
        }
    };
    (@bytes part $type:ty) => { <$type as $crate::file::layout::Layout>::BYTES };
    (@bytes memory $type:ty) => { 0 };
    (@bytes $what:ident $type:ty) => { 8 };
    (@put part $fill:ident, $value:expr) => { $crate::file::layout::Layout::put(&$value, $fill) };
    (@put memory $fill:ident, $value:expr) => {};
    (@put flag $fill:ident, $value:expr) => { $fill.u64(u64::from($value)) };
    (@put count $fill:ident, $value:expr) => { $fill.count($value) };
    (@put bits $fill:ident, $value:expr) => { $fill.u64($value) };
    (@take part $take:ident) => { $crate::file::layout::Layout::take($take) };
    (@take memory $take:ident) => { Default::default() };
    (@take flag $take:ident) => { $take.u64() == 1 };
    (@take count $take:ident) => { $take.count() };
    (@take bits $take:ident) => { $take.u64() };
}
pub(crate) use layout;

/// What the first bytes of a sealed record are, before the major version.
pub(crate) type Magic = [u8; 6];

const SUM_BYTES: usize = 8;

/// How much sealing adds to a record.
pub(crate) const fn sealing_bytes(magic: Option<Magic>) -> usize {
    if magic.is_some() { 8 + SUM_BYTES } else { SUM_BYTES }
}

/// Fills `bytes`: magic and major version (unless the file has them elsewhere), what `put` writes, and in the last 8
/// bytes a checksum. False if a count in it could not be read back.
pub(crate) fn seal(
    bytes: &mut [u8],
    magic: Option<Magic>,
    put: impl FnOnce(&mut Fill<'_>),
) -> bool {
    let mut fill = Fill::new(bytes);
    if let Some(magic) = magic {
        fill.raw(&magic);
        fill.u16(MAJOR);
    }
    put(&mut fill);
    let is_sane = !fill.absurd;
    let (said, sum) = bytes.split_at_mut(bytes.len() - SUM_BYTES);
    sum.copy_from_slice(&checksum::of(said).to_le_bytes());
    is_sane
}

/// What sealed bytes hold.
#[derive(Debug)]
pub(crate) enum Sealed<T> {
    Valid(T),
    Invalid,
    /// A newer major version wrote it.
    Newer(u16),
}

/// Reads what [`seal`] wrote.
pub(crate) fn open<T>(
    bytes: &[u8],
    magic: Option<Magic>,
    read: impl FnOnce(&mut Take<'_>) -> T,
) -> Sealed<T> {
    let (said, sum) = bytes.split_at(bytes.len() - SUM_BYTES);
    let mut take = Take::new(said);
    let is_ours = magic.is_none_or(|magic| magic == take.raw());
    if !is_ours || sum != checksum::of(said).to_le_bytes().as_slice() {
        return Sealed::Invalid;
    }
    let major = if magic.is_some() { take.u16() } else { MAJOR };
    match major.cmp(&MAJOR) {
        Ordering::Greater => return Sealed::Newer(major),
        Ordering::Less => return Sealed::Invalid,
        Ordering::Equal => {}
    }
    let value = read(&mut take);
    if take.is_sane() { Sealed::Valid(value) } else { Sealed::Invalid }
}

impl<const N: usize> Layout for [u8; N] {
    const BYTES: usize = N;

    fn put(&self, fill: &mut Fill<'_>) {
        fill.raw(self);
    }

    fn take(take: &mut Take<'_>) -> Self {
        take.raw()
    }
}

impl Layout for FileId {
    const BYTES: usize = 16;

    fn put(&self, fill: &mut Fill<'_>) {
        fill.u64(self.dev);
        fill.u64(self.ino);
    }

    fn take(take: &mut Take<'_>) -> Self {
        Self { dev: take.u64(), ino: take.u64() }
    }
}

/// Fills a record from its first byte on.
#[derive(Debug)]
pub(crate) struct Fill<'a> {
    bytes: &'a mut [u8],
    at: usize,
    absurd: bool,
}

impl<'a> Fill<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0, absurd: false }
    }

    pub(crate) fn raw(&mut self, value: &[u8]) {
        self.bytes[self.at..self.at + value.len()].copy_from_slice(value);
        self.at += value.len();
    }

    /// A number that is counted with: one beyond the limit could not be read back.
    pub(crate) fn count(&mut self, count: u64) {
        self.absurd |= count > COUNT_MAX;
        self.u64(count);
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

    /// The next `len` bytes; none, and not sane, if there are fewer.
    pub(crate) fn bytes(&mut self, len: usize) -> &'a [u8] {
        let found = self.bytes.get(self.at..self.at + len);
        self.refuse_if(found.is_none());
        self.at += len;
        found.unwrap_or_default()
    }

    /// One of these values, stored as its place among them. Any other number is not sane.
    pub(crate) fn one_of<T: Copy + Default>(&mut self, known: &[T]) -> T {
        let found = usize::try_from(self.u64()).ok().and_then(|at| known.get(at));
        self.refuse_if(found.is_none());
        found.copied().unwrap_or_default()
    }

    /// What tenure cannot have written.
    pub(crate) fn refuse_if(&mut self, absurd: bool) {
        self.absurd |= absurd;
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

    /// Whether everything so far is what tenure can have written.
    pub(crate) fn is_sane(&self) -> bool {
        !self.absurd
    }
}
