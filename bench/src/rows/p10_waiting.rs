//! P10: what waiting costs, and how late a deadline is.

use std::fs::OpenOptions;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tenure::{ErrorKind, Lock, LockGuard, LockOptions, Wait};

use super::p06_hand_off::lock_file;
use crate::child::now;
use crate::row::{Contender, Form, Goal, Length, Measure, Part, Race, Result, Row, Seat};

pub(crate) const ROW: Row = Row { name: "P10", title: "waiting", races };

const WAITERS: usize = 100;

/// The wait that the goal is about; a shorter one is scaled.
const GOAL_SECONDS: f64 = 10.0;

const DEADLINE: Duration = Duration::from_millis(20);

fn races(form: Form) -> Vec<Race> {
    vec![waiters(form), deadline(form)]
}

fn wait(form: Form) -> Duration {
    Duration::from_secs(form.pick(2, 10))
}

fn waiters(form: Form) -> Race {
    let scale = GOAL_SECONDS / wait(form).as_secs_f64();
    let words = "tenure: processor time of the busiest of 100 waiters in 10 s < 10 ms";
    Race {
        name: "100 waiters",
        measure: Measure::CpuPerTurn,
        length: Length::Turns(1),
        rounds: form.pick(1, 3),
        contenders: vec![
            Contender::ours("tenure", |seat| {
                if seat.number == 0 {
                    return holds(seat, wait(seat.ground.form));
                }
                waits(seat, wait(seat.ground.form))
            })
            .settings(
                "Lock::acquire with a deadline of 2 s (full form: 10 s) while one process holds it",
            )
            .processes(WAITERS + 1),
            Contender::peer("polling every 50 ms", |seat| {
                let file = OpenOptions::new().write(true).open(seat.path("lock"))?;
                let time = wait(seat.ground.form);
                if seat.number == 0 {
                    flock(&file, FlockOperation::LockExclusive)?;
                    return Ok(Part::background(move || {
                        let _held = &file;
                        pause(time + time / 2);
                        Ok(())
                    }));
                }
                Ok(Part::timed(move || {
                    let end = now() + u64::try_from(time.as_nanos())?;
                    while now() < end
                        && flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
                    {
                        pause(Duration::from_millis(50));
                    }
                    Ok(())
                }))
            })
            .settings("flock(LOCK_NB) every 50 ms for the same time")
            .prepare(lock_file)
            .processes(WAITERS + 1),
        ],
        goals: vec![Goal::at_most(10.0, "ms", words, move |round| {
            let heat = round.heat("tenure")?;
            Some(heat.cpu_most() / 1e6 * scale)
        })],
    }
}

fn deadline(form: Form) -> Race {
    Race {
        name: "how late a deadline is",
        measure: Measure::P99,
        length: Length::Turns(form.pick(30, 100)),
        rounds: form.pick(3, 11),
        contenders: vec![
            Contender::ours("tenure", |seat| {
                // A second process, so that the wait is the kernel's and not that of one's own queue.
                if seat.number == 0 {
                    return holds(seat, Duration::from_millis(1) + DEADLINE);
                }
                let (lock, options) = (open(seat)?, options(DEADLINE));
                Ok(Part::sampled(move |samples| {
                    let asked = now();
                    is_busy(lock.acquire(&options))?;
                    let late = (now() - asked).saturating_sub(u64::try_from(DEADLINE.as_nanos())?);
                    samples.push(late);
                    Ok(())
                }))
            })
            .settings(
                "Lock::acquire with a deadline of 20 ms while another process holds it; \
                what is over 20 ms",
            )
            .processes(2),
            Contender::floor("sleep", |_| {
                Ok(Part::sampled(move |samples| {
                    let asked = now();
                    pause(DEADLINE);
                    samples
                        .push((now() - asked).saturating_sub(u64::try_from(DEADLINE.as_nanos())?));
                    Ok(())
                }))
            })
            .settings("clock_nanosleep of 20 ms; what is over 20 ms"),
        ],
        goals: vec![Goal::at_most(3.0, "ms", "tenure: p99 of the lateness <= 3 ms", |round| {
            Some(round.cost("tenure")? / 1e6)
        })],
    }
}

fn open(seat: &Seat) -> Result<Lock> {
    Ok(Lock::open(seat.path("target"))?)
}

fn options(time: Duration) -> LockOptions {
    LockOptions { wait: Wait::For(time), ..LockOptions::default() }
}

/// Has the lock from before the start to the end of its process, which outlasts the waiters.
fn holds(seat: &Seat, turn: Duration) -> Result<Part> {
    let guard = open(seat)?.acquire(&options(Duration::from_secs(20)))?;
    Ok(Part::background(move || {
        let _held = &guard;
        pause(turn * 2);
        Ok(())
    }))
}

fn waits(seat: &Seat, time: Duration) -> Result<Part> {
    let (lock, options) = (open(seat)?, options(time));
    Ok(Part::timed(move || is_busy(lock.acquire(&options))))
}

fn is_busy(outcome: tenure::Result<LockGuard>) -> Result<()> {
    match outcome {
        Err(error) if error.kind() == ErrorKind::Busy => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err("got a lock that another process holds".into()),
    }
}

#[expect(clippy::disallowed_methods, reason = "the pause is the load, not a wait for something")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
