//! Acquires a lease or takes it over, writes under its fence, renews it, and ends it or lets it
//! expire.

use std::io;
use std::time::Duration;

use super::attempt;
use super::document::DURABLE;
use crate::torture::clock;
use crate::torture::content;
use crate::torture::ledger::Span;
use crate::torture::subject::{Answer, Grant, Refused};
use crate::torture::word::Word;
use crate::torture::worker::Worker;

/// The target of the lease, and the journal that is written under its fence.
pub(in crate::torture) const FILE: &str = "leased.jsonl";

/// One in this many does not wait for the holder.
const TAKE_OVER: u64 = 8;

pub(super) fn run(worker: &mut Worker<'_>) -> io::Result<Answer<()>> {
    let path = worker.path(FILE);
    let ttl = Duration::from_millis(worker.dice.between(15, 120));
    let takes = worker.one_in(TAKE_OVER);
    let called = clock::now();
    let grant = if takes {
        // Reported before it happens: from now on the present holder may have lost it.
        worker.say(&Word::Taking { at: called })?;
        attempt!(worker.subject.take_over(&path, ttl))
    } else {
        attempt!(worker.subject.acquire(&path, ttl))
    };
    tell(worker, &grant, called)?;
    let worked = work(worker, &grant)?;
    if worked.is_ok() && worker.one_in(20) {
        return Ok(Ok(())); // It expires.
    }
    // Reported before it ends: from now on another worker may have it.
    worker.say(&Word::Ending { fence: grant.fence, at: clock::now() })?;
    attempt!(worked);
    Ok(worker.subject.release(&path, &grant))
}

/// It was granted after the call began, so it lasts at least from now until the call plus its
/// duration.
fn tell(worker: &Worker<'_>, grant: &Grant, called: u64) -> io::Result<()> {
    let until = called + u64::try_from(grant.ttl.as_nanos()).unwrap_or(0);
    worker.say(&Word::Leased(Span { fence: grant.fence, called, from: clock::now(), until }))
}

fn work(worker: &mut Worker<'_>, grant: &Grant) -> io::Result<Answer<()>> {
    let path = worker.path(FILE);
    for _ in 0..worker.dice.between(1, 8) {
        if worker.one_in(6) {
            let called = clock::now();
            attempt!(worker.subject.renew(&path, grant, grant.ttl));
            tell(worker, grant, called)?;
        }
        let batch = worker.number();
        let lines = content::batch(worker.task.slot, batch, 1, grant.fence);
        let durable = worker.one_in(DURABLE);
        match worker.subject.append(&path, &lines, durable, Some(grant.fence)) {
            Ok(_) => worker.say(&Word::Wrote { fence: grant.fence, batch })?,
            Err(Refused::Lost) => return Ok(Err(Refused::Lost)),
            Err(refused) => return Ok(Err(refused)),
        }
    }
    Ok(Ok(()))
}
