//! All states, or a sample of them, that a power loss could leave at each moment of a run.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use tenure_testkit::Random;

use super::record::Recording;
use super::state::{Change, Fate, Op, State};
use crate::victim::Ack;

/// How much is tried after each operation.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Every subset of this many newest changes is tried.
    pub newest: u32,
    /// With each of them the older ones are all lost, all kept, and this many times a random part
    /// is.
    pub older: u32,
    /// This many random states in which writes are torn.
    pub torn: u32,
}

/// Calls `visit` for each different state at each moment, with what was acknowledged before. If it
/// returns `false` the search ends. Returns how many states were visited.
pub fn crash_states(
    recording: &Recording,
    effort: Effort,
    random: &mut Random,
    visit: &mut dyn FnMut(&State, &[Ack]) -> bool,
) -> u64 {
    let mut moment = Moment { durable: recording.base.clone(), pending: Vec::new() };
    let mut acks = Vec::new();
    let mut seen = HashSet::new();
    for op in &recording.ops {
        match op {
            Op::Change(change) => moment.pending.push(change),
            Op::Sync(ino) => moment.sync(*ino),
            Op::SyncNames(dir) => moment.sync_names(dir),
            Op::Ack(ack) => acks.push(*ack),
        }
        for state in moment.states(effort, random) {
            if seen.insert((state.fingerprint(), acks.len())) && !visit(&state, &acks) {
                return seen.len() as u64;
            }
        }
    }
    seen.len() as u64
}

/// What is durable, and what is pending, at one moment of a run.
struct Moment<'r> {
    durable: State,
    pending: Vec<&'r Change>,
}

impl Moment<'_> {
    fn sync(&mut self, synced: u64) {
        let (done, left): (Vec<_>, Vec<_>) =
            self.pending.drain(..).partition(|change| match change {
                Change::Write { ino, .. } | Change::Length { ino, .. } => *ino == synced,
                Change::Names(_) => false,
            });
        self.pending = left;
        for change in done {
            self.durable.apply(change, Fate::Whole);
        }
    }

    /// Makes the names of a directory durable, together with what they depend on: the other name of
    /// a rename, and earlier changes of that one.
    fn sync_names(&mut self, dir: &Path) {
        let mut needed: BTreeSet<&PathBuf> = BTreeSet::new();
        let (mut done, mut left) = (Vec::new(), Vec::new());
        for change in self.pending.drain(..).rev() {
            let Change::Names(sets) = change else {
                left.push(change);
                continue;
            };
            let here = |path: &PathBuf| path.parent() == Some(dir);
            if sets.iter().any(|(path, _)| here(path) || needed.contains(path)) {
                needed.extend(sets.iter().map(|(path, _)| path));
                done.push(change);
            } else {
                left.push(change);
            }
        }
        left.reverse();
        self.pending = left;
        for change in done.into_iter().rev() {
            self.durable.apply(change, Fate::Whole);
        }
    }

    fn states(&self, effort: Effort, random: &mut Random) -> Vec<State> {
        let count = self.pending.len();
        let newest = count.min(effort.newest as usize);
        let older = count - newest;
        let mut states = Vec::new();
        for subset in 0..1_u64 << newest {
            let recent = |at: usize| subset >> (at - older) & 1 == 1;
            states.push(self.state(|at| (at >= older && recent(at)).then_some(Fate::Whole)));
            if older == 0 {
                continue;
            }
            states.push(self.state(|at| (at < older || recent(at)).then_some(Fate::Whole)));
            for _ in 0..effort.older {
                let density = random.below(257);
                states.push(self.state(|at| {
                    let kept = if at < older { random.chance(density) } else { recent(at) };
                    kept.then_some(Fate::Whole)
                }));
            }
        }
        for _ in 0..if count > 0 { effort.torn } else { 0 } {
            let density = random.below(257);
            states.push(self.state(|_| {
                let torn = random.chance(80).then(|| Fate::TORN[random.index(Fate::TORN.len())]);
                random.chance(density).then_some(torn.unwrap_or(Fate::Whole))
            }));
        }
        states
    }

    /// The disk, if each pending change has the fate that `judge` gives it. A change of a name that
    /// depends on a lost one is lost, and so is the content of a lost directory.
    fn state(&self, mut judge: impl FnMut(usize) -> Option<Fate>) -> State {
        let mut state = self.durable.clone();
        let mut lost: BTreeSet<&PathBuf> = BTreeSet::new();
        for (at, change) in self.pending.iter().enumerate() {
            let mut fate = judge(at);
            if let Change::Names(sets) = change {
                let cut = |path: &PathBuf| lost.contains(path) || !state.is_reachable(path);
                fate = fate.filter(|_| !sets.iter().any(|(path, _)| cut(path)));
                if fate.is_none() {
                    lost.extend(sets.iter().map(|(path, _)| path));
                }
            }
            if let Some(fate) = fate {
                state.apply(change, fate);
            }
        }
        state
    }
}
