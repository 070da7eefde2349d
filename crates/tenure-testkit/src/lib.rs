//! A simulated disk that loses power, so that the production code of tenure can be crashed anywhere.
//!
//! [`SimFs`] implements [`tenure::fs::Fs`] in memory. It keeps what readers see apart from what is
//! durable. A test runs the real code on it, stops it at any operation, cuts the power, and checks
//! what is left. One seed decides everything: the same seed and the same calls give the same disk.
//!
//! # A crash test
//!
//! 1. Run the work once and ask [`SimFs::operations`] how many operations it takes.
//! 2. For each of them and for many seeds: [`SimFs::fail_after`], the work again (it ends with an
//!    error), [`SimFs::crash`] or [`SimFs::process_crash`], and then open everything anew and check.
//! 3. Prove that the test can fail: run it with [`Broken`] behaviour, and expect a finding.
//!
//! ```
//! use std::{io, path::Path};
//! use tenure::fs::{Access, Fs};
//! use tenure_testkit::{CrashKind, SimFs};
//!
//! fn work(fs: &dyn Fs) -> io::Result<()> {
//!     let (temp, target) = (Path::new("/d/tmp"), Path::new("/d/a"));
//!     let file = fs.open(temp, Access::CreateNew(0o600))?;
//!     file.write_all_at(b"new", 0)?;
//!     file.sync()?;
//!     fs.rename(temp, target)?;
//!     fs.sync_dir(Path::new("/d"))
//! }
//! let machine = |seed| {
//!     let fs = SimFs::new(seed);
//!     fs.add_dir("/d"); // what is there before the work begins, durable
//!     fs.add_file("/d/a", "old");
//!     fs
//! };
//! let dry = machine(0);
//! work(&dry)?;
//! for nth in 1..=dry.operations() + 1 {
//!     for seed in 0..50 {
//!         let fs = machine(seed);
//!         let _tell = fs.tell_on_panic();
//!         fs.fail_after(nth, CrashKind::Power);
//!         let acknowledged = work(&fs).is_ok();
//!         fs.crash();
//!         let found = fs.peek("/d/a").unwrap_or_default();
//!         assert!(found == b"new" || (!acknowledged && found == b"old"));
//!     }
//! }
//! # io::Result::Ok(())
//! ```
//!
//! # What it does not do
//!
//! It has one thread: a lock that is held is an error, not a wait. It knows no permissions, owners
//! or quotas. Of unsynced data it keeps less than any real file system, so code that is right here
//! is right there; code that fails here may rely on a promise that only some file systems make. It
//! is kinder than some in three things: an exchange of names is never cut in half (see [`Broken`]),
//! a sync of a file's content makes its mode and times durable too, and pages whose sync failed
//! stay readable unchanged until the power fails.

mod content;
mod crash;
mod disk;
mod entries;
mod handle;
mod inject;
mod machine;
mod node;
mod not_run;
mod random;
mod simfs;
mod step;
mod trail;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure::fs::Fs;

pub use self::crash::Survival;
pub use self::inject::{Fault, Times};
pub use self::machine::{Broken, CrashKind};
pub use self::not_run::{allows, not_run};
pub use self::random::Random;

use self::content::Content;
use self::machine::Machine;
use self::node::{Body, Names};

/// One process on a simulated machine. A clone is the same process.
#[derive(Clone)]
pub struct SimFs {
    machine: Arc<Mutex<Machine>>,
    process: usize,
}

impl SimFs {
    /// A machine with an empty disk and one process.
    pub fn new(seed: u64) -> Self {
        Self { machine: Arc::new(Mutex::new(Machine::new(seed))), process: 0 }
    }

    /// This process as the core takes it.
    pub fn shared(&self) -> Arc<dyn Fs> {
        Arc::new(self.clone())
    }

    /// A second process on the same machine, with handles and a death of its own.
    #[must_use]
    pub fn another_process(&self) -> Self {
        let process = self.machine().add_process();
        Self { machine: self.machine.clone(), process }
    }

    /// A copy of the whole machine as it is, with the luck of another seed: one state can be crashed
    /// in many ways without doing the work again. Every process of the copy has just been killed.
    #[must_use]
    pub fn fork(&self, seed: u64) -> Self {
        let copy = self.machine().fork(seed);
        Self { machine: Arc::new(Mutex::new(copy)), process: self.process }
    }

    /// Puts a directory on the disk, durable, with all directories above it. Nothing if it is there.
    pub fn add_dir(&self, path: impl AsRef<Path>) {
        let path = path.as_ref();
        if let Some(parent) = path.parent() {
            self.add_dir(parent);
            if self.machine().disk.find(path).is_err() {
                self.add(path, Body::Directory(Names::default()), 0o755);
            }
        }
    }

    /// Puts a file with mode 0600 on the disk, durable, and replaces what is there.
    pub fn add_file(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        self.add(path.as_ref(), Body::File(Content::settled(bytes.as_ref())), 0o600);
    }

