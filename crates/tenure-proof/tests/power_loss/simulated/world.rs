//! A machine with some targets: work that can be cut at any operation, and the check of what is
//! left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure::fs::Fs;
use tenure_testkit::{CrashKind, Fault, Random, SimFs, Times};

use super::document::{DocumentPart, How, KEYS};
use super::journal::JournalPart;
use super::lies::Lie;
use super::once::OncePart;
use super::together::{FencePart, TogetherPart};

/// One step of the work; an error is fine if the machine is down.
pub(crate) type Step = Result<(), String>;
/// What is wrong, if something is.
pub(crate) type Finding = Result<(), String>;

#[derive(Debug, Clone)]
enum Part {
    Document(DocumentPart),
    /// With and without a sync.
    Loose(DocumentPart),
    Key(DocumentPart),
    Journal(JournalPart),
    Together(TogetherPart),
    Once(OncePart),
    Fences(FencePart),
    /// Locks only: other parts write its target, a key.
    Locks(FencePart),
}

impl Part {
    /// Checks what an end of this kind left.
    fn examine(&mut self, sim: &SimFs, fs: &Arc<dyn Fs>, kind: CrashKind) -> Finding {
        match self {
            Self::Document(part) | Self::Loose(part) | Self::Key(part) => {
                part.examine(sim, fs, kind)
            }
            Self::Journal(part) => part.examine(sim, fs, kind),
            Self::Together(part) => part.examine(fs, kind),
            Self::Once(part) => part.examine(fs, kind),
            Self::Fences(part) | Self::Locks(part) => part.examine(),
        }
    }

    /// A step of it failed with a sync. Its change may be visible, and a power loss may leave a
    /// part of it. If the caller gets that error `again`, it no longer repeats the step.
    fn doubt(&mut self, again: bool) {
        match self {
            Self::Journal(part) => part.doubt(),
            Self::Together(part) => part.doubt(again),
            Self::Once(part) => part.doubt(again),
            Self::Document(part) | Self::Loose(part) | Self::Key(part) => part.doubt(),
            Self::Fences(_) | Self::Locks(_) => {}
        }
    }
}

/// The machine and what must be true of it.
pub(crate) struct World {
    pub(crate) sim: SimFs,
    lie: Lie,
    /// Syncs of files fail now and then, and lose their pages.
    fails: bool,
    /// For each part: its last step had a failed sync, and the next call that relies on it may get
    /// an error.
    told: Vec<bool>,
    parts: Vec<Part>,
    /// Counts them, in all stories.
    failed_syncs: Arc<AtomicU64>,
}

impl World {
    /// The machine of this seed: one part or several, with or without an exchange of names and
    /// failing syncs.
    pub(crate) fn new(seed: u64, device: u64, lie: Lie, failed_syncs: Arc<AtomicU64>) -> Self {
        let (sim, mut random) = (SimFs::new(seed), Random::new(seed));
        sim.set_device(device);
        sim.add_dir("/d/keys");
        sim.break_promises(lie.disk());
        if random.chance(48) {
            sim.inject(1, Fault::NoExchange, Times::Forever);
        }
        let keys = "/d/keys";
        let all = [
            Part::Document(DocumentPart::new("/d/state.json", None)),
            Part::Journal(JournalPart::new("/d/log.jsonl")),
            Part::Together(TogetherPart::default()),
            Part::Fences(FencePart::new("/d/turn")),
            Part::Key(DocumentPart::new(keys, Some(KEYS[0]))),
            Part::Key(DocumentPart::new(keys, Some(KEYS[1]))),
            Part::Locks(FencePart::new("/d/keys/one.json")),
            Part::Loose(DocumentPart::new("/d/loose.json", None)),
            Part::Once(OncePart::default()),
            Part::Journal(JournalPart::shared("/d/shared.jsonl")),
        ];
        // Few parts make short stories, and many crashes of each.
        let few = if random.chance(224) { 64 } else { 256 };
        let first = random.index(all.len());
        let chosen = all.into_iter().enumerate();
        let parts = chosen.filter(|(at, _)| *at == first || random.chance(few));
        let parts: Vec<_> = parts.map(|(_, part)| part).collect();
        let (fails, told) = (random.chance(112), vec![false; parts.len()]);
        Self { sim, lie, fails, told, parts, failed_syncs }
    }

