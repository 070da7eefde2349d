//! `tenure hook mcp`: names the calling agent to tenure's MCP server.
//!
//! A call of a tool carries no session id. This hook adds it to the input, so that what an agent reserves
//! through the server is its own when it edits. Without the hook the server cannot distinguish agents.
//!
//! # Invariants
//!
//! 1. Only tools of the named server are changed, and only by one argument: the digits of numbers and the order
//!    of keys stay. What the model wrote in that argument is replaced: an agent cannot call itself another.

use crate::answer::{Answer, Trouble};
use crate::payload::{Event, Payload};

/// The argument that names the agent, as [`crate::agent::Agent::name`] writes it.
pub const AGENT_ARGUMENT: &str = "agent";

/// Answers one call. `allow` skips the question to the user, which Codex requires for another input.
pub fn run(payload: &Payload<'_>, server: &str, allow: bool) -> Result<Answer, Trouble> {
    let tool = payload.tool().unwrap_or_default();
    if payload.event() != Event::PreToolUse || !is_of_server(&tool, server) {
        return Ok(Answer::Pass);
    }
    let (Some(agent), Some(input)) = (payload.agent(), payload.input()) else {
        return Err(Trouble::Input("the payload has no session_id or no tool_input".to_owned()));
    };
    let parsed = tenure::json::parse(input.get().as_bytes());
    let mut input = parsed.map_err(|err| Trouble::Input(format!("tool_input: {err}")))?;
    let Some(arguments) = input.as_object_mut() else {
        return Err(Trouble::Input("tool_input: it is not an object".to_owned()));
    };
    arguments.insert(AGENT_ARGUMENT, agent.name());
    Ok(Answer::Input { input, allow })
}

/// `mcp__SERVER__tool`; a plugin puts its own name before the server's.
fn is_of_server(tool: &str, server: &str) -> bool {
    let name = tool.strip_prefix("mcp__").and_then(|rest| rest.split("__").next());
    name.is_some_and(|name| {
        name == server || name.strip_suffix(server).is_some_and(|plugin| plugin.ends_with('_'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(tool: &str, input: &str) -> Result<Answer, Trouble> {
        let json = format!(
            r#"{{"hook_event_name":"PreToolUse","session_id":"s","agent_id":"a","tool_name":"{tool}","tool_input":{input}}}"#
        );
        run(&Payload::parse(json.as_bytes()).unwrap(), "tenure", false)
    }

    #[test]
    fn the_server_learns_which_agent_calls() {
        for tool in ["mcp__tenure__reserve", "mcp__plugin_tenure_tenure__reserve"] {
            let input =
                r#"{"z":["a"],"agent":"another","big":123456789012345678901234567890.10,"a":1}"#;
            let text = answer(tool, input).unwrap().text().unwrap();
            let expected = input.replace("another", "s/a");
            assert!(text.contains(&expected) && !text.contains("allow"), "{text}");
        }
    }

    #[test]
    fn other_tools_are_left_alone() {
        for tool in ["mcp__other__reserve", "mcp__nottenure__x", "Edit", "tenure", "mcp__"] {
            assert_eq!(answer(tool, "{}").unwrap(), Answer::Pass, "{tool}");
        }
        assert!(answer("mcp__tenure__reserve", "[]").is_err());
    }
}
