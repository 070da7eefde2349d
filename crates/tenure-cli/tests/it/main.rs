//! The command line end to end: real processes, exit codes, and output as a caller sees them.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bench;
mod claim;
mod collection;
mod doc;
mod doctor;
mod examples;
mod fields;
mod file;
mod filter;
mod help;
mod hints;
mod history;
mod hold;
mod hook_cost;
mod hook_edit;
mod hook_gate;
mod hook_input;
mod hook_stage;
mod init;
mod journal;
mod lab;
mod lease;
mod leases;
mod mcp;
mod missing;
mod once;
mod recipes;
mod run;
mod several;
mod slots;
mod start;
#[cfg(target_os = "linux")]
mod store_commands;
#[cfg(target_os = "linux")]
mod store_copy;
#[cfg(target_os = "linux")]
mod store_run;
#[cfg(target_os = "linux")]
mod store_urls;
#[cfg(target_os = "linux")]
mod stores;
mod terminal;
mod torture;
mod unheard;
mod who;

/// The program under test.
const TENURE: &str = env!("CARGO_BIN_EXE_tenure");
