//! Several targets at once: all or none, one deadline, no deadlock.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tenure::{ErrorKind, Lease, Lock, LockGuard, Result, Wait};

use crate::asking::{A_MOMENT, LONG, PATIENCE, long, terms, together, trying, waiting};
use crate::failure::{Outcome, ensure, equal, refused};
use crate::subject::Subject;

fn locks(subject: &Subject, handle: usize, names: &[&str]) -> Result<Vec<Lock>> {
    names.iter().map(|name| subject.lock(handle, name)).collect()
}

fn leases(subject: &Subject, handle: usize, names: &[&str]) -> Result<Vec<Lease>> {
    names.iter().map(|name| subject.lease(handle, name)).collect()
}

pub(super) fn several_locks_are_taken_once_each(subject: &Subject) -> Outcome {
    let guards = Lock::acquire_all(&locks(subject, 0, &["b", "a", "c", "a"])?, &trying())?;
    let names: Vec<_> = guards.iter().map(|guard| guard.path().to_path_buf()).collect();
    equal!(names, ["a", "b", "c"].map(|name| subject.name(name)), "targets");
    for name in ["a", "b", "c"] {
        let taken = subject.lock(1, name)?.acquire(&trying());
        refused(taken, ErrorKind::Busy, "one of several targets")?;
    }
    ensure!(guards.iter().all(|guard| guard.publish_fence() > 0), "a hold without a fence");
    guards.into_iter().try_for_each(LockGuard::release)?;
    equal!(Lock::acquire_all(&[], &trying())?.len(), 0, "guards of no target");
    Ok(())
}

pub(super) fn several_locks_are_all_or_none(subject: &Subject) -> Outcome {
    let held = subject.lock(0, "b")?.acquire(&trying())?;
    let taken = Lock::acquire_all(&locks(subject, 1, &["a", "b", "c"])?, &trying());
    let error = refused(taken, ErrorKind::Busy, "several targets, one of them held")?;
    let named = error.path().map(Path::to_path_buf);
    equal!(named, Some(subject.name("b")), "the target that is held");
    for name in ["a", "c"] {
        subject.lock(1, name)?.acquire(&trying())?.release()?;
    }
    held.release()?;
    let mut proven = trying();
    proven.fence = Some(1);
    let taken = Lock::acquire_all(&locks(subject, 0, &["a", "b"])?, &proven);
    refused(taken, ErrorKind::Invalid, "one fence for several targets")?;
    Ok(())
}

pub(super) fn several_locks_have_one_deadline(subject: &Subject) -> Outcome {
    let mut options = trying();
    options.wait = Wait::For(A_MOMENT * 2);
    let held = subject.lock(0, "c")?.acquire(&trying())?;
    together(1, |_| {
        let began = Instant::now();
        let taken = Lock::acquire_all(&locks(subject, 1, &["a", "b", "c"])?, &options);
        refused(taken, ErrorKind::Busy, "a wait for several targets")?;
        let took = began.elapsed();
        ensure!(took >= A_MOMENT * 2, "the wait took only {took:?}");
        ensure!(took < PATIENCE, "the wait took {took:?}");
        Ok(())
    })?;
    held.release()?;
    Ok(())
}

/// Each caller names them in another order.
pub(super) fn several_locks_never_deadlock(subject: &Subject) -> Outcome {
    let inside = AtomicUsize::new(0);
    together(4, |number| {
        let mut names = ["a", "b", "c"];
        names.rotate_left(number % 3);
        let wanted = locks(subject, number, &names[..2])?;
        for _ in 0..20 {
            let guards = Lock::acquire_all(&wanted, &waiting())?;
            // Two of three targets: two callers always have one in common.
            equal!(inside.fetch_add(1, Ordering::SeqCst), 0, "callers with a target in common");
            inside.fetch_sub(1, Ordering::SeqCst);
            guards.into_iter().try_for_each(LockGuard::release)?;
        }
        Ok(())
    })
}

pub(super) fn several_leases_are_all_or_none(subject: &Subject) -> Outcome {
    let wanted = leases(subject, 0, &["c", "a", "b", "a"])?;
    let taken = Lease::acquire_all(&wanted, &long("one"))?;
    let names: Vec<_> = taken.iter().map(|(lease, _)| lease.path().to_path_buf()).collect();
    equal!(names, ["a", "b", "c"].map(|name| subject.name(name)), "targets");
    let token = taken[0].1.token.clone();
    ensure!(taken.iter().all(|(_, leased)| leased.token == token), "several tokens");
    let others = leases(subject, 1, &["0", "b", "d"])?;
    let busy = Lease::acquire_all(&others, &long("other"));
    let error = refused(busy, ErrorKind::Busy, "several targets, one of them leased")?;
    equal!(error.holder().map(|holder| holder.owner.as_str()), Some("one"), "the holder");
    subject.lock(1, "0")?.acquire(&trying())?.release()?;
    // With the token it is a renewal of those it has, and they stay if another is busy.
    let held = subject.lock(1, "d")?.acquire(&trying())?;
    let mut more = long("one");
    more.token = Some(token.clone());
    let again = leases(subject, 0, &["a", "b", "0", "d"])?;
    refused(Lease::acquire_all(&again, &more), ErrorKind::Busy, "one more that is held")?;
    held.release()?;
    subject.lock(1, "0")?.acquire(&trying())?.release()?;
    for (lease, leased) in &taken {
        equal!(lease.renew(&token, None)?.fence, leased.fence, "the fence of a lease it had");
    }
    let renewed = Lease::acquire_all(&again, &more)?;
    equal!(renewed[1].1.fence, taken[0].1.fence, "the fence of a renewal");
    renewed.iter().try_for_each(|(lease, leased)| lease.release(&leased.token))?;
    Ok(())
}

/// The wait for the second is longer than the first one lasts.
pub(super) fn leases_are_renewed_while_more_are_waited_for(subject: &Subject) -> Outcome {
    let ttl = subject.short();
    let blocking = subject.lease(0, "b")?;
    let blocked = blocking.acquire(&terms("other", ttl * 3, Wait::No))?;
    let wanted = leases(subject, 1, &["a", "b"])?;
    let began = Instant::now();
    let taken = Lease::acquire_all(&wanted, &terms("one", ttl, Wait::For(LONG)))?;
    ensure!(began.elapsed() >= ttl * 2, "it did not wait: {:?}", began.elapsed());
    refused(blocking.release(&blocked.token), ErrorKind::LeaseLost, "the lease before")?;
    for (lease, leased) in &taken {
        let left = lease.show()?.and_then(|info| info.expires_in);
        ensure!(left.is_some(), "{} has expired", lease.path().display());
        lease.release(&leased.token)?;
    }
    Ok(())
}
