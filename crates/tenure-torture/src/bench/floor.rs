//! The bare system calls that each operation needs, and nothing else: no JSON, no checksums, no
//! checks of what other processes do.

#[cfg(unix)]
pub(super) use self::unix::Floor;

#[cfg(not(unix))]
pub(super) use self::other::Floor;

#[cfg(unix)]
mod unix {
    use std::fs::{File, OpenOptions};
    use std::io::{self, Read, Write};
    use std::os::unix::fs::FileExt;
    use std::path::{Path, PathBuf};
    use std::rc::Rc;

    use rustix::fs::FlockOperation;
    use tenure::options::Durability;

    use crate::bench::rows::Step;
    use tenure_cli::{Failure, Result};

    /// As long as the record that a lock leaves.
    const RECORD: [u8; 1024] = [0; 1024];

    /// The files.
    pub(crate) struct Floor {
        files: Rc<Files>,
    }

    struct Files {
        dir: PathBuf,
        lock: File,
        lock_path: PathBuf,
        /// A sidecar of a journal.
        sidecar: File,
        document: PathBuf,
        content: Vec<u8>,
        log: File,
        line: Vec<u8>,
    }

    impl Floor {
        /// In `dir`, with this document and these lines.
        pub(crate) fn new(dir: &Path, content: Vec<u8>, line: Vec<u8>) -> Result<Self> {
            let open = |name: &str| -> Result<(File, PathBuf)> {
                let path = dir.join(name);
                let mut options = OpenOptions::new();
                let file = options.read(true).write(true).create_new(true).open(&path);
                Ok((file.map_err(|err| Failure::io("make", &path, err))?, path))
            };
            let (lock, lock_path) = open("floor.lock")?;
            let (document, document_path) = open("floor.json")?;
            let written = (&document).write_all(&content);
            written.map_err(|err| Failure::io("write", &document_path, err))?;
            let files = Files {
                dir: dir.to_path_buf(),
                lock,
                lock_path,
                sidecar: open("floor.sidecar")?.0,
                document: document_path,
                content,
                log: open("floor.log")?.0,
                line,
            };
            Ok(Self { files: Rc::new(files) })
        }

        /// Lock, check that the path still names this file, write the record, unlock.
        pub(crate) fn lock(&self) -> Option<Step> {
            self.step(|files| files.locked(|| Ok(())))
        }

        /// Open, read, close.
        pub(crate) fn read(&self) -> Option<Step> {
            self.step(|files| files.read().map(|_| ()))
        }

        /// Under the lock: read, write a temporary file, rename it into place.
        pub(crate) fn replace(&self, durability: Durability) -> Option<Step> {
            self.step(move |files| files.locked(|| files.replace(durability)))
        }

        /// Under the lock: one write to a sidecar, one to the log.
        pub(crate) fn append(&self, durability: Durability) -> Option<Step> {
            self.step(move |files| files.locked(|| files.append(durability)))
        }

        #[expect(clippy::unnecessary_wraps, reason = "another system has no floor")]
        fn step(&self, act: impl Fn(&Files) -> io::Result<()> + 'static) -> Option<Step> {
            let files = Rc::clone(&self.files);
            Some(Box::new(move || {
                act(&files).map_err(|err| Failure::io("measure in", &files.dir, err))
            }))
        }
    }

    impl Files {
        fn locked(&self, act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
            rustix::fs::flock(&self.lock, FlockOperation::LockExclusive)?;
            rustix::fs::stat(&self.lock_path)?;
            act()?;
            self.lock.write_all_at(&RECORD, 0)?;
            rustix::fs::flock(&self.lock, FlockOperation::Unlock)?;
            Ok(())
        }

        fn read(&self) -> io::Result<Vec<u8>> {
            let mut bytes = Vec::with_capacity(self.content.len() + 1);
            File::open(&self.document)?.read_to_end(&mut bytes)?;
            Ok(bytes)
        }

        fn replace(&self, durability: Durability) -> io::Result<()> {
            let bytes = self.read()?;
            let new = self.dir.join("floor.new");
            let mut file = OpenOptions::new().write(true).create_new(true).open(&new)?;
            file.write_all(&bytes)?;
            if durability == Durability::Durable {
                file.sync_data()?;
            }
            drop(file);
            put_in_place(&new, &self.document)?;
            if durability == Durability::Durable {
                File::open(&self.dir)?.sync_all()?;
            }
            Ok(())
        }

        fn append(&self, durability: Durability) -> io::Result<()> {
            self.sidecar.write_all_at(&self.line, 0)?;
            (&self.log).write_all(&self.line)?;
            if durability == Durability::Durable {
                self.log.sync_data()?;
            }
            Ok(())
        }
    }

    /// Without the flush that some file systems do at a rename.
    #[cfg(target_os = "linux")]
    fn put_in_place(new: &Path, path: &Path) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with, unlink};
        match renameat_with(CWD, new, CWD, path, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(unlink(new)?),
            Err(_) => Ok(rustix::fs::rename(new, path)?),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn put_in_place(new: &Path, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::rename(new, path)?)
    }
}

/// A system whose bare calls are not measured.
#[cfg(not(unix))]
mod other {
    use std::path::Path;

    use tenure::options::Durability;

    use crate::bench::rows::Step;
    use tenure_cli::Result;

    pub(crate) struct Floor;

    impl Floor {
        pub(crate) fn new(_: &Path, _: Vec<u8>, _: Vec<u8>) -> Result<Self> {
            Ok(Self)
        }

        pub(crate) fn lock(&self) -> Option<Step> {
            None
        }

        pub(crate) fn read(&self) -> Option<Step> {
            None
        }

        pub(crate) fn replace(&self, _: Durability) -> Option<Step> {
            None
        }

        pub(crate) fn append(&self, _: Durability) -> Option<Step> {
            None
        }
    }
}
