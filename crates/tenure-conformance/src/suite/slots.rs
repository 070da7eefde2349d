//! Slots: at most N holders, in order, with deadline and cancel.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Instant;

use tenure::options::MaxHold;
use tenure::{Cancel, ErrorKind, LockGuard, LockOptions, Result, Wait};

use crate::asking::{
    A_MOMENT, LONG, PATIENCE, add_one, at_once, locked, long, together, trying, waiting,
};
use crate::failure::{Failure, Outcome, ensure, equal, refused};
use crate::subject::Subject;

fn slots(count: u8, mut options: LockOptions) -> LockOptions {
    options.slots = Some(count);
    options
}

fn take(subject: &Subject, handle: usize, options: &LockOptions) -> Result<LockGuard> {
    subject.lock(handle, "slots")?.acquire(options)
}

pub(super) fn at_most_so_many_have_a_slot(subject: &Subject) -> Outcome {
    let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    together(5, |number| {
        let lock = subject.lock(number, "slots")?;
        for _ in 0..8 {
            let guard = lock.acquire(&slots(3, waiting()))?;
            let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            ensure!(now <= 3, "{now} holders of three slots");
            equal!(guard.publish_fence(), 0, "the fence of a slot");
            guard.verify()?;
            thread::yield_now();
            inside.fetch_sub(1, Ordering::SeqCst);
            guard.release()?;
        }
        Ok(())
    })?;
    let guards: Result<Vec<_>> =
        (0..3).map(|handle| take(subject, handle, &slots(3, trying()))).collect();
    equal!(guards?.len(), 3, "slots of a free target");
    Ok(())
}

pub(super) fn a_full_target_is_busy(subject: &Subject) -> Outcome {
    let two = slots(2, trying());
    let (one, other) = (take(subject, 0, &two)?, take(subject, 1, &two)?);
    let error = refused(take(subject, 1, &two), ErrorKind::Busy, "a third holder of two slots")?;
    equal!(error.path().map(Path::to_path_buf), Some(subject.name("slots")), "the target");
    ensure!(error.holder().is_some_and(|holder| holder.pid > 0), "no holder: {error}");
    one.release()?;
    take(subject, 1, &two)?.release()?;
    drop(other);
    for count in [0, 65, 255] {
        refused(take(subject, 0, &slots(count, trying())), ErrorKind::Invalid, "so many slots")?;
    }
    let mut again = slots(2, trying());
    (again.owner, again.reentrant) = ("me".to_owned(), true);
    refused(take(subject, 0, &again), ErrorKind::Invalid, "a slot that is taken again")?;
    Ok(())
}

pub(super) fn a_wait_for_a_slot_ends(subject: &Subject) -> Outcome {
    let guard = take(subject, 0, &slots(1, trying()))?;
    let cancel = Cancel::new();
    let (answer, answered) = mpsc::channel();
    thread::scope(|scope| {
        for number in 0..2 {
            let (answer, cancel) = (answer.clone(), cancel.clone());
            scope.spawn(move || {
                let mut options = slots(1, waiting());
                (options.wait, options.cancel) = (Wait::For(LONG), Some(cancel));
                let taken = take(subject, number, &options);
                let _ = answer.send(refused(taken, ErrorKind::Cancelled, "a cancelled wait"));
            });
        }
        let early = answered.recv_timeout(A_MOMENT);
        cancel.cancel();
        ensure!(early.is_err(), "a wait ended before it was cancelled: {early:?}");
        for _ in 0..2 {
            let outcome = answered.recv_timeout(PATIENCE);
            outcome.map_err(|_| Failure::new("a cancelled wait goes on"))??;
        }
        let mut options = slots(1, trying());
        options.wait = Wait::For(A_MOMENT);
        let began = Instant::now();
        refused(take(subject, 1, &options), ErrorKind::Busy, "a wait for a slot")?;
        let took = began.elapsed();
        ensure!(took >= A_MOMENT && took < PATIENCE, "a wait of {A_MOMENT:?} took {took:?}");
        Ok(())
    })?;
    guard.release()?;
    take(subject, 1, &slots(1, trying()))?.release()?;
    Ok(())
}

