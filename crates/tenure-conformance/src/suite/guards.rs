//! Guarded writes: the proof of a hold on another target, checked in the step that commits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tenure::outcome::Leased;
use tenure::{
    Document, Error, ErrorKind, Journal, Result, Value, WriteOptions, json, update_and_append,
};

use crate::asking::{
    add_one, append, at_once, count, guarded, lines, long, one_more, patient, proven, trying,
    until, update,
};
use crate::failure::{Failure, Outcome, ensure, equal, refused, refused_as};
use crate::memory::MemoryStore;
use crate::subject::Subject;

/// What a check of a fence can say.
const STALE: [ErrorKind; 2] = [ErrorKind::Fenced, ErrorKind::LeaseLost];
/// What a store that has the locks can say to others meanwhile.
const IN_THE_WAY: [ErrorKind; 2] = [ErrorKind::Busy, ErrorKind::Deadlock];

/// Changes the document and the journal of a test in one call.
fn both(subject: &Subject, options: WriteOptions, line: &str) -> Result<()> {
    let document = subject.document(0, "state.json")?;
    let journal = subject.journal(0, "log")?;
    let compute = |current: Option<&Value>| -> Result<_> { Ok(Some(one_more(current))) };
    update_and_append(&document, &journal, &[line], &append(options), compute).map(drop)
}

/// The three ways to write, all with these options.
fn writes(subject: &Subject, options: &WriteOptions) -> [Result<()>; 3] {
    let alone = || add_one(&subject.document(1, "state.json")?, options).map(drop);
    let line = || subject.journal(1, "log")?.append(&["x"], &append(options.clone())).map(drop);
    [alone(), line(), both(subject, options.clone(), "x")]
}

fn counted(subject: &Subject) -> Result<(u64, usize)> {
    Ok((count(&subject.document(0, "state.json")?)?, lines(&subject.journal(0, "log")?)?.len()))
}

pub(super) fn a_guard_admits_its_holder(subject: &Subject) -> Outcome {
    let leased = subject.lease(0, "session")?.acquire(&long("a"))?;
    let guard = guarded(subject.name("session"), leased.fence);
    for written in writes(subject, &guard) {
        written?;
    }
    let hold = subject.lock(1, "other session")?.acquire(&trying())?;
    let guard = guarded(subject.name("other session"), hold.publish_fence());
    for written in writes(subject, &guard) {
        written?;
    }
    hold.release()?;
    equal!(counted(subject)?, (4, 4), "updates and lines");
    Ok(())
}

pub(super) fn a_stale_guard_changes_nothing(subject: &Subject) -> Outcome {
    let lease = subject.lease(0, "session")?;
    let former = lease.acquire(&long("a"))?;
    let stale = guarded(subject.name("session"), former.fence);
    both(subject, stale.clone(), "first")?;
    let taken = subject.lease(1, "session")?.take_over(&long("b"), "a does not answer")?;
    let released = subject.lock(1, "other session")?.acquire(&trying())?;
    let also = guarded(subject.name("other session"), released.publish_fence());
    released.release()?;
    for options in [stale, also] {
        for written in writes(subject, &options) {
            let error = refused_as(written, &STALE, "a stale guard")?;
            ensure!(error.is_committed() != Some(true), "a refused write says it is committed");
        }
    }
    // One good guard does not make up for a stale one.
    let mut options = guarded(subject.name("session"), taken.fence);
    options.guards.extend(guarded(subject.name("other session"), former.fence).guards);
    for written in writes(subject, &options) {
        refused_as(written, &STALE, "one stale guard of two")?;
    }
    equal!(counted(subject)?, (1, 1), "updates and lines");
    Ok(())
}

/// The good guard of a target does not make up for a stale one of the same target, whichever comes first.
pub(super) fn two_fences_of_one_target_are_refused(subject: &Subject) -> Outcome {
    let former = subject.lease(0, "session")?.acquire(&long("a"))?;
    let taken = subject.lease(1, "session")?.take_over(&long("b"), "a does not answer")?;
    for fences in [[former.fence, taken.fence], [taken.fence, former.fence]] {
        let mut options = patient();
        for fence in fences {
            options.guards.extend(guarded(subject.name("session"), fence).guards);
        }
        for written in writes(subject, &options) {
            refused_as(written, &STALE, "two fences of one target")?;
        }
    }
    equal!(counted(subject)?, (0, 0), "updates and lines");
    let mut twice = guarded(subject.name("session"), taken.fence);
    twice.guards.extend(twice.guards.clone());
    for written in writes(subject, &twice) {
        written?;
    }
    equal!(counted(subject)?, (2, 2), "updates and lines");
    Ok(())
}

