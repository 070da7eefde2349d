//! A Model Context Protocol server over standard input and output: `tenure mcp`.
//!
//! Agents reserve files, claim tasks, and share documents and journals through tools that are named for what they do.
//!
//! Reading order: [`protocol`] (messages, both generations), [`server`] (the loop, threads, cancellation), `root` (no
//! path leaves it), `tools` (one table, one file for each noun), `resources`.
//!
//! Why no SDK: the official one brings 60 crates and 1.8 MB, and an asynchronous runtime for calls that block in the
//! kernel. The part of the protocol that a server over standard input needs is this crate's `protocol` and `server`.

mod arguments;
pub mod protocol;
mod resources;
mod root;
pub mod server;
mod tools;

pub use self::server::{Options, serve};
