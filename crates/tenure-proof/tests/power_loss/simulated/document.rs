//! A document, or one key of a collection, in the simulation: what was tried, acknowledged and synced.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tenure::fs::Fs;
use tenure::{Collection, CollectionKind, Document, Wait, WriteOptions};
use tenure_testkit::{CrashKind, SimFs};

use super::world::{Finding, Step};

/// What must be true of it. Version 0 is its absence; every change has the next number.
#[derive(Debug, Clone)]
pub(crate) struct DocumentPart {
    path: PathBuf,
    key: Option<&'static str>,
    tried: u64,
    /// The newest that was acknowledged: survives any process, and, since all are durable, the power.
    acked: u64,
    /// The newest that is known to survive the power.
    synced: u64,
    /// Tried by a process that died, with no change since. If a power loss takes the document, its
    /// temporary file is the newest version there is, and may stand in.
    dead: u64,
    /// Versions that are removals.
    removals: Vec<u64>,
}

impl DocumentPart {
    pub(crate) fn new(path: &str, key: Option<&'static str>) -> Self {
        let path = match key {
            Some(key) => Path::new(path).join(format!("{key}.json")),
            None => path.into(),
        };
        Self { path, key, tried: 0, acked: 0, synced: 0, dead: 0, removals: Vec::new() }
    }

    fn open(&self, fs: &Arc<dyn Fs>) -> tenure::Result<Document> {
        Document::open_on(fs, &self.path)
    }

    /// Changes it; a key of a collection is removed now and then.
    pub(crate) fn step(&mut self, fs: &Arc<dyn Fs>, remove: bool) -> Step {
        let next = self.tried.max(self.dead) + 1;
        let options = WriteOptions { wait: Wait::No, ..WriteOptions::default() };
        self.tried = next;
        let done = if let Some(key) = self.key.filter(|_| remove) {
            self.removals.push(next);
            let dir = self.path.parent().unwrap_or(Path::new("/"));
            let all = Collection::open_on(fs, dir, CollectionKind::Documents);
            all.and_then(|all| all.remove(key, &options)).map(drop)
        } else {
            let document = self.open(fs);
            document.and_then(|it| it.update(&options, |_| Ok(Some(checked(next))))).map(drop)
        };
        done.map_err(|error| format!("{}: {error}", self.path.display()))?;
        (self.acked, self.synced, self.dead) = (next, next, 0);
        Ok(())
    }

    /// The newest allowed version that `found` can be.
    fn allowed(&self, found: Option<&[u8]>, range: &RangeInclusive<u64>) -> Option<u64> {
        let Some(bytes) = found else {
            let absent = self.removals.iter().copied().chain([0]);
            return absent.filter(|version| range.contains(version)).max();
        };
        let number = serde_json::from_slice(bytes).ok().as_ref().and_then(number_of)?;
        range.contains(&number).then_some(number)
    }

    /// Looks at what a crash left, as a plain reader and as a reader of ours.
    pub(crate) fn examine(&mut self, sim: &SimFs, fs: &Arc<dyn Fs>, kind: CrashKind) -> Finding {
        let dead = self.dead.max(self.tried);
        let range = match kind {
            CrashKind::Power => self.synced..=dead,
            CrashKind::Process => self.acked..=self.tried,
        };
        let name = self.path.display();
        let plain = sim.peek(&self.path);
        if self.allowed(plain.as_deref(), &range).is_none() {
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
            self.synced = number; // What is there after a power loss is on the disk.
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
