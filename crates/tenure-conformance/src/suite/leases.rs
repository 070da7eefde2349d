//! The lease: it excludes until it ends, and then its fence proves nothing.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tenure::{Cancel, ErrorKind, Wait};

use crate::asking::{
    A_MOMENT, LONG, PATIENCE, add_one, append, at_once, count, growing, lines, long, patient,
    proven, terms, together, trying, until,
};
use crate::failure::{Failure, Outcome, ensure, equal, refused, refused_as};
use crate::subject::Subject;

pub(super) fn a_lease_excludes_locks_leases_and_unproven_writes(subject: &Subject) -> Outcome {
    let lease = subject.lease(0, "target")?;
    let leased = lease.acquire(&long("a"))?;
    for number in 0..2 {
        let (document, journal) =
            (subject.document(number, "target")?, subject.journal(number, "target")?);
        let lock = subject.lock(number, "target")?;
        refused(lock.acquire(&trying()), ErrorKind::Busy, "a lock")?;
        let other = subject.lease(number, "target")?.acquire(&long("b"));
        refused(other, ErrorKind::Busy, "a second lease")?;
        refused(add_one(&document, &at_once()), ErrorKind::Busy, "an unproven write")?;
        let appended = journal.append(&["a line"], &append(at_once()));
        refused(appended, ErrorKind::Busy, "an unproven append")?;
    }
    lease.release(&leased.token)?;
    subject.lock(1, "target")?.acquire(&trying())?.release()?;
    add_one(&subject.document(1, "target")?, &at_once())?;
    Ok(())
}

pub(super) fn a_proven_write_passes_while_the_lease_runs(subject: &Subject) -> Outcome {
    for (name, number) in [("one", 0), ("two", 1)] {
        let leased = subject.lease(0, name)?.acquire(&long("a"))?;
        let document = subject.document(number, name)?;
        add_one(&document, &proven(leased.fence))?;
        refused(add_one(&document, &at_once()), ErrorKind::Busy, "an unproven write")?;
        refused(add_one(&document, &proven(leased.fence - 1)), ErrorKind::Fenced, "another fence")?;
        equal!(count(&document)?, 1, "writes");
    }
    let leased = subject.lease(0, "journal")?.acquire(&long("a"))?;
    let journal = subject.journal(1, "journal")?;
    journal.append(&["proven"], &append(proven(leased.fence)))?;
    refused(journal.append(&["not"], &append(at_once())), ErrorKind::Busy, "an unproven append")?;
    equal!(lines(&journal)?, ["proven"], "lines");
    Ok(())
}

pub(super) fn an_unproven_write_waits_for_the_lease(subject: &Subject) -> Outcome {
    let lease = subject.lease(0, "target")?;
    let leased = lease.acquire(&long("a"))?;
    let (answer, answered) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let document = subject.document(1, "target");
            let _ = answer.send(document.and_then(|document| add_one(&document, &patient())));
        });
        let early = answered.recv_timeout(A_MOMENT);
        ensure!(early.is_err(), "an unproven write did not wait: {early:?}");
        add_one(&subject.document(0, "target")?, &proven(leased.fence))?;
        lease.release(&leased.token)?;
        let written = answered.recv_timeout(PATIENCE);
        written.map_err(|_| Failure::new("a released lease wakes no writer"))??;
        equal!(count(&subject.document(0, "target")?)?, 2, "writes");
        Ok(())
    })
}

pub(super) fn a_lease_expires(subject: &Subject) -> Outcome {
    let ttl = subject.short();
    let lease = subject.lease(0, "target")?;
    let began = Instant::now();
    let former = lease.acquire(&terms("a", ttl, Wait::No))?;
    let next = subject.lease(1, "target")?.acquire(&terms("b", LONG, Wait::For(PATIENCE)))?;
    let took = began.elapsed() + Duration::from_millis(5);
    ensure!(took >= ttl, "a lease of {ttl:?} lasted only {took:?}");
    growing("fences", &[former.fence, next.fence])?;
    let document = subject.document(0, "target")?;
    let written = add_one(&document, &proven(former.fence));
    refused(written, ErrorKind::Fenced, "a write after the lease was another's")?;
    refused(lease.renew(&former.token, None), ErrorKind::LeaseLost, "a renewal too late")?;
    refused(lease.release(&former.token), ErrorKind::LeaseLost, "a release too late")?;
    add_one(&document, &proven(next.fence))?;
    equal!(count(&document)?, 1, "writes");
    Ok(())
}

