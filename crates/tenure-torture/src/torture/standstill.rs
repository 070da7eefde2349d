//! Standstills: a thing on which no worker completes an operation any more, while others may
//! continue.
//!
//! # Invariants
//!
//! 1. Only an acknowledged change counts. Deaths and starts are caused by the storm, and a read
//!    never waits, so it does not show that a writer would get the lock.
//! 2. Two conditions are needed: no change of the thing for as long as the patience, and a worker
//!    that has been in one operation on it for as long. So a thing is not blamed because its
//!    workers hang in another one, nor because the machine is too busy to start workers.
//! 3. A run does not end while a thing is suspected: a short run would kill the hanging worker, and
//!    report nothing.
//! 4. The storm does not kill a worker that has been in one operation for long, and strikes more
//!    rarely the longer a thing is silent: a kill would hide what has to be found.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use super::clock;
use super::finding::{Fault, Finding, Thing};
use super::memory::Memory;
use super::words;

/// A worker that is in one operation for longer than this is not killed any more, and a thing that
/// is silent for longer makes kills rarer. Nothing takes this long in a normal run.
pub(super) const LONG: Duration = Duration::from_secs(2);

/// What a worker is doing, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Busy {
    pub(super) thing: Thing,
    pub(super) time: Duration,
}

impl Busy {
    /// A worker publishes in shared memory which operation it begins.
    pub(super) fn begin(memory: Memory, slot: usize, thing: Thing) {
        let number = Thing::ALL.iter().position(|one| *one == thing).map_or(0, |place| place + 1);
        memory.word(words::busy(slot)).store((now_ms() << 8) | number as u64, SeqCst);
    }

    /// No worker yet.
    pub(super) fn clear(memory: Memory, slot: usize) {
        memory.word(words::busy(slot)).store(0, SeqCst);
    }

    /// The last operation of the worker in `slot`.
    pub(super) fn of(memory: Memory, slot: usize) -> Option<Self> {
        let word = memory.word(words::busy(slot)).load(SeqCst);
        let place = usize::try_from(word & 0xff).ok()?.checked_sub(1)?;
        let time = Duration::from_millis(now_ms().saturating_sub(word >> 8));
        Thing::ALL.get(place).map(|thing| Self { thing: *thing, time })
    }
}

fn now_ms() -> u64 {
    clock::now() / 1_000_000
}

/// When each thing was last changed.
#[derive(Debug)]
pub(super) struct Watch {
    patience: Duration,
    last: BTreeMap<Thing, (u64, Instant)>,
}

impl Watch {
    /// Everything starts now.
    pub(super) fn new(things: &[Thing], patience: Duration, now: Instant) -> Self {
        Self { patience, last: things.iter().map(|thing| (*thing, (0, now))).collect() }
    }

    /// Records how many changes are acknowledged by now.
    pub(super) fn look(&mut self, changes: &BTreeMap<Thing, u64>, now: Instant) {
        for (thing, last) in &mut self.last {
            let count = changes.get(thing).copied().unwrap_or(0);
            if count != last.0 {
                *last = (count, now);
            }
        }
    }

