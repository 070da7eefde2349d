//! The same two jobs done with tenure: one update of a document, one lock.
//!
//! `NoSync`, as none of the shipped protocols syncs: the race is about processes that die, not about
//! power that fails.

use std::io;
use std::path::Path;

use tenure::options::Durability;
use tenure::{Document, Lock, LockGuard, LockOptions, WriteOptions};
use tenure_shipped::state;

/// The document, shared by all.
pub(super) struct Shared {
    document: Document,
    options: WriteOptions,
}

impl Shared {
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let options = WriteOptions { durability: Durability::NoSync, ..WriteOptions::default() };
        Ok(Self { document: Document::open(state::path(directory))?, options })
    }
}

impl tenure_shipped::Document for Shared {
    fn add(&mut self, key: &str) -> io::Result<()> {
        self.document.update(&self.options, |old| {
            let old = old.map(serde_json::Value::try_from).transpose()?;
            Ok(Some(state::with_key(old.as_ref(), key).into()))
        })?;
        Ok(())
    }
}

/// The lock on the document, for those who change it by other means.
pub(super) struct Exclusive {
    lock: Lock,
    options: LockOptions,
    held: Option<LockGuard>,
}

impl Exclusive {
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let lock = Lock::open(state::path(directory))?;
        Ok(Self { lock, options: LockOptions::default(), held: None })
    }
}

impl tenure_shipped::Lock for Exclusive {
    fn enter(&mut self) -> io::Result<()> {
        self.held = Some(self.lock.acquire(&self.options)?);
        Ok(())
    }

    fn leave(&mut self) -> io::Result<()> {
        if let Some(guard) = self.held.take() {
            guard.release()?;
        }
        Ok(())
    }
}
