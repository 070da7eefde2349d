//! The lock: one holder, bounded waiting, fences.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tenure::embed;
use tenure::options::{MaxHold, Mode};
use tenure::status::HoldKind;
use tenure::{Cancel, ErrorKind, Wait, json};

use crate::asking::{
    A_MOMENT, LONG, PATIENCE, add_one, at_once, count, growing, guarded, locked, long, patient,
    proven, terms, together, trying, waiting,
};
use crate::failure::{Failure, Outcome, ensure, equal, refused};
use crate::subject::Subject;

const THREADS: usize = 4;
const ROUNDS: usize = 20;

fn one_holder(subject: &Subject, handles: usize) -> Outcome {
    let inside = AtomicUsize::new(0);
    let fences = Mutex::new(Vec::new());
    together(THREADS, |number| {
        let lock = subject.lock(number % handles, "lock")?;
        for _ in 0..ROUNDS {
            let guard = lock.acquire(&waiting())?;
            let others = inside.fetch_add(1, Ordering::SeqCst);
            locked(&fences).push(guard.publish_fence());
            thread::yield_now();
            inside.fetch_sub(1, Ordering::SeqCst);
            equal!(others, 0, "other holders of a lock");
            guard.verify()?;
            guard.release()?;
        }
        Ok(())
    })?;
    let fences = locked(&fences);
    equal!(fences.len(), THREADS * ROUNDS, "holds");
    growing("fences", &fences)
}

pub(super) fn one_holder_among_threads(subject: &Subject) -> Outcome {
    one_holder(subject, 1)
}

pub(super) fn one_holder_among_two_handles(subject: &Subject) -> Outcome {
    one_holder(subject, 2)
}

pub(super) fn a_wait_ends_at_its_deadline(subject: &Subject) -> Outcome {
    let guard = subject.lock(0, "lock")?.acquire(&trying())?;
    together(2, |number| {
        let wait = A_MOMENT * 2;
        let mut options = trying();
        let (lock, began) = (subject.lock(number, "lock")?, Instant::now());
        refused(lock.acquire(&options), ErrorKind::Busy, "a lock that is held")?;
        options.wait = Wait::For(wait);
        refused(lock.acquire(&options), ErrorKind::Busy, "a wait for a lock")?;
        let took = began.elapsed();
        ensure!(took >= wait, "a wait of {wait:?} took only {took:?}");
        ensure!(took < PATIENCE, "a wait of {wait:?} took {took:?}");
        let mut write = at_once();
        write.wait = Wait::For(wait);
        let document = subject.document(number, "lock")?;
        refused(add_one(&document, &write), ErrorKind::Busy, "a write that waits for a lock")?;
        Ok(())
    })?;
    guard.release()?;
    subject.lock(1, "lock")?.acquire(&trying())?.release()?;
    Ok(())
}

pub(super) fn a_wait_ends_when_it_is_cancelled(subject: &Subject) -> Outcome {
    let guard = subject.lock(0, "lock")?.acquire(&trying())?;
    let cancel = Cancel::new();
    let (answer, answered) = mpsc::channel();
    thread::scope(|scope| {
        for number in 0..2 {
            let (answer, cancel) = (answer.clone(), cancel.clone());
            scope.spawn(move || {
                let mut options = waiting();
                (options.wait, options.cancel) = (Wait::For(LONG), Some(cancel));
                let taken = subject.lock(number, "lock").and_then(|lock| lock.acquire(&options));
                let _ = answer.send(refused(taken, ErrorKind::Cancelled, "a cancelled wait"));
            });
        }
        let early = answered.recv_timeout(A_MOMENT);
        let began = Instant::now();
        cancel.cancel();
        ensure!(early.is_err(), "a wait ended before it was cancelled: {early:?}");
        for _ in 0..2 {
            let outcome = answered.recv_timeout(PATIENCE);
            outcome.map_err(|_| Failure::new("a cancelled wait goes on"))??;
        }
        ensure!(began.elapsed() < PATIENCE, "a cancelled wait went on");
        Ok(())
    })?;
    guard.release()?;
    Ok(())
}

pub(super) fn a_release_wakes_a_waiter(subject: &Subject) -> Outcome {
    let guard = subject.lock(0, "lock")?.acquire(&trying())?;
    let (answer, answered) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let taken = subject.lock(1, "lock").and_then(|lock| lock.acquire(&waiting()));
            let _ = answer.send(taken.map(|guard| guard.publish_fence()));
        });
        let early = answered.recv_timeout(A_MOMENT);
        ensure!(early.is_err(), "two holders of one lock: {early:?}");
        let fence = guard.publish_fence();
        guard.release()?;
        let next = answered.recv_timeout(PATIENCE);
        let next = next.map_err(|_| Failure::new("a release wakes no waiter"))??;
        growing("fences of one holder and the next", &[fence, next])
    })
}

