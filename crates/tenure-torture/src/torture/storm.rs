//! The storm: the workers work, and are killed and paused, until the time is over or something is
//! found.
//!
//! The dice choose the victim, the means, and the rough time; the same seed gives the same plan.
//! The kernel decides how the processes interleave, so a second run repeats the plan, not the exact
//! moments.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::crew::{Crew, Heard};
use super::finding::{Fault, Finding, Thing};
use super::ledger::Ledger;
use super::memory::Memory;
use super::presence::{self, Holder};
use super::standstill::{Busy, LONG, Watch};
use super::word::Word;
use super::worker::{Task, memory_file};
use super::{Limit, Setup};
use crate::demo::Dice;

/// One in this many places works on leases only, if there is other work: the lease of a dead worker
/// lasts, and the others should not all wait for it.
const LESSEES: usize = 5;

/// At most this many operations, and this much time, until the next blow. So a slow machine does
/// more than kill, and blows also come while all workers wait for a dead one. While nothing is done
/// with one of the things, blows come half as often each time. Otherwise, if starting a worker
/// takes longer than that, no worker would get to work, and a hang would be hidden.
const OPERATIONS_APART: u64 = 400;
const APART: Duration = Duration::from_millis(140);

/// How often progress on each thing is checked.
const TICK: Duration = Duration::from_millis(100);

/// What was done to the workers.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Blows {
    pub(super) kills: u64,
    pub(super) pauses: u64,
    pub(super) restarts: u64,
}

/// One place among the workers.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// Paused until then, and then killed or continued.
    paused: Option<(Instant, bool)>,
}

/// Lets all workers work until the limit, and reports to `progress`.
pub(super) struct Storm<'a> {
    setup: &'a Setup,
    scratch: &'a Path,
    memory: Memory,
    dice: Dice,
    crew: Crew,
    watch: Watch,
    places: Vec<Place>,
    generation: u64,
    pub(super) ledger: Ledger,
    pub(super) blows: Blows,
}

impl<'a> Storm<'a> {
    /// Everything is prepared, no worker is started yet.
    pub(super) fn new(setup: &'a Setup, scratch: &'a Path) -> io::Result<Self> {
        Ok(Self {
            setup,
            scratch,
            memory: Memory::create(&memory_file(scratch))?,
            dice: Dice::new(setup.seed),
            crew: Crew::new(setup.processes, scratch)?,
            watch: Watch::new(&setup.things, setup.patience, Instant::now()),
            places: vec![Place::default(); setup.processes],
            generation: 0,
            ledger: Ledger::new(setup.processes),
            blows: Blows::default(),
        })
    }

    /// Runs it to its end. All workers are dead then, and all their reports are read. `progress`
    /// also reports a wait at the end for a thing that may be at a standstill.
    pub(super) fn run(
        &mut self,
        limit: &Limit,
        mut progress: impl FnMut(&Ledger, Blows, Option<(Thing, Duration)>),
    ) -> io::Result<()> {
        for slot in 0..self.setup.processes {
            self.start(slot)?;
        }
        let (mut next_blow, mut latest_blow) = (0, Instant::now());
        let mut next_look = Instant::now();
        let enough = self.setup.enough();
        while !limit.is_interrupted() && self.ledger.findings.len() < enough {
            let now = Instant::now();
            let over = limit.is_over(self.ledger.total());
            let suspect = if over { self.watch.suspect(&self.busy(), now) } else { None };
            if over && suspect.is_none() {
                break;
            }
            if now >= next_look {
                next_look = now + TICK;
                if let Some(finding) = self.look(now) {
                    self.ledger.findings.push(finding);
                    break;
                }
                if over {
                    progress(&self.ledger, self.blows, suspect);
                }
            }
            let silence = self.watch.silence(now);
            let worked = silence < LONG && self.ledger.total() >= next_blow;
            if now >= latest_blow || worked {
                next_blow = self.ledger.total() + self.dice.between(1, OPERATIONS_APART);
                latest_blow = now + APART.max(silence);
                if !over {
                    self.strike(now)?;
                    progress(&self.ledger, self.blows, None);
                }
            }
            self.end_pauses(now)?;
            // All may wait for a paused worker, so its pause must end on time.
            let ends = self.places.iter().filter_map(|place| place.paused.map(|(end, _)| end));
            let next_end = ends.fold(latest_blow.min(next_look), Instant::min);
            if let Some(heard) = self.crew.hear(next_end.saturating_duration_since(now)) {
                self.hear(heard)?;
            }
        }
        for Heard { slot, generation, word } in self.crew.last_words() {
            if let Some(word) = word {
                self.note(slot, generation, word);
            }
        }
        self.note_ends();
        let take_overs = &mut self.ledger.take_overs;
        for (generation, at) in take_overs.begun.drain() {
            // A worker that was not killed has reported its end, or its failure.
            take_overs.unheard.extend(self.crew.gone(generation).map(|gone| (at, gone)));
        }
        progress(&self.ledger, self.blows, None);
        Ok(())
    }

