//! The machine: its disk, its processes, and whether an operation may happen.
//!
//! # Invariants
//!
//! 1. Every operation passes [`Machine::admit`]; a crash or fault is decided there and nowhere else.
//! 2. A handle works only in the life of the process that opened it. A crash begins a new life.

use std::io;

use crate::crash::{Judge, Plan, Survival};
use crate::disk::Disk;
use crate::inject::{self, Fault, Injector};
use crate::random::Random;
use crate::step::Verb;
use crate::trail::Trail;

/// How it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashKind {
    /// The machine loses power: every process dies.
    Power,
    /// One process is killed; the kernel keeps what it wrote.
    Process,
}

/// Deliberately wrong behaviour, to prove that a test notices it. Nothing by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate defect, in any combination")]
pub struct Broken {
    /// Syncing a file reports success and does nothing.
    pub ignore_sync: bool,
    /// Syncing a directory reports success and does nothing.
    pub ignore_sync_dir: bool,
    /// Content that was synced in order may come after the names that follow it.
    pub ignore_order: bool,
    /// An exchange is two operations, and a crash may come between them.
    pub break_exchange_atomicity: bool,
    /// A sync that fails reports success.
    pub hide_sync_failures: bool,
}

/// How an admitted operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Twist {
    /// As it should.
    None,
    /// The crash comes in the middle: do a part of it. The caller sees the crash.
    Torn,
    /// Write less than asked for.
    Short,
    /// Lose what should have been synced. The caller sees the error of the fault.
    Fails(Fault),
}

/// Everything that happens in one simulation.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) seed: u64,
    pub(crate) disk: Disk,
    pub(crate) random: Random,
    pub(crate) injector: Injector,
    pub(crate) broken: Broken,
    pub(crate) trail: Trail,
    pub(crate) operations: u64,
    pub(crate) clock_step: u64,
    pub(crate) boots: u64,
    processes: Vec<Process>,
    armed: Option<Armed>,
    last_handle: u64,
}

#[derive(Debug, Clone, Default)]
struct Process {
    life: u64,
    down: Option<CrashKind>,
}

#[derive(Debug, Clone)]
struct Armed {
    left: u64,
    kind: CrashKind,
    process: usize,
}

impl Machine {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            disk: Disk::new(),
            random: Random::new(seed),
            injector: Injector::default(),
            broken: Broken::default(),
            trail: Trail::default(),
            operations: 0,
            clock_step: 1_000,
            boots: 0,
            processes: vec![Process::default()],
            armed: None,
            last_handle: 0,
        }
    }

    pub(crate) fn add_process(&mut self) -> usize {
        self.processes.push(Process::default());
        self.processes.len() - 1
    }

    pub(crate) fn life(&self, process: usize) -> u64 {
        self.processes[process].life
    }

    pub(crate) fn down(&self, process: usize) -> Option<CrashKind> {
        self.processes[process].down
    }

    pub(crate) fn next_handle(&mut self) -> u64 {
        self.last_handle += 1;
        self.last_handle
    }

    pub(crate) fn arm(&mut self, process: usize, left: u64, kind: CrashKind) {
        self.armed = Some(Armed { left, kind, process });
    }

    /// Counts an operation and decides how it goes.
    pub(crate) fn admit(&mut self, process: usize, life: u64, verb: Verb) -> io::Result<Twist> {
        let caller = &self.processes[process];
        if caller.down.is_some() || caller.life != life {
            return Err(inject::crashed());
        }
        if verb.changes() {
            self.operations += 1;
            self.disk.clock += self.clock_step;
            if self.crash_is_due(process) {
                let parts = match verb {
                    Verb::Write | Verb::Append => true,
                    Verb::Exchange => self.broken.break_exchange_atomicity,
                    _ => false,
                };
                return if parts { Ok(Twist::Torn) } else { Err(inject::crashed()) };
            }
        }
        match self.injector.strike(verb) {
            None => Ok(Twist::None),
            Some(Fault::ShortWrite) => Ok(Twist::Short),
            Some(fault) if verb.syncs() => Ok(Twist::Fails(fault)),
            Some(fault) => Err(fault.error()),
        }
    }

    /// Counts down to the crash that [`Machine::arm`] announced; when it comes, stops its processes.
    fn crash_is_due(&mut self, process: usize) -> bool {
        let Some(armed) = &mut self.armed else { return false };
        if armed.kind == CrashKind::Process && armed.process != process {
            return false;
        }
        armed.left = armed.left.saturating_sub(1);
        if armed.left > 0 {
            return false;
        }
        match armed.kind {
            CrashKind::Process => self.processes[process].down = Some(CrashKind::Process),
            CrashKind::Power => {
                for process in &mut self.processes {
                    process.down = Some(CrashKind::Power);
                }
            }
        }
        self.armed = None;
        true
    }

    /// A judge for a sync that fails in the middle.
    pub(crate) fn failing_judge(random: &mut Random) -> Judge<'_> {
        let plan = Plan::choose(Survival::Random, (0, 0), random);
        Judge { plan, random }
    }

    /// The power goes and comes back.
    pub(crate) fn lose_power(&mut self, survival: Survival) {
        let plan = Plan::choose(survival, self.disk.pending_window(), &mut self.random);
        self.trail.power_loss(plan);
        self.disk.lose_power(&mut Judge { plan, random: &mut self.random });
        for process in &mut self.processes {
            process.life += 1;
            process.down = None;
        }
        self.armed = None;
        self.boots += 1;
    }

    /// The process dies, and the kernel closes what it had open. The next life may begin.
    pub(crate) fn kill(&mut self, process: usize) {
        self.trail.process_crash(process);
        for ino in 0..self.disk.nodes.len() {
            let open = &mut self.disk.nodes[ino].open;
            if !open.is_empty() {
                open.retain(|open| open.process != process);
                self.disk.free_if_garbage(ino);
            }
        }
        let killed = &mut self.processes[process];
        killed.life += 1;
        if killed.down == Some(CrashKind::Process) {
            killed.down = None;
        }
        // A coming power loss is not the business of one process.
        let own = |armed: &Armed| armed.kind == CrashKind::Process && armed.process == process;
        if self.armed.as_ref().is_some_and(own) {
            self.armed = None;
        }
    }

    /// Every process of a copy is dead: handles belong to the original.
    pub(crate) fn fork(&self, seed: u64) -> Self {
        let mut copy = Self { seed, random: Random::new(seed), ..self.clone() };
        for process in 0..copy.processes.len() {
            copy.kill(process);
            copy.processes[process].down = None;
        }
        copy.armed = None;
        copy
    }

    pub(crate) fn boot_id(&self) -> [u8; 16] {
        // Not from the seed: a copy that has not crashed is still the same boot.
        let mut random = Random::new(self.boots.wrapping_mul(0xD134_2543_DE82_EF95));
        let mut id = [0; 16];
        id[..8].copy_from_slice(&random.bits().to_le_bytes());
        id[8..].copy_from_slice(&random.bits().to_le_bytes());
        id
    }
}