/// A slow machine may start the waiters in another order than we mean, so this is tried more than once.
pub(super) fn waiters_are_served_in_order(subject: &Subject) -> Outcome {
    if !subject.serves_in_order {
        return Ok(());
    }
    let mut orders = Vec::new();
    for _ in 0..4 {
        let order = order_of_waiters(subject)?;
        if order.windows(2).all(|pair| pair[0] < pair[1]) {
            return Ok(());
        }
        orders.push(order);
    }
    Err(Failure::new(format!("waiters were served in these orders: {orders:?}")))
}

fn order_of_waiters(subject: &Subject) -> Result<Vec<usize>, Failure> {
    let guard = subject.lock(0, "lock")?.acquire(&waiting())?;
    let served = Mutex::new(Vec::new());
    let (answer, answered) = mpsc::channel();
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (served, answer) = (&served, answer.clone());
            scope.spawn(move || {
                let _ = answer.send(None);
                let taken = subject.lock(number, "lock").and_then(|lock| lock.acquire(&waiting()));
                let released = taken.and_then(|guard| {
                    locked(served).push(number);
                    guard.release()
                });
                let _ = answer.send(Some(released));
            });
            let began = answered.recv_timeout(PATIENCE);
            ensure!(matches!(began, Ok(None)), "a thread did not start");
            let early = answered.recv_timeout(A_MOMENT);
            ensure!(early.is_err(), "a waiter did not wait: {early:?}");
        }
        guard.release()?;
        for _ in 0..THREADS {
            let served = answered.recv_timeout(PATIENCE);
            served.map_err(|_| Failure::new("a waiter was forgotten"))?.unwrap_or(Ok(()))?;
        }
        Ok(())
    })?;
    let served = locked(&served).clone();
    equal!(served.len(), THREADS, "waiters that were served");
    Ok(served)
}

pub(super) fn a_wait_for_oneself_is_a_deadlock(subject: &Subject) -> Outcome {
    let lock = subject.lock(0, "lock")?;
    let guard = lock.acquire(&trying())?;
    let began = Instant::now();
    refused(lock.acquire(&waiting()), ErrorKind::Deadlock, "a second lock of one thread")?;
    let document = subject.document(0, "lock")?;
    let written = add_one(&document, &patient());
    refused(written, ErrorKind::Deadlock, "an unproven write below one's own lock")?;
    ensure!(began.elapsed() < PATIENCE, "a deadlock was waited for");
    refused(lock.acquire(&trying()), ErrorKind::Busy, "a second lock without a wait")?;
    guard.release()?;
    Ok(())
}

pub(super) fn a_dropped_guard_releases(subject: &Subject) -> Outcome {
    let (lock, other) = (subject.lock(0, "lock")?, subject.lock(1, "lock")?);
    drop(lock.acquire(&trying())?);
    let guard = other.acquire(&trying())?;
    ensure!(guard.recovered_from().is_none(), "a dropped guard counts as a death");
    embed::end(&guard)?;
    let next = lock.acquire(&trying())?;
    // Ending what is over touches only its own.
    embed::end(&guard)?;
    drop(guard);
    refused(other.acquire(&trying()), ErrorKind::Busy, "a lock that a late release must not end")?;
    next.verify()?;
    next.release()?;
    Ok(())
}

pub(super) fn busy_names_the_holder(subject: &Subject) -> Outcome {
    let mut options = trying();
    (options.label, options.owner) = ("nightly build".to_owned(), "agent-7".to_owned());
    let guard = subject.lock(0, "lock")?.acquire(&options)?;
    let refusals = [
        refused(subject.lock(1, "lock")?.acquire(&trying()), ErrorKind::Busy, "a lock")?,
        refused(subject.lease(1, "lock")?.acquire(&long("b")), ErrorKind::Busy, "a lease")?,
        refused(add_one(&subject.document(1, "lock")?, &at_once()), ErrorKind::Busy, "a write")?,
    ];
    for error in refusals {
        let holder = error.holder().ok_or_else(|| Failure::new("`busy` names no holder"))?;
        equal!(holder.label, "nightly build", "the label of a holder");
        equal!(holder.owner, "agent-7", "the owner of a holder");
        equal!(holder.fence, guard.publish_fence(), "the fence of a holder");
        equal!(holder.pid, std::process::id(), "the process of a holder");
        equal!(holder.hold, HoldKind::Lock, "the kind of a hold");
        let target = subject.lock(0, "lock")?;
        equal!(error.path(), Some(target.path()), "the target of `busy`");
    }
    guard.release()?;
    let leased = subject.lease(0, "lock")?.acquire(&long("agent-8"))?;
    let error = subject.lock(1, "lock")?.acquire(&trying());
    let error = refused(error, ErrorKind::Busy, "a lock on what is leased")?;
    let holder = error.holder().ok_or_else(|| Failure::new("`busy` names no lease"))?;
    equal!(holder.owner, "agent-8", "the owner of a lease");
    equal!(holder.fence, leased.fence, "the fence of a lease");
    equal!(holder.hold, HoldKind::Lease, "the kind of a hold");
    Ok(())
}

