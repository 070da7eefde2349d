//! Takes the lock, exclusive or shared. Sometimes it leaves the lock to a child, and sometimes it
//! forks inside.

use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::attempt;
use crate::torture::finding::{Fault, Finding, Thing};
use crate::torture::forked;
use crate::torture::presence::Flag;
use crate::torture::subject::{Answer, Guard};
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
    // Usually short, as in practice; the parent pauses some workers inside for longer.
    let long = worker.one_in(50);
    let most = if long { 2000 } else { 40 };
    dwell(Duration::from_micros(worker.dice.between(0, most)));
    if worker.one_in(400) {
        // A child that must not keep the lock held.
        worker.start_child(None)?;
    }
    let mut guard = Some(hold.guard);
    if worker.one_in(100) {
        // As an exit handler of the child would: it releases a lock that is not its own.
        forked::fork(|| drop(guard.take().map(Guard::release)))?;
        worker.say(&Word::Forked)?;
        // A process that gets the lock through that must find us inside.
        dwell(Duration::from_micros(worker.dice.between(0, 1000)));
    }
    let Some(guard) = guard else { return Ok(Ok(())) };
    let leaves = !shared && worker.one_in(200);
    let inherited = if leaves { guard.inherited()? } else { None };
    if let Some(inherited) = inherited {
        worker.start_child(Some((inherited, who)))?;
        drop(flag);
        attempt!(guard.leave_to_children());
    } else {
        drop(flag);
        attempt!(guard.release());
    }
    worker.say(&Word::Held { fence: hold.fence.unwrap_or(0) })?;
    Ok(Ok(()))
}
