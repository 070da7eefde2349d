//! Which agent has which file: one small document per repository, and one lease per hold.
//!
//! ```text
//! $GIT_COMMON_DIR/tenure/
//!   secret.json          0600; the token of every hold is derived from it
//!   reservations.json    which names and patterns belong to which hold
//!   holds/               one lease per hold: it says whether the hold lasts, and under which fence
//! ```
//!
//! An agent has one hold for its *turn*, which keeps the files that it edits, and one more for each
//! reservation with a time of its own. A reservation counts while the lease of its hold runs under the fence
//! that the reservation names. So ending a hold ends all of its reservations in one step, a renewal renews
//! them all, and the clock is the lease's: it counts sleep and ignores changes of the wall clock.
//!
//! # Invariants
//!
//! 1. Reservations of two agents that overlap never both count. Whether they overlap, and whether a hold
//!    has ended, is decided under the lock of `reservations.json`.
//! 2. A hold is granted and renewed under that lock only. So a hold that was seen to have ended there has
//!    no reservations that come back: they are dropped in the same step.
//! 3. A hold is ended without that lock: that makes reservations invalid, never valid.
//! 4. A call reserves all that it names, or nothing.
//! 5. The document keeps what counts, at most [`RESERVATIONS_MAX`]; what does not is dropped by the next change.
//!
//! # What a crash leaves
//!
//! | after | it leaves |
//! |---|---|
//! | the grant of the hold | a lease without reservations, until its end |
//! | the change of the document | the reservation, until the hold ends: by its agent, or by its time |
//! | the end of the hold | reservations that do not count, until the next change of the document |
//!
//! Nothing is synced: after a power loss every lease is of another boot, so no reservation counts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::embed::{printable, update_text};
use tenure::options::Durability;
use tenure::{Cancel, Document, Error, ErrorKind, Lease, LeaseOptions, Result, Wait, WriteOptions};

use crate::agent::Agent;
use crate::clock;
use crate::digest;
use crate::pattern;
use crate::place::Place;

/// How many reservations a repository has at most.
pub const RESERVATIONS_MAX: usize = 4096;
/// The form of the document. A newer one is not understood and not changed.
const FORMAT: u32 = 1;
/// The document is locked for less than a millisecond. A hook must answer in a moment.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// How long a waiting caller sleeps before it looks again whether it was cancelled or a hold has ended.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// What a hold is for is cut to this many letters.
const PURPOSE_LETTERS_MAX: usize = 200;

/// A file or a pattern, relative to the root of the worktree.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// One file, or a name that is still free.
    Path(String),
    /// Every name that matches: see [`pattern`].
    Pattern(String),
}

impl What {
    /// What people and agents write, relative to `base`: a pattern if it has the letters of one and no file has
    /// that name. Braces stand for several names or patterns; a directory for all below it.
    pub fn parse(text: &str, place: &Place, base: &Path) -> Result<Vec<Self>> {
        if !pattern::is_pattern(text) || path_of(text, base).symlink_metadata().is_ok() {
            return Ok(vec![Self::one(text, place, base)?]);
        }
        pattern::expand(text)?.iter().map(|text| Self::one(text, place, base)).collect()
    }

    /// The same for a text without braces that stand for several.
    fn one(text: &str, place: &Place, base: &Path) -> Result<Self> {
        if text.is_empty() {
            let detail = "a name is empty";
            let error = Error::new(ErrorKind::Invalid, "reserve", detail);
            return Err(error.hint("`.` is the whole project"));
        }
        let directory = |dir: &Path| {
            let name = place.directory(dir)?.ok_or_else(|| outside(text))?;
            Ok::<_, Error>(pattern::literal(&name))
        };
        let path = path_of(text, base);
        if path.is_dir() {
            return Ok(Self::Pattern(directory(&path)? + "**"));
        }
        if !pattern::is_pattern(text) || path.symlink_metadata().is_ok() {
            return match Place::of_file(&path, place.root())? {
                Some((found, name)) if found.store() == place.store() => Ok(Self::Path(name)),
                _ => Err(outside(text)),
            };
        }
        // The directories before the first special letter may be links. What follows has no names to resolve.
        let (before, rest) = pattern::split(text);
        if rest.split('/').any(|part| part == "..") {
            return Err(outside(text));
        }
        Ok(Self::Pattern(directory(&base.join(before))? + rest))
    }

