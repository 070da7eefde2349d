//! Who holds something: for people, never for a decision.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};

use crate::printable::{clock_time, is_deceptive, without_passwords};
use crate::process_local::ProcessLocal;
use crate::sys;

/// The command line is cut to this length in a record.
const COMMAND_BYTES_MAX: usize = 160;
/// Labels and owner names are cut to this length in a record.
const LABEL_BYTES_MAX: usize = 160;

/// The current or last holder of a target, as it described itself.
///
/// Nothing here decides anything: a pid can be reused, a host renamed, a clock moved. Ownership is
/// decided by the kernel (locks) and by fences (leases).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holder {
    /// Process id, in its own PID namespace.
    pub pid: u32,
    /// When that process started, in kernel ticks; 0 if unknown.
    pub start: u64,
    /// The PID namespace; 0 if unknown.
    pub pid_namespace: u64,
    /// Host name.
    pub host: String,
    /// Command line, shortened.
    pub command: String,
    /// What the hold is for.
    pub label: String,
    /// Who it belongs to.
    pub owner: String,
    /// The hold's fence; 0 for a shared hold.
    pub fence: u64,
    /// Since when, microseconds of the wall clock.
    pub since_us: u64,
    /// What kind of hold it is.
    pub hold: HoldKind,
}

/// What kind of hold a [`Holder`] has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HoldKind {
    /// Of no process, or not known.
    #[default]
    Unknown,
    /// An exclusive lock, or a write in progress.
    Lock,
    /// Readers.
    Shared,
    /// A lease, until its expiry.
    Lease,
}

impl HoldKind {
    /// The name in JSON output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Lock => "lock",
            Self::Shared => "shared",
            Self::Lease => "lease",
        }
    }
}

impl Holder {
    /// This process, with a label and an owner.
    pub fn this_process(label: &str, owner: &str) -> Self {
        let pid = std::process::id();
        let mut words: Vec<_> = std::env::args_os().collect();
        if words.is_empty() {
            words = sys::command_of(pid); // The C library passed no arguments to Rust.
        }
        Self {
            label: shorten(label, LABEL_BYTES_MAX),
            owner: shorten(owner, LABEL_BYTES_MAX),
            ..Self::of(pid, &without_secrets(words))
        }
    }

    /// Another process of this machine, as the kernel names it.
    pub(crate) fn process(pid: u32) -> Self {
        let label = shorten(&label_of(pid), LABEL_BYTES_MAX);
        Self { hold: HoldKind::Lock, label, ..Self::of(pid, &command_of(pid)) }
    }

    fn of(pid: u32, command: &str) -> Self {
        Self {
            pid,
            start: sys::process_start(pid).unwrap_or(0),
            pid_namespace: sys::pid_namespace(),
            host: sys::host_name(),
            command: shorten(command, COMMAND_BYTES_MAX),
            ..Self::default()
        }
    }

    /// Whether the process that wrote this seems to be running still; `None` if that cannot be
    /// determined here (another host or PID namespace). For display only.
    pub fn seems_alive(&self) -> Option<bool> {
        if self.pid == 0
            || self.host != sys::host_name()
            || self.pid_namespace != sys::pid_namespace()
        {
            return None;
        }
        if sys::is_gone(self.pid) {
            return Some(false);
        }
        // Another process may have its number by now. Not every user may see the start time of
        // every process.
        let start = sys::process_start(self.pid).filter(|start| *start > 0 && self.start > 0)?;
        Some(start == self.start)
    }

    /// What goes into a record: short names, since a record has a fixed size.
    fn to_record(&self) -> String {
        json!({
            "p": self.pid, "s": self.start, "n": self.pid_namespace, "h": self.host,
            "c": self.command, "l": self.label, "o": self.owner,
        })
        .to_string()
    }

    /// Reads what [`Self::to_record`] wrote; anything else is an unknown holder.
    fn from_record(text: &[u8]) -> Self {
        let Ok(Value::Object(map)) = serde_json::from_slice::<Value>(text) else {
            return Self::default();
        };
        let number = |key: &str| map.get(key).and_then(Value::as_u64).unwrap_or(0);
        Self {
            pid: number("p").try_into().unwrap_or(0),
            start: number("s"),
            pid_namespace: number("n"),
            host: string(&map, "h"),
            command: string(&map, "c"),
            label: string(&map, "l"),
            owner: string(&map, "o"),
            ..Self::default()
        }
    }
}

/// A [`Holder`] as it is stored in a record: decoded only when a caller asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HolderText(Arc<[u8]>);

/// The last text that this process wrote, with its label and owner: most holds differ in neither.
type Written = Mutex<Option<(String, String, HolderText)>>;

