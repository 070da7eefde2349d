//! What is on a disk, and the operations that change it.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::victim::Ack;

/// What a name refers to. A file is known by its inode, so that a rename moves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Node {
    /// The file with this inode number.
    File(u64),
    /// A directory; tenure never moves one.
    Directory,
}

/// A change that a power loss may undo.
#[derive(Debug, Clone)]
pub enum Change {
    /// What one or two names refer to afterwards.
    Names(Vec<(PathBuf, Option<Node>)>),
    /// Bytes of a file.
    Write {
        /// The file.
        ino: u64,
        /// Where they begin.
        offset: u64,
        /// What they are.
        bytes: Arc<[u8]>,
    },
    /// The length of a file.
    Length {
        /// The file.
        ino: u64,
        /// Its length now.
        len: u64,
    },
}

/// One step of a recorded run.
#[derive(Debug, Clone)]
pub enum Op {
    /// Something changed.
    Change(Change),
    /// The content of a file was synced.
    Sync(u64),
    /// The names in a directory were synced.
    SyncNames(PathBuf),
    /// This was acknowledged as durable.
    Ack(Ack),
}

/// The fate of a write that was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is there.
    Whole,
    /// Its first half is there.
    Half,
    /// Its length is there, its bytes are zeros.
    Zeros,
    /// Its last byte is missing.
    AllButLast,
    /// Of its pages (of the file) only every second one is there.
    Pages,
}

impl Fate {
    /// The ways to damage a write.
    pub const TORN: [Self; 4] = [Self::Half, Self::Zeros, Self::AllButLast, Self::Pages];
}

const PAGE: usize = 4096;

/// The names and contents on a disk; paths are relative to the directory that was recorded.
#[derive(Clone, Default)]
pub struct State {
    pub(super) names: BTreeMap<PathBuf, Node>,
    pub(super) contents: BTreeMap<u64, Arc<Vec<u8>>>,
}

impl fmt::Debug for State {
    /// A line per name; contents would be unreadable.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, node) in &self.names {
            let path = path.display();
            match node {
                Node::Directory => writeln!(f, "{path}/")?,
                Node::File(ino) => {
                    let content = self.contents.get(ino);
                    let content = content.map_or(&[][..], |content| content.as_slice());
                    let blank = if content.iter().all(|byte| *byte == 0) { ", zeros" } else { "" };
                    writeln!(f, "{path}: inode {ino}, {} bytes{blank}", content.len())?;
                }
            }
        }
        Ok(())
    }
}

impl State {
    /// Applies a change to the disk.
    pub fn apply(&mut self, change: &Change, fate: Fate) {
        match change {
            Change::Names(sets) => {
                for (path, node) in sets {
                    match node {
                        Some(node) => self.names.insert(path.clone(), *node),
                        None => self.names.remove(path),
                    };
                }
            }
            Change::Length { ino, len } => {
                let len = usize::try_from(*len).unwrap_or(usize::MAX);
                Arc::make_mut(self.contents.entry(*ino).or_default()).resize(len, 0);
            }
            Change::Write { ino, offset, bytes } => {
                let content = Arc::make_mut(self.contents.entry(*ino).or_default());
                let offset = usize::try_from(*offset).unwrap_or(usize::MAX);
                write(content, offset, bytes, fate);
            }
        }
    }

    /// Whether a name leads to something: its directory may have been lost.
    pub(super) fn is_reachable(&self, path: &Path) -> bool {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.is_none_or(|parent| self.names.get(parent) == Some(&Node::Directory))
    }

    /// Equal for equal disks; contents without a name do not count.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (path, node) in &self.names {
            (path, node).hash(&mut hasher);
            if let Node::File(ino) = node {
                self.contents.get(ino).hash(&mut hasher);
            }
        }
        hasher.finish()
    }
}

fn write(content: &mut Vec<u8>, offset: usize, bytes: &[u8], fate: Fate) {
    let kept = match fate {
        Fate::Half => &bytes[..bytes.len() / 2],
        Fate::AllButLast => &bytes[..bytes.len().saturating_sub(1)],
        Fate::Whole | Fate::Zeros | Fate::Pages => bytes,
    };
    let end = offset + kept.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    match fate {
        // Only bytes after the old end can be zeros: before it the old bytes are there.
        Fate::Zeros => {}
        Fate::Pages => {
            let odd = |at: &usize| ((offset + at) / PAGE) % 2 == 1;
            for at in (0..kept.len()).filter(odd) {
                content[offset + at] = kept[at];
            }
        }
        Fate::Whole | Fate::Half | Fate::AllButLast => content[offset..end].copy_from_slice(kept),
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Fate, Node, State};

    #[test]
    fn a_rename_carries_the_file_and_a_torn_write_keeps_what_was_there() {
        let mut state = State::default();
        let names = |name: &str, node| (name.into(), node);
        state.apply(&Change::Names(vec![names("a", Some(Node::File(7)))]), Fate::Whole);
        let write = |offset, bytes: &[u8]| Change::Write { ino: 7, offset, bytes: bytes.into() };
        state.apply(&write(0, b"old!"), Fate::Whole);
        let moved = vec![names("a", None), names("b", Some(Node::File(7)))];
        state.apply(&Change::Names(moved), Fate::Whole);
        state.apply(&write(2, b"new!"), Fate::Half);
        assert_eq!(state.contents[&7].as_slice(), b"olne");
        state.apply(&write(4, b"zz"), Fate::Zeros);
        assert_eq!(state.contents[&7].as_slice(), b"olne\0\0");
        assert_eq!(state.names.keys().collect::<Vec<_>>(), ["b"]);
    }
}
