//! Why a test failed.

use std::fmt;

use tenure::{Error, ErrorKind, Result};

/// What a store did wrong, in a line.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure(String);

/// A test passed, or failed for this reason.
pub type Outcome = std::result::Result<(), Failure>;

impl Failure {
    /// With this reason.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(format!("a call that should work returned {}: {error}", error.kind().code()))
    }
}

/// Fails the test unless this holds.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err($crate::Failure::new(format!($($why)+)));
        }
    };
}

/// Fails the test unless both are equal.
macro_rules! equal {
    ($found:expr, $wanted:expr, $($what:tt)+) => {{
        let (found, wanted) = (&$found, &$wanted);
        if found != wanted {
            let what = format!($($what)+);
            return Err($crate::Failure::new(format!("{what}: {found:?} instead of {wanted:?}")));
        }
    }};
}

pub(crate) use {ensure, equal};

/// The error of a call that must be refused with this kind.
pub(crate) fn refused<T: fmt::Debug>(
    result: Result<T>,
    kind: ErrorKind,
    what: &str,
) -> std::result::Result<Error, Failure> {
    refused_as(result, &[kind], what)
}

/// The same, for a call that may be refused in several ways.
pub(crate) fn refused_as<T: fmt::Debug>(
    result: Result<T>,
    kinds: &[ErrorKind],
    what: &str,
) -> std::result::Result<Error, Failure> {
    match result {
        Err(error) if kinds.contains(&error.kind()) => Ok(error),
        Err(error) => Err(Failure::new(format!("{what}: {kinds:?} expected, and it was {error}"))),
        Ok(done) => Err(Failure::new(format!("{what}: {kinds:?} expected, and it did {done:?}"))),
    }
}
