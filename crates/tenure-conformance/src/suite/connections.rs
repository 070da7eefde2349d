//! Connections that break: what is held stays held, and what is followed goes on. A store without connections passes
//! these tests as they are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use tenure::Wait;

use crate::asking::{
    A_MOMENT, PATIENCE, add_one, all, append, count, guarded, long, patient, proven, trying,
    waiting,
};
use crate::failure::{Failure, Outcome, ensure, equal};
use crate::subject::Subject;

const ROUNDS: u64 = 12;

fn broken(subject: &Subject) {
    subject.break_connections.iter().for_each(|break_all| break_all());
}

pub(super) fn a_follower_misses_nothing_across_lost_connections(subject: &Subject) -> Outcome {
    let followed = thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let mut follow = subject.journal(1, "log")?.follow(1)?;
            let mut followed = Vec::new();
            while (followed.len() as u64) < 2 * ROUNDS {
                let next = follow.next(Wait::For(PATIENCE))?;
                followed.push(next.ok_or_else(|| Failure::new("a follower misses entries"))?);
            }
            Ok::<_, Failure>(followed)
        });
        let journal = subject.journal(0, "log")?;
        for round in 0..ROUNDS {
            journal.append(&[format!("{round} a"), format!("{round} b")], &append(patient()))?;
            if round % 3 == 0 {
                broken(subject);
            }
        }
        follower.join().map_err(|_| Failure::new("a thread panicked"))?
    })?;
    equal!(followed, all(&subject.journal(0, "log")?)?, "what was followed");
    Ok(())
}

pub(super) fn a_watch_wakes_across_lost_connections(subject: &Subject) -> Outcome {
    let document = subject.document(0, "state.json")?;
    add_one(&document, &patient())?;
    let mut watch = subject.document(1, "state.json")?.watch()?;
    for wanted in 2..5 {
        broken(subject);
        add_one(&document, &patient())?;
        let seen = watch.next(Wait::For(PATIENCE))?.and_then(|found| found.value["n"].as_u64());
        equal!(seen, Some(wanted), "the document that a watch sees");
    }
    Ok(())
}

pub(super) fn a_hold_survives_lost_connections(subject: &Subject) -> Outcome {
    let guard = subject.lock(0, "target")?.acquire(&trying())?;
    let leased = subject.lease(0, "session")?.acquire(&long("a"))?;
    let document = subject.document(0, "target")?;
    for _ in 0..3 {
        broken(subject);
        guard.verify()?;
        broken(subject);
        add_one(&document, &proven(guard.publish_fence()))?;
        broken(subject);
        let mut options = guarded(subject.name("session"), leased.fence);
        options.fence = Some(guard.publish_fence());
        add_one(&document, &options)?;
    }
    equal!(count(&document)?, 6, "writes of the holder");
    broken(subject);
    guard.release()?;
    subject.lock(1, "target")?.acquire(&waiting())?.release()?;
    broken(subject);
    subject.lease(0, "session")?.release(&leased.token)?;
    Ok(())
}

pub(super) fn a_waiter_is_served_across_lost_connections(subject: &Subject) -> Outcome {
    let guard = subject.lock(0, "target")?.acquire(&trying())?;
    let (answer, answered) = mpsc::channel();
    let is_released = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let taken = subject.lock(1, "target").and_then(|lock| lock.acquire(&waiting()));
            let came_first = !is_released.load(Ordering::SeqCst);
            let _ = answer.send(taken.and_then(|guard| {
                guard.release()?;
                Ok(came_first)
            }));
        });
        for _ in 0..3 {
            let early = answered.recv_timeout(A_MOMENT);
            ensure!(early.is_err(), "two holders of one lock: {early:?}");
            broken(subject);
        }
        is_released.store(true, Ordering::SeqCst);
        guard.release()?;
        let served = answered.recv_timeout(PATIENCE);
        let came_first = served.map_err(|_| Failure::new("a waiter was forgotten"))??;
        ensure!(!came_first, "two holders of one lock");
        Ok(())
    })
}