    /// Puts a symlink on the disk, durable, and replaces what is there.
    pub fn add_symlink(&self, target: impl AsRef<Path>, link: impl AsRef<Path>) {
        self.add(link.as_ref(), Body::Symlink(target.as_ref().to_path_buf()), 0o777);
    }

    fn add(&self, path: &Path, body: Body, mode: u32) {
        let mut machine = self.machine();
        let disk = &mut machine.disk;
        if disk.find(path).is_ok() {
            expect_done(disk.remove(path), path);
        }
        expect_done(disk.create(path, body, mode).map(drop), path);
        let dir = disk.parent(path).map(|(dir, _)| disk.sync_names(dir));
        expect_done(dir, path);
    }

    /// What a reader would see in a file now. Not an operation: works even while everything is down.
    pub fn peek(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let machine = self.machine();
        let ino = machine.disk.walk(path.as_ref()).ok()?;
        match &machine.disk.nodes[ino].body {
            Body::File(content) => Some(content.bytes().to_vec()),
            _ => None,
        }
    }

    /// How many changing operations there were since the beginning, syncs included.
    pub fn operations(&self) -> u64 {
        self.machine().operations
    }

    /// The `nth` changing operation from now (1 is the next) does not happen, or half if it is a
    /// write, and every later operation fails, until [`SimFs::crash`] or [`SimFs::process_crash`].
    /// [`CrashKind::Process`] counts and stops this process only.
    pub fn fail_after(&self, nth: u64, kind: CrashKind) {
        self.machine().arm(self.process, nth, kind);
    }

    /// Whether the operation of [`SimFs::fail_after`] has come.
    pub fn is_down(&self) -> bool {
        self.machine().down(self.process).is_some()
    }

    /// The power fails: what was not synced survives in part, as the seed decides. Afterwards the
    /// handles of every process are dead, locks are free, and the boot is another one. Faults stay.
    pub fn crash(&self) {
        self.crash_with(Survival::Mixed);
    }

    /// The power fails, with a chosen survival.
    pub fn crash_with(&self, survival: Survival) {
        self.machine().lose_power(survival);
    }

    /// This process dies and starts again: its handles are dead and its locks are free, and the
    /// kernel has everything it wrote. While the power is out, only [`SimFs::crash`] helps.
    pub fn process_crash(&self) {
        self.machine().kill(self.process);
    }

    /// Lets the `nth` operation from now (1 is the next) that the fault can hit go wrong.
    pub fn inject(&self, nth: u64, fault: Fault, times: Times) {
        self.machine().injector.add(nth, fault, times);
    }

    /// How many operations failed by [`SimFs::inject`]. A sweep over `nth` is over when a run does
    /// not change this.
    pub fn faults_fired(&self) -> u64 {
        self.machine().injector.fired
    }

    /// Removes this fault, and no other. Returns whether it was still to come.
    pub fn withdraw(&self, fault: Fault) -> bool {
        self.machine().injector.withdraw(fault)
    }

    /// Removes every fault.
    pub fn clear_faults(&self) {
        self.machine().injector.clear();
    }

    /// Breaks a promise of the file system, to prove that a test notices.
    pub fn break_promises(&self, broken: Broken) {
        self.machine().broken = broken;
    }

    /// The device number in [`tenure::fs::FileId`]; a number of its own unless set.
    pub fn set_device(&self, device: u64) {
        self.machine().disk.device = device;
    }

    /// How far the clock goes with each changing operation; a microsecond unless set. Zero is a
    /// kernel with coarse timestamps.
    pub fn set_clock_step(&self, step: Duration) {
        self.machine().clock_step = nanoseconds(step);
    }

    /// Lets time pass.
    pub fn advance_clock(&self, time: Duration) {
        self.machine().disk.clock += nanoseconds(time);
    }

    /// The seed and the last operations, a line each.
    pub fn history(&self) -> String {
        let machine = self.machine();
        let (seed, count) = (machine.seed, machine.operations);
        format!("seed {seed}, {count} changing operations, the last events:\n{}", machine.trail)
    }

    /// Prints the [`SimFs::history`] if the test panics while the returned value is alive.
    #[must_use]
    pub fn tell_on_panic(&self) -> TellOnPanic {
        TellOnPanic { fs: self.clone() }
    }

    pub(crate) fn machine(&self) -> MutexGuard<'_, Machine> {
        // A panic inside an operation fails the test anyway; its message must still get out.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SimFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFs(process {})", self.process)
    }
}

/// See [`SimFs::tell_on_panic`].
#[derive(Debug)]
pub struct TellOnPanic {
    fs: SimFs,
}

impl Drop for TellOnPanic {
    #[expect(clippy::print_stderr, reason = "the place where a failed test is explained")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.fs.history());
        }
    }
}

#[track_caller]
fn expect_done(outcome: io::Result<()>, path: &Path) {
    if let Err(error) = outcome {
        panic!("cannot put {} on the simulated disk: {error}", path.display());
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
