//! `tenure-lab` end to end: what it finds, what it leaves, and how it ends.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../../tenure-cli/tests/it/bench.rs"]
#[expect(dead_code, reason = "the tests of the command use the rest of it")]
mod bench;
mod bench_command;
mod hints;
mod loads;
mod torture_command;
#[cfg(target_os = "linux")]
mod torture_store;
mod torture_verdicts;

/// The program under test. It is called as `tenure` calls it.
const TENURE: &str = env!("CARGO_BIN_EXE_tenure-lab");