    /// As it is written.
    pub fn text(&self) -> &str {
        match self {
            Self::Path(text) | Self::Pattern(text) => text,
        }
    }

    /// Whether some file is meant by both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let pair = |what: &'_ Self| matches!(what, Self::Pattern(_));
        pattern::overlap((self.text(), pair(self)), (other.text(), pair(other)))
    }
}

/// The path without a `/` at its end.
fn path_of(text: &str, base: &Path) -> PathBuf {
    base.join(text).components().collect()
}

fn outside(text: &str) -> Error {
    let detail = format!("`{}` is not below the root of the project", printable(text));
    Error::new(ErrorKind::Invalid, "reserve", detail).hint("name files of the project")
}

/// A reservation that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// What is reserved.
    pub what: What,
    /// The [name](Agent::name) of its agent.
    pub agent: String,
    /// What for.
    pub purpose: String,
    /// Since when, microseconds of the wall clock.
    pub since_us: u64,
    /// How long it lasts if its agent does not renew it.
    pub expires_in: Duration,
    /// Whether it ends with the turn of its agent.
    pub ends_with_turn: bool,
    /// The fence of its hold.
    pub fence: u64,
    /// The target of its lease: writes can be guarded by it.
    pub guard: PathBuf,
}

/// How to reserve.
#[derive(Debug, Clone)]
pub struct ReserveOptions {
    /// How long it lasts without a renewal.
    pub ttl: Duration,
    /// What for; shown to other agents.
    pub purpose: String,
    /// Part of the agent's turn: ends with it, and each further use renews it. Otherwise it is a hold of its
    /// own, which lasts for `ttl` or until it is released.
    pub ends_with_turn: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserved {
    /// All of it is the agent's.
    Granted {
        /// The fence of the hold.
        fence: u64,
        /// The target of its lease: writes can be guarded by it.
        guard: PathBuf,
        /// How long it lasts without a renewal.
        expires_in: Duration,
    },
    /// Other agents have some of it; nothing was reserved.
    Held(Vec<Held>),
}

/// Whether an agent still has a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It has had it without a break.
    Kept,
    /// It has lost it; the present holder, if there is one.
    Lost(Option<Box<Held>>),
}

/// The reservations of one repository. Opening touches nothing.
#[derive(Debug, Clone)]
pub struct Reservations {
    store: PathBuf,
    book: Document,
}

/// The document.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Book {
    format: u32,
    reservations: Vec<Entry>,
}

/// A reservation as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    what: What,
    by: String,
    hold: String,
    fence: u64,
    #[serde(rename = "for")]
    purpose: String,
    since_us: u64,
    turn: bool,
}

/// The leases of holds, each looked at once.
#[derive(Default)]
struct Leases(HashMap<String, Option<(u64, Option<Duration>)>>);

impl Reservations {
    /// The reservations of a place.
    pub fn open(place: &Place) -> Result<Self> {
        let store = place.store().to_path_buf();
        Ok(Self { book: Document::open(store.join("reservations.json"))?, store })
    }

