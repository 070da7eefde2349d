//! Operation ids: which operations a target contains, so that a repeated one is not done again.
//!
//! `NAME.ops` exists from the first call with an id on. Behind a header it has [`BUCKETS`] pages of
//! [`SLOTS`] slots. An id has its place in one page, so a lookup reads one page and remembering writes
//! one slot; a full page loses its oldest id. At least the 4,096 newest ids of a target are known.
//!
//! Invariants
//! 1. Every function is called under the commit lock, except [`Kept::sync`].
//! 2. An id is remembered after its effect is visible, and counts in the boot that remembered it: its
//!    effect may not be on the disk, so a power loss takes both.
//! 3. An id that is *kept* counts in every boot. It is kept after its effect is durable, so none is
//!    ever answered as done that a power loss has undone.
//! 4. A slot that was torn, or is of another boot and was not kept, counts as free. To keep an id changes
//!    only the last four bytes of its slot: a death in that leaves the id remembered.
//! 5. The file is opened before an operation with an id begins. A later writer that cannot open it does not fail
//!    for the id of an earlier one.
//!
//! Crash: the death of a process loses no id, since the page cache outlives it (what happens between
//! the effect and `remember` is the caller's part: the record's `pending`, or the journal's log). A
//! power loss before [`Kept::sync`] has returned may forget the id; after it, the id is remembered.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::checksum;
use crate::error::{ErrorKind, Result};
use crate::file::events;
use crate::file::layout::{Fill, MAJOR, Take, newer_format};
use crate::file::sync::not_durable;
use crate::file::target::Target;
use crate::fs::{Handle, if_found};
use crate::json;

/// The suffix of the file.
pub(crate) const SUFFIX: &str = "ops";
const MAGIC: &[u8; 6] = b"tenops";
/// Where the header says that the file's own name is durable.
const NAMED_AT: u64 = 8;
const HEADER_BYTES: usize = 16;
const PAGE_BYTES: usize = 4096;
const BUCKETS: u64 = 64;
/// `id` 8, `first` 8, `lines` 4, `stamp` 4, its checksum for the boot 4, and for every boot 4 (0: not kept).
const SLOT_BYTES: usize = 32;
const BOOT_AT: usize = 24;
const KEPT_AT: usize = 28;
const SLOTS: usize = PAGE_BYTES / SLOT_BYTES;
/// Mixed into a slot's checksum in place of the boot: an id that counts in every boot.
const EVERY_BOOT: [u8; 16] = [0; 16];

/// What an operation did: the entries of a journal; zeros for a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Done {
    pub(crate) first: u64,
    pub(crate) lines: u64,
}

/// The id of an operation; never 0, which means none.
pub(crate) fn id_of(name: &str) -> u64 {
    checksum::of(name.as_bytes()).max(1)
}

/// Before an operation: what it did, if it was done. An id that could not be remembered is refused here, while
/// nothing has happened yet (invariant 5).
pub(crate) fn find(target: &Target, id: u64) -> Result<Option<Done>> {
    let is_gone = |path: &Path| if_found(target.fs.stat(path)).is_ok_and(|found| found.is_none());
    if is_gone(target.path()) && is_gone(&target.sidecar(SUFFIX)) {
        // A caller that can create the target can create this, too. Made before it, it would be closed to the
        // target's other writers.
        return Ok(None);
    }
    let page = Store::open(target).and_then(|store| store.read(id));
    let page = page.map_err(|error| error.committed(false))?;
    Ok(page.find(id).map(|(_, slot)| slot.done))
}

/// Remembers an operation whose effect is visible, in the page cache. One that is known stays as it is.
pub(crate) fn remember(target: &Target, id: u64, done: Done) -> Result<()> {
    let store = Store::open(target)?;
    let page = store.read(id)?;
    if page.find(id).is_some() {
        return Ok(());
    }
    let (at, stamp) = page.next();
    store.write(at, Slot { id, done, stamp, kept: false })
}

/// Remembers the operation of another writer, which died before it did so. If this user may not
/// open the file, the id is lost, and an event reports it.
pub(crate) fn remember_for_another(target: &Target, id: u64, done: Done) -> Result<()> {
    pass_if_closed(target, remember(target, id, done))
}

