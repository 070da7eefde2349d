//! One object of the disk: a file, a directory or a symlink, and who has it open.
//!
//! # Invariants
//!
//! 1. `links` counts volatile names, `durable_links` durable ones, `mentions` pending entry
//!    operations that would give the node a name. A node is freed only when all three are 0 and no
//!    process has it open; its number is then reused, as real file systems do.
//! 2. A lock belongs to an entry of `open`, so closing the handle releases it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use tenure::fs::{Kind, Mode};

use crate::content::Content;

/// The index of a node; the inode number is derived from it.
pub(crate) type Ino = usize;

/// One component of a path.
pub(crate) type Name = Arc<OsStr>;

/// One object of the disk.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) body: Body,
    pub(crate) attributes: Attributes,
    pub(crate) durable_attributes: Attributes,
    pub(crate) links: u32,
    pub(crate) durable_links: u32,
    pub(crate) mentions: u32,
    pub(crate) open: Vec<Open>,
}

/// What a sync writes besides the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) mode: u32,
    /// The logical clock of the last change of the content.
    pub(crate) modified: u64,
}

/// What a node is.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    Free,
    File(Content),
    Directory(Names),
    Symlink(PathBuf),
}

/// The entries of a directory: as lookups see them, and as the disk has them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    pub(crate) now: BTreeMap<Name, Ino>,
    pub(crate) durable: BTreeMap<Name, Ino>,
    /// `now` may differ from `durable`.
    pub(crate) changed: bool,
}

/// An open handle of a process and the lock it has.
#[derive(Debug, Clone)]
pub(crate) struct Open {
    pub(crate) handle: u64,
    pub(crate) process: usize,
    pub(crate) lock: Option<Mode>,
}

impl Node {
    pub(crate) fn new(body: Body, mode: u32, modified: u64) -> Self {
        let attributes = Attributes { mode, modified };
        Self {
            body,
            attributes,
            durable_attributes: attributes,
            links: 0,
            durable_links: 0,
            mentions: 0,
            open: Vec::new(),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.body {
            Body::Free => Kind::Other,
            Body::File(_) => Kind::File,
            Body::Directory(_) => Kind::Directory,
            Body::Symlink(_) => Kind::Symlink,
        }
    }

    /// Nothing can ever reach it again. Directories wait for the sweep after a power loss.
    pub(crate) fn is_garbage(&self) -> bool {
        self.links == 0
            && self.durable_links == 0
            && self.mentions == 0
            && self.open.is_empty()
            && matches!(self.body, Body::File(_) | Body::Symlink(_))
    }

    /// Tries to take the lock for a handle, as flock(2) does.
    pub(crate) fn try_lock(&mut self, handle: u64, mode: Mode) -> bool {
        // A conversion gives the old lock up first: if it then fails, the old lock is gone as well.
        let converts = self
            .open
            .iter()
            .any(|open| open.handle == handle && open.lock.is_some() && open.lock != Some(mode));
        if converts {
            self.unlock(handle);
        }
        let conflict = self.open.iter().any(|other| {
            other.handle != handle
                && match (other.lock, mode) {
                    (None, _) | (Some(Mode::Shared), Mode::Shared) => false,
                    (Some(_), _) => true,
                }
        });
        if !conflict {
            self.set_lock(handle, Some(mode));
        }
        !conflict
    }

    pub(crate) fn unlock(&mut self, handle: u64) {
        self.set_lock(handle, None);
    }

    fn set_lock(&mut self, handle: u64, lock: Option<Mode>) {
        if let Some(open) = self.open.iter_mut().find(|open| open.handle == handle) {
            open.lock = lock;
        }
    }
}
