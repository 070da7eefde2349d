//! Queues: each task to one worker, completed once.

use std::collections::BTreeMap;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tenure::options::CollectionKind;
use tenure::queue::{AddOptions, ClaimOptions, Claimed, FailOptions, Queue, TaskState};
use tenure::{Cancel, Collection, ErrorKind, Lock, Result, Value, Wait, WriteOptions, json};

use crate::asking::{
    A_MOMENT, LONG, PATIENCE, at_once, guarded, locked, patient, together, trying,
};
use crate::failure::{Failure, Outcome, ensure, equal, refused};
use crate::subject::Subject;

fn queue(subject: &Subject, handle: usize) -> Result<Queue> {
    Queue::on(subject.handle(handle), subject.name("queue"))
}

fn plain() -> AddOptions {
    AddOptions { write: patient(), ..AddOptions::default() }
}

fn add(queue: &Queue, task: &Value) -> Result<String> {
    Ok(queue.add(task, &plain())?.id)
}

fn terms(owner: &str, ttl: Duration, wait: Wait) -> ClaimOptions {
    let mut options = ClaimOptions::default();
    (options.owner, options.ttl, options.wait) = (owner.to_owned(), ttl, wait);
    options
}

fn next(queue: &Queue, owner: &str) -> Result<Option<Claimed>> {
    queue.next(&terms(owner, LONG, Wait::No), |_, _| Ok(true))
}

fn must(claimed: Option<Claimed>) -> std::result::Result<Claimed, Failure> {
    claimed.ok_or_else(|| Failure::new("there was no task"))
}

fn states(queue: &Queue) -> Result<Vec<TaskState>> {
    Ok(queue.list()?.iter().map(|task| task.state).collect())
}

pub(super) fn a_task_is_given_to_one_worker(subject: &Subject) -> Outcome {
    const TASKS: u64 = 12;
    let adder = queue(subject, 0)?;
    for number in 0..TASKS {
        add(&adder, &json!({ "n": number }))?;
    }
    let runs = Mutex::new(BTreeMap::new());
    together(4, |number| {
        let queue = queue(subject, number)?;
        while let Some(claimed) = next(&queue, "worker")? {
            equal!(claimed.attempt, 1, "the attempt of a task that never failed");
            *locked(&runs).entry(claimed.task["n"].as_u64()).or_insert(0) += 1;
            ensure!(queue.done(&claimed.id, &claimed.token)?, "a task was done before");
        }
        Ok(())
    })?;
    let runs = locked(&runs);
    equal!(runs.len() as u64, TASKS, "tasks that were given out");
    ensure!(runs.values().all(|count| *count == 1), "a task was given out twice: {runs:?}");
    ensure!(states(&adder)?.iter().all(|state| *state == TaskState::Done), "a task is not done");
    Ok(())
}

pub(super) fn tasks_are_given_out_oldest_first(subject: &Subject) -> Outcome {
    let queue = queue(subject, 0)?;
    ensure!(next(&queue, "a")?.is_none(), "an empty queue has a task");
    let mut named = plain();
    named.id = Some("zz/..\n".to_owned());
    let ids = [add(&queue, &json!(1))?, queue.add(&json!(2), &named)?.id, add(&queue, &json!(3))?];
    ensure!(ids[0] < ids[2], "ids do not sort by time: {ids:?}");
    for (number, id) in ids.iter().enumerate() {
        let claimed = must(next(&queue, "a")?)?;
        equal!(
            (&claimed.id, claimed.task.as_u64()),
            (id, Some(number as u64 + 1)),
            "the next task"
        );
    }
    ensure!(next(&queue, "b")?.is_none(), "a claimed task was given out");
    equal!(states(&queue)?, vec![TaskState::Claimed; 3], "states");
    Ok(())
}

