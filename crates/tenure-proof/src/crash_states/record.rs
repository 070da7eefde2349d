//! Recording a run at the seam.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure::fs::{Access, Fs, Handle, Kind};

use super::state::{Change, Node, Op, State};
use crate::victim::{Ack, Layer, OpenFile, lay};

/// A run: what was on the disk before it, and what it did.
#[derive(Debug)]
pub struct Recording {
    /// The durable content before it.
    pub base: State,
    /// What was done, in order.
    pub ops: Vec<Op>,
    /// While these are open, no new file gets an inode number that is in the recording.
    _files: BTreeMap<u64, Arc<dyn Handle>>,
}

/// Records what is done below a directory, by any number of threads.
pub struct Recorder {
    root: PathBuf,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    ops: Vec<Op>,
    files: BTreeMap<u64, Arc<dyn Handle>>,
    /// How many more changes and syncs succeed; then the process is dead.
    left: Option<u64>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a recorder of {}", self.root.display())
    }
}

impl Recorder {
    /// Records the directory `root`.
    pub fn new(root: &Path) -> Arc<Self> {
        Arc::new(Self { root: root.to_path_buf(), log: Mutex::default() })
    }

    /// The recorded file system.
    pub fn over(self: &Arc<Self>, below: &Arc<dyn Fs>) -> Arc<dyn Fs> {
        lay(self.clone(), below)
    }

    /// From now on this many operations succeed; then the process is dead, and does nothing more.
    /// `None` is the next process, which does not die.
    pub fn dies_after(&self, operations: Option<u64>) {
        self.log().left = operations;
    }

    /// Something was acknowledged.
    pub fn acknowledge(&self, ack: Ack) {
        let mut log = self.log();
        if log.left != Some(0) {
            log.ops.push(Op::Ack(ack));
        }
    }

    /// The recording, with `base` as the content before it.
    pub fn finish(&self, base: State) -> Recording {
        let log = std::mem::take(&mut *self.log());
        Recording { base, ops: log.ops, _files: log.files }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes an operation and records it, under a mutex, so the order of the log is the order of
    /// the operations.
    fn note<T>(&self, act: impl FnOnce() -> io::Result<(T, Option<Op>)>) -> io::Result<T> {
        let mut log = self.log();
        if let Some(left) = &mut log.left {
            *left = left.checked_sub(1).ok_or_else(|| io::Error::other("the process is dead"))?;
        }
        let (done, op) = act()?;
        log.ops.extend(op);
        Ok(done)
    }

    fn relative(&self, path: &Path) -> Option<PathBuf> {
        path.strip_prefix(&self.root).ok().map(Path::to_path_buf)
    }

    /// A change of names; names outside of the directory are ignored.
    fn names<const N: usize>(&self, sets: [(&Path, Option<Node>); N]) -> Option<Op> {
        let sets = sets.into_iter().filter_map(|(path, node)| Some((self.relative(path)?, node)));
        let sets: Vec<_> = sets.collect();
        (!sets.is_empty()).then_some(Op::Change(Change::Names(sets)))
    }
}

fn node(below: &dyn Fs, path: &Path) -> io::Result<Option<Node>> {
    let found = below.stat(path)?;
    let is_dir = found.kind == Kind::Directory;
    Ok(Some(if is_dir { Node::Directory } else { Node::File(found.id.ino) }))
}

fn written(file: &OpenFile, offset: u64, bytes: &[u8]) -> io::Result<Option<Op>> {
    let ino = file.below.id()?.ino;
    Ok(Some(Op::Change(Change::Write { ino, offset, bytes: bytes.into() })))
}

impl Layer for Recorder {
    fn open(&self, below: &dyn Fs, path: &Path, access: Access) -> io::Result<Arc<dyn Handle>> {
        let file = if matches!(access, Access::Create(_) | Access::CreateNew(_)) {
            self.note(|| {
                let is_new = below.stat(path).is_err();
                let file = below.open(path, access)?;
                let created = is_new.then_some(Node::File(file.id()?.ino));
                let op = created.and_then(|created| self.names([(path, Some(created))]));
                Ok((file, op))
            })?
        } else {
            below.open(path, access)?
        };
        // A second descriptor: the first one may carry a lock, which must end with it.
        if let Entry::Vacant(free) = self.log().files.entry(file.id()?.ino) {
            free.insert(below.open(path, Access::Read)?);
        }
        Ok(file)
    }

    fn rename(&self, below: &dyn Fs, from: &Path, to: &Path) -> io::Result<()> {
        self.note(|| {
            below.rename(from, to)?;
            Ok(((), self.names([(from, None), (to, node(below, to)?)])))
        })
    }

    fn rename_new(&self, below: &dyn Fs, from: &Path, to: &Path) -> io::Result<()> {
        self.note(|| {
            below.rename_new(from, to)?;
            Ok(((), self.names([(from, None), (to, node(below, to)?)])))
        })
    }

    fn exchange(&self, below: &dyn Fs, one: &Path, other: &Path) -> io::Result<()> {
        self.note(|| {
            below.exchange(one, other)?;
            Ok(((), self.names([(one, node(below, one)?), (other, node(below, other)?)])))
        })
    }

    fn link(&self, below: &dyn Fs, existing: &Path, new: &Path) -> io::Result<()> {
        self.note(|| {
            below.link(existing, new)?;
            Ok(((), self.names([(new, node(below, new)?)])))
        })
    }

    fn remove(&self, below: &dyn Fs, path: &Path) -> io::Result<()> {
        self.note(|| {
            below.remove(path)?;
            Ok(((), self.names([(path, None)])))
        })
    }

    fn create_dir(&self, below: &dyn Fs, path: &Path, mode: u32) -> io::Result<()> {
        self.note(|| {
            below.create_dir(path, mode)?;
            Ok(((), self.names([(path, Some(Node::Directory))])))
        })
    }

    fn sync_dir(&self, below: &dyn Fs, path: &Path) -> io::Result<()> {
        self.note(|| {
            below.sync_dir(path)?;
            Ok(((), self.relative(path).map(Op::SyncNames)))
        })
    }

    fn write_at(&self, file: &OpenFile, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.note(|| {
            let taken = file.below.write_at(buf, offset)?;
            Ok((taken, written(file, offset, &buf[..taken])?))
        })
    }

    fn append(&self, file: &OpenFile, buf: &[u8]) -> io::Result<(usize, u64)> {
        self.note(|| {
            let (taken, end) = file.below.append(buf)?;
            Ok(((taken, end), written(file, end - taken as u64, &buf[..taken])?))
        })
    }

    fn set_len(&self, file: &OpenFile, len: u64) -> io::Result<()> {
        self.note(|| {
            file.below.set_len(len)?;
            let ino = file.below.id()?.ino;
            Ok(((), Some(Op::Change(Change::Length { ino, len }))))
        })
    }

    fn sync(&self, file: &OpenFile) -> io::Result<()> {
        self.note(|| {
            file.below.sync()?;
            Ok(((), Some(Op::Sync(file.below.id()?.ino))))
        })
    }

    // On the file system of the recording this is a sync as well.
    fn sync_in_order(&self, file: &OpenFile) -> io::Result<()> {
        self.sync(file)
    }
}