pub(super) fn a_guard_on_an_unknown_target_is_refused(subject: &Subject) -> Outcome {
    for fence in [1, 1 << 50] {
        let options = guarded(subject.name("never held"), fence);
        for written in writes(subject, &options) {
            refused(written, ErrorKind::Fenced, "a guard on what was never held")?;
        }
    }
    equal!(counted(subject)?, (0, 0), "updates and lines");
    ensure!(subject.document(0, "state.json")?.read()?.is_none(), "a refused write made something");
    Ok(())
}

pub(super) fn a_guard_of_the_journal_proves_its_hold(subject: &Subject) -> Outcome {
    let document = subject.lease(0, "state.json")?.acquire(&long("a"))?;
    let journal = subject.lease(0, "log")?.acquire(&long("a"))?;
    refused(both(subject, at_once(), "x"), ErrorKind::Busy, "an unproven call")?;
    refused(both(subject, proven(document.fence), "x"), ErrorKind::Busy, "half of the proof")?;
    let mut options = guarded(subject.name("log"), journal.fence);
    options.fence = Some(document.fence);
    both(subject, options.clone(), "x")?;
    let wrong = subject.lease(1, "log")?.take_over(&long("b"), "a does not answer")?;
    refused_as(both(subject, options.clone(), "x"), &STALE, "the old hold of the journal")?;
    options.guards = guarded(subject.name("log"), wrong.fence).guards;
    both(subject, options, "x")?;
    equal!(counted(subject)?, (2, 2), "updates and lines");
    Ok(())
}

pub(super) fn a_document_and_a_journal_change_both_or_neither(subject: &Subject) -> Outcome {
    let document = subject.document(0, "state.json")?;
    let journal = subject.journal(1, "log")?;
    both(subject, patient(), "first")?;
    let version = document.read()?.map(|found| found.version);
    let options = append(patient());
    let fails = update_and_append(&document, &subject.journal(0, "log")?, &["x"], &options, |_| {
        Err::<Option<Value>, Error>(Error::new(ErrorKind::NotFound, "compute", "no"))
    });
    refused(fails, ErrorKind::NotFound, "a function that fails")?;
    let mut other = patient();
    other.if_version = Some("1-abc".parse()?);
    refused(both(subject, other, "x"), ErrorKind::Conflict, "another version")?;
    refused(both(subject, patient(), " "), ErrorKind::Invalid, "a blank line")?;
    refused(both(subject, patient(), "a\nb"), ErrorKind::Invalid, "a newline")?;
    let one = update_and_append(
        &document,
        &subject.journal(0, "state.json")?,
        &["x"],
        &options,
        |_| -> Result<_> { Ok(None) },
    );
    refused(one, ErrorKind::Invalid, "one target for both")?;
    equal!(document.read()?.map(|found| found.version), version, "the version");
    equal!(counted(subject)?, (1, 1), "updates and lines");
    let mut right = patient();
    right.if_version = version;
    both(subject, right, "second")?;
    equal!(lines(&journal)?, ["first", "second"], "lines");
    equal!(counted(subject)?, (2, 2), "updates and lines");
    Ok(())
}

pub(super) fn two_stores_never_change_together(subject: &Subject) -> Outcome {
    let other = MemoryStore::new();
    let (document, journal) = (subject.document(0, "state.json")?, subject.journal(0, "log")?);
    let elsewhere = (Document::on(&other, "/other.json")?, Journal::on(&other, "/other log")?);
    for (document, journal) in [(&document, &elsewhere.1), (&elsewhere.0, &journal)] {
        let compute = |current: Option<&Value>| -> Result<_> { Ok(Some(one_more(current))) };
        let done = update_and_append(document, journal, &["x"], &append(patient()), compute);
        refused(done, ErrorKind::Invalid, "a change of two stores")?;
        ensure!(document.read()?.is_none() && lines(journal)?.is_empty(), "one store changed");
    }
    Ok(())
}