    /// How long the most silent thing has been silent.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        let silences = self.last.values().map(|(_, at)| now.saturating_duration_since(*at));
        silences.max().unwrap_or_default()
    }

    /// The standstill, if there is one; `busy` has a place for each worker.
    pub(super) fn judge(&self, busy: &[Option<Busy>], now: Instant) -> Option<Finding> {
        let hanging = self.hanging(busy, now, self.patience);
        let longest = hanging.iter().max_by_key(|(_, busy, _)| busy.time);
        if let Some((slot, Busy { thing, time }, silence)) = longest {
            let count = hanging.iter().filter(|(_, busy, _)| busy.thing == *thing).count();
            let detail = format!(
                "no change for {} s, {count} of {} workers hang in one operation on it, worker {slot} for {} s",
                silence.as_secs(),
                busy.len(),
                time.as_secs(),
            );
            return Some(Finding::new(*thing, Fault::Stuck, detail));
        }
        self.judge_all(now)
    }

    /// The suspected standstill, and for how long: it is too early to decide, and so to stop.
    pub(super) fn suspect(&self, busy: &[Option<Busy>], now: Instant) -> Option<(Thing, Duration)> {
        let hanging = self.hanging(busy, now, LONG).into_iter();
        hanging.map(|(_, busy, silence)| (busy.thing, silence)).max_by_key(|(_, silence)| *silence)
    }

    /// The worker that is in one operation for longer than `time`, on a thing that is also silent
    /// for longer, and for how long.
    fn hanging(
        &self,
        busy: &[Option<Busy>],
        now: Instant,
        time: Duration,
    ) -> Vec<(usize, Busy, Duration)> {
        let silence = |thing| {
            let (_, at) = self.last.get(&thing)?;
            Some(now.saturating_duration_since(*at)).filter(|silence| *silence > time)
        };
        let busy = busy.iter().enumerate().filter_map(|(slot, busy)| Some((slot, (*busy)?)));
        busy.filter(|(_, busy)| busy.time > time)
            .filter_map(|(slot, busy)| Some((slot, busy, silence(busy.thing)?)))
            .collect()
    }

    /// No worker hangs in an operation, and yet nothing is done: no worker gets that far.
    fn judge_all(&self, now: Instant) -> Option<Finding> {
        let last = self.last.values().map(|(_, at)| *at).max()?;
        let silence = now.saturating_duration_since(last);
        let thing = *self.last.keys().next()?;
        let detail = format!("nothing at all was done for {} s", silence.as_secs());
        (silence > 2 * self.patience).then(|| Finding::new(thing, Fault::Stuck, detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn busy(thing: Thing, seconds: u64) -> Busy {
        Busy { thing, time: Duration::from_secs(seconds) }
    }

    fn changes(counts: &[(Thing, u64)]) -> BTreeMap<Thing, u64> {
        counts.iter().copied().collect()
    }

    #[test]
    fn a_thing_stands_still_although_others_go_on() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut watch = Watch::new(&[Thing::Lock, Thing::Lease], PATIENCE, start);
        watch.look(&changes(&[(Thing::Lock, 5)]), at(10));
        for seconds in 11..=80 {
            watch.look(&changes(&[(Thing::Lock, 5), (Thing::Lease, seconds)]), at(seconds));
        }
        assert_eq!(watch.silence(at(80)), Duration::from_secs(70));
        let hangs = [Some(busy(Thing::Lease, 0)), None, Some(busy(Thing::Lock, 69))];
        let found = watch.judge(&hangs, at(80)).expect("found");
        assert_eq!((found.thing, found.fault), (Thing::Lock, Fault::Stuck));
        assert!(found.detail.contains("no change for 70 s, 1 of 3 workers"), "{}", found.detail);
        assert_eq!(watch.suspect(&hangs, at(80)), Some((Thing::Lock, Duration::from_secs(70))));
        // Workers that have just begun may be new: they may have been killed all the time.
        assert_eq!(
            watch.judge(&[Some(busy(Thing::Lease, 0)), Some(busy(Thing::Lock, 59))], at(80)),
            None
        );
        // A worker that waits long while others get their turn is only unlucky.
        watch.look(&changes(&[(Thing::Lock, 6), (Thing::Lease, 80)]), at(79));
        assert_eq!(watch.judge(&hangs, at(80)), None);
        assert_eq!(watch.suspect(&hangs, at(80)), None);
        assert_eq!(watch.judge(&hangs, at(82)), None, "too early to tell");
        assert_eq!(watch.suspect(&hangs, at(82)), Some((Thing::Lock, Duration::from_secs(3))));
    }

    #[test]
    fn nobody_is_blamed_for_those_who_hang_elsewhere_and_nothing_at_all_is_found_as_well() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let watch = Watch::new(&[Thing::Lock, Thing::Document], PATIENCE, start);
        let hangs = [Some(busy(Thing::Document, 61)), Some(busy(Thing::Document, 70))];
        let found = watch.judge(&hangs, at(70)).expect("found");
        assert_eq!(found.thing, Thing::Document);
        assert_eq!(watch.judge(&[None, None], at(120)), None, "a machine that starts no worker");
        assert!(watch.judge(&[None, None], at(121)).is_some());
    }

    #[test]
    fn what_a_worker_is_at_is_seen_by_its_parent() {
        let dir = tempfile::tempdir().expect("a directory");
        let memory = Memory::create(&dir.path().join("memory")).expect("memory");
        assert_eq!(Busy::of(memory, 63), None);
        for thing in Thing::ALL {
            Busy::begin(memory, 63, thing);
            let seen = Busy::of(memory, 63).expect("busy");
            assert_eq!(seen.thing, thing);
            assert!(seen.time < Duration::from_secs(30), "{seen:?}");
        }
        Busy::clear(memory, 63);
        assert_eq!(Busy::of(memory, 63), None);
    }
}
