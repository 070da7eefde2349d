//! The commands that are swept, and their visible effect on the disk.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tenure_proof::bounded::{self, Ended};
use tenure_proof::strace;

/// A command on a prepared directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    /// `tenure` commands that come first.
    pub(crate) prepare: &'static [&'static [&'static str]],
    /// What others do to the directory after that.
    pub(crate) tamper: fn(&Path),
    pub(crate) program: Program,
    pub(crate) args: &'static [&'static str],
    pub(crate) subject: Subject,
    /// A line that another tool left unterminated at the end of the journal.
    pub(crate) open_line: Option<&'static str>,
    /// Calls that always fail on this machine: `call:error=NAME` for strace.
    pub(crate) lacks: Option<&'static str>,
}

/// Which program the command is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// The command line.
    Tenure,
    /// Calls of the library that have no command, and broken writers.
    Subject,
}

impl Program {
    pub(crate) fn path(self) -> &'static Path {
        match self {
            Self::Tenure => tenure_proof::tenure(),
            Self::Subject => Path::new(env!("CARGO_BIN_EXE_subject")),
        }
    }
}

/// What the command works on; it decides what is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
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
    /// `d.json`, and then `j.jsonl`.
    Both,
    /// The documents in `c/`, one after the other.
    Collection,
}

/// What readers see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    /// With `cat`.
    pub(crate) plain: String,
    /// With tenure.
    pub(crate) ours: String,
}

/// Between the two parts of [`Subject::Both`].
const PARTS: char = '\x1f';

/// Runs `tenure` in `dir` to its end.
pub(crate) fn tenure(dir: &Path, args: &[&str]) -> Ended {
    let mut command = Command::new(Program::Tenure.path());
    command.args(args).current_dir(dir);
    bounded::run(command)
}

impl Job {
    /// Makes `dir` anew, as it is before the command.
    pub(crate) fn set_up(&self, dir: &Path) {
        if dir.exists() {
            std::fs::remove_dir_all(dir).unwrap();
        }
        std::fs::create_dir(dir).unwrap();
        for command in self.prepare {
            let ended = self.start(Program::Tenure, dir, command);
            assert!(ended.is_done(), "{command:?}: {ended:?}");
        }
        (self.tamper)(dir);
    }

    /// Runs the command without a fault.
    pub(crate) fn run(&self, dir: &Path) -> Ended {
        self.start(self.program, dir, self.args)
    }

    /// Runs a program without a fault, on a machine with the same missing calls.
    fn start(&self, program: Program, dir: &Path, args: &[&str]) -> Ended {
        let mut command = match self.lacks {
            None => Command::new(program.path()),
            Some(lacks) => strace::lacking(lacks, program.path()),
        };
        command.args(args).current_dir(dir);
        bounded::run(command)
    }

    /// Changes what the command works on in another way. The header needs every kind of temporary
    /// file that a journal has.
    pub(crate) fn change(&self, dir: &Path) -> Result<(), String> {
        let document: &[&str] = &["doc", "set", "d.json", "\"changed\""];
        let journal: &[&str] = &["journal", "append", "j.jsonl", "changed", "--header", "changed"];
        let key: &[&str] = &["doc", "set", "c/b.json", "\"changed\""];
        let commands: &[&[&str]] = match self.subject {
            Subject::Document => &[document],
            Subject::Journal | Subject::Replaced | Subject::Rotated => &[journal],
            Subject::Lease | Subject::Run => &[],
            Subject::Both => &[document, journal],
            Subject::Collection => &[key],
        };
        for command in commands {
            let ended = self.start(Program::Tenure, dir, command);
            if !ended.is_done() {
                return Err(format!("{command:?}: {ended:?}"));
            }
        }
        Ok(())
    }

    /// What readers see now.
    pub(crate) fn view(&self, dir: &Path) -> View {
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        let entries = |plain: &str| journal_entries(dir, plain.is_empty());
        match self.subject {
            Subject::Document => View { plain: read("d.json"), ours: document(dir, "d.json") },
            Subject::Journal | Subject::Replaced => {
                // Blank lines are no entries; a crash may leave one after a tail that it closed.
                let plain = read("j.jsonl").replace("\n\n", "\n");
                View { ours: entries(&plain), plain }
            }
            Subject::Rotated => {
                let archives = ["j.jsonl.1", "j.jsonl.2", "j.jsonl.3"].map(read).concat();
                // Until it has its name, or where it cannot have it.
                let aside = [".tenure/j.jsonl.tmp.0000000000000003", ".tenure/j.jsonl.archive.1"];
                let first = if read("j.jsonl.1").is_empty() && read("j.jsonl").is_empty() {
                    aside.map(read).concat()
                } else {
                    aside[1..].iter().map(|name| read(name)).collect()
                };
                let plain = archives + &first + &read("j.jsonl");
                View { ours: entries(&plain), plain }
            }
            Subject::Lease | Subject::Run => View { plain: String::new(), ours: lease(dir) },
            Subject::Both => {
                let plain = read("j.jsonl");
                let ours = format!("{}{PARTS}{}", document(dir, "d.json"), entries(&plain));
                View { plain: format!("{}{PARTS}{plain}", read("d.json")), ours }
            }
            Subject::Collection => collection(dir),
        }
    }

