//! The parent: rounds of work in which workers are killed, paused and replaced.
//!
//! The dice choose the victim, the means, and the rough time; the same seed gives the same plan. Half of the long
//! pauses outlast the time to live of a session: the worker goes on with a hold that it has lost.
//!
//! # Invariants
//!
//! 1. All workers of a round are gone, and all their reports are read, before it is judged.
//! 2. A call without a return belongs to a worker that was killed, or that could not know. It may take effect at any
//!    later time, or never.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use tenure_cli::{Failure, Result};

use super::judge::{Judge, keep};
use super::worker::Task;
use super::{Ground, RECOVERY};
use crate::demo::Dice;
use crate::history::objects::{Careful, Objects, patiently};
use crate::history::{Object, Operation};
use crate::torture::crew::{Crew, Heard};
use crate::torture::finding::{Fault, Thing};
use crate::torture::storm::Blows;
use crate::torture::word::Word;
use crate::torture::{Limit, Setup};

/// How often the parent looks around.
const TICK: Duration = Duration::from_millis(50);
/// The mean time between two operations of all workers, in microseconds: the checker searches all that happens in a
/// round.
const PACE: u64 = 2000;

/// A run.
pub(super) struct Rounds<'a> {
    setup: &'a Setup,
    ground: &'a Ground,
    limit: &'a Limit,
    scratch: &'a Path,
    pub(super) things: Vec<Thing>,
    is_naive: bool,
    dice: Dice,
    round: u64,
    generation: u64,
    pub(super) done: BTreeMap<Thing, u64>,
    pub(super) reads: u64,
    pub(super) refused: u64,
    pub(super) blows: Blows,
    pub(super) judge: Judge,
}

/// A call that has not returned.
struct Open {
    object: String,
    action: String,
    arguments: Vec<u64>,
    at: u64,
}

/// The workers of a round, by the generation of each.
struct Scene {
    crew: Crew,
    /// Not heard to the end yet.
    alive: HashSet<u64>,
    open: HashMap<u64, Open>,
    /// Until when a place is paused.
    paused: Vec<Option<Instant>>,
    operations: Vec<Operation>,
    tag: String,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(
        setup: &'a Setup,
        ground: &'a Ground,
        limit: &'a Limit,
        scratch: &'a Path,
        things: Vec<Thing>,
        is_naive: bool,
    ) -> Self {
        Self {
            setup,
            ground,
            limit,
            scratch,
            things,
            is_naive,
            dice: Dice::new(setup.seed),
            round: 0,
            generation: 0,
            done: BTreeMap::new(),
            reads: 0,
            refused: 0,
            blows: Blows::default(),
            judge: Judge::new(),
        }
    }

    /// Runs rounds until the limit, or until enough was found.
    pub(super) fn run(&mut self, progress: impl Fn(u64, u64)) -> Result<()> {
        while !self.limit.is_over(self.total()) && self.judge.findings.len() < self.setup.enough() {
            self.one(&progress)?;
        }
        Ok(())
    }

    fn total(&self) -> u64 {
        self.done.values().sum()
    }

    fn one(&mut self, progress: &impl Fn(u64, u64)) -> Result<()> {
        self.round += 1;
        let (ground, known, tag) = (self.ground, AtomicU64::new(0), format!("-{}", self.round));
        let objects = Objects::new(ground.store.as_ref(), &Careful, &known, &ground.dir, &tag);
        // A store that does not work at all is reported at once.
        let patience = if self.round == 1 { Duration::ZERO } else { RECOVERY };
        patiently(patience, || objects.create())?;
        let mut scene = self.work(&tag, progress)?;
        let before = self.judge.findings.len();
        for (_, why) in scene.crew.ends() {
            self.judge.found(self.things[0], Fault::Failed, why);
        }
        scene.operations.extend(start_states());
        self.judge.round(self.round, ground, &objects, &mut scene.operations);
        if self.judge.findings.len() > before {
            let file = self.scratch.join(format!("round{tag}.jsonl"));
            keep(&file, self.round, &scene.operations).map_err(|err| failed(&file, err))?;
        }
        ground.remove_round(&tag);
        Ok(())
    }

    /// Lets all workers work for a while, and reads all their reports to the end.
    fn work(&mut self, tag: &str, progress: &impl Fn(u64, u64)) -> Result<Scene> {
        let size = self.setup.processes;
        let crew = Crew::on_store(size, self.scratch, self.ground.url.clone());
        let mut scene = Scene {
            crew: crew.map_err(|err| failed(self.scratch, err))?,
            alive: HashSet::new(),
            open: HashMap::new(),
            paused: vec![None; size],
            operations: Vec::new(),
            tag: tag.to_owned(),
        };
        (0..size).try_for_each(|slot| self.start(&mut scene, slot))?;
        self.blows.restarts += if self.round > 1 { size as u64 } else { 0 };
        // Long enough for holds that outlast their sessions.
        let end = Instant::now() + 2 * self.ground.ttl;
        let mut last_word = Instant::now();
        let mut next_blow = last_word + self.apart();
        let mut is_closing = false;
        while !scene.alive.is_empty() {
            let now = Instant::now();
            if !is_closing && (now >= end || self.limit.is_over(self.total())) {
                is_closing = true;
                for slot in 0..size {
                    scene.crew.pause(slot, false);
                    scene.crew.quit(slot);
                }
            }
            if now.saturating_duration_since(last_word) > self.setup.patience {
                let seconds = self.setup.patience.as_secs();
                let detail = format!("nothing was done for {seconds} s");
                self.judge.found(self.things[0], Fault::Stuck, detail);
                scene.crew.kill_all();
                last_word = now;
            }
            if !is_closing {
                scene.resume(now);
                if now >= next_blow {
                    self.strike(&mut scene)?;
                    next_blow = now + self.apart();
                }
            }
            if let Some(heard) = scene.crew.hear(TICK) {
                last_word = now;
                self.hear(&mut scene, heard);
            }
            progress(self.total(), self.blows.kills);
        }
        Ok(scene)
    }

