//! Takes the lock, alone or with other readers, sometimes leaving it to a child.

use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::attempt;
use crate::child::Inherited;
use crate::torture::finding::{Fault, Finding, Thing};
use crate::torture::presence::Flag;
use crate::torture::subject::Answer;
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
    if !shared {
        let last = worker.memory.word(words::FENCE).fetch_max(hold.fence, SeqCst);
        if last >= hold.fence {
            let detail = format!("a hold after fence {last} has fence {}", hold.fence);
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
    let fence = hold.fence;
    if let Some(guard) = hold.guard {
        let bequest = worker.one_in(200) && !shared;
        if bequest {
            if let Some(inherited) = Inherited::of(&guard)? {
                worker.start_child(Some(inherited))?;
            }
            drop(flag);
            attempt!(guard.leave_to_children().map_err(Into::into));
        } else {
            drop(flag);
            attempt!(guard.release().map_err(Into::into));
        }
    }
    worker.say(&Word::Held { fence })?;
    Ok(Ok(()))
}