    /// Reserves all of `wanted` for the agent, or nothing if another agent has some of it.
    pub fn reserve(
        &self,
        agent: &Agent,
        wanted: &[What],
        options: &ReserveOptions,
    ) -> Result<Reserved> {
        if wanted.len() > RESERVATIONS_MAX {
            return Err(too_many());
        }
        if let Some(answer) = self.without_change(agent, wanted, options)? {
            return Ok(answer);
        }
        let hold = if options.ends_with_turn { turn_of(agent) } else { random_hold()? };
        let mut outcome = None;
        self.change(|book| {
            let held = self.held(book.of_others(agent, wanted))?;
            if !held.is_empty() {
                outcome = Some(Reserved::Held(held));
                return Ok(());
            }
            // Before others are dropped: what this hold has comes back with it.
            let (fence, expires_in) = self.grant(&hold, agent, options)?;
            self.drop_ended(book, |_| true)?;
            book.add(agent, wanted, &hold, fence, options)?;
            let guard = self.target(&hold);
            outcome = Some(Reserved::Granted { fence, guard, expires_in });
            Ok(())
        })?;
        outcome.ok_or_else(|| {
            Error::new(ErrorKind::Io, "reserve", "the document was not read").at(self.book.path())
        })
    }

    /// The same, but waits until no other agent has any of `wanted`.
    pub fn reserve_when_free(
        &self,
        agent: &Agent,
        wanted: &[What],
        options: &ReserveOptions,
        wait: Wait,
        cancel: Option<&Cancel>,
    ) -> Result<Reserved> {
        let deadline = clock::Deadline::after(wait);
        loop {
            let reserved = self.reserve(agent, wanted, options)?;
            let left = deadline.left().filter(|_| matches!(reserved, Reserved::Held(_)));
            let Some(left) = left else { return Ok(reserved) };
            // Another agent may be faster once it is free: then this one waits again.
            self.wait(agent, wanted, Wait::For(left), cancel)?;
        }
    }

    /// Releases what the agent has reserved of `names`, whichever holds it is part of. Returns how many
    /// reservations ended.
    pub fn release(&self, agent: &Agent, names: &[What]) -> Result<usize> {
        let mut ended = 0;
        self.change(|book| {
            let before = book.reservations.len();
            book.reservations
                .retain(|entry| entry.by != agent.name() || !names.contains(&entry.what));
            ended = before - book.reservations.len();
            Ok(())
        })?;
        Ok(ended)
    }

    /// Ends the agent's turn: all that it reserved by editing.
    pub fn end_turn(&self, agent: &Agent) -> Result<()> {
        self.end_where(|entry| entry.turn && entry.by == agent.name()).map(drop)
    }

    /// Ends all reservations of the agent. Returns how many.
    pub fn end_agent(&self, agent: &Agent) -> Result<usize> {
        self.end_where(|entry| entry.by == agent.name())
    }

    /// Ends all reservations of the agent's session, those of its subagents included.
    pub fn end_session(&self, agent: &Agent) -> Result<()> {
        let is_of = |name: &str| name.split('/').next() == Some(agent.session());
        self.end_where(|entry| is_of(&entry.by)).map(drop)
    }

    /// Drops what does not count any more.
    pub fn tidy(&self) -> Result<()> {
        if self.read()?.reservations.is_empty() {
            return Ok(());
        }
        self.change(|book| self.drop_ended(book, |_| true).map(drop))
    }

    /// What is reserved now; only what overlaps `over`, unless that is empty. Takes no lock.
    pub fn who(&self, over: &[What]) -> Result<Vec<Held>> {
        let book = self.read()?;
        self.held(book.reservations.iter().filter(|entry| over.is_empty() || entry.is_of(over)))
    }

    /// What other agents have of `names`. Takes no lock.
    pub fn others(&self, agent: &Agent, names: &[What]) -> Result<Vec<Held>> {
        self.held(self.read()?.of_others(agent, names))
    }

