//! One run of `tenure torture` in a directory of its own.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// The output of a run, and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) exit: Option<i32>,
    pub(crate) verdict: Value,
    stderr: String,
    /// Where it was.
    dir: TempDir,
}

/// Runs it to its end, in the directory for temporary files.
pub(crate) fn torture(words: &[&str]) -> Ran {
    torture_in(&std::env::temp_dir(), words)
}

/// Runs it to its end.
pub(crate) fn torture_in(place: &Path, words: &[&str]) -> Ran {
    let dir = tempfile::tempdir_in(place).expect("a directory");
    let mut command = Command::new(tenure_proof::tenure());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TENURE_") {
            command.env_remove(name);
        }
    }
    command.args(["torture", "--json"]).arg(dir.path()).args(words);
    let output = command.output().expect("tenure can be started");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let verdict = serde_json::from_slice(&output.stdout).unwrap_or_else(|err| {
        panic!("{err}: {} {stderr}", String::from_utf8_lossy(&output.stdout))
    });
    Ran { exit: output.status.code(), verdict, stderr, dir }
}

impl Ran {
    /// Nothing was found.
    #[track_caller]
    pub(crate) fn clean(self) -> Self {
        let Self { exit, verdict, stderr, dir } = self;
        if exit != Some(0) || !stderr.is_empty() || verdict["found"] != 0 {
            let kept = dir.keep();
            panic!("exit {exit:?}, see {}: {stderr}\n{verdict:#}", kept.display());
        }
        Self { exit, verdict, stderr, dir }
    }

    /// This was found, at least once.
    #[track_caller]
    pub(crate) fn found(&self, thing: &str, fault: &str) {
        assert_eq!(self.exit, Some(5), "{:#}", self.verdict);
        assert!(self.has(thing, fault), "no {fault} of {thing} in {:#}", self.verdict);
    }

    /// Whether this was found.
    pub(crate) fn has(&self, thing: &str, fault: &str) -> bool {
        self.told_of(thing)["found"][fault].as_u64().is_some_and(|count| count > 0)
    }

    /// Whether nothing else was found.
    pub(crate) fn findings_are(&self, thing: &str, fault: &str) -> bool {
        let findings = self.verdict["findings"].as_array().expect("findings");
        findings.iter().all(|finding| finding["thing"] == thing && finding["fault"] == fault)
    }

    /// Whether the final check was complete.
    pub(crate) fn is_judged(&self, thing: &str) -> bool {
        self.told_of(thing)["judged"] == true
    }

    pub(crate) fn number(&self, name: &str) -> u64 {
        self.verdict[name].as_u64().unwrap_or_else(|| panic!("no {name} in {:#}", self.verdict))
    }

    /// The acknowledged operations of one thing.
    pub(crate) fn operations(&self, thing: &str) -> u64 {
        self.told_of(thing)["operations"].as_u64().unwrap_or(0)
    }

    fn told_of(&self, thing: &str) -> &Value {
        let things = self.verdict["things"].as_array().expect("things");
        things.iter().find(|one| one["thing"] == thing).unwrap_or(&Value::Null)
    }
}
