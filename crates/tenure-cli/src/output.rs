//! The only place that prints: results on stdout, everything else on stderr.

use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Stderr, Stdout, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tenure::embed::{printable, without_passwords};
use tenure::{Value, json};

use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result, STANDARD_OUTPUT};
use crate::suggest;

/// How a JSON value is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Two spaces per level, as jq does.
    Pretty,
    /// One line.
    Compact,
}

/// Where results and messages go, and in which form.
#[derive(Debug)]
pub struct Output {
    json: bool,
    /// The command has made its change: if the result cannot be printed, the error must say so.
    committed: bool,
    out: BufWriter<Stdout>,
}

impl Output {
    /// Text for people, or JSON for programs.
    pub fn new(json: bool) -> Self {
        Self { json, committed: false, out: BufWriter::new(io::stdout()) }
    }

    /// From now on a failure to print says that the change was made.
    pub(crate) fn committed(&mut self) {
        self.committed = true;
    }

    /// Whether `--json` was given.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Raw bytes.
    pub fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.out.write_all(bytes);
        written.map_err(|err| self.refused(err))
    }

    /// One line of text.
    pub(crate) fn line(&mut self, text: &str) -> Result<()> {
        self.raw(text.as_bytes())?;
        self.raw(b"\n")
    }

    /// One JSON value and a newline.
    pub fn value(&mut self, value: &Value, layout: Layout) -> Result<()> {
        let text = match layout {
            Layout::Pretty => format!("{value:#}"),
            Layout::Compact => value.to_string(),
        };
        self.line(&text)
    }

    /// The result in the form that was asked for: an object, or text (nothing if that is empty).
    pub fn result(
        &mut self,
        object: impl FnOnce() -> Value,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        if self.json {
            return self.value(&object(), Layout::Compact);
        }
        match text() {
            text if text.is_empty() => Ok(()),
            text => self.line(&text),
        }
    }

    /// Flushes everything to the reader.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let flushed = self.out.flush();
        flushed.map_err(|err| self.refused(err))
    }

    /// Output that was refused is dropped, not retried: it may describe what is undone now.
    fn refused(&mut self, err: io::Error) -> Failure {
        let refused = std::mem::replace(&mut self.out, BufWriter::new(io::stdout()));
        let _ = refused.into_parts();
        if err.kind() == io::ErrorKind::BrokenPipe {
            return Failure::BrokenPipe;
        }
        let error = tenure::Error::io("write to", Path::new(STANDARD_OUTPUT), err);
        Failure::Core(if self.committed {
            error.committed(true).hint("the change itself was made")
        } else {
            error
        })
    }

    /// One line that is no error.
    pub(crate) fn warn(&self, text: &str) {
        warn(self.json, text);
    }

    /// Says why a command failed; returns how the process ends.
    pub fn report(&mut self, failure: &Failure) -> ExitCode {
        let _ = self.out.flush();
        report(self.json, failure, failure.exit())
    }
}

/// Says why, in one line or one object.
pub(crate) fn report(json: bool, failure: &Failure, exit: ExitCode) -> ExitCode {
    if let Some(message) = failure.message() {
        if json {
            say(&failure.to_json(exit).to_string());
        } else {
            // Whatever it quotes: nothing turns the line around or splits it.
            say(&format!("tenure: {}", printable(&message)));
        }
    }
    exit
}

/// Whether `--json` is among the words, for those that cannot be read.
pub(crate) fn asks_for_json(words: &[OsString]) -> bool {
    words.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

/// A usage error of the argument parser, or the help and version it was asked for.
pub(crate) fn report_usage(error: &clap::Error, asked_json: bool) -> ExitCode {
    if !error.use_stderr() {
        let _ = write!(io::stdout(), "{error}");
        return ExitCode::Done;
    }
    // A URL with a password may be in any place of a wrong command line.
    let text = without_passwords(&error.to_string());
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        && !asked_json
    {
        say(text.trim_end());
        return ExitCode::Usage;
    }
    let first = text.split("\n\n").next().unwrap_or_default();
    let detail: Vec<_> = first.split_whitespace().collect();
    let detail = detail.join(" ");
    let mut detail = detail.trim_start_matches("error: ").to_owned();
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "));
    let tip = text.lines().find_map(|line| line.trim_start().strip_prefix("tip: "));
    let tip = tip.filter(|tip| tip.contains("similar")).map(str::to_owned);
    let mut hint = tip.or_else(|| usage.map(|usage| format!("usage: {usage}")));
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        "a command is missing".clone_into(&mut detail);
        hint = usage.map(|usage| format!("usage: {usage}"));
    }
    if let Some((word, meant)) = suggest::for_command(error) {
        detail = format!("unknown command '{}'", without_passwords(&word).escape_debug());
        hint = Some(format!("did you mean {meant}?"));
    }
    let hint = hint.unwrap_or_else(|| "see tenure --help".to_owned());
    let failure = Failure::usage("read the command line", detail).hint(hint);
    report(asked_json, &failure, failure.exit())
}

/// One line on stderr that is no error.
pub fn warn(json: bool, text: &str) {
    if json {
        say(&json!({ "warning": text }).to_string());
    } else {
        say(&format!("tenure: warning: {}", printable(text)));
    }
}

/// One JSON object on stderr (the result of `run --json`).
pub(crate) fn say_object(object: &Value) {
    say(&object.to_string());
}

/// Whether the caller closed standard output: what is written goes nowhere.
static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Notes it; the first steps of the process see it.
pub fn note_closed_stdout() {
    STDOUT_WAS_CLOSED.store(true, Ordering::Relaxed);
}

pub(crate) fn stdout_was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}

/// Whether a person looks at the results.
pub fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether a person reads the messages.
pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// One whole line in one write, so that lines of many processes do not mix.
pub(crate) fn say(line: &str) {
    let mut stderr: Stderr = io::stderr();
    let _ = stderr.write_all(format!("{line}\n").as_bytes());
}
