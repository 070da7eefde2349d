//! The version of a document that a handle knew last, as a value: reading it again is a comparison.
//!
//! # Invariants
//!
//! 1. It is used only if all bytes on the disk are the same. Nothing is concluded from times, sizes
//!    or numbers.
//! 2. No caller waits for it. One that finds it in use (by another thread, or the other side of a fork) parses.

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::json::Value;

/// A larger document is parsed each time: a handle must not hold that much memory.
const BYTES_MAX: usize = 1024 * 1024;

/// Bytes, and what they say.
type Known = (Vec<u8>, Value);

/// Shared by the copies of a handle.
#[derive(Clone, Default)]
pub(super) struct Memory {
    last: Arc<Mutex<Option<Known>>>,
}

impl Memory {
    /// Takes the value of these bytes out, if it is known. The caller gives the current one back
    /// with [`Self::keep`].
    pub(super) fn recall(&self, bytes: &[u8]) -> Option<Value> {
        let mut last = self.last.try_lock().ok()?;
        let (_, value) = last.take_if(|(known, _)| known == bytes)?;
        Some(value)
    }

    pub(super) fn keep(&self, bytes: Vec<u8>, value: Value) {
        if bytes.len() > BYTES_MAX {
            return;
        }
        let forgotten = match self.last.try_lock() {
            Ok(mut last) => last.replace((bytes, value)),
            Err(_) => None,
        };
        drop(forgotten); // With the lock released.
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Memory") // The document itself is nothing for a log.
    }
}
