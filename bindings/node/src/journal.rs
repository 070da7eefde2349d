//! Journals.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use napi::Env;
use napi::bindgen_prelude::{Buffer, Either, Uint8Array};
use napi_derive::napi;
use tenure::{Error, Result, Wait};
use tenure_remote::Place;

use crate::call::{Answer, Call, answer};
use crate::document::in_slices;
use crate::failure::{invalid, to_js};
use crate::options::{Name, WriteOptions, number, path, wait, whole};
use crate::store::{Store, place};

/// Entries cross in portions of about this much.
const PORTION_BYTES: usize = 1 << 20;
const PORTION_ENTRIES: usize = 4096;

/// One line of a journal.
#[expect(missing_debug_implementations, reason = "a buffer of JavaScript has none")]
#[napi(object, object_from_js = false)]
pub struct Entry {
    /// Its number.
    pub seq: f64,
    /// Its text, or its bytes if those were asked for.
    pub line: Either<String, Buffer>,
}

impl Entry {
    fn new(entry: tenure::outcome::Entry, bytes: bool) -> Result<Self> {
        let seq = number(entry.seq)?;
        let line = text_or_bytes(entry.line, bytes, || format!("entry {seq}"))?;
        Ok(Self { seq, line })
    }
}

fn text_or_bytes(
    line: Vec<u8>,
    bytes: bool,
    name: impl FnOnce() -> String,
) -> Result<Either<String, Buffer>> {
    if bytes {
        return Ok(Either::B(line.into()));
    }
    let text = String::from_utf8(line).map_err(|_| {
        invalid("read journal", format!("{} is not UTF-8", name()))
            .hint("read it with encoding: 'buffer'")
    })?;
    Ok(Either::A(text))
}

/// What an append did.
#[derive(Debug)]
#[napi(object, object_from_js = false)]
pub struct Appended {
    /// The number of the first entry.
    pub first: f64,
    /// The number of the last entry.
    pub last: f64,
    /// Lines of other tools that got a number on the way.
    pub adopted: f64,
    /// An unterminated line of another tool was closed.
    pub closed_tail: bool,
    /// Batches that a crash had left unfinished.
    pub rolled_forward: f64,
    /// The operation was done before.
    pub replayed: bool,
}

impl Appended {
    pub(crate) fn new(done: &tenure::outcome::Appended) -> Result<Self> {
        Ok(Self {
            first: number(done.first)?,
            last: number(done.last)?,
            adopted: number(done.adopted)?,
            closed_tail: done.closed_tail,
            rolled_forward: number(done.rolled_forward)?,
            replayed: done.replayed,
        })
    }
}

/// A line on its way in.
pub(crate) type Line = Either<String, Uint8Array>;

/// A copy: JavaScript may change it meanwhile.
pub(crate) fn bytes_of(line: Line) -> Vec<u8> {
    match line {
        Either::A(text) => text.into_bytes(),
        Either::B(bytes) => bytes.to_vec(),
    }
}

pub(crate) fn bytes_of_all(lines: Vec<Line>) -> Vec<Vec<u8>> {
    lines.into_iter().map(bytes_of).collect()
}

/// Numbers of entries.
#[derive(Debug)]
#[napi(object, object_from_js = false)]
pub struct Numbers {
    /// The first.
    pub first: f64,
    /// The last.
    pub last: f64,
}

/// A range that is not what it was.
#[derive(Debug)]
#[napi(object, object_from_js = false)]
pub struct Damage {
    /// The journal, or one of its archives.
    pub file: String,
    /// First byte.
    pub start: f64,
    /// Behind the last byte.
    pub end: f64,
    /// What is wrong.
    pub why: String,
}

