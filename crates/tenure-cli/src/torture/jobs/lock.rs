//! Takes the lock, alone or with other readers, sometimes leaving it to a child.

use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use tenure_shipped::Lock as _;

use super::attempt;
use crate::child::Inherited;
use crate::torture::finding::{Fault, Finding, Thing};
use crate::torture::presence::Flag;
use crate::torture::subject::{Answer, Guard};
use crate::torture::word::Word;
use crate::torture::words;
use crate::torture::worker::{Worker, dwell};

pub(super) fn run(worker: &mut Worker<'_>) -> io::Result<Answer<()>> {
    let shared = worker.one_in(5);
    let hold = attempt!(worker.subject.lock(&worker.path("lock"), shared));
    let who = worker.incarnation();
    let (flag, overlaps) = Flag::raise(worker.memory, worker.task.slot, who, shared);
    for overlap in overlaps {
        worker.say(&Word::Two(overlap))?;
    }
    if let Some(fence) = hold.fence.filter(|_| !shared) {
        let last = worker.memory.word(words::FENCE).fetch_max(fence, SeqCst);
        if last >= fence {
            let detail = format!("a hold after fence {last} has fence {fence}");
            worker.found(Finding::new(Thing::Lock, Fault::Fence, detail))?;
        }
    }
    // Mostly short, as in real life; the parent pauses some of us inside for longer.
    let long = worker.one_in(50);
    let most = if long { 2000 } else { 40 };
    dwell(Duration::from_micros(worker.dice.between(0, most)));
    if worker.one_in(400) {
        // One that must not keep the lock alive.
        worker.start_child(None)?;
    }
    match hold.guard {
        Guard::Tenure(guard) if worker.one_in(200) && !shared => {
            if let Some(inherited) = Inherited::of(&guard)? {
                worker.start_child(Some(inherited))?;
            }
            drop(flag);
            attempt!(guard.leave_to_children().map_err(Into::into));
        }
        Guard::Tenure(guard) => {
            drop(flag);
            attempt!(guard.release().map_err(Into::into));
        }
        Guard::Shipped(mut lock) => {
            drop(flag);
            attempt!(lock.leave().map_err(Into::into));
        }
        Guard::Nothing => {}
    }
    worker.say(&Word::Held { fence: hold.fence.unwrap_or(0) })?;
    Ok(Ok(()))
}
