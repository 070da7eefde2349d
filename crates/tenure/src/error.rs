//! The one error type: a coarse kind that says what the caller can do, and a line for people.
//!
//! # Invariants
//!
//! 1. Every error names the action that failed and, where there is one, the path.
//! 2. [`ErrorKind::code`] is API: the command line's `code`, the JavaScript `err.code` and the Python
//!    class are derived from it. Messages are not API.
//! 3. `committed` says whether the change was made, whenever that is in doubt: `Some(true)` only
//!    for a change that readers can already see, or that the next write makes visible.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::advice;
use crate::holder::Holder;
use crate::printable::printable;

/// A result with a tenure [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another holder has it. Wait longer, come back, or look at [`Error::holder`].
    Busy,
    /// The caller waits for itself. Release the first hold, or prove it by its fence.
    Deadlock,
    /// The wait was cancelled by its own token.
    Cancelled,
    /// The condition of the call does not hold (the version differs). Read again and decide.
    Conflict,
    /// The fence is not the current hold's. Stop: another holder has taken over.
    Fenced,
    /// The lease has expired or was ended. Acquire it again before writing.
    LeaseLost,
    /// The lock file was removed or replaced by another program during the hold. Stop and look.
    Compromised,
    /// The data cannot be read as what it should be. Nothing was changed; restore or repair it.
    Damaged,
    /// The file system, platform or target cannot give the guarantee. Move the target.
    Unsupported,
    /// Written by a newer version of tenure. Upgrade; nothing was changed.
    NewerFormat,
    /// The change is visible but may not survive a power loss. Check the disk.
    NotDurable,
    /// The input is wrong. Fix the argument; nothing was changed.
    Invalid,
    /// The thing does not exist.
    NotFound,
    /// The operating system refused. The source says why.
    Io,
}

impl ErrorKind {
    /// Every kind, for tables and parity tests.
    pub const ALL: &[Self] = &[
        Self::Busy,
        Self::Deadlock,
        Self::Cancelled,
        Self::Conflict,
        Self::Fenced,
        Self::LeaseLost,
        Self::Compromised,
        Self::Damaged,
        Self::Unsupported,
        Self::NewerFormat,
        Self::NotDurable,
        Self::Invalid,
        Self::NotFound,
        Self::Io,
    ];

    /// The stable name used by every language.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Deadlock => "deadlock",
            Self::Cancelled => "cancelled",
            Self::Conflict => "conflict",
            Self::Fenced => "fenced",
            Self::LeaseLost => "lease_lost",
            Self::Compromised => "compromised",
            Self::Damaged => "damaged",
            Self::Unsupported => "unsupported",
            Self::NewerFormat => "newer_format",
            Self::NotDurable => "not_durable",
            Self::Invalid => "invalid",
            Self::NotFound => "not_found",
            Self::Io => "io",
        }
    }
}

/// What failed, where, why, and what to do about it.
///
/// `Display` and `Debug` print one line for people, so that an error that is returned from `main` reads well; `{:#?}`
/// prints the fields.
pub struct Error {
    inner: Box<Inner>,
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() { fmt::Debug::fmt(&self.inner, f) } else { fmt::Display::fmt(self, f) }
    }
}

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    action: &'static str,
    path: Option<PathBuf>,
    detail: String,
    hint: Option<String>,
    holder: Option<Holder>,
    committed: Option<bool>,
    missing: Option<(u64, u64)>,
    source: Option<io::Error>,
}

/// For authors of stores and of commands, who report what they found.
impl Error {
    /// An error of `kind` while doing `action` ("lock", "publish document", ...).
    pub fn new(kind: ErrorKind, action: &'static str, detail: impl Into<String>) -> Self {
        let inner = Inner {
            kind,
            action,
            path: None,
            detail: detail.into(),
            hint: None,
            holder: None,
            committed: None,
            missing: None,
            source: None,
        };
        Self { inner: Box::new(inner) }
    }