    fn apart(&mut self) -> Duration {
        Duration::from_millis(self.dice.between(100, 500))
    }

    fn start(&mut self, scene: &mut Scene, slot: usize) -> Result<()> {
        self.generation += 1;
        let task = Task {
            dir: self.ground.dir.clone(),
            tag: scene.tag.clone(),
            generation: self.generation,
            seed: self.dice.roll(),
            pace: PACE * self.setup.processes as u64,
            is_naive: self.is_naive,
            things: self.things.clone(),
        };
        scene.alive.insert(self.generation);
        let launched = scene.crew.launch(slot, self.generation, task.words());
        launched.map_err(|err| failed(self.scratch, err))
    }

    /// Kills a worker and starts another one, or pauses one.
    fn strike(&mut self, scene: &mut Scene) -> Result<()> {
        let slot = self.dice.between(0, self.setup.processes as u64);
        let slot = usize::try_from(slot).unwrap_or(0);
        let (means, part) = (self.dice.between(0, 6), self.dice.between(5, 100));
        let ttl = self.ground.ttl;
        let pause = match means {
            0..3 => {
                scene.crew.kill(slot, true);
                scene.paused[slot] = None;
                self.blows.kills += 1;
                return self.start(scene, slot);
            }
            3 => ttl + Duration::from_millis(10 * part),
            _ => Duration::from_millis(2 * part),
        };
        if scene.paused[slot].is_none() {
            scene.crew.pause(slot, true);
            scene.paused[slot] = Some(Instant::now() + pause);
            self.blows.pauses += 1;
        }
        Ok(())
    }

    fn hear(&mut self, scene: &mut Scene, heard: Heard) {
        let Heard { slot, generation, word } = heard;
        match word {
            None => {
                scene.crew.reap(slot, generation);
                scene.alive.remove(&generation);
                scene.close(generation, None);
            }
            Some(Word::Call { object, action, arguments, at }) => {
                match object.as_str() {
                    "lock" => self.judge.lock.call(&action, &arguments),
                    "lease" => self.judge.lease.call(&action, &arguments),
                    _ => {}
                }
                scene.open.insert(generation, Open { object, action, arguments, at });
            }
            Some(Word::Return { answer, at }) => self.returned(scene, generation, answer, at),
            Some(Word::Refused { unchanged }) => {
                self.refused += 1;
                if unchanged {
                    scene.open.remove(&generation);
                } else {
                    scene.close(generation, None);
                }
            }
            Some(Word::Bad(finding)) => self.judge.findings.push(finding),
            Some(_) => {}
        }
    }

    fn returned(&mut self, scene: &mut Scene, generation: u64, answer: Vec<u64>, at: u64) {
        let Some(open) = scene.open.get(&generation) else { return };
        let thing = match open.object.as_str() {
            "lock" => Thing::Lock,
            "lease" => Thing::Lease,
            "queue" => Thing::Journal,
            _ => Thing::Document,
        };
        *self.done.entry(thing).or_default() += 1;
        self.reads += u64::from(matches!(open.action.as_str(), "read" | "tail"));
        let holds = match thing {
            Thing::Lock => &mut self.judge.lock,
            Thing::Lease => &mut self.judge.lease,
            _ => return scene.close(generation, Some((answer, at))),
        };
        holds.done(&open.action, &open.arguments, open.at, &answer, at);
        scene.open.remove(&generation);
    }
}

impl Scene {
    /// Continues those whose pause is over.
    fn resume(&mut self, now: Instant) {
        for (slot, paused) in self.paused.iter_mut().enumerate() {
            if paused.take_if(|end| *end <= now).is_some() {
                self.crew.pause(slot, false);
            }
        }
    }

    /// Notes the open call of a worker, if it belongs to a history.
    fn close(&mut self, generation: u64, returned: Option<(Vec<u64>, u64)>) {
        let Some(Open { object, action, arguments, at }) = self.open.remove(&generation) else {
            return;
        };
        if let Some(object) = Object::parse(&object) {
            self.operations.push(Operation { object, action, arguments, call: at, returned });
        }
    }
}

/// Fresh objects are empty.
fn start_states() -> [Operation; 4] {
    Object::ALL.map(|object| {
        let answer = if object == Object::Jobs { Vec::new() } else { vec![0, 0] };
        let (action, returned) = ("start".to_owned(), Some((answer, 0)));
        Operation { object, action, arguments: Vec::new(), call: 0, returned }
    })
}

fn failed(path: &Path, err: std::io::Error) -> Failure {
    Failure::io("torture in", path, err)
}
