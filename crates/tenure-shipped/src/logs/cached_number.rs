//! carl's sequence numbers: counted when the file is opened, and in memory from then on.
//!
//! Two processes count the same file and give the same numbers to different records.

use std::fs;
use std::io;
use std::path::Path;

use super::PlainAppend;

/// A log that numbers its records `{"seq":N,"text":...}`.
#[derive(Debug)]
pub struct CachedNumber {
    log: PlainAppend,
    next: usize,
}

impl CachedNumber {
    /// The log in `directory`.
    pub fn open(directory: &Path) -> Self {
        let lines = fs::read_to_string(super::path(directory)).unwrap_or_default();
        Self { log: PlainAppend::open(directory), next: lines.lines().count() + 1 }
    }
}

impl crate::Log for CachedNumber {
    fn append(&mut self, line: &str) -> io::Result<()> {
        let record = serde_json::json!({ "seq": self.next, "text": line });
        self.next += 1;
        self.log.append(&record.to_string())
    }
}
