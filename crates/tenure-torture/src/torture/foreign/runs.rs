//! Runs of the program: side by side, each with a fate that the dice choose.
//!
//! # Invariants
//!
//! 1. A run is a process group. It is signalled only while it is on the list, and removed from the
//!    list before it is reaped, so no signal reaches a process that got its number later.
//! 2. When a play is over, none of its runs is alive.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group};

use super::program::Program;
use super::reader::{self, Seen};
use crate::demo::Dice;
use crate::torture::groups;

/// How often the killing thread checks.
const TICK: Duration = Duration::from_micros(500);
/// How often an interruption is checked for.
const SLICE: Duration = Duration::from_millis(100);
/// A run that takes this many times as long as the others, and this long, may hang: it is given
/// time at the end.
const SUSPICIOUS: u32 = 4;
const SUSPICIOUS_AFTER: Duration = Duration::from_secs(2);
/// How many read the file all the time.
const READERS: usize = 2;

/// How an undisturbed run ended.
#[derive(Debug)]
pub(super) enum Fate {
    Done,
    Refused(String),
    /// It did not end.
    Stuck,
    /// It was interrupted.
    Cut,
}

/// Whether the user has interrupted the run.
pub(super) type Enough<'a> = &'a (dyn Fn() -> bool + Sync);

/// The result of all runs.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// The keys of runs with exit code 0.
    pub(super) promised: Vec<String>,
    pub(super) refused: u64,
    /// How the first of them ended.
    pub(super) refusal: Option<String>,
    pub(super) kills: u64,
    pub(super) pauses: u64,
    /// Runs that were not killed and did not end, although no other run was alive.
    pub(super) stuck: u64,
    pub(super) seen: Seen,
}

/// What happens to a run, and when.
#[derive(Debug, Clone, Copy)]
enum Blow {
    Kill,
    Pause(Duration),
    Continue,
}

#[derive(Debug)]
struct Running {
    group: Pid,
    start: Instant,
    next: Option<(Instant, Blow)>,
}

/// Many runs at a time on one file.
#[derive(Debug)]
pub(super) struct Runs<'a> {
    program: &'a Program,
    file: &'a Path,
    places: Vec<Mutex<Option<Running>>>,
    /// How long a run takes, in microseconds; adjusted to what is measured.
    usual: AtomicU64,
    over: AtomicBool,
    promised: Mutex<Vec<String>>,
    refused: AtomicU64,
    refusal: Mutex<Option<String>>,
}

impl<'a> Runs<'a> {
    /// Nothing runs yet.
    pub(super) fn new(program: &'a Program, file: &'a Path, size: usize, usual: Duration) -> Self {
        Self {
            program,
            file,
            places: (0..size).map(|_| Mutex::new(None)).collect(),
            usual: AtomicU64::new(u64::try_from(usual.as_micros()).unwrap_or(0)),
            over: AtomicBool::new(false),
            promised: Mutex::new(Vec::new()),
            refused: AtomicU64::new(0),
            refusal: Mutex::new(None),
        }
    }

