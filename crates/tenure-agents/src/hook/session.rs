//! `tenure hook session`: what the end of a turn, a subagent or a session means for reservations.
//!
//! # Invariants
//!
//! 1. Nothing depends on these events: an agent that dies, or whose hook is cut short, loses its reservations
//!    when their time is over. Claude Code gives the hooks of SessionEnd about a second and a half.
//! 2. An event of one agent never ends a reservation of another session.

use crate::answer::{Answer, Trouble};
use crate::payload::{Event, Payload};
use crate::place::Place;
use crate::reservations::Reservations;

/// What ends the reservation of a file that was edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Until {
    /// The end of the agent's turn.
    #[default]
    Turn,
    /// The end of its session.
    Session,
}

/// Answers one call: always by staying out of the way.
pub fn run(payload: &Payload<'_>, until: Until) -> Result<Answer, Trouble> {
    let event = payload.event();
    if event == Event::Stop && until == Until::Session {
        return Ok(Answer::Pass);
    }
    let Some(agent) = payload.agent() else { return Ok(Answer::Pass) };
    let reservations = Reservations::open(&Place::of_directory(&payload.project())?)?;
    match event {
        Event::SessionStart => reservations.tidy()?,
        Event::Stop => reservations.end_turn(&agent)?,
        // Without its own id the agent would be the main one, which goes on.
        Event::SubagentStop if agent.is_subagent() => drop(reservations.end_agent(&agent)?),
        Event::SessionEnd => reservations.end_session(&agent)?,
        _ => {}
    }
    Ok(Answer::Pass)
}
