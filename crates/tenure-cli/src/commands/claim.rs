//! `tenure claim`: a queue of tasks.

use std::path::Path;
use std::time::Duration;

use tenure::options::Durability;
use tenure::queue::{AddOptions, ClaimOptions, Claimed, FailOptions, Queue, Task};
use tenure::{Value, WriteOptions, embed, json};

use super::collection::require;
use super::{input, token};
use crate::args::{
    ClaimAddArgs, ClaimCommand, ClaimFailArgs, ClaimFlags, ClaimListArgs, ClaimNextArgs,
    ClaimPruneArgs, ClaimRenewArgs,
};
use crate::clock;
use crate::environment;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::filter::{is_true, with_room};
use crate::output::{Layout, Output};
use crate::place::here;

pub(super) fn run(command: &ClaimCommand, out: &mut Output) -> Result<ExitCode> {
    match command {
        ClaimCommand::Add(args) => add(args, out)?,
        ClaimCommand::Next(args) if args.filter.is_none() => return next(args, out),
        ClaimCommand::Next(args) => return with_room(out.is_json(), || next(args, out)),
        ClaimCommand::Done(args) => done(&args.claim, out)?,
        ClaimCommand::Fail(args) => fail(args, out)?,
        ClaimCommand::Renew(args) => renew(args, out)?,
        ClaimCommand::List(args) => list(args, out)?,
        ClaimCommand::Prune(args) => prune(args, out)?,
    }
    Ok(ExitCode::Done)
}

fn add(args: &ClaimAddArgs, out: &mut Output) -> Result<()> {
    let task = input::json(&args.task)?;
    let durability = if args.no_sync { Durability::NoSync } else { Durability::Durable };
    let write = WriteOptions { wait: args.wait.get()?, durability, ..WriteOptions::default() };
    let options = AddOptions { id: args.id.clone(), max_attempts: args.max_attempts, write };
    let added = Queue::on(&here().store(), &args.queue)?.add(&task, &options)?;
    out.committed();
    out.result(|| json!({ "id": added.id, "new": added.new }), || embed::printable(&added.id))
}

fn next(args: &ClaimNextArgs, out: &mut Output) -> Result<ExitCode> {
    if args.wait == tenure::Wait::No {
        require(&args.queue, "claim a task of")?;
    }
    let filter = args.filter.as_ref().map(|code| input::filter(code, &args.named)).transpose()?;
    let queue = Queue::on(&here().store(), &args.queue)?;
    let options = ClaimOptions {
        owner: args.owner.clone().unwrap_or_else(environment::user),
        ttl: args.ttl,
        wait: args.wait,
        cancel: None,
    };
    let mut refused = None;
    let claimed = queue.next(&options, |_, task| {
        let Some(filter) = &filter else { return Ok(true) };
        match filter.run(task) {
            Ok(results) => Ok(results.last().is_some_and(is_true)),
            // A filter that fails on one task does not fit it.
            Err(failure) => {
                refused = Some(failure);
                Ok(false)
            }
        }
    })?;
    let Some(claimed) = claimed else {
        if let Some(message) = refused.and_then(|failure| failure.message()) {
            out.warn(&format!("the filter failed on a task, which was skipped: {message}"));
        }
        return Ok(ExitCode::NotMet);
    };
    let printed = out.value(&fields(&claimed), Layout::Compact).and_then(|()| out.flush());
    printed.map_err(|failure| {
        // No worker has its token.
        let _ = queue.fail(&claimed.id, &claimed.token, &FailOptions::default());
        failure
            .of_a_token(false, "its token could not be printed, so the task is back in the queue")
    })?;
    Ok(ExitCode::Done)
}

fn fields(claimed: &Claimed) -> Value {
    json!({
        "id": claimed.id,
        "task": claimed.task,
        "target": claimed.target.to_string_lossy(),
        "token": claimed.token,
        "fence": claimed.fence,
        "attempt": claimed.attempt,
        "ttl_ms": milliseconds(claimed.ttl),
    })
}

/// The queue of a claim, and its token.
fn claim_of(flags: &ClaimFlags) -> Result<(Queue, String)> {
    require(&flags.queue, "use the queue")?;
    let queue = Queue::on(&here().store(), &flags.queue)?;
    let token = token::required(&flags.token, Path::new(&flags.id))?;
    Ok((queue, token))
}

fn done(flags: &ClaimFlags, out: &mut Output) -> Result<()> {
    let (queue, token) = claim_of(flags)?;
    let new = queue.done(&flags.id, &token)?;
    out.committed();
    out.result(|| json!({ "done": true, "replayed": !new }), String::new)
}

fn fail(args: &ClaimFailArgs, out: &mut Output) -> Result<()> {
    let (queue, token) = claim_of(&args.claim)?;
    let options = FailOptions {
        delay: args.delay,
        max_attempts: args.max_attempts,
        reason: args.reason.clone(),
    };
    let state = queue.fail(&args.claim.id, &token, &options)?;
    out.committed();
    out.result(|| json!({ "state": state.name() }), || state.name().to_owned())
}

fn renew(args: &ClaimRenewArgs, out: &mut Output) -> Result<()> {
    let (queue, token) = claim_of(&args.claim)?;
    let leased = queue.renew(&args.claim.id, &token, args.ttl)?;
    out.committed();
    let object = || json!({ "fence": leased.fence, "ttl_ms": milliseconds(leased.ttl) });
    out.result(object, String::new)
}

fn list(args: &ClaimListArgs, out: &mut Output) -> Result<()> {
    require(&args.queue, "list the queue")?;
    let tasks = Queue::on(&here().store(), &args.queue)?.list()?;
    if !out.is_json() {
        return tasks.iter().try_for_each(|task| out.line(&line(task)));
    }
    let object = |task: &Task| {
        json!({
            "id": task.id,
            "task": task.task,
            "state": task.state.name(),
            "attempts": task.attempts,
            "added_us": task.added_us,
            "owner": task.owner,
            "left_ms": task.left.map(milliseconds),
            "reason": task.reason,
        })
    };
    let tasks: Value = tasks.iter().map(object).collect();
    out.value(&json!({ "tasks": tasks }), Layout::Compact)
}

/// One task for people.
fn line(task: &Task) -> String {
    let owner = task.owner.iter().map(|owner| format!(" by {owner}"));
    let left = task.left.iter().map(|left| format!(", {} left", clock::short(*left)));
    let reason = task.reason.iter().map(|reason| format!(" ({reason})"));
    let details: String = owner.chain(left).chain(reason).collect();
    let (state, attempts) = (task.state.name(), task.attempts);
    embed::printable(&format!("{}  {state}  {attempts}{details}  {}", task.id, task.task))
}

fn prune(args: &ClaimPruneArgs, out: &mut Output) -> Result<()> {
    require(&args.queue, "prune the queue")?;
    let options = WriteOptions { wait: args.wait.get()?, ..WriteOptions::default() };
    let removed = Queue::on(&here().store(), &args.queue)?.prune(args.max_age, &options)?;
    out.committed();
    let lines = || removed.iter().map(|id| embed::printable(id)).collect::<Vec<_>>().join("\n");
    out.result(|| json!({ "removed": removed }), lines)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
