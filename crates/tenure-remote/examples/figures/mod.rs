//! What the figures of both engines share: turns, medians, rates, queues, and gaps.
//!
//! Whatever is compared takes turns in one run, so that both meet the same noise. Only the ratios count.

#![expect(clippy::print_stdout, reason = "a table is the result")]

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tenure::status::Holder;
use tenure::store;
use tenure_remote::engine::{
    Commit, Committed, Engine, Kind, Receipt, SessionId, Taken, Ticket, Watched,
};

pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;
/// Something to repeat.
pub(crate) type Act<'a> = Box<dyn FnMut() -> Result + 'a>;
/// Makes what the caller with this number repeats.
pub(crate) type Maker<'a> = &'a (dyn Fn(usize) -> Result<Act<'a>> + Sync);

const WARM_UP: usize = 20;
const APPENDERS: usize = 16;
/// One turn of all appenders, and how many turns each kind gets.
const TURN: Duration = Duration::from_millis(700);
const TURNS: usize = 5;
/// Nothing here takes so long.
const PATIENCE: Duration = Duration::from_secs(30);
/// Writes after a failure until it counts as over.
const ENOUGH: usize = 20;

pub(crate) fn ticket(session: &SessionId) -> Result<Ticket> {
    Ok(Ticket {
        id: store::new_token()?,
        session: session.clone(),
        kind: Kind::Lock,
        holder: Holder::this_process("figures", ""),
        may_wait: true,
    })
}

pub(crate) fn held(taken: &Taken) -> Result<u64> {
    match taken {
        Taken::Held { fence, .. } => Ok(*fence),
        Taken::Busy { .. } => Err(format!("{taken:?}").into()),
    }
}

pub(crate) fn done(committed: Committed) -> Result<Receipt> {
    match committed {
        Committed::Done(receipt) => Ok(receipt),
        other => Err(format!("{other:?}").into()),
    }
}

/// Takes a lock and gives it back.
pub(crate) fn lock_once(engine: &dyn Engine, session: &SessionId, name: &str) -> Result {
    let ticket = ticket(session)?;
    let fence = held(&engine.take(name, &ticket)?)?;
    if engine.release(name, &ticket, fence)? { Ok(()) } else { Err("the lock was lost".into()) }
}

pub(crate) fn append(engine: &dyn Engine, name: &str, line: &[u8]) -> Result {
    let id = store::new_token()?;
    let lines: &[&[u8]] = &[line];
    let journal = Some((name, lines));
    let change = Commit { id: &id, free: vec![name], journal, ..Commit::default() };
    done(engine.commit(&change)?).map(drop)
}

/// How long it takes.
pub(crate) fn clocked(act: impl FnOnce() -> Result) -> Result<Duration> {
    let began = Instant::now();
    act()?;
    Ok(began.elapsed())
}

pub(crate) fn head() {
    println!(
        "{:<36} {:>9} {:>9} {:>9} {:>7}",
        "p50 in milliseconds", "raw", "tenure", "its p95", "ratio"
    );
}

/// Runs both in turns, and prints them side by side.
pub(crate) fn compare(
    what: &str,
    rounds: usize,
    mut raw: impl FnMut() -> Result<Duration>,
    mut ours: impl FnMut() -> Result<Duration>,
) -> Result {
    let (mut raw_times, mut our_times) = (Vec::new(), Vec::new());
    let warm_up = WARM_UP.min(rounds / 4);
    for round in 0..rounds + warm_up {
        let both = (raw()?, ours()?);
        if round >= warm_up {
            raw_times.push(both.0);
            our_times.push(both.1);
        }
    }
    let (base, own) = (percentile(&mut raw_times, 50), percentile(&mut our_times, 50));
    let late = percentile(&mut our_times, 95);
    println!("{what:<36} {base:>9.3} {own:>9.3} {late:>9.3} {:>6.2}x", own / base);
    Ok(())
}

/// Prints what another tool needs, and what it leaves out.
pub(crate) fn beside(
    what: &str,
    rounds: usize,
    mut act: impl FnMut() -> Result<Duration>,
    lacks: &str,
) -> Result {
    let mut times = (0..rounds).map(|_| act()).collect::<Result<Vec<_>>>()?;
    println!("{what:<36} {:>9.3}   {lacks}", percentile(&mut times, 50));
    Ok(())
}

fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort();
    times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3
}