pub(super) fn a_guard_of_another_store_is_invalid(subject: &Subject) -> Outcome {
    let leased = subject.lease(0, "session")?.acquire(&long("a"))?;
    for target in ["postgres://me:secret@host/database", "etcd://a:2379,b:2379/prefix/session"] {
        let options = guarded(target.into(), leased.fence);
        for written in writes(subject, &options) {
            let error = refused(written, ErrorKind::Invalid, "a guard of another store")?;
            ensure!(!error.to_string().contains("secret"), "an error shows a password: {error}");
        }
    }
    equal!(counted(subject)?, (0, 0), "updates and lines");
    Ok(())
}

/// The guard, the document and the batch: after any number of take-overs both agree.
pub(super) fn a_guarded_batch_is_one_step(subject: &Subject) -> Outcome {
    let document = subject.document(0, "state.json")?;
    let journal = subject.journal(0, "log")?;
    let mut leased = subject.lease(0, "session")?.acquire(&long("a"))?;
    for round in 0..4 {
        let options = append(guarded(subject.name("session"), leased.fence));
        let is_taken = AtomicBool::new(false);
        thread::scope(|scope| {
            let former = scope.spawn(|| {
                let mut number = 0;
                loop {
                    let is_late = is_taken.load(Ordering::SeqCst);
                    let done = update_and_append(
                        &document,
                        &journal,
                        &[format!("{round} {number} a"), format!("{round} {number} b")],
                        &options,
                        |current| Ok(Some(one_more(current))),
                    );
                    match done {
                        Ok((written, appended)) => {
                            ensure!(!is_late, "a former holder writes after a take-over");
                            ensure!(written.changed, "an update did nothing: {written:?}");
                            equal!(appended.last + 1 - appended.first, 2, "numbers of a batch");
                        }
                        refusal => {
                            return refused_as(refusal, &STALE, "the former holder").map(drop);
                        }
                    }
                    number += 1;
                }
            });
            let before = counted(subject)?.0;
            until(
                "the holder writes",
                || Ok(counted(subject)?.0 > before || former.is_finished()),
            )?;
            let mut terms = long("b");
            terms.wait = patient().wait;
            leased = subject.lease(1, "session")?.take_over(&terms, "a is slow")?;
            is_taken.store(true, Ordering::SeqCst);
            let (count, lines) = counted(subject)?;
            equal!(lines as u64, count * 2, "lines of {count} updates, after a take-over");
            former.join().map_err(|_| Failure::new("a thread panicked"))?
        })?;
    }
    let (count, lines) = counted(subject)?;
    equal!(lines as u64, count * 2, "lines of {count} updates");
    Ok(())
}

/// Tries to take the lease over, on a thread of its own. `true` if it is taken.
fn take_over(subject: &Subject, name: &str) -> Result<bool, Failure> {
    let taken = thread::scope(|scope| {
        let take = || subject.lease(1, name)?.take_over(&long("b"), "a is slow");
        scope.spawn(take).join()
    });
    match taken.map_err(|_| Failure::new("a thread panicked"))? {
        Ok(_) => Ok(true),
        refusal => {
            refused_as(refusal, &IN_THE_WAY, "a take-over during a write").map(|_: Error| false)
        }
    }
}

