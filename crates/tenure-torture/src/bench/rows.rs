//! What is measured.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use tenure::options::Durability;
use tenure::{AppendOptions, Document, Journal, Lock, LockOptions, Value, WriteOptions};

use super::floor::Floor;
use tenure_cli::{Failure, Result};

/// One operation.
pub(super) type Step = Box<dyn FnMut() -> Result<()>>;

/// An operation of tenure, and the system calls that it needs.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) ours: Step,
    pub(super) floor: Option<Step>,
}

/// As many keys as make a document of 12 KB.
const KEYS: usize = 500;
/// As long as a line about an event.
const LINE: usize = 300;

/// All rows, in a directory that is there and empty.
pub(super) fn all(dir: &Path) -> Result<Vec<Row>> {
    let document = Document::open(dir.join("document.json"))?;
    document.set(&content(), &options(Durability::NoSync))?;
    let floor = Floor::new(dir, content().to_string().into_bytes(), vec![b'x'; LINE])?;
    Ok(vec![
        Row {
            name: "lock and unlock",
            ours: lock(Lock::open(dir.join("target"))?),
            floor: floor.lock(),
        },
        Row { name: "document read, 12 KB", ours: read(&document), floor: floor.read() },
        Row {
            name: "document update, 12 KB, not synced",
            ours: update(&document, Durability::NoSync),
            floor: floor.replace(Durability::NoSync),
        },
        Row {
            name: "document update, 12 KB, durable",
            ours: update(&document, Durability::Durable),
            floor: floor.replace(Durability::Durable),
        },
        Row {
            name: "journal append, 300 B, not synced",
            ours: append(Journal::open(dir.join("fast.log"))?, Durability::NoSync),
            floor: floor.append(Durability::NoSync),
        },
        Row {
            name: "journal append, 300 B, durable",
            ours: append(Journal::open(dir.join("durable.log"))?, Durability::Durable),
            floor: floor.append(Durability::Durable),
        },
    ])
}

/// Writes a line and waits until the disk has it.
pub(super) fn sync(dir: &Path) -> Result<Step> {
    let path = dir.join("synced.log");
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |err| Failure::io("write", &path, err)
    };
    let mut file = File::create(&path).map_err(failed(&path))?;
    Ok(Box::new(move || {
        let written = file.write_all(&[b'x'; LINE]).and_then(|()| file.sync_data());
        written.map_err(failed(&path))
    }))
}

pub(super) fn content() -> Value {
    let fields = (0..KEYS).map(|n| (format!("key_{n:03}"), format!("value_{n:03}")));
    Value::Object(fields.collect())
}

fn options(durability: Durability) -> WriteOptions {
    WriteOptions { durability, ..WriteOptions::default() }
}

pub(super) fn lock(lock: Lock) -> Step {
    let options = LockOptions::default();
    Box::new(move || Ok(lock.acquire(&options)?.release()?))
}

pub(super) fn read(document: &Document) -> Step {
    let document = document.clone();
    Box::new(move || {
        document.read()?;
        Ok(())
    })
}

pub(super) fn update(document: &Document, durability: Durability) -> Step {
    let (document, options) = (document.clone(), options(durability));
    let mut turn = 0_u32;
    Box::new(move || {
        turn += 1;
        document.update(&options, |current| {
            let mut new = current.cloned().unwrap_or_default();
            new["key_000"] = turn.into();
            Ok(Some(new))
        })?;
        Ok(())
    })
}

pub(super) fn append(journal: Journal, durability: Durability) -> Step {
    let options = AppendOptions { write: options(durability), ..AppendOptions::default() };
    let line = [b'x'; LINE];
    Box::new(move || {
        journal.append(&[&line[..]], &options)?;
        Ok(())
    })
}
