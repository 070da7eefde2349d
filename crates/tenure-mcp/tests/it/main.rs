//! Tests of the server as a client sees it: lines in, lines out.
#![expect(clippy::disallowed_methods, reason = "files that other tools left")]

mod client;
mod confinement;
mod conversation;
mod reservations;
mod tasks;
