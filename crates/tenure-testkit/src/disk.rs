//! The disk and the kernel's view of it: nodes, paths, and the operations on names.
//!
//! Every operation here happens at once for readers; when it becomes durable is decided in
//! `content`, `entries` and `crash`.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use tenure::fs::{FileId, Kind, Stat};

use crate::content::Content;
use crate::entries::{EntryOp, Set};
use crate::inject;
use crate::node::{Body, Ino, Name, Names, Node};

/// The root directory.
pub(crate) const ROOT: Ino = 0;

/// Inode numbers start where ext4 starts them.
const FIRST_INO: u64 = 2;

/// The wall clock at the beginning of every simulation: 2023-11-14 22:13:20 UTC.
const EPOCH_NS: i128 = 1_700_000_000_000_000_000;

/// How many symlinks one path may contain.
const MOST_SYMLINKS: u32 = 40;

/// All state that a kernel and its disk have together.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    pub(crate) nodes: Vec<Node>,
    free: Vec<Ino>,
    pub(crate) pending: Vec<EntryOp>,
    pub(crate) sequence: u64,
    /// Logical nanoseconds since the beginning.
    pub(crate) clock: u64,
    pub(crate) device: u64,
}

impl Disk {
    pub(crate) fn new() -> Self {
        let mut root = Node::new(Body::Directory(Names::default()), 0o755, 0);
        root.links = 1;
        root.durable_links = 1;
        let nodes = vec![root];
        Self {
            nodes,
            free: Vec::new(),
            pending: Vec::new(),
            sequence: 0,
            clock: 0,
            device: next_device(),
        }
    }