pub(super) fn an_expired_lease_proves_nothing(subject: &Subject) -> Outcome {
    let lease = subject.lease(0, "target")?;
    let leased = lease.acquire(&terms("a", subject.short(), Wait::No))?;
    until("the lease expires", || {
        Ok(lease.show()?.is_none_or(|shown| shown.expires_in.is_none()))
    })?;
    let kinds = [ErrorKind::LeaseLost, ErrorKind::Fenced];
    let document = subject.document(1, "target")?;
    refused_as(add_one(&document, &proven(leased.fence)), &kinds, "a write under it")?;
    // Its token may still renew it, if the store remembers it. It never has a smaller fence then.
    match lease.renew(&leased.token, Some(LONG)) {
        Ok(renewed) => {
            ensure!(renewed.fence >= leased.fence, "a renewal has a smaller fence");
            add_one(&document, &proven(renewed.fence))?;
        }
        renewed => drop(refused(renewed, ErrorKind::LeaseLost, "a renewal of an expired lease")?),
    }
    Ok(())
}

pub(super) fn the_wait_for_a_lease_ends_at_its_deadline_and_when_cancelled(
    subject: &Subject,
) -> Outcome {
    let leased = subject.lease(0, "target")?.acquire(&long("a"))?;
    let wait = A_MOMENT * 2;
    let cancel = Cancel::new();
    together(3, |number| {
        let (began, lease) = (Instant::now(), subject.lease(number, "target")?);
        if number == 0 {
            refused(lease.acquire(&terms("b", LONG, Wait::For(wait))), ErrorKind::Busy, "a wait")?;
            let took = began.elapsed();
            ensure!(took >= wait && took < PATIENCE, "a wait of {wait:?} took {took:?}");
            cancel.cancel();
            return Ok(());
        }
        let mut options = terms("c", LONG, Wait::For(LONG));
        options.cancel = Some(cancel.clone());
        refused(lease.acquire(&options), ErrorKind::Cancelled, "a cancelled wait")?;
        ensure!(began.elapsed() < PATIENCE, "a cancelled wait went on");
        Ok(())
    })?;
    subject.lease(1, "target")?.release(&leased.token)?;
    Ok(())
}

pub(super) fn a_renewal_keeps_the_fence(subject: &Subject) -> Outcome {
    let ttl = LONG / 2;
    let leased = subject.lease(0, "target")?.acquire(&terms("a", ttl, Wait::No))?;
    equal!(leased.ttl, ttl, "the time to live");
    let lease = subject.lease(1, "target")?;
    let renewed = lease.renew(&leased.token, None)?;
    equal!(renewed.fence, leased.fence, "the fence of a renewal");
    equal!(renewed.ttl, ttl, "the time to live of a renewal");
    equal!(renewed.owner, "a", "the owner of a renewal");
    equal!(renewed.token, leased.token, "the token of a renewal");
    let renewed = lease.renew(&leased.token, Some(LONG))?;
    ensure!(renewed.expires_in > ttl, "a longer renewal does not last longer");
    let shown = lease.show()?.ok_or_else(|| Failure::new("no lease is shown"))?;
    equal!(shown.ttl, LONG, "the time to live that is shown");
    let wrong = "0123456789abcdef0123456789abcdef";
    refused(lease.renew(wrong, None), ErrorKind::LeaseLost, "a renewal with another token")?;
    add_one(&subject.document(0, "target")?, &proven(leased.fence))?;
    Ok(())
}

pub(super) fn an_acquire_with_a_token_is_idempotent(subject: &Subject) -> Outcome {
    let lease = subject.lease(0, "target")?;
    let mut options = long("a");
    options.token = Some("my-own-token-0123456789".to_owned());
    let first = lease.acquire(&options)?;
    equal!(Some(&first.token), options.token.as_ref(), "the token");
    let again = subject.lease(1, "target")?.acquire(&options)?;
    equal!(again.fence, first.fence, "the fence of a repeated acquire");
    lease.release(&first.token)?;
    let anew = lease.acquire(&options)?;
    growing("fences", &[first.fence, anew.fence])?;
    options.token = None;
    refused(lease.acquire(&options), ErrorKind::Busy, "an acquire without the token")?;
    Ok(())
}

