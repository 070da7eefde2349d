//! The program under torture: how it is called, and how its file is read.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::runs::{self, Enough, Fate};
use super::write_new;
use crate::torture::content::shortened;
use crate::torture::groups;
use tenure_cli::{Failure, Result, TortureArgs};

/// A shell command that saves a key in a file.
#[derive(Debug)]
pub(in crate::torture) struct Program {
    command: String,
    check: Option<String>,
    name: PathBuf,
    init: String,
    /// Lines instead of JSON.
    lines: bool,
    /// Each of which is JSON.
    json_lines: bool,
    /// The limit of an undisturbed run, if given on the command line.
    pub(super) patience: Option<Duration>,
}

impl Program {
    /// From the command line.
    pub(in crate::torture) fn new(command: &str, args: &TortureArgs) -> Result<Self> {
        let name = &args.file;
        if name.file_name() != Some(name.as_os_str()) {
            let detail = "--file is a name, without directories";
            let hint = "the directory of the file is made for each round: name DIR for where";
            return Err(Failure::usage("read the command line", detail).hint(hint));
        }
        let extension = name.extension().and_then(OsStr::to_str);
        let json_lines = matches!(extension, Some("jsonl" | "ndjson"));
        let lines = json_lines || matches!(extension, Some("log" | "txt"));
        let init = args.init.clone().unwrap_or_else(|| if lines { "" } else { "{}\n" }.to_owned());
        if !lines {
            let no_json = |err| {
                let detail = format!("--init is no JSON: {err}");
                Failure::usage("read the command line", detail)
                    .hint("name the file .jsonl, .log or .txt if it has lines (--file)")
            };
            serde_json::from_str::<Value>(&init).map_err(no_json)?;
        }
        let (command, check) = (command.to_owned(), args.check.clone());
        let (name, patience) = (name.clone(), args.patience);
        Ok(Self { command, check, name, init, lines, json_lines, patience })
    }

    /// A new directory with the initial file.
    pub(super) fn prepare(&self, dir: &Path) -> io::Result<PathBuf> {
        fs::create_dir(dir)?;
        let file = dir.join(&self.name);
        write_new(&file, self.init.as_bytes())?;
        Ok(file)
    }

    /// The shell that saves `key`.
    pub(super) fn save(&self, file: &Path, key: &str) -> Command {
        let mut shell = shell(&self.command, file, key);
        shell.env("TENURE_TORTURE_KEY", key);
        shell
    }

    /// Runs the check; returns why it failed. A check that was interrupted has no result.
    pub(super) fn check(
        &self,
        file: &Path,
        patience: Duration,
        enough: Enough<'_>,
    ) -> io::Result<Option<String>> {
        let Some(check) = &self.check else { return Ok(None) };
        // A group of its own: a signal from the keyboard must not become the result of the check.
        let mut shell = shell(check, file, "");
        shell.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = groups::start(&mut shell)?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let (ended, said) = std::thread::scope(|scope| {
            let output = scope.spawn(|| read_all(output));
            let errors = scope.spawn(|| read_all(errors));
            let ended = runs::wait_or_end(&child, patience, enough)?;
            let said = [errors.join(), output.join()].map(Result::unwrap_or_default).concat();
            Ok::<_, io::Error>((ended, said))
        })?;
        groups::remove(&child);
        let status = child.wait()?;
        Ok(match ended {
            Some(Fate::Stuck) => Some(runs::stuck(patience)),
            Some(_) => None,
            None if status.success() => None,
            None => Some(runs::said(status, String::from_utf8_lossy(&said).lines().next())),
        })
    }

    /// How its file is read.
    pub(super) fn reading(&self) -> &'static str {
        if self.lines {
            "a .jsonl file is read as lines of JSON, a .log or .txt file as lines, each with one {key}"
        } else {
            "the file is read as JSON; name it .jsonl, .log or .txt if it has lines (--file)"
        }
    }

    /// The keys that are in a file, or why it is damaged.
    pub(super) fn keys(&self, bytes: &[u8]) -> Result<HashSet<String>, String> {
        let mut keys = HashSet::new();
        if self.lines {
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                self.line_keys(line, &mut keys)?;
            }
        } else if bytes.is_empty() {
            return Err("the file is empty".to_owned());
        } else {
            let value: Value = serde_json::from_slice(bytes)
                .map_err(|err| format!("{err}: {}", shortened(&String::from_utf8_lossy(bytes))))?;
            collect(&value, &mut keys);
        }
        Ok(keys)
    }

    /// What is wrong with the bytes that a plain reader saw while the program ran. The last line
    /// may be incomplete; a document may not.
    pub(super) fn torn(&self, bytes: &[u8]) -> Option<String> {
        let end = if self.lines {
            bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1)
        } else {
            bytes.len()
        };
        self.keys(&bytes[..end]).err()
    }

    /// Every line has one whole key, unless it is part of the initial content.
    fn line_keys(&self, line: &[u8], keys: &mut HashSet<String>) -> Result<(), String> {
        let text = String::from_utf8_lossy(line);
        let wrong = |why| Err(format!("{why}: {}", shortened(&text)));
        if !line.ends_with(b"\n") {
            return wrong("the last line has no end");
        }
        let is_first = self.init.lines().any(|first| first == text.trim_end_matches('\n'));
        if self.json_lines && !is_first && serde_json::from_slice::<Value>(line).is_err() {
            return wrong("a line that is no JSON");
        }
        let found: Vec<_> = keys_in(&text).collect();
        match found.as_slice() {
            [key] => keys.extend([(*key).to_owned()]),
            [] if is_first => {}
            [] => return wrong("a line without a key"),
            _ => return wrong("a line with more than one key"),
        }
        Ok(())
    }
}