    pub(crate) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence - 1
    }

    /// A new node without a name.
    fn add_node(&mut self, body: Body, mode: u32) -> Ino {
        let node = Node::new(body, mode & 0o7777, self.clock);
        if let Some(ino) = self.free.pop() {
            self.nodes[ino] = node;
            ino
        } else {
            self.nodes.push(node);
            self.nodes.len() - 1
        }
    }

    pub(crate) fn free_node(&mut self, ino: Ino) {
        self.nodes[ino] = Node::new(Body::Free, 0, 0);
        self.free.push(ino);
    }

    pub(crate) fn free_if_garbage(&mut self, ino: Ino) {
        if self.nodes[ino].is_garbage() {
            self.free_node(ino);
        }
    }

    /// The node of a path, through symlinks on the way but not at the end.
    pub(crate) fn find(&self, path: &Path) -> io::Result<Ino> {
        if path.file_name().is_none() {
            return self.walk(path);
        }
        self.entry(&self.parent(path)?)?.ok_or_else(not_found)
    }

    /// The directory and the name that a path means.
    pub(crate) fn parent(&self, path: &Path) -> io::Result<(Ino, Name)> {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let dir = self.walk(dir)?;
        self.names(dir)?;
        Ok((dir, name.into()))
    }

    /// The node of a path without any symlink on the way or at the end; refuses one as `ELOOP`.
    pub(crate) fn find_without_symlinks(&self, path: &Path) -> io::Result<Ino> {
        self.descend(path)?.ok_or_else(inject::symlink_refused)
    }

    /// The node of a path through every symlink.
    pub(crate) fn walk(&self, path: &Path) -> io::Result<Ino> {
        if let Some(ino) = self.descend(path)? {
            return Ok(ino);
        }
        self.descend(&self.canonical(path)?)?.ok_or_else(inject::symlink_refused)
    }

    /// The fast way down; `None` where a symlink or `..` needs [`Disk::canonical`].
    fn descend(&self, path: &Path) -> io::Result<Option<Ino>> {
        let mut ino = ROOT;
        for component in path.components() {
            let name = match component {
                Component::Prefix(_) | Component::RootDir | Component::CurDir => continue,
                Component::ParentDir => return Ok(None),
                Component::Normal(name) => name,
            };
            ino = *self.names(ino)?.now.get(name).ok_or_else(not_found)?;
            if matches!(self.nodes[ino].body, Body::Symlink(_)) {
                return Ok(None);
            }
        }
        Ok(Some(ino))
    }

    /// The path with every symlink and `..` resolved; the object must exist.
    pub(crate) fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        let mut resolved = PathBuf::from("/");
        let mut dirs = vec![ROOT];
        let mut todo: VecDeque<OsString> = path.iter().map(OsString::from).collect();
        let mut symlinks = 0;
        while let Some(step) = todo.pop_front() {
            let Some(Component::Normal(name)) = Path::new(&step).components().next() else {
                // Not a name: "/" and "." stay, ".." goes up, and not above the root.
                if step == ".." && dirs.len() > 1 {
                    dirs.pop();
                    resolved.pop();
                }
                continue;
            };
            let dir = dirs.last().copied().unwrap_or(ROOT);
            let ino = *self.names(dir)?.now.get(name).ok_or_else(not_found)?;
            let Body::Symlink(target) = &self.nodes[ino].body else {
                resolved.push(name);
                dirs.push(ino);
                continue;
            };
            symlinks += 1;
            if symlinks > MOST_SYMLINKS {
                return Err(inject::symlink_refused());
            }
            if target.has_root() {
                resolved = PathBuf::from("/");
                dirs.truncate(1);
            }
            for part in target.iter().rev() {
                todo.push_front(part.into());
            }
        }
        Ok(resolved)
    }

    pub(crate) fn stat(&self, ino: Ino) -> Stat {
        let node = &self.nodes[ino];
        let size = match &node.body {
            Body::File(content) => content.len(),
            Body::Directory(names) => names.now.len() as u64,
            Body::Symlink(target) => target.as_os_str().len() as u64,
            Body::Free => 0,
        };
        Stat {
            id: FileId { dev: self.device, ino: ino as u64 + FIRST_INO },
            links: node.links.into(),
            size,
            mode: node.attributes.mode,
            uid: 0,
            gid: 0,
            modified_ns: EPOCH_NS + i128::from(node.attributes.modified),
            kind: node.kind(),
            mount_root: false,
        }
    }

    pub(crate) fn create_file(&mut self, path: &Path, mode: u32) -> io::Result<Ino> {
        self.create(path, Body::File(Content::default()), mode)
    }

    pub(crate) fn create(&mut self, path: &Path, body: Body, mode: u32) -> io::Result<Ino> {
        let place = self.parent(path)?;
        if self.entry(&place)?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let ino = self.add_node(body, mode);
        self.record(set(place, Some(ino)), None);
        Ok(ino)
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path, replace: bool) -> io::Result<()> {
        let (source, place) = (self.parent(from)?, self.parent(to)?);
        let ino = self.entry(&source)?.ok_or_else(not_found)?;
        if let Some(target) = self.entry(&place)? {
            if !replace {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            self.refuse_into_itself(from, to)?;
            if from != to && from.starts_with(to) {
                // What is above the source cannot be empty, whatever the source is.
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            if target == ino {
                // Two names of one file: POSIX says that nothing happens, and both names stay.
                return Ok(());
            }
            match (self.nodes[ino].kind(), &self.nodes[target].body) {
                (Kind::Directory, Body::Directory(names)) if !names.now.is_empty() => {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
                (Kind::Directory, Body::Directory(_)) => {}
                (Kind::Directory, _) => return Err(io::ErrorKind::NotADirectory.into()),
                (_, Body::Directory(_)) => return Err(io::ErrorKind::IsADirectory.into()),
                _ => {}
            }
        }
        self.refuse_into_itself(from, to)?;
        self.record(set(place, Some(ino)), Some(set(source, None)));
        Ok(())
    }

    /// Swaps two names. `split` breaks the promise: two operations, each with a fate of its own.
    pub(crate) fn exchange(&mut self, one: &Path, other: &Path, split: bool) -> io::Result<()> {
        let (first, second) = self.exchanged(one, other)?;
        if split {
            self.record(first, None);
            self.record(second, None);
        } else {
            self.record(first, Some(second));
        }
        Ok(())
    }

    /// The first half of an exchange that is not atomic.
    pub(crate) fn exchange_half(&mut self, one: &Path, other: &Path) -> io::Result<()> {
        let (first, _) = self.exchanged(one, other)?;
        self.record(first, None);
        Ok(())
    }

    fn exchanged(&self, one: &Path, other: &Path) -> io::Result<(Set, Set)> {
        let (first, second) = (self.parent(one)?, self.parent(other)?);
        let (Some(ino), Some(other_ino)) = (self.entry(&first)?, self.entry(&second)?) else {
            return Err(not_found());
        };
        self.refuse_into_itself(one, other)?;
        self.refuse_into_itself(other, one)?;
        Ok((set(first, Some(other_ino)), set(second, Some(ino))))
    }

    pub(crate) fn link(&mut self, existing: &Path, new: &Path) -> io::Result<()> {
        let ino = self.find(existing)?;
        let place = self.parent(new)?;
        if self.entry(&place)?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if self.nodes[ino].kind() == Kind::Directory {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.record(set(place, Some(ino)), None);
        Ok(())
    }

    pub(crate) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let place = self.parent(path)?;
        let ino = self.entry(&place)?.ok_or_else(not_found)?;
        if self.nodes[ino].kind() == Kind::Directory {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        self.record(set(place, None), None);
        Ok(())
    }

    /// A directory cannot move below itself. Paths are resolved, so comparing their text is enough.
    fn refuse_into_itself(&self, from: &Path, to: &Path) -> io::Result<()> {
        let below = from != to && to.starts_with(from);
        if below && self.nodes[self.find(from)?].kind() == Kind::Directory {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(())
    }
}

fn set((dir, name): (Ino, Name), ino: Option<Ino>) -> Set {
    Set { dir, name, ino }
}

pub(crate) fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

/// Locks of one process are distinguished by device and inode, so every simulated disk is a device
/// of its own: above all numbers that tests set themselves.
fn next_device() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1 << 32);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}
