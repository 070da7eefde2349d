//! Files that agents reserve: the same reservations that `tenure hook edit` enforces.

use std::path::Path;
use std::time::Duration;

use tenure::{Error, ErrorKind, Result, Value, json};
use tenure_agents::agent::Agent;
use tenure_agents::hook::edit::sentence;
use tenure_agents::place::Place;
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
    let (place, directory) = (call.context.place()?, &call.context.directory);
    let mut names = Vec::new();
    for path in call.arguments.texts("paths")? {
        names.extend(What::parse(path, place, directory)?);
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
    let wait = call.arguments.wait(Duration::ZERO)?;
    match open(call)?.reserve_when_free(&agent, &names, &options, wait, Some(call.cancel))? {
        Reserved::Granted { fence, guard, expires_in } => Ok(json!({
            "reserved": names.iter().map(|name| call.context.shown(name)).collect::<Value>(),
            "expires_in_seconds": expires_in.as_secs(),
            "fence": fence, "guard": guard.to_string_lossy(), "note": note,
        })),
        Reserved::Held(held) => Err(busy(&agent, "reserve", "nothing was reserved", &held)),
    }
}

fn busy(agent: &Agent, action: &'static str, outcome: &str, held: &[Held]) -> Error {
    let holders: Vec<_> = held.iter().take(5).map(|held| sentence(agent, held)).collect();
    Error::new(ErrorKind::Busy, action, format!("{outcome}. {}", holders.join(". ")))
}

/// Refuses to write a file that another agent has reserved, as `hook edit` does. Targets of other stores are no files.
pub(super) fn refuse_reserved(call: Call<'_>, file: &Path) -> Result<()> {
    if !call.context.root.store.capabilities().files {
        return Ok(());
    }
    let Some((place, name)) = Place::of_file(file, &call.context.directory)? else { return Ok(()) };
    let (agent, _) = call.agent()?;
    let held = Reservations::open(&place)?.others(&agent, &[What::Path(name)])?;
    if held.is_empty() {
        return Ok(());
    }
    Err(busy(&agent, "write", "nothing was changed", &held))
}

fn release(call: Call<'_>) -> Result<Value> {
    let (agent, _) = call.agent()?;
    let (reservations, names) = (open(call)?, parse(call)?);
    let released = if names.is_empty() {
        reservations.end_agent(&agent)?
    } else {
        reservations.release(&agent, &names)?
    };
    Ok(json!({ "released": released }))
}

fn who(call: Call<'_>) -> Result<Value> {
    let (agent, note) = call.agent()?;
    let held = open(call)?.who(&parse(call)?)?;
    let held = held.iter().map(|held| shown(call, &agent, held)).collect::<Value>();
    Ok(json!({ "held": held, "note": note }))
}

fn wait(call: Call<'_>) -> Result<Value> {
    let (agent, _) = call.agent()?;
    let wait = call.arguments.wait(Duration::from_secs(60))?;
    let held = open(call)?.wait(&agent, &required(call)?, wait, Some(call.cancel))?;
    let still = held.iter().map(|held| shown(call, &agent, held)).collect::<Value>();
    Ok(json!({ "free": held.is_empty(), "held": still }))
}

fn shown(call: Call<'_>, agent: &Agent, held: &Held) -> Value {
    json!({
        "path": call.context.shown(&held.what),
        "agent": held.agent,
        "yours": held.agent == agent.name(),
        "reason": held.purpose,
        "expires_in_seconds": held.expires_in.as_secs(),
        "text": sentence(agent, held),
    })
}