impl HolderText {
    /// This process, with a label and an owner.
    pub(crate) fn this_process(label: &str, owner: &str) -> Self {
        static WRITTEN: ProcessLocal<Written> = ProcessLocal::new();
        let mut written = WRITTEN.here().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, text)) = written.as_ref().filter(|(l, o, _)| l == label && o == owner) {
            return text.clone();
        }
        let text = Self::from(Holder::this_process(label, owner).to_record().as_bytes());
        *written = Some((label.to_owned(), owner.to_owned(), text.clone()));
        text
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn read(&self) -> Holder {
        Holder::from_record(&self.0)
    }
}

impl From<&[u8]> for HolderText {
    fn from(text: &[u8]) -> Self {
        Self(text.into())
    }
}

impl Default for HolderText {
    fn default() -> Self {
        Self::from(&b""[..])
    }
}

fn string(map: &Map<String, Value>, key: &str) -> String {
    // A user who may write the record may have written anything into it.
    shorten(map.get(key).and_then(Value::as_str).unwrap_or_default(), LABEL_BYTES_MAX)
}

/// The command line of a process, as far as it may be shown.
pub(crate) fn command_of(pid: u32) -> String {
    without_secrets(sys::command_of(pid))
}

/// What a `tenure` command is for: a write leaves no record, so its label is only on its command line.
pub(crate) fn label_of(pid: u32) -> String {
    let words = sys::command_of(pid);
    let mut words = words.iter().map(|word| word.to_string_lossy()).take_while(|word| word != "--");
    let is_tenure = |word: &str| word == "tenure" || word.ends_with("/tenure");
    if !words.next().is_some_and(|program| is_tenure(&program)) {
        return String::new();
    }
    while let Some(word) = words.next() {
        if word == "--label" {
            return words.next().unwrap_or_default().into_owned();
        }
        if let Some(label) = word.strip_prefix("--label=") {
            return label.to_owned();
        }
    }
    String::new()
}

/// The command line for the eyes of others: a record outlives the process, and a token in it would
/// renew the lease for any reader. So would the password in the URL of a store open that store.
fn without_secrets(words: impl IntoIterator<Item = std::ffi::OsString>) -> String {
    let mut shown: Vec<String> = Vec::new();
    for word in words {
        let word = word.to_string_lossy();
        if shown.last().is_some_and(|last| last == "--token") {
            shown.push("***".to_owned());
        } else if word.starts_with("--token=") {
            shown.push("--token=***".to_owned());
        } else {
            shown.push(without_passwords(&word));
        }
    }
    shown.join(" ")
}

/// Cuts to `max` bytes of the record, at a character, and drops control and direction characters: the text ends up
/// on terminals of other people.
fn shorten(text: &str, max: usize) -> String {
    let mut short = String::new();
    let mut room = max;
    for letter in text.chars() {
        let letter = if is_deceptive(letter) { ' ' } else { letter };
        // A quote or backslash takes two bytes in the record.
        let cost = letter.len_utf8() + usize::from(matches!(letter, '"' | '\\'));
        let Some(left) = room.checked_sub(cost) else { break };
        room = left;
        short.push(letter);
    }
    short
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hold {
            HoldKind::Unknown if self.pid == 0 => {
                return write!(f, "held by an unknown process (it left no record)");
            }
            HoldKind::Lease => write!(f, "leased to `{}`", self.owner)?,
            _ => write!(f, "held")?,
        }
        if self.hold == HoldKind::Lease && self.seems_alive() == Some(false) {
            write!(f, " on {}", self.host)?; // A lease outlives the process that acquired it.
        } else {
            write!(f, " by pid {} on {}", self.pid, self.host)?;
        }
        if self.pid_namespace != sys::pid_namespace() {
            write!(f, " (another PID namespace)")?;
        }
        match (self.command.as_str(), self.label.as_str()) {
            ("", "") => {}
            (command, "") => write!(f, " ({command})")?,
            ("", label) => write!(f, " (\"{label}\")")?,
            (command, label) => write!(f, " ({command}, \"{label}\")")?,
        }
        if self.since_us > 0 {
            let age_us = sys::wall_time_us().saturating_sub(self.since_us);
            #[expect(clippy::cast_precision_loss, reason = "for people, one decimal")]
            let seconds = age_us as f64 / 1e6;
            let since = clock_time(self.since_us);
            match self.hold {
                HoldKind::Lease => write!(f, " {seconds:.1} s ago, at {since}")?,
                _ => write!(f, " for {seconds:.1} s, since {since}")?,
            }
        }
        if self.fence > 0 {
            write!(f, ", fence {}", self.fence)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
