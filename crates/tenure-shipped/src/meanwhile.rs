//! The weak moment of a protocol: if others act in it, the protocol breaks its promise.
//!
//! In a race that happens only by chance. A test runs the action of the others at that moment, so
//! the bad order of events happens every time.

use std::fmt;

/// What others do at a protocol's weak moment, once.
#[derive(Default)]
pub struct Meanwhile {
    others: Option<Box<dyn FnOnce()>>,
}

impl Meanwhile {
    /// At the next weak moment, runs `others`.
    pub fn is(&mut self, others: impl FnOnce() + 'static) {
        self.others = Some(Box::new(others));
    }

    /// The weak moment is now.
    pub(crate) fn now(&mut self) {
        if let Some(others) = self.others.take() {
            others();
        }
    }
}

impl fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meanwhile").field("planned", &self.others.is_some()).finish()
    }
}
