//! The hooks: each takes a payload and returns an answer.
//!
//! Trouble is returned, not answered. The caller decides whether it blocks.

pub mod edit;
pub mod gate;
pub mod log;
pub mod mcp;
pub mod session;
