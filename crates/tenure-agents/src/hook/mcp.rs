//! `tenure hook mcp`: names the calling agent to tenure's MCP server.
//!
//! A call of a tool carries no session id. This hook adds it to the input, so that what an agent reserves
//! through the server is its own when it edits. Without the hook the server cannot distinguish agents.
//!
//! # Invariants
//!
//! 1. Only tools of the named server are changed, and only by one argument. What the model wrote there is
//!    replaced: an agent cannot call itself another.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

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
    let parsed = serde_json::from_str::<BTreeMap<String, &RawValue>>(input.get());
    let mut arguments = parsed.map_err(|err| Trouble::Input(format!("tool_input: {err}")))?;
    let name = serde_json::value::to_raw_value(agent.name());
    let name = name.map_err(|err| Trouble::Input(err.to_string()))?;
    arguments.insert(AGENT_ARGUMENT.to_owned(), &name);
    let input = serde_json::to_value(&arguments);
    let input = input.map_err(|err| Trouble::Input(format!("tool_input: {err}")))?;
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
    use serde_json::json;

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
            let input = r#"{"paths":["a"],"agent":"another","big":12345678901234567890}"#;
            let Answer::Input { input, allow } = answer(tool, input).unwrap() else {
                panic!("{tool}")
            };
            let expected =
                json!({ "paths": ["a"], "agent": "s/a", "big": 12_345_678_901_234_567_890_u64 });
            assert_eq!((input, allow), (expected, false));
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