pub(super) fn fences_grow_over_locks_leases_and_take_overs(subject: &Subject) -> Outcome {
    let mut fences = Vec::new();
    for number in [0, 0, 0, 1, 0, 1, 1] {
        let guard = subject.lock(number, "target")?.acquire(&trying())?;
        fences.push(guard.publish_fence());
        guard.release()?;
        let lease = subject.lease(number, "target")?;
        let leased = lease.acquire(&terms("a", LONG, Wait::No))?;
        fences.push(leased.fence);
        equal!(lease.renew(&leased.token, None)?.fence, leased.fence, "the fence of a renewal");
        let taken = subject.lease(number + 1, "target")?.take_over(&long("b"), "a is gone")?;
        fences.push(taken.fence);
        lease.release(&taken.token)?;
    }
    growing("fences", &fences)?;
    let highest = fences.last().copied().unwrap_or_default();
    ensure!(highest < 1 << 53, "fence {highest} is not below 2^53");
    Ok(())
}

pub(super) fn a_released_fence_is_refused(subject: &Subject) -> Outcome {
    let document = subject.document(0, "target")?;
    let guard = subject.lock(0, "target")?.acquire(&trying())?;
    let fence = guard.publish_fence();
    add_one(&document, &proven(fence))?;
    guard.release()?;
    refused(
        add_one(&document, &proven(fence)),
        ErrorKind::Fenced,
        "a write under a released lock",
    )?;
    let guard = subject.lock(1, "target")?.acquire(&trying())?;
    refused(add_one(&document, &proven(fence)), ErrorKind::Fenced, "a write under an old fence")?;
    let future = guard.publish_fence() + 1_000_000;
    refused(add_one(&document, &proven(future)), ErrorKind::Fenced, "a fence of the future")?;
    guard.release()?;
    equal!(count(&document)?, 1, "writes");
    Ok(())
}

pub(super) fn a_proven_write_passes_while_the_lock_is_held(subject: &Subject) -> Outcome {
    let guard = subject.lock(0, "target")?.acquire(&trying())?;
    let document = subject.document(1, "target")?;
    refused(add_one(&document, &at_once()), ErrorKind::Busy, "an unproven write")?;
    add_one(&document, &proven(guard.publish_fence()))?;
    add_one(&subject.document(0, "target")?, &proven(guard.publish_fence()))?;
    guard.release()?;
    document.set(&json!({ "n": 7 }), &at_once())?;
    equal!(count(&document)?, 7, "the counter");
    Ok(())
}

pub(super) fn a_nested_hold_is_a_proof_and_no_lock(subject: &Subject) -> Outcome {
    let lock = subject.lock(0, "target")?;
    let guard = lock.acquire(&trying())?;
    let mut options = trying();
    options.fence = Some(guard.publish_fence());
    let nested = subject.lock(1, "target")?.acquire(&options)?;
    ensure!(embed::is_nested(&nested) && !embed::is_nested(&guard), "the wrong hold is nested");
    equal!(nested.publish_fence(), guard.publish_fence(), "the fence of a nested hold");
    nested.verify()?;
    nested.release()?;
    guard.verify()?;
    refused(lock.acquire(&trying()), ErrorKind::Busy, "a lock whose nested hold ended")?;
    guard.release()?;
    refused(lock.acquire(&options), ErrorKind::Fenced, "a proof of a hold that ended")?;
    Ok(())
}

