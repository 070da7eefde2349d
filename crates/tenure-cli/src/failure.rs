//! Why a command ends without success.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure::embed::printable;
use tenure::status::{HoldKind, Holder};
use tenure::{ErrorKind, Value, json};

use crate::clock;
use crate::environment;
use crate::exit_code::ExitCode;
use crate::place::{self, here};
use crate::shell;

/// What errors call it.
pub(crate) const STANDARD_OUTPUT: &str = "standard output";

/// The result of a command.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// What is reported on stderr, and how the process ends.
#[derive(Debug)]
pub enum Failure {
    /// The core refused or failed.
    Core(tenure::Error),
    /// The command line itself refused or failed.
    Own(Box<Own>),
    /// The reader of our output has gone away; that is not a failure.
    BrokenPipe,
}

/// A failure that is not the core's.
#[derive(Debug)]
pub struct Own {
    exit: ExitCode,
    code: &'static str,
    action: &'static str,
    path: Option<PathBuf>,
    detail: String,
    hint: Option<String>,
}

impl Failure {
    /// A failure while doing `action`.
    pub fn new(
        exit: ExitCode,
        code: &'static str,
        action: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        let detail = detail.into();
        Self::Own(Box::new(Own { exit, code, action, path: None, detail, hint: None }))
    }

    /// The command line is wrong: exit 2.
    pub fn usage(action: &'static str, detail: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, "usage", action, detail)
    }

    /// The operating system refused.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Core(tenure::Error::io(action, path, source))
    }

    /// No change came in time: exit 75, as for a lock, if `left` more are expected. Without a number
    /// the command ends successfully.
    pub(crate) fn no_news(path: &Path, left: Option<u64>) -> Result<ExitCode> {
        let Some(left) = left else { return Ok(ExitCode::Done) };
        let detail = format!("no further change within the wait; {left} more expected");
        Err(Self::new(ExitCode::Busy, "busy", "watch", detail).at(path).hint("wait longer: --wait"))
    }

    /// Names the path.
    #[must_use]
    pub fn at(mut self, path: &Path) -> Self {
        if let Self::Own(own) = &mut self {
            own.path = Some(path.to_path_buf());
        }
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        match self {
            Self::Core(error) => Self::Core(error.hint(hint)),
            Self::Own(mut own) => {
                own.hint = Some(hint.into());
                Self::Own(own)
            }
            Self::BrokenPipe => self,
        }
    }

    /// A token could not be printed. It is shown only once, so that is a failure even if the reader
    /// has gone away. `committed` says whether its lease is held all the same.
    #[must_use]
    pub(crate) fn of_a_token(self, committed: bool, hint: &str) -> Self {
        let broken = || {
            tenure::Error::io(
                "write to",
                Path::new(STANDARD_OUTPUT),
                io::ErrorKind::BrokenPipe.into(),
            )
        };
        match self {
            Self::Core(error) => Self::Core(error.committed(committed).hint(hint)),
            Self::BrokenPipe => Self::Core(broken().committed(committed).hint(hint)),
            own @ Self::Own(_) => own,
        }
    }

    /// How the process ends.
    pub(crate) fn exit(&self) -> ExitCode {
        match self {
            Self::Core(error) => error.kind().into(),
            Self::Own(own) => own.exit,
            Self::BrokenPipe => ExitCode::Done,
        }
    }

    /// Says which file was not written because of a guard.
    #[must_use]
    pub(crate) fn in_write_to(self, path: &Path) -> Self {
        let file = printable(&path.display().to_string());
        let what = format!("`{file}` was not changed: this guard protects it");
        self.of_a_guard(&what, |held| held != path)
    }

    /// If it is about a target that `is_guard`, which may be another than the one that is written: says `what` it
    /// protects.
    #[must_use]
    pub(crate) fn of_a_guard(self, what: &str, is_guard: impl FnOnce(&Path) -> bool) -> Self {
        match self {
            Self::Core(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Fenced
                        | ErrorKind::LeaseLost
                        | ErrorKind::Compromised
                        | ErrorKind::Busy
                ) && error.path().is_some_and(is_guard) =>
            {
                let hint = match error.next_step() {
                    Some(hint) => format!("{what}; {hint}"),
                    None => what.to_owned(),
                };
                Self::Core(error.hint(hint))
            }
            other => other,
        }
    }

    /// Names the file in a hint that says `FILE`.
    #[must_use]
    pub(crate) fn about_file(mut self, path: &Path) -> Self {
        if let Self::Own(own) = &mut self
            && let Some(hint) = &mut own.hint
        {
            *hint = hint.replace("FILE", &shell::word(path.as_os_str()).to_string_lossy());
        }
        self
    }

    /// The line for people, without the program's name; `None` if there is nothing to say.
    pub(crate) fn message(&self) -> Option<String> {
        clock::use_local_time();
        let text = match self {
            Self::Core(error) => match time_left(error) {
                Some(left) => format!("{error} ({:.1} s left)", left.as_secs_f64()),
                None => error.to_string(),
            },
            Self::Own(own) => own.message(),
            Self::BrokenPipe => return None,
        };
        Some(in_store(place::with_store(text)))
    }

    /// The object for programs. Readers ignore fields they do not know.
    pub(crate) fn to_json(&self, exit: ExitCode) -> Value {
        let path = |path: Option<&Path>| path.map(|path| path.to_string_lossy().into_owned());
        let mut object = match self {
            Self::Core(error) => json!({
                "code": error.kind().code(),
                "message": self.message(),
                "action": error.action(),
                "path": path(error.path()),
                "holder": error.holder().filter(|holder| holder.pid != 0).map(Holder::to_json),
                "expires_in_ms": time_left(error).map(|left| left.as_millis()),
                "hint": error.next_step(),
                "committed": error.is_committed(),
                "exit": exit.number(),
            }),
            Self::Own(own) => json!({
                "code": own.code,
                "message": own.message(),
                "action": own.action,
                "path": path(own.path.as_deref()),
                "holder": null,
                "expires_in_ms": null,
                "hint": own.hint,
                "committed": null,
                "exit": exit.number(),
            }),
            Self::BrokenPipe => json!({ "exit": exit.number() }),
        };
        if let Some(store) = here().name() {
            object["store"] = store.into();
        }
        object
    }
}

