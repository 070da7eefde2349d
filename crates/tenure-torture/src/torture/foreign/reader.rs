//! A plain reader: opens the file and reads it, like any other program, all the time.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::program::Program;
use crate::torture::finding::{Fault, Finding, Thing};

/// This many are recorded one by one.
const MOST: usize = 1000;

/// What a reader saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) reads: u64,
    pub(super) findings: Vec<Finding>,
}

/// Reads until the end. The same bad bytes twice in a row count once.
pub(super) fn read_until(over: &AtomicBool, program: &Program, file: &Path) -> Seen {
    let mut seen = Seen::default();
    let mut last: Option<Vec<u8>> = None;
    while !over.load(Ordering::Relaxed) && seen.findings.len() < MOST {
        let (bytes, wrong) = match fs::read(file) {
            Ok(bytes) => {
                let wrong = program.torn(&bytes);
                (bytes, wrong)
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                (Vec::new(), Some("the file was not there".to_owned()))
            }
            Err(err) => (Vec::new(), Some(err.to_string())),
        };
        seen.reads += 1;
        match wrong {
            None => last = None,
            Some(why) if last.as_ref() != Some(&bytes) => {
                seen.findings.push(Finding::new(Thing::Command, Fault::Torn, why));
                last = Some(bytes);
            }
            Some(_) => {}
        }
        // The reader shares the cores with the runs it watches.
        std::thread::yield_now();
    }
    seen
}
