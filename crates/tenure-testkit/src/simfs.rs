//! [`SimFs`] as the core sees it: [`Fs`] over the simulated machine.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure::fs::{Access, Fs, Handle, Kind, Stat, Trust};

use crate::SimFs;
use crate::handle::SimHandle;
use crate::inject;
use crate::machine::{Machine, Twist};
use crate::node::{Body, Ino, Names};
use crate::step::{Step, Verb};

impl SimFs {
    /// Runs one operation: the machine decides how it goes, `act` does it, the trail remembers it.
    /// `life` is the life of the process that the caller belongs to; the current one if `None`.
    pub(crate) fn run<T>(
        &self,
        life: Option<u64>,
        step: Step,
        act: impl FnOnce(&mut Machine, Twist) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut machine = self.machine();
        let life = life.unwrap_or_else(|| machine.life(self.process));
        let outcome = match machine.admit(self.process, life, step.verb) {
            Err(error) => Err(error),
            Ok(twist) => match (act(&mut machine, twist), twist) {
                (_, Twist::Torn) => Err(inject::crashed()),
                (Ok(_), Twist::Fails(fault)) if !machine.broken.hide_sync_failures => {
                    Err(fault.error())
                }
                (outcome, _) => outcome,
            },
        };
        if step.verb.is_told() {
            let (number, down) = (machine.operations, machine.down(self.process));
            machine.trail.step(number, self.process, step, &outcome, down);
        }
        outcome
    }

    fn act<T>(&self, step: Step, act: impl FnOnce(&mut Machine) -> io::Result<T>) -> io::Result<T> {
        self.run(None, step, |machine, _| act(machine))
    }

    /// What `open` finds at a path; a missing file is `None` where the access may create it.
    fn existing(&self, path: &Path, access: Access) -> io::Result<Option<Ino>> {
        let machine = self.machine();
        let found = match machine.disk.find_without_symlinks(path) {
            Ok(ino) => ino,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return match access {
                    Access::Create(_) | Access::CreateNew(_) => Ok(None),
                    _ => Err(error),
                };
            }
            Err(error) => return Err(error),
        };
        match (access, machine.disk.nodes[found].kind()) {
            (Access::CreateNew(_), _) => Err(io::ErrorKind::AlreadyExists.into()),
            (_, Kind::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            _ => Ok(Some(found)),
        }
    }
}

impl Fs for SimFs {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Handle>> {
        // Looked up first, since only an open that creates is a change and a place to crash.
        let found = self.existing(path, access);
        let verb = if matches!(found, Ok(None)) { Verb::Create } else { Verb::Open };
        self.act(Step::new(verb, path), |machine| {
            let ino = match (found?, access) {
                (None, Access::Create(mode) | Access::CreateNew(mode)) => {
                    // The last component is missing; the directory may still be behind a symlink.
                    if let Some(dir) = path.parent() {
                        machine.disk.find_without_symlinks(dir)?;
                    }
                    machine.disk.create_file(path, mode)?
                }
                (None, _) => return Err(io::ErrorKind::NotFound.into()),
                (Some(ino), _) => ino,
            };
            let handle = SimHandle::open(self, machine, ino, path, access);
            Ok(Arc::new(handle) as Arc<dyn Handle>)
        })
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.act(Step::new(Verb::Stat, path), |machine| {
            let ino = machine.disk.find(path)?;
            Ok(machine.disk.stat(ino))
        })
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.act(Step::new(Verb::Resolve, path), |machine| machine.disk.canonical(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let step = Step::new(Verb::Rename, from).to(to);
        self.act(step, |machine| machine.disk.rename(from, to, true))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let step = Step::new(Verb::RenameNew, from).to(to);
        self.act(step, |machine| machine.disk.rename(from, to, false))
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        let step = Step::new(Verb::Exchange, one).to(other);
        self.run(None, step, |machine, twist| match twist {
            Twist::Torn => machine.disk.exchange_half(one, other),
            _ => machine.disk.exchange(one, other, machine.broken.break_exchange_atomicity),
        })
    }

    fn link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        let step = Step::new(Verb::Link, existing).to(new);
        self.act(step, |machine| machine.disk.link(existing, new))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.act(Step::new(Verb::Remove, path), |machine| machine.disk.remove(path))
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.act(Step::new(Verb::CreateDir, path), |machine| {
            let body = Body::Directory(Names::default());
            machine.disk.create(path, body, mode).map(drop)
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.run(None, Step::new(Verb::SyncDir, path), |machine, twist| {
            let dir = machine.disk.walk(path)?;
            machine.disk.names(dir)?;
            if let Twist::Fails(_) = twist {
                let mut judge = Machine::failing_judge(&mut machine.random);
                machine.disk.sync_names_fails(dir, &mut judge);
            } else if !machine.broken.ignore_sync_dir {
                machine.disk.sync_names(dir);
            }
            Ok(())
        })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.act(Step::new(Verb::List, path), |machine| {
            let dir = machine.disk.walk(path)?;
            let names = machine.disk.names(dir)?.now.keys();
            let mut names: Vec<OsString> = names.map(|name| name.to_os_string()).collect();
            // In no order: code that relies on one shall fail here first.
            for last in (1..names.len()).rev() {
                names.swap(last, machine.random.index(last + 1));
            }
            Ok(names)
        })
    }

    fn trust(&self, dir: &Path) -> io::Result<Trust> {
        self.act(Step::new(Verb::Stat, dir), |machine| machine.disk.walk(dir).map(|_| Trust::Yes))
    }

    fn boot_id(&self) -> [u8; 16] {
        self.machine().boot_id()
    }
}
