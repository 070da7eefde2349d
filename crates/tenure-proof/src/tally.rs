//! Records what a test of a ring tried, for the table in `docs/RELIABILITY.md`.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use serde_json::json;

use crate::form::Form;

/// The directory for the records; nothing is written without it.
const RECORD: &str = "TENURE_PROOF_RECORD";

/// What one test tried. Written when it is dropped, unless the test failed.
#[derive(Debug)]
pub struct Tally {
    ring: &'static str,
    test: String,
    /// The test function, by the thread that it runs on.
    by: Option<String>,
    tried: Vec<(u64, String)>,
    caught: Vec<String>,
    start: Instant,
}

impl Tally {
    /// For `test` in `ring`.
    pub fn new(ring: &'static str, test: &str) -> Self {
        let (start, test) = (Instant::now(), test.to_owned());
        let by = std::thread::current().name().map(str::to_owned);
        Self { ring, test, by, tried: Vec::new(), caught: Vec::new(), start }
    }

    /// This many cases of something were tried: `tried(6_306, "system calls with a fault")`.
    pub fn tried(&mut self, cases: u64, what: &str) {
        match self.tried.iter_mut().find(|(_, known)| known == what) {
            Some((sum, _)) => *sum += cases,
            None => self.tried.push((cases, what.to_owned())),
        }
    }

    /// How many cases were tried so far.
    pub fn cases(&self) -> u64 {
        self.tried.iter().map(|(cases, _)| cases).sum()
    }

    /// How many cases of this were tried so far.
    pub fn cases_of(&self, what: &str) -> u64 {
        self.tried.iter().find(|(_, known)| known == what).map_or(0, |(cases, _)| *cases)
    }

    /// This deliberate fault, or this known-bad protocol, was detected.
    pub fn caught(&mut self, fault: &str) {
        if !self.caught.iter().any(|known| known == fault) {
            self.caught.push(fault.to_owned());
        }
    }

    fn line(&self) -> String {
        let tried = self.tried.iter().map(|(cases, what)| json!({ "cases": cases, "what": what }));
        let line = json!({
            "ring": self.ring,
            "test": self.test,
            "by": self.by,
            "form": Form::asked().pick("quick", "long"),
            "tried": tried.collect::<Vec<_>>(),
            "caught": self.caught,
            "seconds": self.start.elapsed().as_secs_f64(),
        });
        format!("{line}\n")
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let Some(directory) = std::env::var_os(RECORD) else { return };
        if std::thread::panicking() {
            return;
        }
        let path = Path::new(&directory).join(format!("{}.jsonl", self.ring));
        let file = OpenOptions::new().create(true).append(true).open(&path);
        // One write per line: the tests of a ring run side by side.
        let written = file.and_then(|mut file| file.write_all(self.line().as_bytes()));
        written.unwrap_or_else(|err| panic!("{}: {err}", path.display()));
    }
}
