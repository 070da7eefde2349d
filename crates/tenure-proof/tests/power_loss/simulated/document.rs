//! A document, or one key of a collection, in the simulation: what was attempted, acknowledged and
//! synced.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure::fs::Fs;
use tenure::options::{CollectionKind, Durability, Prune};
use tenure::{Collection, Document, Value, Wait, WriteOptions, json};
use tenure_testkit::{CrashKind, SimFs};

use super::world::{Finding, Step};

/// The keys of the collection.
pub(crate) const KEYS: [&str; 2] = ["one", "two"];

/// One way to change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// A new version, durable.
    Durable,
    /// A new version without a sync.
    NoSync,
    /// The same version once more, durable: if it was not synced, it is from then on.
    Confirm,
    /// A key is removed by its name.
    Remove,
    /// A key is removed because there are too many.
    Prune,
}

/// What must be true of it. Version 0 is its absence; every change has the next number.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct DocumentPart {
    path: PathBuf,
    key: Option<&'static str>,
    tried: u64,
    /// The newest that was acknowledged: it survives any process, and a power loss if it was
    /// durable.
    acked: u64,
    /// The newest that is known to survive a power loss.
    synced: u64,
    /// Attempted by a process that died, with no change since. If a power loss removes the
    /// document, its temporary file is the newest version, and may replace it.
    dead: u64,
    /// Versions that are removals.
    removals: Vec<u64>,
    /// Some version was published without a sync: a power loss may cut the file.
    loose: bool,
    /// A sync failed in this boot. If no version was acknowledged as durable yet, its pages may be lost.
    doubt: bool,
    /// It was lost this way before a durable call acknowledged it: no more steps use it.
    lost: bool,
    /// A power loss has cut the file; tenure's readers get a version, plain ones after the next
    /// change.
    cut: bool,
}

impl DocumentPart {
    pub(crate) fn new(path: &str, key: Option<&'static str>) -> Self {
        let path = match key {
            Some(key) => Path::new(path).join(format!("{key}.json")),
            None => path.into(),
        };
        Self {
            path,
            key,
            tried: 0,
            acked: 0,
            synced: 0,
            dead: 0,
            removals: Vec::new(),
            loose: false,
            doubt: false,
            lost: false,
            cut: false,
        }
    }

    pub(crate) fn doubt(&mut self) {
        self.doubt = true;
    }

    fn open(&self, fs: &Arc<dyn Fs>) -> tenure::Result<Document> {
        Document::open_on(fs, &self.path)
    }

    /// Changes it. Only an existing key is removed: a removal that finds nothing makes no promise
    /// about an earlier one.
    pub(crate) fn step(&mut self, fs: &Arc<dyn Fs>, how: How) -> Step {
        if self.lost {
            return Ok(());
        }
        let failed = |error| format!("{}: {error}", self.path.display());
        let durability = if how == How::NoSync { Durability::NoSync } else { Durability::Durable };
        let options = WriteOptions { wait: Wait::No, durability, ..WriteOptions::default() };
        let there = self.acked > 0 && !self.removals.contains(&self.acked);
        if how == How::Confirm {
            if there {
                let document = self.open(fs).map_err(failed)?;
                document.update(&options, |current| Ok(current.cloned())).map_err(failed)?;
                (self.synced, self.cut) = (self.acked, false);
            }
            return Ok(());
        }
        let next = self.tried.max(self.dead) + 1;
        self.tried = next;
        self.loose |= how == How::NoSync;
        let removes = there && matches!(how, How::Remove | How::Prune);
        if let Some(key) = self.key.filter(|_| removes) {
            self.removals.push(next);
            self.remove(fs, key, how == How::Prune, &options)?;
        } else {
            let document = self.open(fs).map_err(failed)?;
            document.update(&options, |_| Ok(Some(checked(next)))).map_err(failed)?;
        }
        (self.acked, self.dead, self.cut) = (next, 0, false);
        if how != How::NoSync {
            self.synced = next;
        }
        Ok(())
    }

    fn remove(&self, fs: &Arc<dyn Fs>, key: &str, prune: bool, options: &WriteOptions) -> Step {
        let failed = |error| format!("{}: {error}", self.path.display());
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        let all = Collection::open_on(fs, dir, CollectionKind::Documents).map_err(failed)?;
        let removed = if prune {
            let others = KEYS.iter().filter(|other| **other != key);
            let keep = others.map(|other| (*other).to_owned()).collect();
            let too_many = Prune { max_count: Some(0), keep, ..Prune::default() };
            let pruned = all.prune(&too_many, options).map_err(failed)?;
            pruned.removed.iter().any(|removed| removed == key)
        } else {
            all.remove(key, options).map_err(failed)?
        };
        if removed { Ok(()) } else { Err(format!("{}: it is not removed", self.path.display())) }
    }

    /// The newest allowed version that matches `found`.
    fn allowed(&self, found: Option<&[u8]>, range: &RangeInclusive<u64>) -> Option<u64> {
        let Some(bytes) = found else {
            let absent = self.removals.iter().copied().chain([0]);
            return absent.filter(|version| range.contains(version)).max();
        };
        let number = serde_json::from_slice(bytes).ok().as_ref().and_then(number_of)?;
        range.contains(&number).then_some(number)
    }

    /// Checks what a crash left, as a plain reader and through tenure.
    pub(crate) fn examine(&mut self, sim: &SimFs, fs: &Arc<dyn Fs>, kind: CrashKind) -> Finding {
        let dead = self.dead.max(self.tried);
        let range = match kind {
            CrashKind::Power => self.synced..=dead,
            CrashKind::Process => self.acked..=self.tried,
        };
        let name = self.path.display();
        let plain = sim.peek(&self.path);
        let none_is_durable = self.synced == 0 || self.removals.contains(&self.synced);
        if kind == CrashKind::Power && std::mem::take(&mut self.doubt) && none_is_durable {
            self.lost |= self.allowed(plain.as_deref(), &range).is_none();
        }
        if self.lost {
            return Ok(());
        }
        let is_right = self.allowed(plain.as_deref(), &range).is_some();
        self.cut |= !is_right && self.loose && kind == CrashKind::Power;
        if !is_right && !self.cut {
            return Err(format!("{name}: a plain reader finds {}", shown(plain.as_deref())));
        }
        let read = self.open(fs).and_then(|document| document.read());
        let read = read.map_err(|error| format!("{name}: a reader fails: {error}"))?;
        let bytes = read.as_ref().map(|found| found.bytes.as_slice());
        let Some(number) = self.allowed(bytes, &range) else {
            return Err(format!("{name}: a reader finds {}, allowed {range:?}", shown(bytes)));
        };
        (self.tried, self.acked, self.dead) = (number, number, dead);
        if kind == CrashKind::Power {
            self.synced = number; // What a power loss left is on the disk.
        }
        Ok(())
    }
}

fn shown(bytes: Option<&[u8]>) -> String {
    bytes.map_or("nothing".to_owned(), |bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// Version `number`: every byte depends on it, and lengths differ by sectors.
fn checked(number: u64) -> Value {
    let length = usize::try_from(number * 397 % 700).unwrap_or(0);
    let letter = char::from(b'a' + u8::try_from(number % 26).unwrap_or(0));
    json!({ "n": number, "pad": letter.to_string().repeat(length), "end": number })
}

fn number_of(value: &Value) -> Option<u64> {
    let number = value["n"].as_u64()?;
    (*value == checked(number)).then_some(number)
}
