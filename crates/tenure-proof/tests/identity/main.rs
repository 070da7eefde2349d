//! Identity and time: reused process numbers, namespaces, containers, clocks that jump, other
//! boots. None of it decides who holds a lock, and leases end when they should.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bench;
mod boots;
mod clocks;
mod containers;
mod controls;
mod expiry;
mod jumps;
mod recycled;
mod verbs;
mod volumes;
mod wall;

/// The name of this ring.
const RING: &str = "identity";
