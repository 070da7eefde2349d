//! A machine with some targets on it: work that can be cut at any operation, and the look at what is
//! left.

use std::sync::Arc;

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
    /// Locks only: its target is a key that is written by others.
    Locks(FencePart),
}

/// The machine and what must be true of it.
pub(crate) struct World {
    pub(crate) sim: SimFs,
    lie: Lie,
    parts: Vec<Part>,
}

impl World {
    /// The machine of this seed: one part or several, with or without an exchange of names.
    pub(crate) fn new(seed: u64, device: u64, lie: Lie) -> Self {
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
        ];
        // Few parts make short stories, and many crashes of each.
        let few = if random.chance(224) { 64 } else { 256 };
        let first = random.index(all.len());
        let chosen = all.into_iter().enumerate();
        let parts = chosen.filter(|(at, _)| *at == first || random.chance(few));
        let parts = parts.map(|(_, part)| part).collect();
        Self { sim, lie, parts }
    }

    pub(crate) fn fork(&self, seed: u64) -> Self {
        Self { sim: self.sim.fork(seed), lie: self.lie, parts: self.parts.clone() }
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

    /// Every part takes a step that must work.
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
        match done {
            Err(error) if !self.sim.is_down() => {
                Err(self.finding(&format!("no crash, but {error}")))
            }
            _ => Ok(()),
        }
    }

    /// It ends, and everything is looked at.
    pub(crate) fn die(&mut self, kind: CrashKind) -> Finding {
        match kind {
            CrashKind::Power => self.sim.crash(),
            CrashKind::Process => self.sim.process_crash(),
        }
        let fs = self.fs();
        let mut found = Ok(());
        for part in &mut self.parts {
            found = found.and(match part {
                Part::Document(part) | Part::Loose(part) | Part::Key(part) => {
                    part.examine(&self.sim, &fs, kind)
                }
                Part::Journal(part) => part.examine(&self.sim, &fs, kind),
                Part::Together(part) => part.examine(&fs),
                Part::Once(part) => part.examine(&fs),
                Part::Fences(part) | Part::Locks(part) => part.examine(),
            });
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
