//! Coding agents that share a repository: which agent edits which file, and the hooks that enforce it.
//!
//! Reading order: [`agent`] and [`place`] (who, and where), [`pattern`], [`reservations`] (the heart),
//! [`payload`] and [`answer`] (what an agent sends and gets), then the hooks in [`hook`].
//! `settings` and [`install`] plug them into the settings of an agent.
//!
//! The command `tenure hook` and the server `tenure mcp` both use [`reservations`], so that what an agent
//! reserved through one is its own for the other.

pub mod agent;
pub mod answer;
mod clock;
mod digest;
pub mod hook;
pub mod install;
pub mod pattern;
pub mod payload;
pub mod place;
pub mod reservations;
pub mod settings;
pub mod settings_file;