/// What a verification found.
#[derive(Debug)]
#[napi(object, object_from_js = false)]
pub struct Report {
    /// Nothing is damaged.
    pub sound: bool,
    /// Entries in the file now.
    pub entries: f64,
    /// How many of them other tools have written.
    pub foreign_entries: f64,
    /// Ranges that were compared with their checksum.
    pub segments: f64,
    /// The file's length.
    pub bytes: f64,
    /// The number that the next entry gets.
    pub next: f64,
    /// What is not as it was, in the archives too.
    pub damaged: Vec<Damage>,
    /// Entries that are gone.
    pub lost: Vec<Numbers>,
    /// Numbers that were reserved when the machine restarted.
    pub skipped: Vec<Numbers>,
    /// Archives that were checked.
    pub archives: f64,
    /// The file ends in an unterminated line of another tool.
    pub torn_tail: bool,
    /// Complete lines of other tools that have no number yet.
    pub unadopted: f64,
    /// NULs that a power loss left.
    pub nul_bytes: f64,
    /// Logged batches that are not in the file yet.
    pub pending: f64,
    /// Batches that a repair has finished.
    pub rolled_forward: f64,
    /// The sidecars do not belong to this file.
    pub unbound: bool,
    /// Ranges that a repair has set aside.
    pub set_aside: Vec<Damage>,
    /// Where their bytes are now.
    pub quarantine: Option<String>,
}

impl Report {
    fn new(report: &tenure::outcome::Report) -> Result<Self> {
        let damage = |damage: &tenure::outcome::Damage| {
            let (start, end) = (number(damage.start)?, number(damage.end)?);
            let file = damage.file.to_string_lossy().into_owned();
            Ok(Damage { file, start, end, why: damage.why.clone() })
        };
        let numbers = |(first, last): &(u64, u64)| -> Result<Numbers> {
            Ok(Numbers { first: number(*first)?, last: number(*last)? })
        };
        Ok(Self {
            sound: report.is_sound(),
            entries: number(report.entries)?,
            foreign_entries: number(report.foreign_entries)?,
            segments: number(report.segments)?,
            bytes: number(report.bytes)?,
            next: number(report.next)?,
            damaged: report.damaged.iter().map(&damage).collect::<Result<_>>()?,
            lost: report.lost.iter().map(numbers).collect::<Result<_>>()?,
            skipped: report.skipped.iter().map(numbers).collect::<Result<_>>()?,
            archives: number(report.archives)?,
            torn_tail: report.torn_tail,
            unadopted: number(report.unadopted)?,
            nul_bytes: number(report.nul_bytes)?,
            pending: number(report.pending)?,
            rolled_forward: number(report.rolled_forward)?,
            unbound: report.unbound,
            set_aside: report.set_aside.iter().map(&damage).collect::<Result<_>>()?,
            quarantine: report.quarantine.as_ref().map(|path| path.to_string_lossy().into_owned()),
        })
    }
}

/// What a rotation did.
#[derive(Debug)]
#[napi(object, object_from_js = false)]
pub struct Rotated {
    /// Where the entries so far are now.
    pub archive: Option<String>,
    /// The number that the next entry gets.
    pub next: f64,
}

/// What a compaction did.
#[derive(Debug)]
#[napi(object, object_from_js = false)]
pub struct Compacted {
    /// Entries that stayed.
    pub kept: f64,
    /// Entries that went.
    pub dropped: f64,
    /// The file's length before.
    pub bytes_before: f64,
    /// The file's length now.
    pub bytes_after: f64,
    /// Where the file from before is.
    pub replaced: Option<String>,
}

/// A file of lines that many processes append to.
#[derive(Debug)]
#[napi]
pub struct Journal {
    pub(crate) inner: tenure::Journal,
    place: Place,
}

impl Journal {
    pub(crate) fn new(inner: tenure::Journal, place: &Place) -> Self {
        Self { inner, place: place.clone() }
    }

    /// How it is named outside of its store.
    fn address(&self) -> Cow<'_, Path> {
        self.place.address(self.inner.path())
    }
}