    pub(crate) fn fork(&self, seed: u64) -> Self {
        let (sim, told, parts) = (self.sim.fork(seed), self.told.clone(), self.parts.clone());
        Self { sim, told, parts, failed_syncs: self.failed_syncs.clone(), ..*self }
    }

    fn fs(&self) -> Arc<dyn Fs> {
        self.lie.told_by(self.sim.shared())
    }

    fn finding(&self, what: &str) -> String {
        format!("{what}\n{:?}\n{:#?}\n{}", self.lie, self.parts, self.sim.history())
    }

    /// Some part takes a step.
    pub(crate) fn step(&mut self, random: &mut Random) -> Finding {
        let (fs, at) = (self.fs(), random.index(self.parts.len()));
        self.take(&fs, at, random, false)
    }

    /// Every part takes a step that must work, unless the disk fails.
    pub(crate) fn recover(&mut self, random: &mut Random) -> Finding {
        let fs = self.fs();
        for at in 0..self.parts.len() {
            if !self.sim.is_down() {
                self.take(&fs, at, random, true)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, fs: &Arc<dyn Fs>, at: usize, random: &mut Random, plain: bool) -> Finding {
        let fails = self.fails && random.chance(80);
        if fails {
            self.sim.inject(1 + random.below(4), Fault::FileSyncFailure, Times::Once);
        }
        let done = match &mut self.parts[at] {
            Part::Document(part) => part.step(fs, How::Durable),
            Part::Loose(part) => part.step(fs, if plain { How::Durable } else { loose(random) }),
            Part::Key(part) => part.step(fs, if plain { How::Durable } else { of_key(random) }),
            Part::Journal(part) if plain => part.recover(fs, random),
            Part::Journal(part) => part.step(fs, random),
            Part::Together(part) => part.step(fs),
            Part::Once(part) => part.step(fs, random),
            Part::Fences(part) => part.step(fs, random.coin()),
            Part::Locks(part) => part.step(fs, false),
        };
        let fails = fails && !self.sim.withdraw(Fault::FileSyncFailure);
        self.failed_syncs.fetch_add(u64::from(fails), Ordering::Relaxed);
        // The next durable append writes to a new log, without manual repair (G8).
        let is_told = std::mem::replace(&mut self.told[at], fails)
            && !matches!(&self.parts[at], Part::Journal(_));
        let Err(error) = done else { return Ok(()) };
        if fails || is_told {
            self.parts[at].doubt(!fails);
        }
        match (self.sim.is_down(), fails || is_told) {
            (true, _) => Ok(()),
            (false, true) => self.go_on(fs, at, random),
            (false, false) => Err(self.finding(&format!("no crash, but {error}"))),
        }
    }

    /// A step got an error of the disk: its process dies of it, or continues with what is there.
    fn go_on(&mut self, fs: &Arc<dyn Fs>, at: usize, random: &mut Random) -> Finding {
        if random.coin() {
            return self.die(CrashKind::Process);
        }
        let found = self.parts[at].examine(&self.sim, fs, CrashKind::Process);
        found.map_err(|what| self.finding(&format!("after a failed sync: {what}")))
    }

    /// It ends, and everything is checked.
    pub(crate) fn die(&mut self, kind: CrashKind) -> Finding {
        match kind {
            CrashKind::Power => {
                self.told.fill(false);
                self.sim.crash();
            }
            CrashKind::Process => self.sim.process_crash(),
        }
        let fs = self.fs();
        let mut found = Ok(());
        for part in &mut self.parts {
            found = found.and(part.examine(&self.sim, &fs, kind));
        }
        found.map_err(|what| self.finding(&format!("after {kind:?}: {what}")))
    }
}

fn loose(random: &mut Random) -> How {
    match random.below(8) {
        0..5 => How::NoSync,
        5 => How::Confirm,
        _ => How::Durable,
    }
}

fn of_key(random: &mut Random) -> How {
    match random.below(8) {
        0 => How::Remove,
        1 => How::Prune,
        _ => How::Durable,
    }
}