    /// Whether a plain reader may see `now` after a command that was cut short.
    pub(crate) fn plain_is_whole(&self, now: &str, old: &str, new: &str) -> bool {
        let grown = |now: &str, old: &str, new: &str| now.starts_with(old) && new.starts_with(now);
        let known = now == old || now == new;
        match self.subject {
            Subject::Journal => known || grown(now, old, new),
            Subject::Collection => known || is_between(now, old, new),
            Subject::Both => {
                let ((now, lines), (old, less), (new, more)) = (parts(now), parts(old), parts(new));
                (now == old && lines == less) || (now == new && grown(lines, less, more))
            }
            _ => known,
        }
    }

    /// Whether tenure's readers see in `now` what they see in `wanted`.
    ///
    /// An unterminated line has no number until a batch, or a repair, closes it. Then it gets one
    /// after that batch, and after every batch that was logged before it: its place says which of
    /// them came first, and any order is correct.
    pub(crate) fn is_seen(&self, now: &str, wanted: &str) -> bool {
        let Some(open) = self.open_line else { return now == wanted };
        let others =
            |view: &str| view.lines().filter(|line| *line != open).collect::<Vec<_>>().join("\n");
        others(now) == others(wanted) && self.open_lines(now) <= 1
    }

    /// The same after a command that succeeded: the unterminated line is closed, and has its
    /// number.
    pub(crate) fn is_left(&self, now: &View, wanted: &View) -> bool {
        now.plain == wanted.plain
            && self.is_seen(&now.ours, &wanted.ours)
            && self.open_lines(&now.ours) == self.open_lines(&wanted.ours)
    }

    fn open_lines(&self, view: &str) -> usize {
        view.lines().filter(|line| Some(*line) == self.open_line).count()
    }

    /// Whether a command with several steps may leave `now`: some of them done, in order.
    pub(crate) fn is_part(&self, now: &str, old: &str, new: &str) -> bool {
        match self.subject {
            Subject::Both => parts(now) == (parts(new).0, parts(old).1),
            Subject::Collection => is_between(now, old, new),
            _ => false,
        }
    }

    /// Whether a command may end like this.
    pub(crate) fn is_documented(&self, code: i32) -> bool {
        // The fault may also hit the command that `run` starts.
        let command = self.subject == Subject::Run && [126, 127, 137].contains(&code);
        command || [0, 1, 2, 3, 4, 5, 6, 75].contains(&code)
    }
}

fn parts(view: &str) -> (&str, &str) {
    view.split_once(PARTS).unwrap()
}

/// Whether every line of `old` is still there, and every other one is of `new`.
fn is_between(now: &str, old: &str, new: &str) -> bool {
    let has = |view: &str, line: &str| view.lines().any(|other| other == line);
    old.lines().all(|line| has(now, line))
        && now.lines().all(|line| has(old, line) || has(new, line))
}

fn document(dir: &Path, name: &str) -> String {
    let seen = tenure(dir, &["doc", "get", name]);
    format!("exit {:?}: {}", seen.code, seen.stdout)
}

fn lease(dir: &Path) -> String {
    let seen = tenure(dir, &["lease", "show", "t", "--json"]);
    let lease: Value = serde_json::from_str(&seen.stdout).unwrap_or_default();
    // Fences, clocks and process numbers differ from run to run.
    format!("exit {:?}: leased: {}, for: {}", seen.code, lease["leased"], lease["ttl_ms"])
}

/// The lines of a journal. Their numbers grow; a journal from elsewhere gets larger ones.
fn journal_entries(dir: &Path, missing: bool) -> String {
    let seen = tenure(dir, &["journal", "read", "j.jsonl", "--json"]);
    // No journal and an empty one have the same entries.
    let code = seen.code.filter(|code| *code != 1 || !missing).unwrap_or(0);
    let mut last = 0;
    let mut lines = format!("exit {code}: ");
    for entry in seen.stdout.lines() {
        let entry: Value = serde_json::from_str(entry).unwrap();
        // A gap is an entry of the report, not of the journal.
        let Some(number) = entry["seq"].as_u64() else { continue };
        assert!(number > last, "entry {number} after {last}");
        last = number;
        lines += entry["line"].as_str().unwrap();
        lines.push('\n');
    }
    lines
}

fn collection(dir: &Path) -> View {
    let mut names = names(&dir.join("c"));
    names.retain(|name| Path::new(name).extension().is_some_and(|end| end == "json"));
    names.sort();
    let line = |name: &str, text: &str| format!("{name}: {}\n", text.replace('\n', " "));
    let read = |name: &String| {
        let text = std::fs::read_to_string(dir.join("c").join(name)).unwrap_or_default();
        line(name, &text)
    };
    let plain = names.iter().map(read).collect();
    let listed = tenure(dir, &["collection", "list", "c"]);
    let get = |key| line(key, &document(dir, &format!("c/{key}.json")));
    let ours = listed.stdout.lines().map(get).collect();
    View { plain, ours }
}

/// Every name in a directory, if there is one.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}