/// A take-over while the change is computed: either it has to wait for the write, or the write is refused.
fn taken_over_meanwhile(
    subject: &Subject,
    leased: &str,
    options: impl Fn(&Leased) -> WriteOptions,
) -> Outcome {
    let lease = subject.lease(0, leased)?;
    let former = lease.acquire(&long("a"))?;
    let document = subject.document(0, "state.json")?;
    let mut taken = None;
    let written = update(&document, &options(&former), |current| {
        if taken.is_none() {
            taken = Some(take_over(subject, leased));
        }
        Ok(Some(one_more(current)))
    });
    let taken = taken.ok_or_else(|| Failure::new("the function did not run"))??;
    if taken {
        refused_as(written, &STALE, "a write whose hold was taken over before it committed")?;
    } else {
        written?;
    }
    equal!(count(&document)?, u64::from(!taken), "updates that count");
    // The same for a call that changes two things.
    let former = lease.take_over(&long("a"), "again")?;
    let (journal, mut taken) = (subject.journal(0, "log")?, None);
    let before = count(&document)?;
    let done =
        update_and_append(&document, &journal, &["x"], &append(options(&former)), |current| {
            if taken.is_none() {
                taken = Some(take_over(subject, leased));
            }
            Ok::<_, Error>(Some(one_more(current)))
        });
    let taken = taken.ok_or_else(|| Failure::new("the function did not run"))??;
    if taken {
        refused_as(done, &STALE, "a call whose hold was taken over before it committed")?;
    } else {
        done?;
    }
    equal!(count(&document)? - before, u64::from(!taken), "updates that count");
    equal!(lines(&journal)?.len(), usize::from(!taken), "lines");
    Ok(())
}

pub(super) fn a_guard_is_checked_when_it_commits(subject: &Subject) -> Outcome {
    let session = subject.name("session");
    taken_over_meanwhile(subject, "session", |leased| guarded(session.clone(), leased.fence))
}

pub(super) fn a_fence_is_checked_when_it_commits(subject: &Subject) -> Outcome {
    taken_over_meanwhile(subject, "state.json", |leased| proven(leased.fence))
}

/// Another write while the change is computed: it waits, or this one is refused or computed again.
pub(super) fn a_version_is_checked_when_it_commits(subject: &Subject) -> Outcome {
    let document = subject.document(0, "state.json")?;
    for with_version in [true, false] {
        let version = document.set(&json!({ "n": 10 }), &patient())?.version;
        let mut options = patient();
        options.if_version = with_version.then_some(version);
        let (mut other, mut runs) = (None, 0);
        let written = update(&document, &options, |current| {
            runs += 1;
            if other.is_none() {
                let write = || add_one(&subject.document(1, "state.json")?, &at_once());
                other = thread::scope(|scope| scope.spawn(write).join()).ok();
            }
            Ok(Some(one_more(current)))
        });
        let other = match other.ok_or_else(|| Failure::new("the function did not run"))? {
            Ok(_) => true,
            refusal => refused_as(refusal, &IN_THE_WAY, "a write during another").map(|_| false)?,
        };
        let refusal = other && with_version;
        if refusal {
            refused(written, ErrorKind::Conflict, "a version that changed before the commit")?;
        } else {
            written?;
        }
        let wanted = 11 + u64::from(other && !refusal);
        equal!(count(&document)?, wanted, "the counter, after {runs} runs");
    }
    Ok(())
}

pub(super) fn no_guarded_write_lands_after_a_take_over(subject: &Subject) -> Outcome {
    let document = subject.document(1, "state.json")?;
    let mut leased = subject.lease(0, "session")?.acquire(&long("a"))?;
    for _ in 0..8 {
        let options = guarded(subject.name("session"), leased.fence);
        let (written, stopped) = (AtomicU64::new(0), AtomicBool::new(false));
        let taken_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let former = scope.spawn(|| {
                let document = subject.document(0, "state.json")?;
                let mut too_late = false;
                while !too_late {
                    too_late = taken_over.load(Ordering::SeqCst);
                    if let Err(error) = add_one(&document, &options) {
                        stopped.store(true, Ordering::SeqCst);
                        return refused_as::<()>(Err(error), &STALE, "the former holder").map(drop);
                    }
                    written.fetch_add(1, Ordering::SeqCst);
                }
                Err(Failure::new("the former holder writes after it was taken over"))
            });
            until("the holder writes", || {
                Ok(written.load(Ordering::SeqCst) > 0 || stopped.load(Ordering::SeqCst))
            })?;
            let mut terms = long("b");
            terms.wait = patient().wait;
            let taken = subject.lease(1, "session")?.take_over(&terms, "a does not answer");
            taken_over.store(true, Ordering::SeqCst);
            leased = taken?;
            let after = count(&document)?;
            former.join().map_err(|_| Failure::new("a thread panicked"))??;
            equal!(count(&document)?, after, "the counter, some time after a take-over");
            Ok::<_, Failure>(())
        })?;
    }
    Ok(())
}