/// An id file that this user may not open does not make a later writer fail.
fn pass_if_closed(target: &Target, result: Result<()>) -> Result<()> {
    let Err(error) = result else { return Ok(()) };
    let io_kind = error.io_error().map(io::Error::kind);
    let is_closed = error.kind() == ErrorKind::Unsupported
        || io_kind.is_some_and(|kind| {
            matches!(kind, io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported)
        });
    if !is_closed {
        return Err(error);
    }
    let _ = events::record(target, "operation_forgotten", &json!({ "why": error.to_string() }));
    Ok(())
}

/// Makes a remembered operation count in every boot. Its effect is durable. Durable itself it is when
/// [`Kept::sync`] has returned.
pub(crate) fn keep(target: &Target, id: u64) -> Result<Kept<'_>> {
    let store = Store::open(target)?;
    if let Some((at, slot)) = store.read(id)?.find(id) {
        // All of it, and also if it is kept already: a sync of it may have failed, and only what was
        // written since is written by the next one.
        store.write(at, Slot { kept: true, ..slot })?;
    }
    Ok(Kept(store))
}

/// Makes every operation durable whose entries are below number `until`: their effects are. No file: nothing to do.
pub(crate) fn sync(target: &Target, until: u64) -> Result<()> {
    let path = target.sidecar(SUFFIX);
    let found = if_found(target.fs.stat(&path)).map_err(Target::failed("look at", &path))?;
    if found.is_none() {
        return Ok(());
    }
    let store = match Store::open(target) {
        Ok(store) => store,
        Err(error) => return pass_if_closed(target, Err(error)),
    };
    for bucket in 0..BUCKETS {
        let mut page = store.read(bucket)?;
        let durable: Vec<_> = page.slots().filter(|(_, slot)| slot.done.first < until).collect();
        for (at, slot) in &durable {
            let kept = Slot { kept: true, ..*slot }.encode(page.boot);
            page.bytes[at * SLOT_BYTES..(at + 1) * SLOT_BYTES].copy_from_slice(&kept);
        }
        if !durable.is_empty() {
            // Also what is kept already: after a sync that failed the page cache may claim to be clean.
            let written = store.file.write_all_at(&page.bytes, page_at(bucket));
            written.map_err(Target::failed("write", &path))?;
        }
    }
    Kept(store).sync()
}

/// Forgets every operation: an older version of the target is back.
pub(crate) fn forget(target: &Target) -> Result<()> {
    let path = target.sidecar(SUFFIX);
    if_found(target.fs.remove(&path)).map(drop).map_err(Target::failed("remove", &path))
}

/// Ids that are kept, and not yet durable.
pub(crate) struct Kept<'a>(Store<'a>);

impl Kept<'_> {
    /// Makes them durable. This is the handle that wrote them: it reports every failure since.
    pub(crate) fn sync(self) -> Result<()> {
        let Store { target, file } = self.0;
        let synced = file.sync().and_then(|()| {
            let mut named = [0];
            file.read_full_at(&mut named, NAMED_AT)?;
            if named == [1] {
                return Ok(());
            }
            target.sync_sidecars()?;
            file.write_all_at(&[1], NAMED_AT)
        });
        synced.map_err(|err| not_durable(target).caused_by(err))
    }
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    id: u64,
    done: Done,
    /// Grows within a page: the smallest is the oldest.
    stamp: u32,
    kept: bool,
}

impl Slot {
    fn encode(&self, boot: [u8; 16]) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        let mut fill = Fill::new(&mut bytes);
        fill.u64(self.id);
        fill.u64(self.done.first);
        // No batch has more: it is at most 1 GiB.
        fill.u32(u32::try_from(self.done.lines).unwrap_or(u32::MAX));
        fill.u32(self.stamp);
        let (for_boot, kept) = (sum_of(&bytes, boot), sum_of(&bytes, EVERY_BOOT));
        bytes[BOOT_AT..KEPT_AT].copy_from_slice(&for_boot);
        if self.kept {
            bytes[KEPT_AT..].copy_from_slice(&kept);
        }
        bytes
    }

    /// `None` if it is free.
    fn decode(bytes: &[u8], boot: [u8; 16]) -> Option<Self> {
        let kept = bytes[KEPT_AT..] == sum_of(bytes, EVERY_BOOT);
        let counts = kept || bytes[BOOT_AT..KEPT_AT] == sum_of(bytes, boot);
        let mut take = Take::new(bytes);
        let (id, first) = (take.u64(), take.count());
        let done = Done { first, lines: take.u32().into() };
        let stamp = take.u32();
        (id != 0 && counts && take.is_sane()).then_some(Self { id, done, stamp, kept })
    }
}

