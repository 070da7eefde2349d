//! Protocols that real tools shipped, re-implemented from their described behaviour. They are wrong
//! on purpose: `tenure demo` races them, and the tests use them as controls. A test that a
//! known-bad protocol passes proves nothing.
//!
//! # Invariants
//!
//! 1. A protocol does what its system does, in that order. Where a time had to be scaled for a race
//!    of seconds, the constant says from what and why.
//! 2. When in doubt the protocol gets the benefit: a rule that does not matter here is left out or
//!    made safe, never made worse.
//! 3. Returning `Ok` from [`Document::add`], from [`Log::append`], or from [`Lock::leave`] after
//!    the work, is the promise that a protocol is held to.
//! 4. A protocol has one [weak moment](Meanwhile). Only what happens then decides the outcome.

#![expect(clippy::disallowed_methods, reason = "the shipped protocols do exactly this")]

mod dice;
mod meanwhile;
mod os;

pub mod documents;
pub mod locks;
pub mod logs;
pub mod state;

use std::io;

pub use self::dice::Dice;
pub use self::meanwhile::Meanwhile;
pub use self::os::open_alone;

/// A way to add a key to a document that others change too.
pub trait Document {
    /// Adds `key`. `Ok` promises that the key is in the document and stays there.
    fn add(&mut self, key: &str) -> io::Result<()>;
}

/// A way to get exclusive access.
pub trait Lock {
    /// Waits for access. `Ok` promises that no other process has it.
    fn enter(&mut self) -> io::Result<()>;

    /// Ends the access.
    fn leave(&mut self) -> io::Result<()>;
}

/// A way to add a line to a file that others append to as well.
pub trait Log {
    /// Appends `line`. `Ok` promises that the line is in the file, whole, and stays there.
    fn append(&mut self, line: &str) -> io::Result<()>;
}
