//! P6: how soon after a release the next holder runs, and whether every process gets a turn.

use std::fs::{File, OpenOptions};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tenure::{Lock, LockOptions, Wait};

use crate::child::now;
use crate::row::{Contender, Form, Goal, Ground, Length, Measure, Part, Race, Result, Row, Seat};
use crate::shared::Stamp;

pub(crate) const ROW: Row = Row { name: "P6", title: "hand-off and fairness", races };

const TENURE: &str = "tenure";
const DEADLINE: &str = "tenure, with a deadline";
const FLOCK: &str = "blocking flock";

/// How long a holder holds, asleep: meanwhile the others queue up.
const HOLD: Duration = Duration::from_micros(200);

pub(super) const A_MINUTE: Wait = Wait::For(Duration::from_mins(1));

/// How long a process that released the lock stays away at most, so that another one gets it.
const STEP_BACK: u64 = 5_000_000;

fn races(form: Form) -> Vec<Race> {
    let rounds = form.pick(4, 9);
    let length = Length::Time(Duration::from_millis(form.pick(200, 1000)));
    let hand_off = |name, waiters: usize| {
        let p99 = |round: &crate::round::Round| {
            Some(round.heat(TENURE)?.quantile(0.99) / round.heat(FLOCK)?.quantile(0.99))
        };
        let contenders = vec![
            Contender::ours(TENURE, |seat| {
                tenure_lock(seat, Wait::Forever).and_then(|lock| hands_off(seat, lock))
            })
            .settings(
                "Lock::acquire (kept handle, as long as it takes), LockGuard::release; held \
                for 0.2 ms, asleep",
            ),
            Contender::ours(DEADLINE, |seat| {
                tenure_lock(seat, A_MINUTE).and_then(|lock| hands_off(seat, lock))
            })
            .settings("the same with a deadline of a minute: a thread is blocked in its stead"),
            Contender::floor(FLOCK, |seat| hands_off(seat, bare_lock(seat)?))
                .settings("flock, flock(LOCK_UN) on a kept descriptor; held for 0.2 ms, asleep")
                .prepare(lock_file),
        ];
        let contenders = contenders.into_iter().map(|one| one.processes(waiters + 1)).collect();
        let goals = vec![
            Goal::cost_at_most(1.5, TENURE, FLOCK),
            Goal::at_most(1.5, "x", "tenure: p99 <= 1.5x that of blocking flock", p99),
            Goal::cost_at_most(1.5, DEADLINE, FLOCK).told(),
        ];
        Race { name, measure: Measure::Median, length, rounds, contenders, goals }
    };
    vec![
        hand_off("hand-off, 2 waiters", 2),
        hand_off("hand-off, 16 waiters", 16),
        hot(form, "one hot re-locker, 2 waiters", 2),
        hot(form, "one hot re-locker, 16 waiters", 16),
    ]
}

/// One process takes the lock again as soon as it has released it; how long must the others wait?
fn hot(form: Form, name: &'static str, waiters: usize) -> Race {
    let words = "tenure: p99 of a waiter's wait <= 50 ms";
    let p99 = |round: &crate::round::Round| Some(round.heat(TENURE)?.quantile(0.99) / 1e6);
    let contenders = vec![
        Contender::ours(TENURE, |seat| {
            tenure_lock(seat, A_MINUTE).map(|lock| beside_hot(seat, lock))
        })
        .settings(
            "Lock::acquire (kept handle, for a minute), LockGuard::release; held for 0.2 \
            ms, asleep",
        ),
        Contender::floor(FLOCK, |seat| Ok(beside_hot(seat, bare_lock(seat)?)))
            .settings("flock, flock(LOCK_UN) on a kept descriptor; held for 0.2 ms, asleep")
            .prepare(lock_file),
        Contender::peer("polling every 50 ms", |seat| Ok(beside_hot(seat, polled_lock(seat)?)))
            .settings(
                "the hot process: blocking flock; the others: flock(LOCK_NB) every 50 \
                ms; held for 0.2 ms, asleep",
            )
            .prepare(lock_file),
    ];
    Race {
        name,
        measure: Measure::P99,
        length: Length::Time(Duration::from_millis(form.pick(200, 1000))),
        rounds: form.pick(3, 7),
        contenders: contenders.into_iter().map(|one| one.processes(waiters + 1)).collect(),
        goals: vec![Goal::at_most(50.0, "ms", words, p99)],
    }
}

/// Takes the lock, does something under it, and releases it.
pub(super) type Hold = Box<dyn FnMut(&mut dyn FnMut()) -> Result<()>>;

pub(super) fn tenure_lock(seat: &Seat, wait: Wait) -> Result<Hold> {
    let lock = Lock::open(seat.path("target"))?;
    let options = LockOptions { wait, ..LockOptions::default() };
    Ok(Box::new(move |inside| {
        let guard = lock.acquire(&options)?;
        inside();
        Ok(guard.release()?)
    }))
}

pub(super) fn bare_lock(seat: &Seat) -> Result<Hold> {
    let file = OpenOptions::new().write(true).open(seat.path("lock"))?;
    Ok(Box::new(move |inside| {
        flock(&file, FlockOperation::LockExclusive)?;
        inside();
        Ok(flock(&file, FlockOperation::Unlock)?)
    }))
}

/// Blocks as the hot one, polls as the others.
fn polled_lock(seat: &Seat) -> Result<Hold> {
    if seat.number == 0 {
        return bare_lock(seat);
    }
    let file = OpenOptions::new().write(true).open(seat.path("lock"))?;
    Ok(Box::new(move |inside| {
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            sleep(Duration::from_millis(50));
        }
        inside();
        Ok(flock(&file, FlockOperation::Unlock)?)
    }))
}

pub(super) fn lock_file(ground: &Ground) -> Result<()> {
    File::create_new(ground.path("lock"))?;
    Ok(())
}

/// Samples the time from another's release to running as the next holder. A process that released
/// stays away until another one holds the lock, so that the queue is measured.
pub(super) fn hands_off(seat: &Seat, mut hold: Hold) -> Result<Part> {
    let stamp = Stamp::open(&seat.path("stamp"))?;
    let (number, opened) = (seat.number, now());
    Ok(Part::sampled(move |samples| {
        let mut left = 0;
        hold(&mut || {
            let got = now();
            // A stamp from before our start is of an earlier heat.
            if let Some(freed) = stamp.of_another(number).filter(|freed| *freed > opened) {
                samples.push(got.saturating_sub(freed));
            }
            sleep(HOLD);
            left = now();
            stamp.set(number, left);
        })?;
        // Acquires, holds, and releases: then the stamp has another time.
        while stamp.time() == left && now() - left < STEP_BACK {
            sleep(HOLD / 2);
        }
        Ok(())
    }))
}

/// Samples the waits of the processes that share the lock with the hot one, number 0.
fn beside_hot(seat: &Seat, mut hold: Hold) -> Part {
    if seat.number == 0 {
        return Part::background(move || hold(&mut || sleep(HOLD)));
    }
    Part::sampled(move |samples| {
        let asked = now();
        hold(&mut || {
            samples.push(now() - asked);
            sleep(HOLD);
        })?;
        sleep(Duration::from_millis(1));
        Ok(())
    })
}

/// A holder at work, or a process that steps back.
#[expect(clippy::disallowed_methods, reason = "the pause is the load, not a wait for something")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}