/// The checksum of a slot for a boot; never 0, which is written for none.
fn sum_of(slot: &[u8], boot: [u8; 16]) -> [u8; 4] {
    let mut bytes = [0; BOOT_AT + 16];
    bytes[..BOOT_AT].copy_from_slice(&slot[..BOOT_AT]);
    bytes[BOOT_AT..].copy_from_slice(&boot);
    #[expect(clippy::cast_possible_truncation, reason = "half of a checksum")]
    let sum = checksum::of(&bytes) as u32;
    sum.max(1).to_le_bytes()
}

/// One page as it is in this boot.
struct Page {
    bytes: [u8; PAGE_BYTES],
    boot: [u8; 16],
}

impl Page {
    fn slots(&self) -> impl Iterator<Item = (usize, Slot)> + '_ {
        let slots = self.bytes.chunks_exact(SLOT_BYTES).enumerate();
        slots.filter_map(|(at, bytes)| Some((at, Slot::decode(bytes, self.boot)?)))
    }

    fn find(&self, id: u64) -> Option<(usize, Slot)> {
        self.slots().find(|(_, slot)| slot.id == id)
    }

    /// Where the next id goes (a free slot, else the oldest one's), and its stamp.
    fn next(&self) -> (usize, u32) {
        let mut oldest = [None; SLOTS];
        self.slots().for_each(|(at, slot)| oldest[at] = Some(slot.stamp));
        let at = (0..SLOTS).min_by_key(|at| oldest[*at]).unwrap_or_default();
        let newest = oldest.into_iter().flatten().max().unwrap_or(0);
        (at, newest.saturating_add(1))
    }
}

/// The open file.
struct Store<'a> {
    target: &'a Target,
    file: Arc<dyn Handle>,
}

impl<'a> Store<'a> {
    /// Opens the file, made with its header if it is missing.
    fn open(target: &'a Target) -> Result<Self> {
        let path = target.sidecar(SUFFIX);
        let file = target.open_sidecar(&path)?;
        let store = Self { target, file };
        if store.header()?[..8] != header()[..8] {
            // New, or cut by a power loss: each slot carries its own checksum.
            let written = store.file.write_all_at(&header(), 0);
            written.map_err(Target::failed("write", &path))?;
        }
        Ok(store)
    }

    fn header(&self) -> Result<[u8; HEADER_BYTES]> {
        let path = self.target.sidecar(SUFFIX);
        let mut found = [0; HEADER_BYTES];
        let read = self.file.read_full_at(&mut found, 0);
        read.map_err(Target::failed("read", &path))?;
        let major = u16::from_le_bytes([found[6], found[7]]);
        if found.starts_with(MAGIC) && major > MAJOR {
            return Err(newer_format(&path, major));
        }
        Ok(found)
    }

    /// The page of an id.
    fn read(&self, id: u64) -> Result<Page> {
        let mut page = Page { bytes: [0; PAGE_BYTES], boot: self.target.fs.boot_id() };
        let read = self.file.read_full_at(&mut page.bytes, page_at(id));
        read.map_err(Target::failed("read", &self.target.sidecar(SUFFIX)))?;
        Ok(page)
    }

    /// Writes the slot at this place of its page.
    fn write(&self, at: usize, slot: Slot) -> Result<()> {
        let bytes = slot.encode(self.target.fs.boot_id());
        let at = page_at(slot.id) + (at * SLOT_BYTES) as u64;
        let written = self.file.write_all_at(&bytes, at);
        written.map_err(Target::failed("write", &self.target.sidecar(SUFFIX)))
    }
}

fn header() -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..6].copy_from_slice(MAGIC);
    bytes[6..8].copy_from_slice(&MAJOR.to_le_bytes());
    bytes
}

/// Where the page of an id begins. Ids are checksums, so they spread.
fn page_at(id: u64) -> u64 {
    (1 + id % BUCKETS) * PAGE_BYTES as u64
}

#[cfg(test)]
mod tests;
