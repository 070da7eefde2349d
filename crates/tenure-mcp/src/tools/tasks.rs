//! A shared board of tasks: each is given to one agent at a time, and completed once.

use std::time::Duration;

use tenure::queue::{AddOptions, ClaimOptions, FailOptions, Queue, Task};
use tenure::{Result, Value, WriteOptions, json};

use super::{Call, Tool};
use crate::arguments::wrong;

/// Long enough for a piece of work, short enough if its agent dies.
const TTL: Duration = Duration::from_secs(600);
/// A longer list helps no model.
const LISTED_MAX: usize = 200;

const QUEUE: (&str, &str, bool, &str) =
    ("queue", "string", true, "The directory of the tasks, relative to the project's root");
const ID: (&str, &str, bool, &str) = ("id", "string", true, "The id of the task");
const TOKEN: (&str, &str, bool, &str) =
    ("token", "string", true, "The token of your claim, as claim_task returned it");
const TTL_ARGUMENT: (&str, &str, bool, &str) =
    ("ttl_seconds", "number", false, "How long the claim lasts without a renewal; 600 if left out");
const AGENT: (&str, &str, bool, &str) = super::AGENT;

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "add_task",
        title: "Add a task",
        description: "Adds a task to a shared queue. With an id it is added once, however often you call this.",
        reads: false,
        arguments: &[
            QUEUE,
            ("task", "any", true, "What is to be done: any JSON"),
            (
                "id",
                "string",
                false,
                "If there is a task with this id, done or not, nothing is added",
            ),
            ("max_attempts", "number", false, "Set it aside after this many failed attempts"),
            AGENT,
        ],
        run: add,
    },
    Tool {
        name: "claim_task",
        title: "Claim a task",
        description: "Claims the oldest open task for you alone. Call finish_task when it is done or failed, and \
                      renew_task before the claim expires: an expired claim goes back to the queue.",
        reads: false,
        arguments: &[
            QUEUE,
            TTL_ARGUMENT,
            ("wait_seconds", "number", false, "How long to wait for a task; 0 if it is left out"),
            AGENT,
        ],
        run: claim,
    },
    Tool {
        name: "finish_task",
        title: "Finish a claimed task",
        description: "Reports that your claimed task is done or failed. A failed one goes back to the queue, or is set \
                      aside after its last attempt.",
        reads: false,
        arguments: &[
            QUEUE,
            ID,
            TOKEN,
            ("outcome", "string", true, "done or failed"),
            ("reason", "string", false, "Why it failed; others see it"),
            ("retry_after_seconds", "number", false, "How long a failed task is not offered again"),
            AGENT,
        ],
        run: finish,
    },
    Tool {
        name: "renew_task",
        title: "Renew the claim of a task",
        description: "Extends your claim from now. If the claim was lost, stop: another agent may have the task.",
        reads: false,
        arguments: &[QUEUE, ID, TOKEN, TTL_ARGUMENT, AGENT],
        run: renew,
    },
    Tool {
        name: "list_tasks",
        title: "List tasks",
        description: "Lists open, delayed and claimed tasks of a queue, the oldest first, and who has them.",
        reads: true,
        arguments: &[
            QUEUE,
            ("finished", "boolean", false, "List those that are done or set aside, too"),
            AGENT,
        ],
        run: list,
    },
];

fn queue(call: Call<'_>) -> Result<Queue> {
    call.context.root.queue(call.arguments.text("queue")?)
}

fn add(call: Call<'_>) -> Result<Value> {
    let task = call.arguments.required("task")?;
    let options = AddOptions {
        id: call.arguments.optional_text("id")?.map(str::to_owned),
        max_attempts: call.arguments.number("max_attempts")?,
        write: WriteOptions { cancel: Some(call.cancel.clone()), ..WriteOptions::default() },
    };
    let added = queue(call)?.add(task, &options)?;
    Ok(json!({ "id": added.id, "new": added.new }))
}

fn claim(call: Call<'_>) -> Result<Value> {
    let (agent, note) = call.agent()?;
    let options = ClaimOptions {
        owner: agent.name().to_owned(),
        ttl: ttl(call)?.unwrap_or(TTL),
        wait: call.arguments.wait(Duration::ZERO)?,
        cancel: Some(call.cancel.clone()),
    };
    let Some(claimed) = queue(call)?.next(&options, |_, _| Ok(true))? else {
        let next = "No task is open. Do something else, or wait for one with wait_seconds.";
        return Ok(json!({ "claimed": false, "next": next, "note": note }));
    };
    Ok(json!({
        "claimed": true,
        "id": claimed.id,
        "task": claimed.task,
        "token": claimed.token,
        "attempt": claimed.attempt,
        "expires_in_seconds": claimed.ttl.as_secs(),
        "fence": claimed.fence,
        "guard": claimed.target.to_string_lossy(),
        "note": note,
    }))
}

/// Gives back a claim. Its attempt counts: the queue has no claim without one.
pub(super) fn give_back(call: Call<'_>, claimed: &Value) {
    let (Some(id), Some(token)) = (claimed["id"].as_str(), claimed["token"].as_str()) else {
        return; // There was no task.
    };
    let reason = Some("the call that claimed it was cancelled".to_owned());
    let options = FailOptions { reason, ..FailOptions::default() };
    // If it fails the claim expires.
    let _ = queue(call).and_then(|queue| queue.fail(id, token, &options));
}

fn finish(call: Call<'_>) -> Result<Value> {
    let (id, token) = (call.arguments.text("id")?, call.arguments.text("token")?);
    let queue = queue(call)?;
    let state = match call.arguments.text("outcome")? {
        "done" => {
            queue.done(id, token)?;
            "done"
        }
        "failed" => {
            let options = FailOptions {
                delay: call.arguments.seconds("retry_after_seconds", Duration::ZERO)?,
                max_attempts: None,
                reason: call.arguments.optional_text("reason")?.map(str::to_owned),
            };
            queue.fail(id, token, &options)?.name()
        }
        _ => return Err(wrong("outcome", "must be done or failed")),
    };
    Ok(json!({ "id": id, "state": state }))
}

fn renew(call: Call<'_>) -> Result<Value> {
    let (id, token) = (call.arguments.text("id")?, call.arguments.text("token")?);
    let renewed = queue(call)?.renew(id, token, ttl(call)?)?;
    Ok(json!({ "id": id, "expires_in_seconds": renewed.ttl.as_secs() }))
}

fn list(call: Call<'_>) -> Result<Value> {
    let finished = call.arguments.flag("finished")?;
    let mut tasks = queue(call)?.list()?;
    tasks.retain(|task| finished || !task.state.is_over());
    let shown = tasks.iter().take(LISTED_MAX).map(shown).collect::<Value>();
    Ok(json!({ "tasks": shown, "left_out": tasks.len().saturating_sub(LISTED_MAX) as u64 }))
}

fn shown(task: &Task) -> Value {
    json!({
        "id": task.id,
        "task": task.task,
        "state": task.state.name(),
        "attempts": task.attempts,
        "owner": task.owner,
        "seconds_left": task.left.map(|left| left.as_secs()),
        "reason": task.reason,
    })
}

/// How long a claim is to last, if it is said.
fn ttl(call: Call<'_>) -> Result<Option<Duration>> {
    let ttl = call.arguments.seconds("ttl_seconds", Duration::ZERO)?;
    match call.arguments.value("ttl_seconds") {
        None => Ok(None),
        Some(_) if ttl.is_zero() => Err(wrong("ttl_seconds", "must be more than 0")),
        Some(_) => Ok(Some(ttl)),
    }
}