pub(super) fn a_take_over_records_its_reason(subject: &Subject) -> Outcome {
    let lease = subject.lease(0, "target")?;
    let former = lease.acquire(&long("a"))?;
    for reason in ["", "  \t"] {
        refused(lease.take_over(&long("b"), reason), ErrorKind::Invalid, "no reason")?;
    }
    let taken = subject.lease(1, "target")?.take_over(&long("b"), "a does not answer")?;
    growing("fences", &[former.fence, taken.fence])?;
    let shown = lease.show()?.ok_or_else(|| Failure::new("no lease is shown"))?;
    equal!(shown.holder.owner, "b", "the owner after a take-over");
    for number in 0..2 {
        let events = subject.lease(number, "target")?.events()?;
        let recorded = events.iter().any(|event| {
            let detail = &event["detail"];
            event["event"] == "take_over"
                && detail["reason"] == "a does not answer"
                && detail["by"] == "b"
                && detail["from"]["owner"] == "a"
        });
        ensure!(recorded, "the take-over is not among the events: {events:?}");
    }
    // What is free can be taken over, too.
    lease.release(&taken.token)?;
    let again = lease.take_over(&long("c"), "to be sure")?;
    growing("fences", &[taken.fence, again.fence])
}

pub(super) fn a_take_over_never_takes_a_lock(subject: &Subject) -> Outcome {
    let guard = subject.lock(0, "target")?.acquire(&trying())?;
    let taken = subject.lease(1, "target")?.take_over(&long("b"), "I want it");
    refused(taken, ErrorKind::Busy, "a take-over of a lock")?;
    guard.verify()?;
    add_one(&subject.document(0, "target")?, &proven(guard.publish_fence()))?;
    guard.release()?;
    Ok(())
}

pub(super) fn a_former_holder_is_fenced(subject: &Subject) -> Outcome {
    let lease = subject.lease(0, "target")?;
    let former = lease.acquire(&long("a"))?;
    let document = subject.document(0, "target")?;
    add_one(&document, &proven(former.fence))?;
    let taken = subject.lease(1, "target")?.take_over(&long("b"), "a does not answer")?;
    let error = refused(add_one(&document, &proven(former.fence)), ErrorKind::Fenced, "a write")?;
    ensure!(error.is_committed() != Some(true), "a refused write says that it is committed");
    refused(lease.renew(&former.token, None), ErrorKind::LeaseLost, "a renewal")?;
    refused(lease.release(&former.token), ErrorKind::LeaseLost, "a release")?;
    equal!(count(&document)?, 1, "writes");
    add_one(&document, &proven(taken.fence))?;
    subject.lease(1, "target")?.release(&taken.token)?;
    refused(add_one(&document, &proven(taken.fence)), ErrorKind::Fenced, "a write too late")?;
    Ok(())
}

pub(super) fn a_lease_that_is_released_twice_is_lost(subject: &Subject) -> Outcome {
    let lease = subject.lease(0, "target")?;
    let leased = lease.acquire(&long("a"))?;
    lease.release(&leased.token)?;
    refused(lease.release(&leased.token), ErrorKind::LeaseLost, "a second release")?;
    refused(lease.renew(&leased.token, None), ErrorKind::LeaseLost, "a renewal")?;
    let next = subject.lease(1, "target")?.acquire(&long("b"))?;
    refused(lease.release(&leased.token), ErrorKind::LeaseLost, "a release of another's lease")?;
    add_one(&subject.document(0, "target")?, &proven(next.fence))?;
    let nothing = subject.lease(0, "nothing")?.release(&leased.token);
    refused(nothing, ErrorKind::LeaseLost, "a release of what was never leased")?;
    Ok(())
}

pub(super) fn a_lease_is_shown_to_everyone(subject: &Subject) -> Outcome {
    let (lease, other) = (subject.lease(0, "target")?, subject.lease(1, "target")?);
    ensure!(other.show()?.is_none(), "a lease is shown that was never taken");
    let mut options = long("a");
    "turn 12".clone_into(&mut options.label);
    let leased = lease.acquire(&options)?;
    let shown = other.show()?.ok_or_else(|| Failure::new("no lease is shown"))?;
    equal!(shown.holder.owner, "a", "the owner");
    equal!(shown.holder.label, "turn 12", "the label");
    equal!(shown.holder.fence, leased.fence, "the fence");
    equal!(shown.ttl, LONG, "the time to live");
    let left = shown.expires_in.unwrap_or_default();
    ensure!(!left.is_zero() && left <= LONG, "{left:?} are left of {LONG:?}");
    lease.release(&leased.token)?;
    ensure!(other.show()?.is_none(), "a released lease is shown");
    Ok(())
}