    /// Whether all things make progress.
    fn look(&mut self, now: Instant) -> Option<Finding> {
        self.watch.look(&self.ledger.changes, now);
        self.watch.judge(&self.busy(), now)
    }

    /// What each worker is doing.
    fn busy(&self) -> Vec<Option<Busy>> {
        (0..self.places.len()).map(|slot| Busy::of(self.memory, slot)).collect()
    }

    /// Whether the worker in `slot` may hang. A kill would hide that.
    fn may_hang(&self, slot: usize) -> bool {
        Busy::of(self.memory, slot).is_some_and(|busy| busy.time > LONG)
    }

    fn start(&mut self, slot: usize) -> io::Result<()> {
        self.note_ends();
        Busy::clear(self.memory, slot);
        self.generation += 1;
        self.ledger.incarnations[slot] += 1;
        self.places[slot] = Place::default();
        self.crew.start(&Task {
            scratch: self.scratch.to_path_buf(),
            slot,
            generation: self.generation,
            seed: self.dice.roll(),
            count: 0,
            author: self.setup.author,
            things: self.things(slot),
        })
    }

    /// What the worker in `slot` works on.
    fn things(&self, slot: usize) -> Vec<Thing> {
        let (lease, others): (Vec<_>, Vec<_>) =
            self.setup.things.iter().partition(|thing| **thing == Thing::Lease);
        let lessee = slot % LESSEES == LESSEES - 1 || slot == 1;
        if others.is_empty() || (lessee && !lease.is_empty()) { lease } else { others }
    }

    /// Kills or pauses one or more workers.
    fn strike(&mut self, now: Instant) -> io::Result<()> {
        let slot = usize::try_from(self.dice.between(0, self.setup.processes as u64)).unwrap_or(0);
        let (lot, ms) = (self.dice.between(0, 100), self.dice.between(1, 40));
        let all = lot >= 98;
        if (0..self.places.len()).any(|one| (all || one == slot) && self.may_hang(one)) {
            return Ok(());
        }
        match lot {
            0..40 => self.replace(slot, false),
            40..52 => self.replace(slot, true),
            52..80 if self.places[slot].paused.is_none() => {
                // Some are paused for longer than any lease lasts, and some are killed while
                // paused.
                let ms = if lot < 56 { ms * 8 } else { ms };
                self.crew.pause(slot, true);
                self.blows.pauses += 1;
                self.places[slot].paused = Some((now + Duration::from_millis(ms), lot < 62));
                Ok(())
            }
            80..90 => {
                self.crew.quit(slot);
                self.blows.restarts += 1;
                Ok(())
            }
            98..100 => {
                self.crew.kill_all();
                self.blows.kills += self.setup.processes as u64;
                (0..self.setup.processes).try_for_each(|slot| self.start(slot))
            }
            _ => Ok(()),
        }
    }

    fn replace(&mut self, slot: usize, family: bool) -> io::Result<()> {
        self.crew.kill(slot, family);
        self.blows.kills += 1;
        self.start(slot)
    }

    fn end_pauses(&mut self, now: Instant) -> io::Result<()> {
        for slot in 0..self.places.len() {
            let Some((_, dies)) = self.places[slot].paused.take_if(|(end, _)| *end <= now) else {
                continue;
            };
            if dies {
                self.replace(slot, false)?;
            } else {
                self.crew.pause(slot, false);
            }
        }
        Ok(())
    }

    fn hear(&mut self, heard: Heard) -> io::Result<()> {
        let Heard { slot, generation, word } = heard;
        if let Some(word) = word {
            self.note(slot, generation, word);
            return Ok(());
        }
        // A worker that was killed has been reaped and replaced already.
        if self.crew.reap(slot, generation) { self.start(slot) } else { Ok(()) }
    }

    /// A worker that ended by itself is a finding, for the operation that it was in.
    fn note_ends(&mut self) {
        for (slot, detail) in self.crew.ends() {
            let thing = Busy::of(self.memory, slot).map_or(self.setup.things[0], |busy| busy.thing);
            self.ledger.found(thing, Fault::Failed, detail);
        }
    }

    fn note(&mut self, slot: usize, generation: u64, word: Word) {
        if let Word::Two(overlap) = word {
            if self.crew.was_alive(overlap) {
                let other = Holder::of_flag(overlap.flag);
                let detail = format!("worker {slot} ({generation}) was inside with {other:?}");
                self.ledger.found(Thing::Lock, Fault::TwoHolders, detail);
            } else {
                presence::take_down(self.memory, overlap);
            }
            return;
        }
        self.ledger.write(slot, generation, word);
    }
}