    /// Waits until no other agent has any of `names`. Returns what is still held when the wait is over: nothing
    /// if all was released. It reserves nothing: another agent may be faster.
    pub fn wait(
        &self,
        agent: &Agent,
        names: &[What],
        wait: Wait,
        cancel: Option<&Cancel>,
    ) -> Result<Vec<Held>> {
        let deadline = clock::Deadline::after(wait);
        let mut watch = None;
        loop {
            let held = self.others(agent, names)?;
            let Some(first_end) = held.iter().map(|held| held.expires_in).min() else {
                return Ok(held);
            };
            let Some(watch) = &mut watch else {
                // Look again: a change in between must not be missed.
                watch = Some(self.book.watch()?);
                continue;
            };
            if cancel.is_some_and(Cancel::is_cancelled) {
                let detail = "the caller no longer waits";
                return Err(Error::new(ErrorKind::Cancelled, "wait for a release", detail));
            }
            let Some(left) = deadline.left() else { return Ok(held) };
            let sleep = left.min(first_end).clamp(Duration::from_millis(1), LOOK_EVERY);
            watch.next(Wait::For(sleep))?;
        }
    }

    /// Whether the agent has had the file without a break since it reserved it in this turn.
    pub fn standing(&self, agent: &Agent, what: &What) -> Result<Standing> {
        let book = self.read()?;
        let own = book.reservations.iter().find(|entry| entry.is_turn_of(agent, what));
        if let Some(own) = own
            && Leases::default().of(self, &own.hold)?.is_some_and(|(fence, _)| fence == own.fence)
        {
            // Even if its time is over: another agent that took it would have dropped the entry.
            return Ok(Standing::Kept);
        }
        let held = self.held(book.of_others(agent, std::slice::from_ref(what)))?;
        Ok(Standing::Lost(held.into_iter().next().map(Box::new)))
    }

    /// The answer that needs no change: another agent has some of it now, or this agent has all of it and more
    /// than half of the time is left.
    fn without_change(
        &self,
        agent: &Agent,
        wanted: &[What],
        options: &ReserveOptions,
    ) -> Result<Option<Reserved>> {
        let book = self.read()?;
        let held = self.held(book.of_others(agent, wanted))?;
        if !held.is_empty() {
            return Ok(Some(Reserved::Held(held)));
        }
        let own = |what| book.reservations.iter().find(|entry| entry.is_turn_of(agent, what));
        let Some(own) = wanted.iter().map(own).collect::<Option<Vec<_>>>() else { return Ok(None) };
        let Some(first) = own.first().filter(|_| options.ends_with_turn) else { return Ok(None) };
        let lease = Leases::default().of(self, &first.hold)?;
        let Some((fence, Some(expires_in))) = lease else { return Ok(None) };
        if expires_in < options.ttl / 2 || own.iter().any(|entry| entry.fence != fence) {
            return Ok(None);
        }
        Ok(Some(Reserved::Granted { fence, guard: self.target(&first.hold), expires_in }))
    }

    /// Ends the holds of these reservations, then drops the reservations, which wakes those who wait.
    fn end_where(&self, is_meant: impl Fn(&Entry) -> bool) -> Result<usize> {
        if self.end_holds(&is_meant)? { self.forget_ended(is_meant) } else { Ok(0) }
    }

    /// Ends the holds of these reservations; `false` if there are none.
    fn end_holds(&self, is_meant: impl Fn(&Entry) -> bool) -> Result<bool> {
        let book = self.read()?;
        let mut holds: Vec<_> =
            book.reservations.iter().filter(|entry| is_meant(entry)).map(|e| &e.hold).collect();
        holds.sort_unstable();
        holds.dedup();
        holds.iter().try_for_each(|hold| self.end(hold))?;
        Ok(!holds.is_empty())
    }

    fn forget_ended(&self, is_meant: impl Fn(&Entry) -> bool) -> Result<usize> {
        let mut dropped = 0;
        self.change(|book| {
            dropped = self.drop_ended(book, &is_meant)?;
            Ok(())
        })?;
        Ok(dropped)
    }

    /// Ends a hold; one that has ended already is fine.
    fn end(&self, hold: &str) -> Result<()> {
        match self.lease(hold)?.release(&self.token(hold)?) {
            Err(error) if error.kind() == ErrorKind::LeaseLost => Ok(()),
            done => done,
        }
    }

