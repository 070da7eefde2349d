//! `tenure hook edit`: before a tool edits a file, its agent reserves it; another agent is denied.
//!
//! # Invariants
//!
//! 1. An agent is denied only what another agent has reserved, and the denial names that agent, what for,
//!    until when, and what to do.
//! 2. A file outside of every repository and of the project passes.
//! 3. The edit itself is not fenced: the agent writes with its own tool. So after the edit the reservation is
//!    checked, and a loss is reported.

use std::time::Duration;

use tenure::embed::printable;

use crate::agent::Agent;
use crate::answer::{Answer, Trouble};
use crate::clock;
use crate::payload::{Event, Payload};
use crate::place::Place;
use crate::reservations::{Held, Reservations, ReserveOptions, Reserved, Standing, What};

/// How many holders a denial names.
const NAMED_MAX: usize = 3;

/// How the hook works.
#[derive(Debug, Clone)]
pub struct EditOptions {
    /// How long a file stays reserved without a further edit of its agent.
    pub ttl: Duration,
}

/// Answers one call.
pub fn run(payload: &Payload<'_>, options: &EditOptions) -> Result<Answer, Trouble> {
    let event = payload.event();
    if event == Event::Other {
        let name = payload.event_name().unwrap_or_default();
        return Err(Trouble::Input(format!("the event `{}` is unknown", printable(&name))));
    }
    if !matches!(event, Event::PreToolUse | Event::PostToolUse) {
        return Ok(Answer::Pass);
    }
    if payload.names_no_file() {
        let tool = payload.tool().unwrap_or_default();
        let detail = format!("the input of `{}` names no file", printable(&tool));
        return Err(Trouble::Input(detail));
    }
    let wanted = places(payload)?;
    if wanted.is_empty() {
        return Ok(Answer::Pass);
    }
    let agent = payload.agent().ok_or_else(|| {
        Trouble::Input("the payload has no session_id: agents cannot be distinguished".to_owned())
    })?;
    if event == Event::PreToolUse {
        before(payload, &agent, &wanted, options)
    } else {
        after(&agent, &wanted)
    }
}

/// The edited files by their places.
fn places(payload: &Payload<'_>) -> Result<Vec<(Place, Vec<What>)>, Trouble> {
    let files = payload.edited_files();
    let (base, project) = (payload.base(), payload.project());
    let mut places: Vec<(Place, Vec<What>)> = Vec::new();
    for file in &files {
        let Some((place, name)) = Place::of_file(&base.join(file), &project)? else { continue };
        match places.iter_mut().find(|(known, _)| known.store() == place.store()) {
            Some((_, names)) => names.push(What::Path(name)),
            None => places.push((place, vec![What::Path(name)])),
        }
    }
    Ok(places)
}

fn before(
    payload: &Payload<'_>,
    agent: &Agent,
    wanted: &[(Place, Vec<What>)],
    options: &EditOptions,
) -> Result<Answer, Trouble> {
    let purpose = payload.tool().unwrap_or_default().into_owned();
    let reserve = ReserveOptions { ttl: options.ttl, purpose, ends_with_turn: true };
    for (place, names) in wanted {
        let reservations = Reservations::open(place)?;
        if let Reserved::Held(held) = reservations.reserve(agent, names, &reserve)? {
            return Ok(Answer::Deny(denial(agent, names, &held)));
        }
    }
    Ok(Answer::Pass)
}

fn after(agent: &Agent, wanted: &[(Place, Vec<What>)]) -> Result<Answer, Trouble> {
    let mut lost = Vec::new();
    for (place, names) in wanted {
        let reservations = Reservations::open(place)?;
        for name in names {
            if let Standing::Lost(holder) = reservations.standing(agent, name)? {
                lost.push(loss(name, holder.as_deref()));
            }
        }
    }
    Ok(if lost.is_empty() { Answer::Pass } else { Answer::Report(lost.join(" ")) })
}

/// What the denied agent reads.
fn denial(agent: &Agent, wanted: &[What], held: &[Held]) -> String {
    let holders = held.iter().take(NAMED_MAX).map(|each| format!("{}. ", sentence(agent, each)));
    let mut text: String = holders.collect();
    if held.len() > NAMED_MAX {
        text.push_str("More of these files are held. ");
    }
    text +=
        if wanted.len() > 1 { "None of the files was changed. " } else { "It was not changed. " };
    text += "Next: work on other files and try this edit again later, or wait for the release (the tenure \
             MCP server has a tool for that); read the file again before you edit it. Do not write it by a \
             shell command.";
    text
}

/// `src/a.rs is held by ...`.
pub fn sentence(agent: &Agent, held: &Held) -> String {
    let holder = Agent::from_name(&held.agent);
    let own = holder.as_ref().is_some_and(|holder| holder.is_of_session(agent));
    let kind = match (own, held.agent.contains('/')) {
        (true, true) => "another subagent of this session",
        (true, false) => "the main agent of this session",
        (false, true) => "a subagent of another session",
        (false, false) => "the agent of another session",
    };
    let purpose = match printable(held.purpose.trim()) {
        purpose if purpose.is_empty() => String::new(),
        purpose => format!(" for \"{purpose}\""),
    };
    let until_us = clock::now_us().saturating_add(us(held.expires_in));
    let ends = if held.ends_with_turn {
        "or until its turn ends; its further edits extend it"
    } else {
        "or until it is released"
    };
    format!(
        "{} is held by {kind} ({}){purpose} since {}, until {} (in {}) {ends}",
        printable(held.what.text()),
        printable(&held.agent),
        clock::time_of_day(held.since_us),
        clock::time_of_day(until_us),
        clock::span(held.expires_in),
    )
}

/// What an agent reads whose reservation was lost before its edit was done.
fn loss(name: &What, holder: Option<&Held>) -> String {
    let by = match holder {
        Some(held) => format!(", and agent {} holds it now", printable(&held.agent)),
        None => String::new(),
    };
    format!(
        "The reservation of {} was lost before this edit was done{by}: another agent may have changed \
         the file at the same time. Next: read the file again and check that both changes are in it.",
        printable(name.text()),
    )
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
