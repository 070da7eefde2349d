//! Files that agents reserve: the same reservations that `tenure hook edit` enforces.

use std::time::Duration;

use tenure::{Error, ErrorKind, Result, Value, json};
use tenure_agents::agent::Agent;
use tenure_agents::hook::edit::sentence;
use tenure_agents::reservations::{Held, Reservations, ReserveOptions, Reserved, What};

use super::{Call, Tool};
use crate::arguments::wrong;

/// Long enough for a piece of work, short enough if its agent dies.
const TTL: Duration = Duration::from_secs(600);
/// A shorter time would be over before the agent's next step.
const TTL_MIN: Duration = Duration::from_secs(5);

const PATHS: (&str, &str, bool, &str) = (
    "paths",
    "strings",
    true,
    "Files, directories or patterns such as src/**/*.rs, relative to the project's root",
);
const AGENT: (&str, &str, bool, &str) = super::AGENT;

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "reserve_files",
        title: "Reserve files",
        description: "Reserves files or patterns for you before you edit them: all of them or none. Other agents' edits \
                      of them are denied until you release them or the time is over. Say why: others see it.",
        reads: false,
        arguments: &[
            PATHS,
            ("reason", "string", true, "What you are going to do with them; other agents see it"),
            ("ttl_seconds", "number", false, "How long, from 5 to 3600; 600 if it is left out"),
            (
                "wait_seconds",
                "number",
                false,
                "How long to wait for other agents; 0 if it is left out",
            ),
            AGENT,
        ],
        run: reserve,
    },
    Tool {
        name: "release_files",
        title: "Release files",
        description: "Releases what you have reserved: these paths, or everything if paths is left out.",
        reads: false,
        arguments: &[
            ("paths", "strings", false, "As they were reserved; everything if it is left out"),
            AGENT,
        ],
        run: release,
    },
    Tool {
        name: "who_holds",
        title: "Who holds what",
        description: "Lists which agent has reserved which files, what for, and until when.",
        reads: true,
        arguments: &[
            ("paths", "strings", false, "Only what overlaps these; everything if it is left out"),
            AGENT,
        ],
        run: who,
    },
    Tool {
        name: "wait_for_release",
        title: "Wait for a release",
        description: "Waits until no other agent has any of these paths. It reserves nothing: call reserve_files then.",
        reads: true,
        arguments: &[
            PATHS,
            ("wait_seconds", "number", false, "How long, at most 3600; 60 if it is left out"),
            AGENT,
        ],
        run: wait,
    },
];

fn open(call: Call<'_>) -> Result<Reservations> {
    Reservations::open(call.context.place()?)
}

/// What the paths name.
fn parse(call: Call<'_>) -> Result<Vec<What>> {
    let place = call.context.place()?;
    let mut names = Vec::new();
    for path in call.arguments.texts("paths")? {
        names.extend(What::parse(path, place)?);
    }
    Ok(names)
}

fn required(call: Call<'_>) -> Result<Vec<What>> {
    let names = parse(call)?;
    if names.is_empty() {
        return Err(wrong("paths", "must name at least one file"));
    }
    Ok(names)
}

fn reserve(call: Call<'_>) -> Result<Value> {
    let (agent, note) = call.agent()?;
    let names = required(call)?;
    let ttl = call.arguments.seconds("ttl_seconds", TTL)?;
    if ttl < TTL_MIN {
        return Err(wrong("ttl_seconds", "must be at least 5"));
    }
    let purpose = call.arguments.text("reason")?.to_owned();
    let options = ReserveOptions { ttl, purpose, ends_with_turn: false };
    let reservations = open(call)?;
    let deadline = call.deadline(Duration::ZERO)?;
    loop {
        let held = match reservations.reserve(&agent, &names, &options)? {
            Reserved::Granted { fence, guard, expires_in } => {
                let guard = guard.to_string_lossy();
                return Ok(json!({
                    "reserved": names.iter().map(What::text).collect::<Value>(),
                    "expires_in_seconds": expires_in.as_secs(),
                    "fence": fence, "guard": guard, "note": note,
                }));
            }
            Reserved::Held(held) => held,
        };
        let left = deadline.left();
        if left.is_zero() {
            return Err(busy(&agent, &held));
        }
        // Another agent may be faster once it is free: then this one waits again.
        reservations.wait(&agent, &names, tenure::Wait::For(left), Some(call.cancel))?;
    }
}

fn busy(agent: &Agent, held: &[Held]) -> Error {
    let holders: Vec<_> = held.iter().take(5).map(|held| sentence(agent, held)).collect();
    let detail = format!("nothing was reserved. {}", holders.join(". "));
    Error::new(ErrorKind::Busy, "reserve", detail)
}

fn release(call: Call<'_>) -> Result<Value> {
    let (agent, _) = call.agent()?;
    let (reservations, names) = (open(call)?, parse(call)?);
    let mine = |held: &Held| held.agent == agent.name();
    let before = reservations.who(None)?.iter().filter(|held| mine(held)).count();
    let released = if names.is_empty() {
        reservations.end_agent(&agent)?;
        before
    } else {
        reservations.release(&agent, &names)?
    };
    Ok(json!({ "released": released }))
}

fn who(call: Call<'_>) -> Result<Value> {
    let (agent, note) = call.agent()?;
    let names = parse(call)?;
    let mut held = open(call)?.who(None)?;
    held.retain(|held| names.is_empty() || names.iter().any(|name| name.overlaps(&held.what)));
    Ok(
        json!({ "held": held.iter().map(|held| shown(&agent, held)).collect::<Value>(), "note": note }),
    )
}

fn wait(call: Call<'_>) -> Result<Value> {
    let (agent, _) = call.agent()?;
    let left = call.deadline(Duration::from_secs(60))?.left();
    let names = required(call)?;
    let held = open(call)?.wait(&agent, &names, tenure::Wait::For(left), Some(call.cancel))?;
    let still = held.iter().map(|held| shown(&agent, held)).collect::<Value>();
    Ok(json!({ "free": held.is_empty(), "held": still }))
}

fn shown(agent: &Agent, held: &Held) -> Value {
    json!({
        "path": held.what.text(),
        "agent": held.agent,
        "yours": held.agent == agent.name(),
        "reason": held.purpose,
        "expires_in_seconds": held.expires_in.as_secs(),
        "text": sentence(agent, held),
    })
}