pub(super) fn an_owner_may_take_its_lock_again(subject: &Subject) -> Outcome {
    let lock = subject.lock(0, "target")?;
    let mut options = trying();
    options.reentrant = true;
    refused(lock.acquire(&options), ErrorKind::Invalid, "a re-entrant lock without an owner")?;
    "a".clone_into(&mut options.owner);
    let (one, two) = (lock.acquire(&options)?, lock.acquire(&options)?);
    equal!(one.publish_fence(), two.publish_fence(), "fences of one owner");
    let mut others = options.clone();
    "b".clone_into(&mut others.owner);
    refused(lock.acquire(&others), ErrorKind::Busy, "the lock of another owner")?;
    one.release()?;
    refused(lock.acquire(&others), ErrorKind::Busy, "a lock that its owner has once more")?;
    two.release()?;
    lock.acquire(&others)?.release()?;
    Ok(())
}

pub(super) fn shared_locks_are_as_declared(subject: &Subject) -> Outcome {
    let mut options = trying();
    options.mode = Mode::Shared;
    let lock = subject.lock(0, "target")?;
    if !subject.can().shared_locks {
        refused(lock.acquire(&options), ErrorKind::Unsupported, "a shared lock")?;
        lock.acquire(&trying())?.release()?;
        return Ok(());
    }
    let (one, two) = (lock.acquire(&options)?, subject.lock(1, "target")?.acquire(&options)?);
    equal!((one.publish_fence(), two.publish_fence()), (0, 0), "fences of shared locks");
    refused(lock.acquire(&trying()), ErrorKind::Busy, "an exclusive lock beside shared ones")?;
    refused(subject.lease(0, "target")?.acquire(&long("a")), ErrorKind::Busy, "a lease")?;
    one.release()?;
    refused(lock.acquire(&trying()), ErrorKind::Busy, "an exclusive lock beside a shared one")?;
    two.release()?;
    let guard = lock.acquire(&trying())?;
    refused(lock.acquire(&options), ErrorKind::Busy, "a shared lock beside an exclusive one")?;
    guard.release()?;
    options.wait = Wait::For(Duration::from_millis(1));
    drop(lock.acquire(&options)?);
    Ok(())
}

pub(super) fn a_lock_that_is_taken_fast_is_a_lock(subject: &Subject) -> Outcome {
    let (lock, other) = (subject.lock(0, "target")?, subject.lock(1, "target")?);
    // The first one of a target may have to prepare something.
    lock.acquire(&trying())?.release()?;
    if let Some(guard) = embed::try_lock_fast(&lock, &trying())? {
        refused(other.acquire(&trying()), ErrorKind::Busy, "a lock that was taken fast")?;
        add_one(&subject.document(1, "target")?, &proven(guard.publish_fence()))?;
        guard.release()?;
    }
    let guard = other.acquire(&trying())?;
    ensure!(
        embed::try_lock_fast(&lock, &trying())?.is_none(),
        "a lock that is held was taken fast"
    );
    guard.verify()?;
    guard.release()?;
    Ok(())
}

pub(super) fn a_hold_that_lasts_too_long_is_reported(subject: &Subject) -> Outcome {
    let document = subject.document(0, "target")?;
    for end in [false, true] {
        let (report, reported) = mpsc::channel();
        let report = Mutex::new(report);
        let mut options = waiting();
        options.max_hold = Some(MaxHold {
            after: A_MOMENT,
            end,
            report: Arc::new(move |name| drop(locked(&report).send(name.to_path_buf()))),
        });
        let guard = subject.lock(0, "target")?.acquire(&options)?;
        let fence = guard.publish_fence();
        let name = reported.recv_timeout(PATIENCE);
        let name = name.map_err(|_| Failure::new("an overlong hold is not reported"))?;
        equal!(name, guard.path(), "the target of the report");
        if end {
            refused(guard.verify(), ErrorKind::Fenced, "a hold that was ended")?;
            let written = add_one(&document, &proven(fence));
            refused(written, ErrorKind::Fenced, "a write under a hold that was ended")?;
            subject.lock(1, "target")?.acquire(&waiting())?.release()?;
            refused(guard.release(), ErrorKind::Fenced, "the release of a hold that was ended")?;
        } else {
            guard.verify()?;
            add_one(&document, &proven(fence))?;
            guard.release()?;
        }
    }
    equal!(count(&document)?, 1, "writes");
    Ok(())
}

pub(super) fn two_spellings_are_one_target(subject: &Subject) -> Outcome {
    let guard = subject.lock(0, "target")?.acquire(&trying())?;
    for name in ["./target", "././/target"] {
        let lock = subject.lock(1, name)?;
        equal!(lock.path(), guard.path(), "the name of `{name}`");
        refused(lock.acquire(&trying()), ErrorKind::Busy, name)?;
        let document = subject.document(1, "state.json")?;
        add_one(&document, &guarded(subject.name(name), guard.publish_fence()))?;
    }
    guard.release()?;
    Ok(())
}