    /// The fence of a hold and what is left of its time. It is granted or renewed unless more than half of the time
    /// is left.
    fn grant(
        &self,
        hold: &str,
        agent: &Agent,
        options: &ReserveOptions,
    ) -> Result<(u64, Duration)> {
        if let Some((fence, Some(left))) = Leases::default().of(self, hold)?
            && left >= options.ttl / 2
        {
            return Ok((fence, left));
        }
        let leased = self.lease(hold)?.acquire(&LeaseOptions {
            owner: agent.name().to_owned(),
            ttl: options.ttl,
            wait: Wait::For(LOCK_WAIT),
            token: Some(self.token(hold)?),
            label: shorten(&options.purpose),
            ..LeaseOptions::default()
        })?;
        Ok((leased.fence, leased.expires_in))
    }

    /// Drops those that are meant and do not count any more; returns how many. A hold that was granted again
    /// meanwhile has another fence, so its reservations stay.
    fn drop_ended(&self, book: &mut Book, is_meant: impl Fn(&Entry) -> bool) -> Result<usize> {
        let mut leases = Leases::default();
        let before = book.reservations.len();
        let mut kept = Vec::with_capacity(before + 1);
        for entry in book.reservations.drain(..) {
            if !is_meant(&entry) || leases.time_left(self, &entry)?.is_some() {
                kept.push(entry);
            }
        }
        book.reservations = kept;
        Ok(before - book.reservations.len())
    }

    /// Those that count, for readers.
    fn held<'a>(&self, entries: impl Iterator<Item = &'a Entry>) -> Result<Vec<Held>> {
        let mut leases = Leases::default();
        let mut all = Vec::new();
        for entry in entries {
            let Some(expires_in) = leases.time_left(self, entry)? else { continue };
            all.push(Held {
                what: entry.what.clone(),
                agent: entry.by.clone(),
                purpose: entry.purpose.clone(),
                since_us: entry.since_us,
                expires_in,
                ends_with_turn: entry.turn,
                fence: entry.fence,
                guard: self.target(&entry.hold),
            });
        }
        Ok(all)
    }

    fn target(&self, hold: &str) -> PathBuf {
        self.store.join("holds").join(hold)
    }

    fn lease(&self, hold: &str) -> Result<Lease> {
        Lease::open(self.target(hold))
    }

    /// The token of a hold: every process of the same user derives the same one.
    fn token(&self, hold: &str) -> Result<String> {
        let secret = Document::open(self.store.join("secret.json"))?;
        let text = |value: &tenure::Value| value.as_str().map(str::to_owned);
        let mut found = secret.read()?.and_then(|snapshot| text(&snapshot.value));
        if found.is_none() {
            let new = random_hold()?;
            secret.update(&unsynced(), |current| {
                found = current.and_then(text).or_else(|| Some(new.clone()));
                Ok(current.is_none().then(|| tenure::Value::String(new.clone())))
            })?;
        }
        let secret = found.ok_or_else(|| {
            let detail = "it does not contain the secret that tenure wrote";
            Error::new(ErrorKind::Damaged, "read", detail)
                .at(secret.path())
                .hint("remove it while no agent works")
        })?;
        Ok(digest::keyed(&secret, hold))
    }

    fn read(&self) -> Result<Book> {
        match self.book.read()? {
            Some(snapshot) => self.parse(&snapshot.bytes),
            None => Ok(Book::default()),
        }
    }

    /// Changes the document under its lock; it is written only if it has changed.
    fn change(&self, mut change: impl FnMut(&mut Book) -> Result<()>) -> Result<()> {
        update_text(&self.book, &unsynced(), |text| {
            let mut book = match text {
                Some(text) => self.parse(text.as_bytes())?,
                None => Book::default(),
            };
            change(&mut book)?;
            if text.is_none() && book.reservations.is_empty() {
                return Ok(None);
            }
            book.format = FORMAT;
            let failed = |err: serde_json::Error| {
                Error::new(ErrorKind::Invalid, "write reservations", err.to_string())
            };
            serde_json::to_string(&book).map(Some).map_err(failed)
        })?;
        Ok(())
    }

    fn parse(&self, bytes: &[u8]) -> Result<Book> {
        let book: Book = serde_json::from_slice(bytes).map_err(|err| {
            Error::new(ErrorKind::Damaged, "read reservations", err.to_string())
                .at(self.book.path())
                .hint("remove it while no agent works")
        })?;
        if book.format > FORMAT {
            let detail = "a newer version of tenure wrote it";
            return Err(Error::new(ErrorKind::NewerFormat, "read reservations", detail)
                .at(self.book.path())
                .hint("upgrade this one"));
        }
        Ok(book)
    }
}

