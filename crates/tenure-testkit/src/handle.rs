//! An open file of the simulation.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tenure::fs::{Access, Handle, Mode, RawHandle, Stat};

use crate::SimFs;
use crate::content::{Content, SECTOR};
use crate::disk::Disk;
use crate::inject;
use crate::machine::{CrashKind, Machine, Twist};
use crate::node::{Body, Ino, Open};
use crate::step::{Step, Verb};

/// A handle: an inode, and the life of the process that opened it.
pub(crate) struct SimHandle {
    fs: SimFs,
    path: Arc<Path>,
    ino: Ino,
    id: u64,
    life: u64,
    access: Access,
}

impl SimHandle {
    /// Opens a node that was found; the machine is already locked by the caller.
    pub(crate) fn open(
        fs: &SimFs,
        machine: &mut Machine,
        ino: Ino,
        path: &Path,
        access: Access,
    ) -> Self {
        let id = machine.next_handle();
        machine.disk.nodes[ino].open.push(Open { handle: id, process: fs.process, lock: None });
        let life = machine.life(fs.process);
        Self { fs: fs.clone(), path: Arc::from(path), ino, id, life, access }
    }

    fn run<T>(
        &self,
        step: Step,
        act: impl FnOnce(&mut Machine, Twist) -> io::Result<T>,
    ) -> io::Result<T> {
        self.fs.run(Some(self.life), step, act)
    }

    fn step(&self, verb: Verb) -> Step {
        Step::of_handle(verb, &self.path)
    }

    fn writable(&self) -> io::Result<()> {
        if self.access == Access::Read { Err(inject::not_writable()) } else { Ok(()) }
    }

    /// Writes at `offset`, or at the end; less if the operation is torn or short.
    fn put(
        &self,
        machine: &mut Machine,
        twist: Twist,
        buf: &[u8],
        offset: Option<u64>,
    ) -> io::Result<usize> {
        let is_killed = machine.down(self.fs.process) == Some(CrashKind::Process);
        let torn = machine.random.index(buf.len() + 1);
        let sequence = machine.disk.next_sequence();
        let clock = machine.disk.clock;
        let content = content(&mut machine.disk, self.ino)?;
        let offset = offset.unwrap_or_else(|| content.len());
        let taken = match twist {
            // The kernel notices a kill between two pages, never inside one.
            Twist::Torn if is_killed && torn < buf.len() => whole_sectors(offset, torn),
            Twist::Torn => torn,
            Twist::Short => buf.len().div_ceil(2),
            Twist::None | Twist::Fails(_) => buf.len(),
        };
        content.write(&buf[..taken], offset, sequence)?;
        machine.disk.nodes[self.ino].attributes.modified = clock;
        Ok(taken)
    }
}

/// How much of the first `len` bytes at `offset` ends at a sector.
fn whole_sectors(offset: u64, len: usize) -> usize {
    let start = usize::try_from(offset).unwrap_or(0) % SECTOR;
    ((start + len) / SECTOR * SECTOR).saturating_sub(start)
}

impl Handle for SimHandle {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.run(self.step(Verb::Read), |machine, _| {
            Ok(content(&mut machine.disk, self.ino)?.read(buf, offset))
        })
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.run(self.step(Verb::Write).range(offset, buf.len() as u64), |machine, twist| {
            self.writable()?;
            if self.access == Access::Append {
                // Linux would append and ignore the offset; no caller can want that.
                return Err(io::ErrorKind::InvalidInput.into());
            }
            self.put(machine, twist, buf, Some(offset))
        })
    }

    fn append(&self, buf: &[u8]) -> io::Result<(usize, u64)> {
        self.run(self.step(Verb::Append).range(0, buf.len() as u64), |machine, twist| {
            self.writable()?;
            if self.access != Access::Append {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let taken = self.put(machine, twist, buf, None)?;
            Ok((taken, content(&mut machine.disk, self.ino)?.len()))
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.run(self.step(Verb::SetLen).range(0, len), |machine, _| {
            self.writable()?;
            let sequence = machine.disk.next_sequence();
            content(&mut machine.disk, self.ino)?.set_len(len, sequence)?;
            machine.disk.nodes[self.ino].attributes.modified = machine.disk.clock;
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.run(self.step(Verb::Sync), |machine, twist| {
            if let Twist::Fails(_) = twist {
                let mut judge = Machine::failing_judge(&mut machine.random);
                content(&mut machine.disk, self.ino)?.sync_fails(&mut judge);
            } else if !machine.broken.ignore_sync {
                content(&mut machine.disk, self.ino)?.sync();
                let node = &mut machine.disk.nodes[self.ino];
                node.durable_attributes = node.attributes;
            }
            Ok(())
        })
    }

    fn sync_in_order(&self) -> io::Result<()> {
        self.run(self.step(Verb::SyncInOrder), |machine, twist| {
            let broken = machine.broken.ignore_sync || machine.broken.ignore_order;
            if let Twist::Fails(_) = twist {
                let mut judge = Machine::failing_judge(&mut machine.random);
                content(&mut machine.disk, self.ino)?.sync_fails(&mut judge);
            } else if !broken {
                let sequence = machine.disk.next_sequence();
                content(&mut machine.disk, self.ino)?.sync_in_order(sequence);
            }
            Ok(())
        })
    }

    fn stat(&self) -> io::Result<Stat> {
        self.run(self.step(Verb::Stat), |machine, _| Ok(machine.disk.stat(self.ino)))
    }

    fn try_lock(&self, mode: Mode) -> io::Result<bool> {
        self.run(self.step(Verb::TryLock), |machine, _| {
            Ok(machine.disk.nodes[self.ino].try_lock(self.id, mode))
        })
    }

    fn lock(&self, mode: Mode) -> io::Result<()> {
        self.run(self.step(Verb::Lock), |machine, _| {
            // One thread runs the whole simulation: the holder of the lock could never release it.
            let taken = machine.disk.nodes[self.ino].try_lock(self.id, mode);
            if taken { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
        })
    }

    fn unlock(&self) -> io::Result<()> {
        self.run(self.step(Verb::Unlock), |machine, _| {
            machine.disk.nodes[self.ino].unlock(self.id);
            Ok(())
        })
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.run(self.step(Verb::SetMode), |machine, _| {
            machine.disk.nodes[self.ino].attributes.mode = mode & 0o7777;
            Ok(())
        })
    }

    fn copy_attributes(&self, model: &dyn Handle) -> io::Result<()> {
        // Asked before our own operation starts: the model may be of the same machine.
        let mode = model.stat()?.mode;
        self.set_mode(mode)
    }

    fn raw(&self) -> Option<RawHandle> {
        None
    }
}

impl Drop for SimHandle {
    fn drop(&mut self) {
        let mut machine = self.fs.machine();
        // After a crash the kernel has closed it already and the number may be another file's. The id
        // of a handle is never used again, so then this finds nothing to close.
        machine.disk.nodes[self.ino].open.retain(|open| open.handle != self.id);
        machine.disk.free_if_garbage(self.ino);
    }
}

impl fmt::Debug for SimHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        write!(f, "SimHandle({path}, ino {}, {:?})", self.ino, self.access)
    }
}

fn content(disk: &mut Disk, ino: Ino) -> io::Result<&mut Content> {
    match &mut disk.nodes[ino].body {
        Body::File(content) => Ok(content),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}
