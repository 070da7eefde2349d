//! How long each ring took, for the end of `cargo xtask test`: so that people see where the time goes.
//!
//! Every test of a ring records how long it took, if a directory for that is set
//! (`tenure_proof::Tally`).

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::reliability::RINGS;
use crate::target_dir;

/// What names the directory for the records.
const VARIABLE: &str = "TENURE_PROOF_RECORD";

/// The directory, for as long as a run takes.
#[derive(Debug)]
pub(crate) struct RingTimes {
    dir: PathBuf,
}

impl RingTimes {
    /// Of this run: the process number keeps apart those that run side by side, or within each other.
    pub(crate) fn new() -> Self {
        Self { dir: target_dir().join(format!("ring-times-{}", std::process::id())) }
    }

    /// Lets the tests of `command` write to it.
    pub(crate) fn collect(&self, command: &mut Command) -> Result<(), String> {
        std::fs::create_dir_all(&self.dir)
            .map_err(|err| format!("cannot make {}: {err}", self.dir.display()))?;
        command.env(VARIABLE, &self.dir);
        Ok(())
    }

    /// The rings that were run, the longest first; nothing if there were none.
    pub(crate) fn told(&self) -> Option<String> {
        let record = |ring| std::fs::read_to_string(self.dir.join(format!("{ring}.jsonl"))).ok();
        let rings = RINGS.iter().filter_map(|ring| Some((ring.name, seconds(&record(ring.name)?))));
        summary(rings.collect())
    }
}

impl Drop for RingTimes {
    fn drop(&mut self) {
        // Nothing is there if no test was run.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The sum of a record.
fn seconds(record: &str) -> f64 {
    let lines = record.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter_map(|line| line["seconds"].as_f64()).sum()
}

fn summary(mut rings: Vec<(&str, f64)>) -> Option<String> {
    rings.sort_by(|one, other| other.1.total_cmp(&one.1));
    let rings: Vec<String> =
        rings.iter().map(|(ring, seconds)| format!("{ring} {seconds:.0}")).collect();
    let told = || format!("seconds of tests, of which several run at a time: {}", rings.join(", "));
    (!rings.is_empty()).then(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_ring_comes_first() {
        assert_eq!(summary(Vec::new()), None);
        let record = "{\"seconds\":1.5}\n{\"seconds\":2}\nnot a record\n";
        let told = summary(vec![("models", seconds(record)), ("torture", 40.2)]);
        let told = told.unwrap_or_default();
        assert!(told.ends_with("at a time: torture 40, models 4"), "{told}");
    }
}