impl Book {
    /// What other agents have of `wanted`.
    fn of_others(&self, agent: &Agent, wanted: &[What]) -> impl Iterator<Item = &Entry> {
        let foreign = self.reservations.iter().filter(|entry| entry.by != agent.name());
        foreign.filter(|entry| entry.is_of(wanted))
    }

    /// Adds what is not there yet.
    fn add(
        &mut self,
        agent: &Agent,
        wanted: &[What],
        hold: &str,
        fence: u64,
        options: &ReserveOptions,
    ) -> Result<()> {
        for what in wanted {
            let known = |entry: &Entry| entry.hold == hold && entry.what == *what;
            if self.reservations.iter().any(known) {
                continue;
            }
            if self.reservations.len() >= RESERVATIONS_MAX {
                return Err(too_many());
            }
            self.reservations.push(Entry {
                what: what.clone(),
                by: agent.name().to_owned(),
                hold: hold.to_owned(),
                fence,
                purpose: shorten(&options.purpose),
                since_us: clock::now_us(),
                turn: options.ends_with_turn,
            });
        }
        Ok(())
    }
}

impl Entry {
    fn is_of(&self, names: &[What]) -> bool {
        names.iter().any(|name| name.overlaps(&self.what))
    }

    fn is_turn_of(&self, agent: &Agent, what: &What) -> bool {
        self.turn && self.by == agent.name() && self.what == *what
    }
}

impl Leases {
    /// The fence of a hold, and what is left of its time.
    fn of(
        &mut self,
        reservations: &Reservations,
        hold: &str,
    ) -> Result<Option<(u64, Option<Duration>)>> {
        if let Some(known) = self.0.get(hold) {
            return Ok(*known);
        }
        let shown = reservations.lease(hold)?.show()?;
        let found = shown.map(|lease| (lease.holder.fence, lease.expires_in));
        self.0.insert(hold.to_owned(), found);
        Ok(found)
    }

    /// What is left of a reservation; `None` if it does not count.
    fn time_left(&mut self, of: &Reservations, entry: &Entry) -> Result<Option<Duration>> {
        Ok(self
            .of(of, &entry.hold)?
            .and_then(|(fence, left)| left.filter(|_| fence == entry.fence)))
    }
}

fn too_many() -> Error {
    let detail = format!("more than {RESERVATIONS_MAX} files and patterns would be reserved");
    Error::new(ErrorKind::Invalid, "reserve", detail)
        .hint("reserve a pattern instead of single files")
}

/// The name of the hold of an agent's turn.
fn turn_of(agent: &Agent) -> String {
    digest::short(agent.name())
}

/// A name that no other hold has; as hard to guess as a token.
fn random_hold() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|err| {
        Error::new(ErrorKind::Io, "get random bytes from the system", err.to_string())
    })?;
    Ok(digest::hex(&bytes))
}

fn unsynced() -> WriteOptions {
    let (durability, wait) = (Durability::NoSync, Wait::For(LOCK_WAIT));
    WriteOptions { durability, wait, ..WriteOptions::default() }
}

fn shorten(text: &str) -> String {
    text.chars().take(PURPOSE_LETTERS_MAX).collect()
}

#[cfg(test)]
mod tests;