#[napi]
impl Journal {
    /// The journal at a path, whether or not there is a file.
    #[napi(constructor, catch_unwind)]
    pub fn open(name: Name, store: Option<&Store>) -> napi::Result<Self> {
        let open = |name| place(store).journal(path(name)?);
        Ok(Self::new(open(name).map_err(to_js)?, place(store)))
    }

    /// The resolved path.
    #[napi(getter, catch_unwind)]
    pub fn path(&self) -> String {
        self.inner.path().to_string_lossy().into_owned()
    }

    /// Appends lines as one batch.
    #[napi(catch_unwind)]
    pub fn append<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        lines: Vec<Line>,
        json: bool,
        header: Option<Line>,
        options: WriteOptions,
    ) -> napi::Result<Answer<'env, Appended>> {
        let journal = self.inner.clone();
        let (lines, header) = (bytes_of_all(lines), header.map(bytes_of));
        let options = options.read(&self.address())?;
        answer(env, call, move |caller| {
            let write = caller.write(options);
            let done = journal.append(&lines, &tenure::AppendOptions { write, json, header })?;
            Appended::new(&done)
        })
    }

    /// The entries from a number on, as they are now.
    #[napi(catch_unwind)]
    pub fn entries<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        from: f64,
        limit: Option<f64>,
    ) -> napi::Result<Answer<'env, Entries>> {
        let journal = self.inner.clone();
        answer(env, call, move |_| {
            let entries = journal.read(whole(from)?, limit.map(whole).transpose()?)?;
            Ok(Entries { inner: Arc::new(Mutex::new(Portions::of(entries))) })
        })
    }

    /// Entries as they appear.
    #[napi(catch_unwind)]
    pub fn follow(&self, from: f64) -> napi::Result<Follow> {
        let follow = whole(from).and_then(|from| self.inner.follow(from)).map_err(to_js)?;
        Ok(Follow { inner: Arc::new(Mutex::new(Portions::of(follow))) })
    }

    /// Lines of other tools that have no number yet.
    #[napi(catch_unwind)]
    pub fn pending<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        bytes: bool,
    ) -> napi::Result<Answer<'env, Vec<Either<String, Buffer>>>> {
        let journal = self.inner.clone();
        answer(env, call, move |_| {
            let lines =
                journal.read(u64::MAX, None).and_then(|entries| entries.pending())?.into_iter();
            let line = |line| text_or_bytes(line, bytes, || "a pending line".to_owned());
            lines.map(line).collect()
        })
    }

    /// Checks every byte against what was written.
    #[napi(catch_unwind)]
    pub fn verify<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
    ) -> napi::Result<Answer<'env, Report>> {
        let journal = self.inner.clone();
        answer(env, call, move |_| Report::new(&journal.verify()?))
    }

    /// Finishes what crashes have left, and verifies; takes damage as it is if `accept`.
    #[napi(catch_unwind)]
    pub fn repair<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        accept: bool,
        options: WriteOptions,
    ) -> napi::Result<Answer<'env, Report>> {
        let (journal, options) = (self.inner.clone(), options.read(&self.address())?);
        let repair = if accept { tenure::Journal::accept } else { tenure::Journal::repair };
        answer(env, call, move |caller| Report::new(&repair(&journal, &caller.write(options))?))
    }

    /// Moves the entries so far to a file of their own.
    #[napi(catch_unwind)]
    pub fn rotate<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        options: WriteOptions,
    ) -> napi::Result<Answer<'env, Rotated>> {
        let (journal, options) = (self.inner.clone(), options.read(&self.address())?);
        answer(env, call, move |caller| {
            let done = journal.rotate(&caller.write(options))?;
            let archive = done.archive.map(|path| path.to_string_lossy().into_owned());
            Ok(Rotated { archive, next: number(done.next)? })
        })
    }

    /// Writes the journal anew without the entries below `from` and those that are named.
    #[napi(catch_unwind)]
    pub fn compact<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        from: f64,
        dropped: Vec<f64>,
        options: WriteOptions,
    ) -> napi::Result<Answer<'env, Compacted>> {
        let (journal, options) = (self.inner.clone(), options.read(&self.address())?);
        answer(env, call, move |caller| {
            let from = whole(from)?;
            let dropped = dropped.into_iter().map(whole).collect::<Result<HashSet<_>>>()?;
            let options = caller.write(options);
            let keep =
                |entry: &tenure::outcome::Entry| entry.seq >= from && !dropped.contains(&entry.seq);
            let done = journal.compact(&options, keep)?;
            Ok(Compacted {
                kept: number(done.kept)?,
                dropped: number(done.dropped)?,
                bytes_before: number(done.bytes_before)?,
                bytes_after: number(done.bytes_after)?,
                replaced: done.replaced.map(|path| path.to_string_lossy().into_owned()),
            })
        })
    }
}

