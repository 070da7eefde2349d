//! How many swaps of each kind were made; prints the counts on request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;

/// The counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    made: Arc<Mutex<BTreeMap<String, u64>>>,
    over: Arc<AtomicBool>,
}

impl Counts {
    /// From now on answers each line of the input in a thread; the end of the input ends the work.
    pub(crate) fn answering() -> Self {
        let counts = Self::default();
        let told = counts.clone();
        std::thread::spawn(move || {
            for _ in std::io::stdin().lines().map_while(Result::ok) {
                println!("{}", told.line());
            }
            told.over.store(true, Ordering::SeqCst);
        });
        counts
    }

    /// Whether the input has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Counts one more swap of this kind at this place: `("sidecar", "a pipe")`.
    pub(crate) fn add(&self, place: &str, what: &str) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        *made.entry(format!("{place}: {what}")).or_default() += 1;
    }

    fn line(&self) -> String {
        json!(*self.made.lock().unwrap_or_else(PoisonError::into_inner)).to_string()
    }
}