    /// Starts runs until then, or until `show`, called with the counts of done and killed runs,
    /// returns true.
    pub(super) fn play(
        self,
        until: Instant,
        seed: u64,
        (patience, enough): (Duration, Enough<'_>),
        show: &mut dyn FnMut(u64, u64) -> bool,
    ) -> io::Result<Done> {
        let mut dice = Dice::new(seed);
        let (mut kills, mut pauses, mut stuck) = (0, 0, 0);
        let (seen, failed) = std::thread::scope(|scope| {
            let runs = &self;
            let workers: Vec<_> = (0..self.places.len())
                .map(|slot| (slot, dice.roll()))
                .map(|(slot, seed)| scope.spawn(move || runs.work(slot, seed)))
                .collect();
            let read = || reader::read_until(&runs.over, runs.program, runs.file);
            let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
            let (_never, tick) = channel::<()>();
            let mut over = false;
            while !over && workers.iter().any(|worker| !worker.is_finished()) {
                let _ = tick.recv_timeout(TICK);
                self.strike(Instant::now(), &mut kills, &mut pauses);
                over = Instant::now() >= until || show(lock(&self.promised).len() as u64, kills);
            }
            self.over.store(true, Ordering::Relaxed);
            // All runs are killed at once, so that none can clean up, as at the end of a container.
            let young = self.places.iter().filter(|place| !self.is_suspicious(place));
            kills += young.filter(|place| hit(place, Signal::KILL)).count() as u64;
            let begun = Instant::now();
            while begun.elapsed() < patience && !enough() && self.is_anybody_alive() {
                let _ = tick.recv_timeout(TICK);
                self.strike(Instant::now(), &mut kills, &mut pauses);
            }
            let old = self.places.iter().filter(|place| hit(place, Signal::KILL)).count() as u64;
            if begun.elapsed() < patience {
                kills += old;
            } else {
                stuck = old;
            }
            let failed = workers.into_iter().find_map(|worker| joined(worker).err());
            let seen = readers.into_iter().map(joined);
            let seen = seen.fold(Seen::default(), |mut all, one| {
                all.reads += one.reads;
                all.findings.extend(one.findings);
                all
            });
            (seen, failed)
        });
        if let Some(err) = failed {
            return Err(err);
        }
        let promised = self.promised.into_inner().unwrap_or_else(PoisonError::into_inner);
        let refusal = self.refusal.into_inner().unwrap_or_else(PoisonError::into_inner);
        let refused = self.refused.into_inner();
        Ok(Done { promised, refused, refusal, kills, pauses, stuck, seen })
    }

    /// Whether the run in this place takes longer than the others do, and is not going to be
    /// killed.
    fn is_suspicious(&self, place: &Mutex<Option<Running>>) -> bool {
        let usual = Duration::from_micros(self.usual.load(Ordering::Relaxed));
        let long = SUSPICIOUS_AFTER.max(usual.saturating_mul(SUSPICIOUS));
        lock(place).as_ref().is_some_and(|running| {
            running.start.elapsed() > long && !matches!(running.next, Some((_, Blow::Kill)))
        })
    }

    fn is_anybody_alive(&self) -> bool {
        self.places.iter().any(|place| lock(place).is_some())
    }

    fn strike(&self, now: Instant, kills: &mut u64, pauses: &mut u64) {
        for place in &self.places {
            let mut running = lock(place);
            let Some(Running { group, next, .. }) = running.as_mut() else { continue };
            let Some((_, blow)) = next.take_if(|(at, _)| *at <= now) else { continue };
            let signal = match blow {
                Blow::Kill => {
                    *kills += 1;
                    Signal::KILL
                }
                Blow::Pause(time) => {
                    *pauses += 1;
                    *next = Some((now + time, Blow::Continue));
                    Signal::STOP
                }
                Blow::Continue => Signal::CONT,
            };
            let _ = kill_process_group(*group, signal);
        }
    }

    /// One run after another in one place.
    fn work(&self, slot: usize, seed: u64) -> io::Result<()> {
        let mut dice = Dice::new(seed);
        for number in 0_u64.. {
            if self.over.load(Ordering::Relaxed) {
                break;
            }
            let key = format!("k{slot:02}x{number:06}");
            let start = Instant::now();
            let next = self.fate(&mut dice, start);
            let disturbed = next.is_some();
            let status = self.run(slot, &key, next)?;
            if status.success() {
                lock(&self.promised).push(key);
                if !disturbed {
                    let took = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
                    let usual = self.usual.load(Ordering::Relaxed);
                    self.usual.store(usual - usual / 8 + took / 8, Ordering::Relaxed);
                }
            } else if status.code().is_some() {
                self.refused.fetch_add(1, Ordering::Relaxed);
                lock(&self.refusal).get_or_insert_with(|| told(status, self.file));
            }
        }
        Ok(())
    }

    fn fate(&self, dice: &mut Dice, start: Instant) -> Option<(Instant, Blow)> {
        let usual = self.usual.load(Ordering::Relaxed);
        let at = start + Duration::from_micros(dice.between(0, usual * 5 / 4 + 1));
        let pause = Duration::from_millis(dice.between(1, 60));
        match dice.between(0, 12) {
            0..4 => Some((at, Blow::Kill)),
            4 => Some((at, Blow::Pause(pause))),
            _ => None,
        }
    }

    fn run(&self, slot: usize, key: &str, next: Option<(Instant, Blow)>) -> io::Result<ExitStatus> {
        let mut child = start(self.program, self.file, key)?;
        let group = Pid::from_child(&child);
        *lock(&self.places[slot]) = Some(Running { group, start: Instant::now(), next });
        // It was started while the play ended: no other thread will kill it.
        if self.over.load(Ordering::Relaxed) {
            hit(&self.places[slot], Signal::KILL);
        }
        wait(group)?;
        *lock(&self.places[slot]) = None;
        // Children that outlive the shell belong to the run; they end with it.
        let _ = kill_process_group(group, Signal::KILL);
        groups::remove(&child);
        child.wait()
    }
}

/// Runs the program once, undisturbed. It is killed if it takes longer than `patience`.
pub(super) fn run_once(
    program: &Program,
    file: &Path,
    key: &str,
    patience: Duration,
    enough: Enough<'_>,
) -> io::Result<Fate> {
    let mut child = start(program, file, key)?;
    let ended = wait_or_end(&child, patience, enough)?;
    groups::remove(&child);
    let status = child.wait()?;
    Ok(match ended {
        Some(fate) => fate,
        None if status.success() => Fate::Done,
        None => Fate::Refused(told(status, file)),
    })
}

/// Blocks until the leader of a group has ended, without reaping it. The group is killed if that
/// takes longer than `patience`, or on an interruption; the result says which.
pub(super) fn wait_or_end(
    child: &Child,
    patience: Duration,
    enough: Enough<'_>,
) -> io::Result<Option<Fate>> {
    let group = Pid::from_child(child);
    let (done, ended) = channel::<()>();
    std::thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let start = Instant::now();
            while ended.recv_timeout(SLICE) == Err(RecvTimeoutError::Timeout) {
                let fate = if enough() { Fate::Cut } else { Fate::Stuck };
                if matches!(fate, Fate::Cut) || start.elapsed() >= patience {
                    let _ = kill_process_group(group, Signal::KILL);
                    return Some(fate);
                }
            }
            None
        });
        let waited = wait(group);
        drop(done);
        waited.map(|()| watch.join().unwrap_or(None))
    })
}