/// Every `kNNxNNNNNN` in a text.
fn keys_in(text: &str) -> impl Iterator<Item = &str> {
    let is_key = |word: &[u8]| {
        word.iter().enumerate().all(|(place, byte)| match place {
            0 => *byte == b'k',
            3 => *byte == b'x',
            _ => byte.is_ascii_digit(),
        })
    };
    let starts = 0..text.len().saturating_sub(9);
    starts
        .filter_map(move |start| text.get(start..start + 10).filter(|word| is_key(word.as_bytes())))
}

/// Everything that a program writes, to its end.
fn read_all(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // An error ends the text.
    let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
    bytes
}

/// All object keys and strings of a document.
fn collect(value: &Value, keys: &mut HashSet<String>) {
    match value {
        Value::String(text) => keys.extend([text.clone()]),
        Value::Array(items) => items.iter().for_each(|item| collect(item, keys)),
        Value::Object(fields) => {
            for (name, value) in fields {
                keys.extend([name.clone()]);
                collect(value, keys);
            }
        }
        _ => {}
    }
}

fn shell(template: &str, file: &Path, key: &str) -> Command {
    let name = quoted(&file.to_string_lossy());
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(template.replace("{key}", key).replace("{}", &name));
    // In the directory of the caller, so that relative program names work.
    shell.env("TENURE_TORTURE_FILE", file).stdin(Stdio::null()).stdout(Stdio::null());
    shell
}

/// One word for the shell.
pub(in crate::torture) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::{Program, keys_in, quoted};

    fn program(lines: bool) -> Program {
        let (command, name) = (String::new(), "f".into());
        let init = "first\n".to_owned();
        Program { command, check: None, name, init, lines, json_lines: false, patience: None }
    }

    #[test]
    fn keys_of_a_document_are_its_names_and_strings() {
        assert_eq!(program(false).keys(b""), Err("the file is empty".to_owned()));
        let keys = program(false).keys(br#"{"k01x000001":1,"a":["k01x000002",{"b":"c"}]}"#);
        let mut keys: Vec<_> = keys.expect("whole").into_iter().collect();
        keys.sort();
        assert_eq!(keys, ["a", "b", "c", "k01x000001", "k01x000002"]);
        assert!(program(false).torn(b"{").is_some());
        assert!(program(false).torn(b"").is_some());
    }

    #[test]
    fn every_line_has_one_whole_key() {
        let lines = program(true);
        assert_eq!(lines.keys(b"first\n{\"k\":\"k01x000001\"}\n").map(|keys| keys.len()), Ok(1));
        assert!(lines.keys(b"k01x000001").is_err(), "no end");
        assert_eq!(lines.torn(b"k01x000001\nk01x00"), None, "it may be on its way");
        assert!(lines.torn(b"k01x0000\n").is_some());
        assert!(lines.torn(b"k01x000001k01x000002\n").is_some());
        assert!(lines.torn(b"other\n").is_some());
        let json = Program { json_lines: true, ..program(true) };
        assert_eq!(json.keys(b"first\n{\"k\":\"k01x000001\"}\n").map(|keys| keys.len()), Ok(1));
        assert!(json.torn(b"{\"k\":{\"k\":\"k01x000001\"}\n").is_some(), "two in one");
        assert!(json.torn(b"k01x000001\n").is_some());
    }

    #[test]
    fn a_key_is_found_in_the_middle() {
        assert_eq!(keys_in("ak12x123456b kk1x000001").collect::<Vec<_>>(), ["k12x123456"]);
    }

    #[test]
    fn a_path_is_one_word() {
        assert_eq!(quoted("/a/b.json"), "/a/b.json");
        assert_eq!(quoted("/a b/c'd"), r"'/a b/c'\''d'");
    }
}
