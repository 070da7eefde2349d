//! Ring 9: the same suite on every file system that this kernel can mount.
//!
//! Each test is one file system; what it tried is one row of the table in `docs/PLATFORM.md`, which is
//! made from the records of this ring. What a file system cannot give must be refused (G12).

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is how a test fails, and it says what it saw"
)]

mod controls;
mod layered;
mod liar;
mod plain;
mod processes;
mod read_only;
mod suite;

/// The name of this ring.
const RING: &str = "file_systems";