/// How a failed run ended, and its last line on standard error.
fn told(status: ExitStatus, file: &Path) -> String {
    let errors = std::fs::read_to_string(errors(file)).unwrap_or_default();
    said(status, errors.lines().last())
}

/// How a failed program ended, and what it wrote.
pub(super) fn said(status: ExitStatus, why: Option<&str>) -> String {
    why.map_or_else(|| status.to_string(), |why| format!("{status}: {why}"))
}

/// The text for a run that did not end.
pub(super) fn stuck(patience: Duration) -> String {
    format!("it did not end in {} s", (patience.as_secs_f64() * 10.0).round() / 10.0)
}

/// Standard error is kept outside the directory of the file, which holds only the program's own
/// files.
fn errors(file: &Path) -> std::path::PathBuf {
    let dir = file.parent().unwrap_or(file);
    dir.with_extension("errors.txt")
}

fn start(program: &Program, file: &Path, key: &str) -> io::Result<Child> {
    let errors = OpenOptions::new().create(true).append(true).open(errors(file))?;
    groups::start(program.save(file, key).process_group(0).stderr(errors))
}

/// Blocks until the leader of a group has ended. It is not reaped, so its number is not reused.
fn wait(group: Pid) -> io::Result<()> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::Pid(group), options))?;
    Ok(())
}

/// The result of a thread. A panic is passed on: a partial result must not be taken for all of it.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Sends a signal to the run in this place.
fn hit(place: &Mutex<Option<Running>>, signal: Signal) -> bool {
    lock(place).as_ref().is_some_and(|running| kill_process_group(running.group, signal).is_ok())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