/// A line about a target says in which store it is, if that is not the local files.
pub(crate) fn in_store(line: String) -> String {
    match here().name() {
        Some(store) if !line.contains(store) => format!("{line} (store {store})"),
        _ => line,
    }
}

/// How long the blocking lease still runs; `None` if there is none by now.
fn time_left(error: &tenure::Error) -> Option<Duration> {
    let lease = error.holder().filter(|holder| holder.hold == HoldKind::Lease)?;
    if error.kind() != ErrorKind::Busy {
        return None;
    }
    let now = here().lease(error.path()?).and_then(|lease| lease.show()).ok()??;
    (now.holder.fence == lease.fence).then_some(now.expires_in)?
}

impl Own {
    fn message(&self) -> String {
        let path = self.path.as_ref().map_or_else(String::new, |path| {
            format!(" `{}`", path.display().to_string().escape_debug())
        });
        let hint = self.hint.as_ref().map_or_else(String::new, |hint| format!("; {hint}"));
        format!("failed to {}{path}: {}{hint}", self.action, self.detail)
    }
}

/// The library says what a caller can do in words that fit every language. Here some of it is a flag.
const FLAGS: [(ErrorKind, &str, &str); 4] = [
    (ErrorKind::Busy, "wait longer", "--wait 60s"),
    (ErrorKind::Busy, "wait for its expiry", "--wait"),
    (ErrorKind::Conflict, "allow the replacement", "--replace"),
    (ErrorKind::Unsupported, "break the link", "--break-link"),
];

/// What `eval` of the output of `lease acquire` has set.
const HOLD_VARIABLES: &str = "TENURE_TARGET, TENURE_FENCE and TENURE_TOKEN";

/// Whether the fence of the environment is that of a lease that is over and that no other caller has.
fn is_of_an_ended_lease(error: &tenure::Error) -> bool {
    let is_over =
        error.kind() == ErrorKind::Fenced && error.next_step() == Some("acquire it again");
    let fence = error.path().filter(|_| is_over).map(environment::fence_of);
    matches!(fence, Some(Ok(Some(_)))) && std::env::var_os("TENURE_TOKEN").is_some()
}

impl From<tenure::Error> for Failure {
    fn from(error: tenure::Error) -> Self {
        let hint = error.next_step().unwrap_or_default();
        if is_of_an_ended_lease(&error) {
            let hint = format!("{hint}; after a release, unset {HOLD_VARIABLES}");
            return Self::Core(error.hint(hint));
        }
        let known =
            FLAGS.iter().find(|(kind, words, _)| *kind == error.kind() && hint.contains(words));
        let Some((_, words, flag)) = known else { return Self::Core(error) };
        let hint = hint.replacen(words, &format!("{words} ({flag})"), 1);
        Self::Core(error.hint(hint))
    }
}