/// The slot that is freed is not the one that was taken first.
pub(super) fn any_slot_that_is_freed_serves_the_waiter(subject: &Subject) -> Outcome {
    for freed in 0..3 {
        let mut guards = Vec::new();
        for handle in 0..3 {
            guards.push(take(subject, handle, &slots(3, waiting()))?);
        }
        let (answer, answered) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                let taken = take(subject, 1, &slots(3, waiting()));
                let _ = answer.send(taken.and_then(LockGuard::release));
            });
            let early = answered.recv_timeout(A_MOMENT);
            ensure!(early.is_err(), "four holders of three slots: {early:?}");
            guards.remove(freed).release()?;
            let next = answered.recv_timeout(PATIENCE);
            next.map_err(|_| Failure::new("a free slot wakes no waiter"))??;
            Ok(())
        })?;
    }
    Ok(())
}

pub(super) fn callers_with_other_counts_see_the_first_slots(subject: &Subject) -> Outcome {
    let first = take(subject, 0, &slots(4, trying()))?;
    let second = take(subject, 1, &slots(4, trying()))?;
    refused(take(subject, 1, &slots(2, trying())), ErrorKind::Busy, "the first two slots")?;
    let third = take(subject, 0, &slots(3, trying()))?;
    refused(take(subject, 0, &slots(3, trying())), ErrorKind::Busy, "the first three slots")?;
    let fourth = take(subject, 1, &slots(4, trying()))?;
    refused(take(subject, 1, &slots(4, trying())), ErrorKind::Busy, "all four slots")?;
    first.release()?;
    let one = take(subject, 1, &slots(1, trying()))?;
    drop((second, third, fourth));
    refused(take(subject, 0, &slots(1, trying())), ErrorKind::Busy, "the first slot")?;
    one.release()?;
    Ok(())
}

pub(super) fn slots_and_the_target_itself_are_as_declared(subject: &Subject) -> Outcome {
    let one = slots(1, trying());
    let slot = take(subject, 0, &one)?;
    let exclusive = subject.lock(1, "slots")?.acquire(&trying());
    if !subject.can().shared_locks {
        exclusive?.release()?;
        return Ok(());
    }
    refused(exclusive, ErrorKind::Busy, "the lock of a target with a slot")?;
    let document = subject.document(1, "slots")?;
    refused(add_one(&document, &at_once()), ErrorKind::Busy, "a write beside a slot")?;
    let leased = subject.lease(1, "slots")?.acquire(&long("one"));
    refused(leased, ErrorKind::Busy, "a lease beside a slot")?;
    slot.release()?;
    let guard = subject.lock(1, "slots")?.acquire(&trying())?;
    refused(take(subject, 0, &one), ErrorKind::Busy, "a slot beside a lock")?;
    let mut nested = one.clone();
    nested.fence = Some(guard.publish_fence());
    take(subject, 1, &nested)?.release()?;
    guard.release()?;
    let leased = subject.lease(1, "slots")?.acquire(&long("one"))?;
    refused(take(subject, 0, &one), ErrorKind::Busy, "a slot beside a lease")?;
    subject.lease(1, "slots")?.release(&leased.token)?;
    take(subject, 0, &one)?.release()?;
    Ok(())
}

pub(super) fn a_slot_that_lasts_too_long_is_ended(subject: &Subject) -> Outcome {
    let (report, reported) = mpsc::channel();
    let report = Mutex::new(report);
    let mut options = slots(1, trying());
    options.max_hold = Some(MaxHold {
        after: A_MOMENT,
        end: true,
        report: Arc::new(move |path| drop(locked(&report).send(path.to_path_buf()))),
    });
    let guard = take(subject, 0, &options)?;
    let path = reported.recv_timeout(PATIENCE);
    equal!(path.ok(), Some(subject.name("slots")), "the target of a hold that lasts too long");
    refused(guard.verify(), ErrorKind::Fenced, "a slot that was ended")?;
    take(subject, 1, &slots(1, waiting()))?.release()?;
    Ok(())
}
