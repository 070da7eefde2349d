//! Tenure, except for a lock that panics: in the final check, or in a worker after some operations.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Answer, Hold, Subject, Tenure};
use crate::torture::panics::LAST_LOOK;

/// This many locks succeed.
const FINE: u64 = 20;

static LOCKS: AtomicU64 = AtomicU64::new(0);

/// Whether it panics in the final check.
#[derive(Debug)]
pub(in super::super) struct Panicking(pub(super) bool);

impl Subject for Panicking {
    fn lock(&self, path: &Path, shared: bool) -> Answer<Hold> {
        let looks = std::thread::current().name() == Some(LAST_LOOK);
        let late = !looks && LOCKS.fetch_add(1, Ordering::Relaxed) >= FINE;
        assert!(if self.0 { !looks } else { !late }, "on purpose");
        Tenure::lock(path, shared)
    }
}