/// Appends per second of sixteen callers, each on a journal of its own. The kinds take turns; the first one is the base.
pub(crate) fn rates(kinds: &[(&str, Maker<'_>)]) -> Result {
    let counts: Vec<Vec<AtomicUsize>> =
        kinds.iter().map(|_| (0..TURNS).map(|_| AtomicUsize::new(0)).collect()).collect();
    let (ready, problem) = (Barrier::new(APPENDERS), Mutex::new(None));
    thread::scope(|scope| {
        for number in 0..APPENDERS {
            let (ready, counts, problem) = (&ready, &counts, &problem);
            scope.spawn(move || {
                let note = |error: Box<dyn Error + Send + Sync>| {
                    problem.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                };
                let mut acts: Vec<Act<'_>> = Vec::new();
                for (_, make) in kinds {
                    acts.push(make(number).unwrap_or_else(|error| {
                        note(error);
                        Box::new(|| Ok(()))
                    }));
                }
                for turn in 0..=TURNS {
                    for (act, counts) in acts.iter_mut().zip(counts) {
                        ready.wait();
                        let end = Instant::now() + if turn == 0 { TURN / 4 } else { TURN };
                        while Instant::now() < end {
                            if let Err(error) = act() {
                                note(error);
                                break;
                            }
                            if turn > 0 {
                                counts[turn - 1].fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                }
            });
        }
    });
    if let Some(error) = problem.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let rate = |counts: &[AtomicUsize]| {
        let mut counts: Vec<_> = counts.iter().map(|one| one.load(Ordering::Relaxed)).collect();
        counts.sort_unstable();
        number(counts[TURNS / 2]) / TURN.as_secs_f64()
    };
    let base = rate(&counts[0]);
    println!("{APPENDERS} appenders on {APPENDERS} journals, 1 KiB, median of {TURNS} turns:");
    for ((what, _), counts) in kinds.iter().zip(&counts) {
        println!("    {what:<32} {:>9.0}/s {:>27.2}x", rate(counts), rate(counts) / base);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn number(count: usize) -> f64 {
    count as f64
}

/// Two processes that pass a lock to each other.
pub(crate) struct Baton<'a> {
    engines: [&'a dyn Engine; 2],
    sessions: [SessionId; 2],
    holding: Ticket,
    fence: u64,
    turn: usize,
}

impl<'a> Baton<'a> {
    pub(crate) fn new(engines: [&'a dyn Engine; 2]) -> Result<Self> {
        let ttl = Duration::from_secs(60);
        let sessions = [engines[0].open_session(ttl)?, engines[1].open_session(ttl)?];
        let holding = ticket(&sessions[0])?;
        let fence = held(&engines[0].take("/baton", &holding)?)?;
        Ok(Self { engines, sessions, holding, fence, turn: 0 })
    }

    /// From the release to the moment in which the waiter has the lock.
    pub(crate) fn pass(&mut self) -> Result<Duration> {
        let (from, to) = (self.engines[self.turn % 2], self.engines[(self.turn + 1) % 2]);
        let waiting = ticket(&self.sessions[(self.turn + 1) % 2])?;
        to.take("/baton", &waiting)?;
        let mut watcher = to.watch("/baton", Watched::Turn(&waiting))?;
        watcher.wait(Duration::from_millis(1))?;
        let started = Barrier::new(2);
        let (fence, took) = thread::scope(|scope| {
            let waiter = scope.spawn(|| -> Result<(u64, Instant)> {
                started.wait();
                while !watcher.wait(PATIENCE)? {}
                Ok((held(&to.take("/baton", &waiting)?)?, Instant::now()))
            });
            started.wait();
            let began = Instant::now();
            from.release("/baton", &self.holding, self.fence)?;
            let (fence, end) = waiter.join().map_err(|_| "a panic")??;
            Ok::<_, Box<dyn Error + Send + Sync>>((fence, end - began))
        })?;
        (self.holding, self.fence, self.turn) = (waiting, fence, self.turn + 1);
        Ok(took)
    }
}

/// What a hand-off costs with so many waiters, who are of two processes by turns.
pub(crate) fn waiters(
    engines: [&dyn Engine; 2],
    count: usize,
    requests: impl Fn() -> usize,
) -> Result {
    let name = format!("/waiters/{count}");
    let ttl = Duration::from_secs(120);
    let sessions = [engines[0].open_session(ttl)?, engines[1].open_session(ttl)?];
    let (mut holder, mut from) = (ticket(&sessions[0])?, engines[0]);
    let mut fence = held(&from.take(&name, &holder)?)?;
    let began = Instant::now();
    let mut queue = Vec::new();
    for at in 0..count {
        let (engine, waiting) = (engines[(at + 1) % 2], ticket(&sessions[(at + 1) % 2])?);
        engine.take(&name, &waiting)?;
        let mut watcher = engine.watch(&name, Watched::Turn(&waiting))?;
        watcher.wait(Duration::from_millis(1))?;
        queue.push((engine, waiting, watcher));
    }
    let joined = began.elapsed();
    for at in 0..2 {
        engines[at].renew_session(&sessions[at])?;
    }
    let (before, began) = (requests(), Instant::now());
    let hand_offs = count.min(100);
    for (engine, waiting, mut watcher) in queue.drain(..).take(hand_offs) {
        from.release(&name, &holder, fence)?;
        while !watcher.wait(PATIENCE)? {}
        fence = held(&engine.take(&name, &waiting)?)?;
        (holder, from) = (waiting, engine);
    }
    let took = began.elapsed().as_secs_f64() * 1e3 / number(hand_offs);
    println!(
        "hand-off with {count:>4} waiters {took:>21.3} ms, {:.2} requests each; joined in {joined:.1?}",
        number(requests() - before) / number(hand_offs)
    );
    for at in 0..2 {
        engines[at].close_session(&sessions[at])?;
    }
    Ok(())
}

/// The longest time without a success of a bare client and of tenure, both of which write all the time, while the
/// server fails and comes back. An error that reaches tenure's caller is reported.
pub(crate) fn gaps(
    what: &str,
    mut raw: impl FnMut() -> bool + Send,
    mut ours: impl FnMut() -> Result + Send,
    fail: impl FnOnce(),
) -> Result {
    // Since the beginning: the successes so far, the longest gap, and errors.
    let failed = AtomicUsize::new(0);
    let watch = |act: &mut dyn FnMut() -> bool| -> (Duration, usize) {
        let (mut last, mut longest, mut after, mut errors) = (Instant::now(), Duration::ZERO, 0, 0);
        let end = Instant::now() + 2 * PATIENCE;
        while after < ENOUGH && Instant::now() < end {
            if act() {
                longest = longest.max(last.elapsed());
                last = Instant::now();
                after += failed.load(Ordering::Relaxed);
            } else {
                errors += 1;
            }
        }
        (longest, errors)
    };
    let (bare, own) = thread::scope(|scope| {
        let bare = scope.spawn(|| watch(&mut raw));
        let own = scope.spawn(|| watch(&mut || ours().is_ok()));
        thread::park_timeout(Duration::from_millis(500));
        fail();
        failed.store(1, Ordering::Relaxed);
        (bare.join(), own.join())
    });
    let ((bare, _), (own, errors)) = (bare.map_err(|_| "a panic")?, own.map_err(|_| "a panic")?);
    println!(
        "{what:<36} {:>9.0} {:>9.0}   ms without a write; {errors} errors of tenure",
        bare.as_secs_f64() * 1e3,
        own.as_secs_f64() * 1e3
    );
    Ok(())
}
