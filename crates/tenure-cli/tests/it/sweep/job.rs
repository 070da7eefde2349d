//! The commands that are swept, and what can be seen of them on the disk.

use std::path::Path;

use serde_json::Value;

use super::strace::{Ended, tenure};

/// A command on a prepared directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    /// Commands that come first.
    pub(super) prepare: &'static [&'static [&'static str]],
    /// What is done to the directory after that by others.
    pub(super) tamper: fn(&Path),
    /// The command.
    pub(super) args: &'static [&'static str],
    pub(super) subject: Subject,
    /// What this machine never does: `call:error=NAME` for strace.
    pub(super) lacks: Option<&'static str>,
}

/// What the command works on; it decides what is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// `d.json`
    Document,
    /// `j.jsonl`, which a plain reader may see growing.
    Journal,
    /// `j.jsonl`, whose file is replaced whole.
    Replaced,
    /// `j.jsonl`, which becomes `j.jsonl.1`; between two renames it has a temporary name.
    Rotated,
    /// `t`
    Lease,
    /// `t`, and a command that has exit codes of its own.
    Run,
}

/// What everybody sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    /// With `cat`.
    pub(super) plain: String,
    /// With tenure.
    pub(super) ours: String,
}

impl Job {
    /// Makes `dir` anew, as it is before the command.
    pub(super) fn set_up(&self, dir: &Path) {
        if dir.exists() {
            std::fs::remove_dir_all(dir).unwrap();
        }
        std::fs::create_dir(dir).unwrap();
        for command in self.prepare {
            let ended = tenure(dir, command);
            assert_eq!(ended.code, Some(0), "{ended:?}");
        }
        (self.tamper)(dir);
    }

    /// Runs the command without a fault.
    pub(super) fn run(&self, dir: &Path) -> Ended {
        tenure(dir, self.args)
    }

    /// Changes what the command works on in another way.
    pub(super) fn change(&self, dir: &Path) {
        let args: &[&str] = match self.subject {
            Subject::Document => &["doc", "set", "d.json", "\"changed\""],
            // This needs every kind of temporary file.
            Subject::Journal | Subject::Replaced | Subject::Rotated => {
                &["journal", "append", "j.jsonl", "changed", "--header", "changed"]
            }
            Subject::Lease | Subject::Run => return,
        };
        let ended = tenure(dir, args);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }

    /// What can be seen now.
    pub(super) fn view(&self, dir: &Path) -> View {
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        let (plain, args): (_, &[&str]) = match self.subject {
            Subject::Document => (read("d.json"), &["doc", "get", "--compact", "d.json"]),
            Subject::Journal | Subject::Replaced | Subject::Rotated => {
                let rotated = ["j.jsonl.1", ".tenure/j.jsonl.tmp.0000000000000002"].map(read);
                let kept =
                    if self.subject == Subject::Rotated { rotated.concat() } else { String::new() };
                (kept + &read("j.jsonl"), &["journal", "read", "j.jsonl", "--json"])
            }
            Subject::Lease | Subject::Run => (String::new(), &["lease", "show", "t", "--json"]),
        };
        let seen = tenure(dir, args);
        let missing = plain.is_empty() && self.subject != Subject::Document;
        let told = match self.subject {
            Subject::Lease | Subject::Run => {
                let lease: Value = serde_json::from_str(&seen.stdout).unwrap();
                // Fences, clocks and process numbers differ from run to run.
                format!("leased: {}, for: {}", lease["leased"], lease["ttl_ms"])
            }
            Subject::Journal | Subject::Replaced | Subject::Rotated => lines(&seen.stdout),
            Subject::Document => seen.stdout,
        };
        // No journal and an empty one have the same entries.
        let code = seen.code.filter(|code| *code != 1 || !missing).unwrap_or(0);
        View { plain, ours: format!("exit {code}: {told}") }
    }

    /// Whether `now` is what a command that was cut short may leave to a plain reader.
    pub(super) fn plain_is_whole(&self, now: &str, old: &str, new: &str) -> bool {
        let growing = self.subject == Subject::Journal;
        now == old || now == new || (growing && now.starts_with(old) && new.starts_with(now))
    }

    /// Whether a command may end like this.
    pub(super) fn is_documented(&self, code: i32) -> bool {
        // The command of `run` may itself be hit by the fault.
        let command = self.subject == Subject::Run && [126, 127, 137].contains(&code);
        command || [0, 1, 2, 3, 4, 5, 6, 75].contains(&code)
    }
}

/// The lines of a journal. Their numbers grow; a journal from elsewhere gets larger ones.
fn lines(entries: &str) -> String {
    let mut last = 0;
    let mut lines = String::new();
    for entry in entries.lines() {
        let entry: Value = serde_json::from_str(entry).unwrap();
        let number = entry["seq"].as_u64().unwrap();
        assert!(number > last, "entry {number} after {last}");
        last = number;
        lines += entry["line"].as_str().unwrap();
        lines.push('\n');
    }
    lines
}