/// Entries on their way.
#[derive(Debug)]
#[napi]
pub struct Entries {
    inner: Arc<Mutex<Portions<tenure::outcome::Entries>>>,
}

#[napi]
impl Entries {
    /// The next portion; empty at the end.
    #[napi(catch_unwind)]
    pub fn next<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        bytes: bool,
    ) -> napi::Result<Answer<'env, Vec<Entry>>> {
        let entries = self.inner.clone();
        answer(env, call, move |_| {
            let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
            entries.next(
                bytes,
                |entries| entries.next().transpose(),
                |entries| entries.next().transpose(),
            )
        })
    }
}

/// A journal that is being followed.
#[derive(Debug)]
#[napi]
pub struct Follow {
    inner: Arc<Mutex<Portions<tenure::outcome::Follow>>>,
}

#[napi]
impl Follow {
    /// The next entries; none when the wait is over.
    #[napi(catch_unwind)]
    pub fn next<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        wait_ms: f64,
        bytes: bool,
    ) -> napi::Result<Answer<'env, Vec<Entry>>> {
        let follow = self.inner.clone();
        answer(env, call, move |caller| {
            let wait = wait(wait_ms)?;
            let mut follow = follow.lock().unwrap_or_else(PoisonError::into_inner);
            let first = |follow: &mut tenure::outcome::Follow| {
                in_slices(wait, &caller, |wait| follow.next(wait))
            };
            follow.next(bytes, first, |follow| follow.next(Wait::No))
        })
    }
}

/// Entries cross in portions. An error that comes behind entries of a portion is for the next one.
#[derive(Debug)]
struct Portions<T> {
    of: T,
    behind: Option<Error>,
}

impl<T> Portions<T> {
    fn of(of: T) -> Self {
        Self { of, behind: None }
    }

    /// As many entries as cross at once; `first` may wait for the first of them.
    fn next(
        &mut self,
        bytes: bool,
        first: impl FnOnce(&mut T) -> Result<Option<tenure::outcome::Entry>>,
        mut next: impl FnMut(&mut T) -> Result<Option<tenure::outcome::Entry>>,
    ) -> Result<Vec<Entry>> {
        if let Some(error) = self.behind.take() {
            return Err(error);
        }
        let (mut portion, mut size) = (Vec::new(), 0);
        let mut found = first(&mut self.of);
        loop {
            let entry = found.and_then(|entry| {
                let Some(entry) = entry else { return Ok(None) };
                size += entry.line.len();
                Entry::new(entry, bytes).map(Some)
            });
            match entry {
                Ok(Some(entry)) => portion.push(entry),
                Ok(None) => break,
                Err(error) if portion.is_empty() => return Err(error),
                Err(error) => {
                    self.behind = Some(error);
                    break;
                }
            }
            if size >= PORTION_BYTES || portion.len() >= PORTION_ENTRIES {
                break;
            }
            found = next(&mut self.of);
        }
        Ok(portion)
    }
}