pub(super) fn a_task_is_completed_once(subject: &Subject) -> Outcome {
    let (one, other) = (queue(subject, 0)?, queue(subject, 1)?);
    let id = add(&one, &json!({ "a": [1.50, null] }))?;
    let claimed = must(next(&one, "a")?)?;
    equal!(claimed.task, json!({ "a": [1.50, null] }), "the task");
    let wrong = "0123456789abcdef0123456789abcdef";
    refused(other.done(&id, wrong), ErrorKind::LeaseLost, "another token")?;
    refused(other.done("no such", wrong), ErrorKind::NotFound, "a task that is not there")?;
    equal!(other.renew(&id, &claimed.token, None)?.fence, claimed.fence, "the fence of a renewal");
    ensure!(other.done(&id, &claimed.token)?, "a task was done before");
    ensure!(!other.done(&id, &claimed.token)?, "a task was done twice");
    let failed = other.fail(&id, &claimed.token, &FailOptions::default());
    equal!(failed?, TaskState::Done, "a task that is done, and then fails");
    equal!(states(&one)?, [TaskState::Done], "states");
    ensure!(next(&other, "b")?.is_none(), "a task that is done was given out");
    equal!(one.prune(Duration::ZERO, &patient())?, [id], "pruned tasks");
    equal!(one.list()?.len(), 0, "tasks");
    Ok(())
}

pub(super) fn an_expired_claim_returns_its_task(subject: &Subject) -> Outcome {
    let (one, other) = (queue(subject, 0)?, queue(subject, 1)?);
    let mut once_more = plain();
    once_more.max_attempts = Some(2);
    let id = one.add(&json!({}), &once_more)?.id;
    let short = terms("a", subject.short(), Wait::No);
    let lost = must(one.next(&short, |_, _| Ok(true))?)?;
    let waits = terms("b", subject.short(), Wait::For(PATIENCE));
    let claimed = must(other.next(&waits, |_, _| Ok(true))?)?;
    let last = &claimed;
    equal!((&claimed.id, claimed.attempt), (&id, 2), "the second attempt");
    ensure!(claimed.fence > lost.fence, "the fence of a later claim is not larger");
    refused(one.done(&id, &lost.token), ErrorKind::LeaseLost, "a claim that expired")?;
    refused(one.renew(&id, &lost.token, None), ErrorKind::LeaseLost, "a claim that expired")?;
    let failed = one.fail(&id, &lost.token, &FailOptions::default());
    refused(failed, ErrorKind::LeaseLost, "a claim that expired")?;
    // The second claim expires as well: the task is set aside by the next look.
    ensure!(one.next(&waits_shortly(subject), |_, _| Ok(true))?.is_none(), "a third attempt");
    equal!(states(&one)?, [TaskState::SetAside], "states");
    let done = other.done(&id, &last.token);
    refused(done, ErrorKind::LeaseLost, "completing a task that was set aside")?;
    Ok(())
}

/// The id of a task that is over is added again while a prune waits for it.
pub(super) fn a_prune_keeps_a_task_that_was_added_again(subject: &Subject) -> Outcome {
    let (one, other) = (queue(subject, 0)?, queue(subject, 1)?);
    let mut named = plain();
    named.id = Some("a".to_owned());
    one.add(&json!(1), &named)?;
    let claimed = must(next(&one, "w")?)?;
    one.done("a", &claimed.token)?;
    let held = Lock::on(subject.handle(0).as_ref(), &claimed.target)?.acquire(&trying())?;
    let under = WriteOptions { fence: Some(held.publish_fence()), ..at_once() };
    let tasks =
        Collection::on(subject.handle(0), subject.name("queue"), CollectionKind::Documents)?;
    thread::scope(|scope| {
        let pruned = scope.spawn(move || other.prune(Duration::ZERO, &patient()));
        // Most likely it waits by now; if not, the test passes for another reason.
        thread::park_timeout(A_MOMENT);
        ensure!(tasks.remove("a", &under)?, "the task was not there");
        named.write = under;
        ensure!(one.add(&json!(2), &named)?.new, "the task was not added again");
        held.release()?;
        let pruned = pruned.join().map_err(|_| Failure::new("the prune panicked"))??;
        equal!(pruned, Vec::<String>::new(), "pruned tasks");
        equal!(states(&one)?, [TaskState::Open], "states");
        Ok(())
    })
}

