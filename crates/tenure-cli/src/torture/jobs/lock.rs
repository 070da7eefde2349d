//! Takes the lock, alone or with other readers, sometimes leaving it to a child.

use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::attempt;
use crate::torture::finding::{Fault, Finding, Thing};
use crate::torture::presence::Flag;
use crate::torture::subject::Answer;
use crate::torture::word::Word;
use crate::torture::words;
use crate::torture::worker::{Worker, dwell};

pub(super) fn run(worker: &mut Worker<'_>) -> io::Result<Answer<()>> {
    let shared = worker.one_in(5);
    let hold = attempt!(worker.subject.lock(&worker.path("lock"), shared));
    let who = worker.next_hold();
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
    let leaves = !shared && worker.one_in(200);
    let inherited = if leaves { hold.guard.inherited()? } else { None };
    if let Some(inherited) = inherited {
        worker.start_child(Some((inherited, who)))?;
        drop(flag);
        attempt!(hold.guard.leave_to_children());
    } else {
        drop(flag);
        attempt!(hold.guard.release());
    }
    worker.say(&Word::Held { fence: hold.fence.unwrap_or(0) })?;
    Ok(Ok(()))
}
