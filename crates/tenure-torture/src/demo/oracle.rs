//! How a violation is counted, without any part of the protocols.
//!
//! # Invariants
//!
//! 1. Lost: a key that its process acknowledged, and that is missing from the document once all
//!    processes are dead. The keys of a document that cannot be read are not counted as lost in
//!    addition.
//! 2. Torn: a plain reader, polling all the time, got something that is not JSON. The same bad
//!    bytes twice in a row count once, so a file that stays broken is not counted for ever.
//! 3. Double: a process got the lock, and found another live process inside (see `claim`).
//! 4. Corrupt: at the end of a round, when no process is left to repair it, the file is not JSON.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use tenure_shipped::state;

/// Between two reads. The reader shares two cores with the processes it watches.
const PAUSE: Duration = Duration::from_micros(100);

/// What was counted in the rounds of one race.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) rounds: u64,
    /// Operations that were acknowledged.
    pub(super) finished: u64,
    /// Operations that failed and said so: no promise, so no violation.
    pub(super) refused: u64,
    /// Why the first of them failed.
    pub(super) complaint: Option<String>,
    pub(super) kills: u64,
    pub(super) reads: u64,
    pub(super) lost: u64,
    pub(super) torn: u64,
    pub(super) double: u64,
    pub(super) corrupt: u64,
}

impl Tally {
    /// Everything that a protocol must never do.
    pub(super) fn violations(&self) -> u64 {
        self.lost + self.torn + self.double + self.corrupt
    }

    /// The final check of a round's document: which of the promised keys are there?
    pub(super) fn judge(&mut self, document: &Path, promised: &[String]) {
        self.rounds += 1;
        match state::read(document) {
            Err(_) => self.corrupt += 1,
            Ok(document) => {
                let kept: HashSet<&str> = state::keys(&document).collect();
                let missing = promised.iter().filter(|key| !kept.contains(key.as_str()));
                self.lost += missing.count() as u64;
            }
        }
    }
}

/// A plain reader that polls the document until it is asked what it saw.
#[derive(Debug)]
pub(super) struct Reader {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Seen>>,
}

/// What a reader saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) reads: u64,
    pub(super) torn: u64,
}

impl Reader {
    /// Starts to read.
    pub(super) fn start(document: PathBuf) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("reader".to_owned())
            .spawn(move || read_until(&asked, &document))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Stops and returns what it saw.
    pub(super) fn finish(mut self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn read_until(stop: &AtomicBool, document: &Path) -> Seen {
    let mut seen = Seen::default();
    let mut last_bad: Option<Vec<u8>> = None;
    while !stop.load(Ordering::Relaxed) {
        // A missing file is another protocol's way to say "none yet"; only bytes can be torn.
        if let Ok(bytes) = fs::read(document) {
            seen.reads += 1;
            if serde_json::from_slice::<Value>(&bytes).is_ok() {
                last_bad = None;
            } else if last_bad.as_ref() != Some(&bytes) {
                seen.torn += 1;
                last_bad = Some(bytes);
            }
        }
        thread::sleep(PAUSE);
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn a_missing_promise_is_lost_and_a_broken_file_is_corrupt() {
        let directory = super::super::scratch::Scratch::new().expect("a scratch directory");
        let document = directory.path().join("state.json");
        let promised = ["a".to_owned(), "b".to_owned()];
        let mut tally = Tally::default();

        std::fs::write(&document, r#"{"checked":["b","unpromised"]}"#).expect("written");
        tally.judge(&document, &promised);
        assert_eq!((tally.rounds, tally.lost, tally.corrupt), (1, 1, 0));

        std::fs::write(&document, r#"{"checked":["a","#).expect("written");
        tally.judge(&document, &promised);
        assert_eq!((tally.rounds, tally.lost, tally.corrupt), (2, 1, 1));
        assert_eq!(tally.violations(), 2);
    }
}