    /// The operating system refused `action` on `path`.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        };
        let mut error = Self::new(kind, action, String::new()).at(path);
        error.inner.source = Some(source);
        error
    }

    /// Names the path.
    #[must_use]
    pub fn at(mut self, path: &Path) -> Self {
        self.inner.path = Some(path.to_path_buf());
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.inner.hint = Some(hint.into());
        self
    }

    /// Names the current holder.
    #[must_use]
    pub fn held_by(mut self, holder: Option<Holder>) -> Self {
        self.inner.holder = holder;
        self
    }

    /// Says whether readers can see the change already.
    #[must_use]
    pub fn committed(mut self, committed: bool) -> Self {
        self.inner.committed = Some(committed);
        self
    }

    /// Names the entries of a journal that cannot be read any more.
    #[must_use]
    pub fn missing(mut self, first: u64, last: u64) -> Self {
        self.inner.missing = Some((first, last));
        self
    }

    /// Adds the operating system's own words.
    #[must_use]
    pub fn caused_by(mut self, source: io::Error) -> Self {
        self.inner.source = Some(source);
        self
    }
}

impl Error {
    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// What was being done.
    pub fn action(&self) -> &str {
        self.inner.action
    }

    /// The file it was done to.
    pub fn path(&self) -> Option<&Path> {
        self.inner.path.as_deref()
    }

    /// The current holder, if it is known.
    pub fn holder(&self) -> Option<&Holder> {
        self.inner.holder.as_ref()
    }

    /// What to do next, if there is something to say beyond the kind.
    pub fn next_step(&self) -> Option<&str> {
        let about = || advice::about(self.inner.source.as_ref()?);
        self.inner.hint.as_deref().or_else(about)
    }

    /// Whether the change is visible, where that could be in doubt.
    pub fn is_committed(&self) -> Option<bool> {
        self.inner.committed
    }

    /// The first and the last entry of a journal that cannot be read any more, if that is what it reports.
    pub fn gap(&self) -> Option<(u64, u64)> {
        self.inner.missing
    }

    /// The underlying error of the operating system, if there is one.
    pub fn io_error(&self) -> Option<&io::Error> {
        self.inner.source.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.inner;
        // A control character in a name must not reach a terminal or split the one line; details and hints quote names.
        let path = inner.path.as_ref().map(|path| printable(&path.display().to_string()));
        match (inner.kind, &path, &inner.holder) {
            (ErrorKind::Busy, Some(path), Some(holder)) if inner.detail.is_empty() => {
                write!(f, "{path} is {holder}")?;
            }
            (_, path, holder) => {
                write!(f, "failed to {}", inner.action)?;
                path.iter().try_for_each(|path| write!(f, " `{path}`"))?;
                if !inner.detail.is_empty() {
                    write!(f, ": {}", printable(&inner.detail))?;
                }
                holder.iter().try_for_each(|holder| write!(f, ": {holder}"))?;
            }
        }
        if let Some(source) = &inner.source {
            write!(f, ": {source}")?;
        }
        if let Some(hint) = self.next_step() {
            write!(f, "; {}", printable(hint))?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    /// The operating system's error. It is part of the one line, too.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source.as_ref().map(|source| source as _)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Busy => io::ErrorKind::WouldBlock,
            ErrorKind::Deadlock => io::ErrorKind::Deadlock,
            ErrorKind::Cancelled => io::ErrorKind::Interrupted,
            ErrorKind::Damaged => io::ErrorKind::InvalidData,
            ErrorKind::Unsupported | ErrorKind::NewerFormat => io::ErrorKind::Unsupported,
            ErrorKind::Invalid => io::ErrorKind::InvalidInput,
            ErrorKind::NotFound => io::ErrorKind::NotFound,
            ErrorKind::Io => error.io_error().map_or(io::ErrorKind::Other, io::Error::kind),
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
