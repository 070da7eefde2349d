//! The command line end to end: real processes, exit codes, and output as a caller sees them.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bench;
mod collection;
mod doc;
mod doctor;
mod examples;
mod fields;
mod help;
mod hints;
mod hold;
mod journal;
mod lease;
mod measure;
mod missing;
mod run;
mod start;
mod terminal;
mod torture;
mod torture_command;
mod torture_verdicts;
mod unheard;
mod who;
