//! The command line end to end: real processes, exit codes, and output as a caller sees them.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bench;
mod collection;
mod doc;
mod doctor;
mod examples;
mod fields;
mod filter;
mod help;
mod hints;
mod history;
mod hold;
mod journal;
mod lab;
mod lease;
mod leases;
mod missing;
mod run;
mod start;
mod terminal;
mod torture;
mod unheard;
mod who;

/// The program under test.
const TENURE: &str = env!("CARGO_BIN_EXE_tenure");