fn waits_shortly(subject: &Subject) -> ClaimOptions {
    terms("c", LONG, Wait::For(subject.short() * 4))
}

pub(super) fn a_failed_task_is_counted_delayed_and_set_aside(subject: &Subject) -> Outcome {
    let queue = queue(subject, 0)?;
    let id = add(&queue, &json!({}))?;
    let reason = Some("no network".to_owned());
    let mut options = FailOptions { reason, ..FailOptions::default() };
    for attempt in 1..3 {
        let claimed = must(next(&queue, "a")?)?;
        equal!(claimed.attempt, attempt, "the attempt");
        equal!(queue.fail(&id, &claimed.token, &options)?, TaskState::Open, "a failed task");
        let again = queue.fail(&id, &claimed.token, &options);
        refused(again, ErrorKind::LeaseLost, "a claim that has failed")?;
    }
    let claimed = must(next(&queue, "a")?)?;
    options.delay = LONG;
    equal!(queue.fail(&id, &claimed.token, &options)?, TaskState::Delayed, "a failed task");
    ensure!(next(&queue, "a")?.is_none(), "a delayed task was given out");
    let task = queue.list()?.remove(0);
    equal!((task.state, task.attempts), (TaskState::Delayed, 3), "the task");
    equal!(task.reason.as_deref(), Some("no network"), "the reason");
    let other = add(&queue, &json!({}))?;
    let claimed = must(next(&queue, "a")?)?;
    equal!(claimed.id, other, "the task behind a delayed one");
    options.max_attempts = Some(1);
    equal!(queue.fail(&other, &claimed.token, &options)?, TaskState::SetAside, "a failed task");
    ensure!(next(&queue, "a")?.is_none(), "a task that was set aside was given out");
    Ok(())
}

pub(super) fn a_worker_that_waits_is_woken(subject: &Subject) -> Outcome {
    let adder = queue(subject, 0)?;
    let (answer, answered) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let options = terms("a", LONG, Wait::For(PATIENCE));
            let taken = queue(subject, 1).and_then(|queue| queue.next(&options, |_, _| Ok(true)));
            let _ = answer.send(taken);
        });
        let early = answered.recv_timeout(A_MOMENT);
        ensure!(early.is_err(), "an empty queue has a task: {early:?}");
        let id = add(&adder, &json!({}))?;
        let claimed = answered.recv_timeout(PATIENCE);
        let claimed = must(claimed.map_err(|_| Failure::new("a new task wakes no worker"))??)?;
        equal!(claimed.id, id, "the task");
        Ok(())
    })
}

pub(super) fn a_wait_for_a_task_ends(subject: &Subject) -> Outcome {
    let queue = queue(subject, 0)?;
    let began = Instant::now();
    let none = queue.next(&terms("a", LONG, Wait::For(A_MOMENT)), |_, _| Ok(true))?;
    ensure!(none.is_none(), "an empty queue has a task");
    let took = began.elapsed();
    ensure!(took >= A_MOMENT && took < PATIENCE, "a wait of {A_MOMENT:?} took {took:?}");
    let cancel = Cancel::new();
    let mut options = terms("a", LONG, Wait::Forever);
    options.cancel = Some(cancel.clone());
    thread::scope(|scope| {
        let (answer, answered) = mpsc::channel();
        let queue = &queue;
        scope.spawn(move || drop(answer.send(queue.next(&options, |_, _| Ok(true)))));
        let early = answered.recv_timeout(A_MOMENT);
        cancel.cancel();
        ensure!(early.is_err(), "a wait ended before it was cancelled: {early:?}");
        let ended = answered.recv_timeout(PATIENCE);
        let ended = ended.map_err(|_| Failure::new("a cancelled wait goes on"))?;
        refused(ended, ErrorKind::Cancelled, "a cancelled wait")?;
        Ok(())
    })
}

