//! Integration tests through the public API, one module per concept.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod journal;
mod journal_crash;
