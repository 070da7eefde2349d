//! The weak moment of a protocol: what others do just then decides what becomes of its promise.
//!
//! In a race the moment passes by itself, and now and then somebody meets it. A test gives what the
//! others do instead, and so has the bad order of events every time.

use std::fmt;

/// What others do at a protocol's weak moment, once.
#[derive(Default)]
pub struct Meanwhile {
    others: Option<Box<dyn FnOnce()>>,
}

impl Meanwhile {
    /// At the next weak moment, `others` happens.
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