pub(super) fn a_task_with_an_id_is_added_once(subject: &Subject) -> Outcome {
    let (one, other) = (queue(subject, 0)?, queue(subject, 1)?);
    let mut named = plain();
    named.id = Some("build a".to_owned());
    ensure!(one.add(&json!(1), &named)?.new, "a new task was there");
    ensure!(!other.add(&json!(2), &named)?.new, "a task was added twice");
    let claimed = must(next(&one, "a")?)?;
    named.write = at_once();
    ensure!(!other.add(&json!(2), &named)?.new, "a claimed task was added again");
    one.done(&claimed.id, &claimed.token)?;
    ensure!(!other.add(&json!(2), &named)?.new, "a task that is done was added again");
    equal!(claimed.task, json!(1), "the task");
    for wrong in ["", &"x".repeat(500)] {
        named.id = Some(wrong.to_owned());
        refused(one.add(&json!(1), &named), ErrorKind::Invalid, "an id that cannot be a name")?;
    }
    Ok(())
}

pub(super) fn a_filter_chooses_tasks(subject: &Subject) -> Outcome {
    let queue = queue(subject, 0)?;
    for kind in ["a", "b", "a"] {
        add(&queue, &json!({ "kind": kind }))?;
    }
    let options = terms("a", LONG, Wait::No);
    let claimed = queue.next(&options, |_, task| Ok(task["kind"] == "b"))?;
    equal!(must(claimed)?.task["kind"], json!("b"), "the task");
    let none = queue.next(&options, |_, task| Ok(task["kind"] == "b"))?;
    ensure!(none.is_none(), "a task that was claimed");
    let stop = tenure::Error::new(ErrorKind::Invalid, "choose", "stop");
    let mut stop = Some(stop);
    let failed = queue.next(&options, |_, _| stop.take().map_or(Ok(false), Err));
    refused(failed, ErrorKind::Invalid, "a filter that fails")?;
    Ok(())
}

pub(super) fn a_claim_guards_other_writes(subject: &Subject) -> Outcome {
    let queue = queue(subject, 0)?;
    add(&queue, &json!({}))?;
    let claimed = must(next(&queue, "a")?)?;
    let result = subject.document(1, "result")?;
    result.set(&json!(1), &guarded(claimed.target.clone(), claimed.fence))?;
    queue.fail(&claimed.id, &claimed.token, &FailOptions::default())?;
    let late = result.set(&json!(2), &guarded(claimed.target.clone(), claimed.fence));
    refused(late, ErrorKind::Fenced, "a write under a claim that has ended")?;
    Ok(())
}

pub(super) fn documents_that_are_no_tasks_hide_none(subject: &Subject) -> Outcome {
    let queue = queue(subject, 0)?;
    let others =
        Collection::on(subject.handle(1), subject.name("queue"), CollectionKind::Documents)?;
    for (key, value) in [
        ("0", json!(7)),
        ("00000000000000-00000000", json!({ "state": "odd", "task": 1 })),
        ("1", json!({ "state": "open", "task": 1, "attempts": -1, "added_us": "x" })),
    ] {
        others.document(key)?.set(&value, &at_once())?;
    }
    let id = add(&queue, &json!({}))?;
    equal!(must(next(&queue, "a")?)?.id, id, "the task");
    ensure!(next(&queue, "a")?.is_none(), "a document that is no task was given out");
    let damaged = states(&queue)?.iter().filter(|state| **state == TaskState::Damaged).count();
    equal!(damaged, 3, "documents that are no tasks");
    Ok(())
}
