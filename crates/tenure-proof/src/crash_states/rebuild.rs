//! A state as a real directory again.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use tenure::fs::{Fs, Stat};

use super::state::{Node, State};
use crate::victim::{Layer, OpenFile, lay};

/// A directory made from a state, and the file system that gives its files their recorded
/// identities.
#[derive(Debug)]
pub struct Rebuilt {
    /// Where it is.
    pub dir: tempfile::TempDir,
    /// Files have the identities that they had when they were recorded. Nothing is synced: no power
    /// is lost here.
    pub fs: Arc<dyn Fs>,
}

impl Rebuilt {
    /// Below `scratch`, which is on the file system of the recording, preferably in memory.
    pub fn new(state: &State, scratch: &Path) -> io::Result<Self> {
        let dir = tempfile::tempdir_in(scratch)?;
        let mut made: BTreeMap<u64, &Path> = BTreeMap::new();
        let mut old = BTreeMap::new();
        for (name, node) in &state.names {
            let path = dir.path().join(name);
            match node {
                Node::Directory => std::fs::create_dir(&path)?,
                Node::File(ino) => {
                    if let Some(first) = made.insert(*ino, name) {
                        std::fs::hard_link(dir.path().join(first), &path)?;
                        continue;
                    }
                    let content = state.contents.get(ino);
                    let content = content.map_or(&[][..], |content| content.as_slice());
                    old.insert(create(&path, content)?, *ino);
                }
            }
        }
        let fs = lay(Arc::new(OldIdentities(old)), &tenure::disk());
        Ok(Self { dir, fs })
    }
}

fn create(path: &Path, content: &[u8]) -> io::Result<u64> {
    use std::io::Write;
    let mut file = std::fs::File::create_new(path)?;
    file.write_all(content)?;
    Ok(file.metadata()?.ino())
}

/// The inode that each file had, by the one that it has.
struct OldIdentities(BTreeMap<u64, u64>);

impl OldIdentities {
    fn of(&self, mut stat: Stat) -> Stat {
        if let Some(old) = self.0.get(&stat.id.ino) {
            stat.id.ino = *old;
        }
        stat
    }
}

impl Layer for OldIdentities {
    fn stat(&self, below: &dyn Fs, path: &Path) -> io::Result<Stat> {
        below.stat(path).map(|stat| self.of(stat))
    }

    fn stat_open(&self, file: &OpenFile) -> io::Result<Stat> {
        file.below.stat().map(|stat| self.of(stat))
    }

    fn sync_dir(&self, _: &dyn Fs, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self, _: &OpenFile) -> io::Result<()> {
        Ok(())
    }
}
