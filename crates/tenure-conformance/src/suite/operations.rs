//! Operation ids: what is repeated is done once.

use std::sync::atomic::{AtomicUsize, Ordering};

use tenure::outcome::{Appended, Written};
use tenure::{ErrorKind, Result, Value, json, update_and_append};

use crate::asking::{
    add_one, append, count, guarded, lines, long, named, one_more, patient, together,
};
use crate::failure::{Outcome, ensure, equal, refused_as};
use crate::subject::Subject;

fn both(subject: &Subject, handle: usize, operation: &str) -> Result<(Written, Appended)> {
    let document = subject.document(handle, "state.json")?;
    let journal = subject.journal(handle, "log")?;
    let compute = |current: Option<&Value>| -> Result<_> { Ok(Some(one_more(current))) };
    update_and_append(&document, &journal, &["x", "y"], &append(named(operation)), compute)
}

pub(super) fn a_document_operation_is_done_once(subject: &Subject) -> Outcome {
    let document = subject.document(0, "state.json")?;
    let first = add_one(&document, &named("op-1"))?;
    ensure!(first.changed && !first.replayed, "a first call: {first:?}");
    document.set(&json!({ "n": 10 }), &named("op-2"))?;
    for number in 0..4 {
        let document = subject.document(number, "state.json")?;
        let again = add_one(&document, &named("op-1"))?;
        ensure!(again.replayed && !again.changed, "a repeated call: {again:?}");
        let mut options = named("op-1");
        options.if_version = Some(first.version.clone());
        let again = document.set(&json!({ "n": 99 }), &options)?;
        ensure!(again.replayed, "a repeated call whose version is old by now: {again:?}");
    }
    equal!(count(&document)?, 10, "the counter");
    add_one(&document, &named("op-3"))?;
    equal!(count(&document)?, 11, "the counter");
    Ok(())
}

pub(super) fn a_journal_operation_is_done_once(subject: &Subject) -> Outcome {
    let journal = subject.journal(0, "log")?;
    let first = journal.append(&["a", "b"], &append(named("op-1")))?;
    ensure!(!first.replayed, "a first call: {first:?}");
    journal.append(&["c"], &append(named("op-2")))?;
    for number in 0..4 {
        let journal = subject.journal(number, "log")?;
        let again = journal.append(&["a", "b"], &append(named("op-1")))?;
        ensure!(again.replayed, "a repeated call: {again:?}");
        equal!((again.first, again.last), (first.first, first.last), "the entries of a repeat");
    }
    equal!(lines(&journal)?, ["a", "b", "c"], "lines");
    Ok(())
}

pub(super) fn an_update_and_append_operation_is_done_once(subject: &Subject) -> Outcome {
    let (written, appended) = both(subject, 0, "op-1")?;
    ensure!(!written.replayed && !appended.replayed, "a first call: {written:?} {appended:?}");
    both(subject, 1, "op-2")?;
    for number in 0..4 {
        let (again, lines) = both(subject, number, "op-1")?;
        ensure!(again.replayed && lines.replayed, "a repeated call: {again:?} {lines:?}");
        equal!((lines.first, lines.last), (appended.first, appended.last), "its entries");
    }
    equal!(count(&subject.document(0, "state.json")?)?, 2, "the counter");
    equal!(lines(&subject.journal(0, "log")?)?.len(), 4, "lines");
    Ok(())
}

pub(super) fn an_operation_is_done_once_among_threads(subject: &Subject) -> Outcome {
    for round in 0..5_u64 {
        let first = [(); 3].map(|()| AtomicUsize::new(0));
        let note = |at: usize, replayed: bool| {
            first[at].fetch_add(usize::from(!replayed), Ordering::SeqCst);
        };
        together(4, |number| {
            let document = subject.document(number, "state.json")?;
            let journal = subject.journal(number, "log")?;
            note(0, add_one(&document, &named(&format!("d {round}")))?.replayed);
            note(1, journal.append(&["x"], &append(named(&format!("j {round}"))))?.replayed);
            note(2, both(subject, number, &format!("b {round}"))?.0.replayed);
            Ok(())
        })?;
        let first = first.map(|count| count.load(Ordering::SeqCst));
        equal!(first, [1, 1, 1], "calls of four that were not replayed");
        equal!(count(&subject.document(0, "state.json")?)?, 2 * (round + 1), "the counter");
    }
    equal!(lines(&subject.journal(0, "log")?)?.len(), 15, "lines");
    Ok(())
}

pub(super) fn a_refused_operation_can_be_repeated(subject: &Subject) -> Outcome {
    let former = subject.lease(0, "session")?.acquire(&long("a"))?;
    let taken = subject.lease(1, "session")?.take_over(&long("b"), "a does not answer")?;
    let with = |fence| {
        let mut options = guarded(subject.name("session"), fence);
        options.operation = Some("op-1".to_owned());
        options
    };
    let document = subject.document(0, "state.json")?;
    let journal = subject.journal(0, "log")?;
    let stale = [ErrorKind::Fenced, ErrorKind::LeaseLost];
    refused_as(add_one(&document, &with(former.fence)), &stale, "a stale guard")?;
    refused_as(journal.append(&["x"], &append(with(former.fence))), &stale, "a stale guard")?;
    ensure!(!add_one(&document, &with(taken.fence))?.replayed, "a refused call counts as done");
    let appended = journal.append(&["x"], &append(with(taken.fence)))?;
    ensure!(!appended.replayed, "a refused call counts as done");
    equal!(count(&document)?, 1, "the counter");
    // It is done by now, and its guard is checked all the same.
    refused_as(add_one(&document, &with(former.fence)), &stale, "a stale guard of a repeat")?;
    Ok(())
}

pub(super) fn a_lost_reply_is_not_applied_twice(subject: &Subject) -> Outcome {
    let (document, journal) = (subject.document(0, "state.json")?, subject.journal(0, "log")?);
    let lose = || subject.lose_reply.iter().for_each(|lose| lose());
    for round in 1..=3 {
        lose();
        let written = add_one(&document, &patient())?;
        ensure!(written.changed, "an update whose reply was lost: {written:?}");
        equal!(count(&document)?, round * 2 - 1, "updates of calls whose reply was lost");
        equal!(document.read()?.map(|found| found.version), Some(written.version), "the version");
        lose();
        let appended = journal.append(&["x", "y"], &append(patient()))?;
        equal!(appended.last + 1 - appended.first, 2, "numbers of a batch whose reply was lost");
        equal!(lines(&journal)?.len() as u64, round * 4 - 2, "lines of lost replies");
        lose();
        both(subject, 0, &format!("op {round}"))?;
        equal!(count(&document)?, round * 2, "updates of calls whose reply was lost");
        equal!(lines(&journal)?.len() as u64, round * 4, "lines of calls whose reply was lost");
    }
    Ok(())
}
