//! What a hook answers, in the form that Claude Code and Codex read.
//!
//! # Invariants
//!
//! 1. To stay out of the way is to print nothing: `allow` would skip the question that the user wants to be
//!    asked. The one exception is asked for by an option, for the tools of tenure's own server.
//! 2. An answer has no keys but those that both agents know: Codex refuses others.
//! 3. Trouble is never a denial, unless the caller is strict.

use std::fmt;

use tenure::{Value, json};

/// What the agent is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// As it intended.
    Pass,
    /// Not use the tool, for this reason.
    Deny(String),
    /// Take notice of this after the tool was used.
    Report(String),
    /// Use the tool with this input instead.
    Input {
        /// The whole input.
        input: Value,
        /// Without asking the user; Codex takes another input only with that.
        allow: bool,
    },
}

impl Answer {
    /// What is printed; nothing to stay out of the way.
    pub fn text(&self) -> Option<String> {
        let answer = match self {
            Self::Pass => return None,
            Self::Deny(reason) => json!({ "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": reason,
            }}),
            Self::Report(reason) => json!({ "decision": "block", "reason": reason }),
            Self::Input { input, allow } => {
                let mut output = json!({ "hookEventName": "PreToolUse", "updatedInput": input });
                if *allow {
                    output["permissionDecision"] = "allow".into();
                }
                json!({ "hookSpecificOutput": output })
            }
        };
        Some(answer.to_string())
    }
}

/// Why a hook could not do its work.
#[derive(Debug)]
pub enum Trouble {
    /// The input is not understood: of a newer version, or no payload at all.
    Input(String),
    /// The state could not be read or kept.
    State(tenure::Error),
}

impl Trouble {
    /// What the agent prints for its user: nothing for an input that was not understood, which may come with
    /// each call.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::Input(_) => None,
            Self::State(_) => {
                Some(json!({ "systemMessage": format!("tenure: {self}") }).to_string())
            }
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(why) => f.write_str(why),
            Self::State(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Trouble {}

impl From<tenure::Error> for Trouble {
    fn from(error: tenure::Error) -> Self {
        Self::State(error)
    }
}
