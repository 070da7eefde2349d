//! Security: whole processes against other users of the same directory. Links, pipes and
//! directories in place of files, swapped while others work; hostile sidecars; keys that leave
//! their directory; odd umasks.
//!
//! Tenure never writes through a symlink, never widens permissions, never hangs, uses bounded
//! memory, and a holder whose lock was removed gets an error.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a panic is how a test fails")]

mod controls;
mod keys;
mod modes;
mod owners;
mod place;
mod planted;
mod replaced;
mod rights;
mod swaps;

/// The name of this ring.
const RING: &str = "security";
