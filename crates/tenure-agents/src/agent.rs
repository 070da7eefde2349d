//! Which agent acts: its session, and its own id if it is a subagent.
//!
//! # Invariants
//!
//! 1. Agents with different ids have different names. `/` separates the session from the subagent. An id that is
//!    too long for a part of a name, or has `/` or what cannot be printed in it, becomes a digest of itself.
//! 2. A name is one printable line of at most 160 bytes: it is shown to other agents and to people.

use std::fmt;

use crate::digest;

/// A longer part becomes a digest of itself.
const PART_BYTES_MAX: usize = 72;

/// An agent that edits files: the main agent of a session, or a subagent of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Agent {
    name: String,
}

impl Agent {
    /// The agent with this session id, and this id of its own if it is a subagent. `None` without a
    /// session: such an agent cannot be distinguished from others.
    pub fn new(session: &str, subagent: Option<&str>) -> Option<Self> {
        let session = part(session)?;
        let name = match subagent.and_then(part) {
            Some(subagent) => format!("{session}/{subagent}"),
            None => session,
        };
        Some(Self { name })
    }

    /// The agent with this [name](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        match name.split_once('/') {
            Some((session, subagent)) => Self::new(session, Some(subagent)),
            None => Self::new(name, None),
        }
    }

    /// `SESSION`, or `SESSION/SUBAGENT`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The session.
    pub fn session(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// Whether `other` belongs to the same session.
    pub fn is_of_session(&self, other: &Self) -> bool {
        self.session() == other.session()
    }

    /// Whether this is a subagent.
    pub fn is_subagent(&self) -> bool {
        self.name.contains('/')
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A session id or agent id as a part of a name; `None` if it is blank.
fn part(id: &str) -> Option<String> {
    let id = id.trim();
    let is_plain = id.len() <= PART_BYTES_MAX
        && id.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    let name = || if is_plain { id.to_owned() } else { format!("id-{}", digest::short(id)) };
    (!id.is_empty()).then(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subagent_is_another_agent_of_the_same_session() {
        let main = Agent::new("s1", None).unwrap();
        let sub = Agent::new("s1", Some("a7")).unwrap();
        assert_ne!(main, sub);
        assert!(main.is_of_session(&sub) && sub.is_subagent() && !main.is_subagent());
        assert_eq!(Agent::from_name(sub.name()), Some(sub));
    }

    #[test]
    fn no_id_imitates_another() {
        assert_ne!(Agent::new("s1/a7", None), Agent::new("s1", Some("a7")));
        assert_ne!(Agent::new("a/b", None), Agent::new("a_b", None));
        assert_ne!(Agent::new("a b", None), Agent::new("a\nb", None));
        let hostile = Agent::new("../../etc\n\u{202e}x", None).unwrap();
        assert!(hostile.name().starts_with("id-") && hostile.name().is_ascii(), "{hostile}");
        assert_eq!(Agent::from_name(hostile.name()), Some(hostile));
        assert_eq!(Agent::new(" ", None), None);
        assert_eq!(Agent::new("s", Some(" ")), Agent::new("s", None));
    }

    #[test]
    fn long_ids_stay_different() {
        let (a, b) = ("x".repeat(5000) + "a", "x".repeat(5000) + "b");
        let (a, b) = (Agent::new(&a, Some(&b)).unwrap(), Agent::new(&b, Some(&a)).unwrap());
        assert_ne!(a, b);
        assert!(a.name().len() <= 160);
    }
}
