//! What a program inherits from its parents: their holds, and how long it waits.
//!
//! `tenure run` and `tenure lease hold` pass their hold to the programs below them: `TENURE_TARGET`
//! and `TENURE_FENCE` are the innermost one, `TENURE_OUTER` lists those around it, nearest first,
//! one `FENCE PATH` per line with newlines and backslashes escaped. `TENURE_TOKEN` is the token of
//! a lease, `TENURE_WAIT` the default wait.
//!
//! # Invariants
//!
//! 1. A program uses the fence of the hold whose resolved path is its own target's, and no other.
//! 2. Nothing here reads the environment: the caller passes it in. A library whose behaviour
//!    depended on a variable would surprise its users; a command or a package may want that.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::options::Fence;
use crate::wait::Wait;

const TARGET: &str = "TENURE_TARGET";
const FENCE: &str = "TENURE_FENCE";
const OUTER: &str = "TENURE_OUTER";
const TOKEN: &str = "TENURE_TOKEN";
const WAIT: &str = "TENURE_WAIT";

/// What the environment of a program says to tenure.
///
/// ```
/// use std::path::Path;
/// use tenure::{Inherited, WriteOptions};
///
/// let inherited = Inherited::read(|name| std::env::var_os(name));
/// let path = Path::new("/var/lib/agent/state.json"); // Resolved: `Document::path` and the like.
/// let options = WriteOptions {
///     wait: inherited.wait()?,
///     fence: inherited.fence_of(path)?,
///     ..WriteOptions::default()
/// };
/// # assert!(options.fence.is_none());
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inherited {
    target: Option<OsString>,
    fence: Option<OsString>,
    outer: Option<OsString>,
    token: Option<OsString>,
    wait: Option<OsString>,
}

impl Inherited {
    /// What the variables say; an empty one says nothing.
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let value = |name| variable(name).filter(|value| !value.is_empty());
        Self {
            target: value(TARGET),
            fence: value(FENCE),
            outer: value(OUTER),
            token: value(TOKEN),
            wait: value(WAIT),
        }
    }

    /// The fence of the hold on `path` (resolved) that this program runs under, if there is one.
    pub fn fence_of(&self, path: &Path) -> Result<Option<Fence>> {
        Ok(self.holds()?.into_iter().find(|(target, _)| target == path).map(|(_, fence)| fence))
    }

    /// The token for a lease on `path` (resolved), unless it belongs to another target.
    pub fn token_for(&self, path: &Path) -> Option<&str> {
        let token = self.token.as_ref()?.to_str()?;
        let other = self.target.as_ref().is_some_and(|target| Path::new(target) != path);
        (!other).then_some(token)
    }

    /// The wait of calls that do not set one.
    pub fn wait(&self) -> Result<Wait> {
        let Some(text) = &self.wait else { return Ok(Wait::default()) };
        let wrong =
            || wrong("read TENURE_WAIT", "write a duration like 500ms, 10s or 2m, 0 or forever");
        text.to_str().and_then(|text| text.parse().ok()).ok_or_else(wrong)
    }

    /// The variables for a program below a further hold; `None` removes one. Without a token, that
    /// of an outer lease is removed: it belongs to another target.
    pub fn below(
        &self,
        path: &Path,
        fence: Fence,
        token: Option<&str>,
    ) -> Result<Vec<(&'static str, Option<OsString>)>> {
        let outer = self.holds()?.into_iter().filter(|(target, _)| target != path);
        let lines: Vec<_> = outer.filter_map(|(target, fence)| line(&target, fence)).collect();
        Ok(vec![
            (TARGET, Some(path.into())),
            (FENCE, Some(fence.to_string().into())),
            (OUTER, (!lines.is_empty()).then(|| lines.join("\n").into())),
            (TOKEN, token.map(OsString::from)),
        ])
    }

    /// All holds that this program runs under, innermost first.
    fn holds(&self) -> Result<Vec<(PathBuf, Fence)>> {
        let mut holds = Vec::new();
        if let (Some(target), Some(fence)) = (&self.target, &self.fence) {
            let fence = fence.to_str().and_then(|text| text.parse().ok());
            let fence = fence.ok_or_else(|| wrong("read TENURE_FENCE", "it is not a number"))?;
            holds.push((PathBuf::from(target), fence));
        }
        let outer = self.outer.as_ref().map(|outer| outer.to_string_lossy()).unwrap_or_default();
        for text in outer.split('\n').filter(|line| !line.is_empty()) {
            let hold = parse(text);
            let wrong = || wrong("read TENURE_OUTER", "a line is not `FENCE PATH`");
            holds.push(hold.ok_or_else(wrong)?);
        }
        Ok(holds)
    }
}

fn wrong(action: &'static str, detail: &str) -> Error {
    Error::new(ErrorKind::Invalid, action, detail).hint("unset it or set it right")
}

/// `None` for a name that is not UTF-8: that hold has to be proven by its fence. The innermost one is
/// handed down whole.
fn line(target: &Path, fence: Fence) -> Option<String> {
    let path = target.to_str()?.replace('\\', "\\\\").replace('\n', "\\n");
    Some(format!("{fence} {path}"))
}

fn parse(line: &str) -> Option<(PathBuf, Fence)> {
    let (fence, escaped) = line.split_once(' ')?;
    let mut path = String::new();
    let mut letters = escaped.chars();
    while let Some(letter) = letters.next() {
        path.push(match letter {
            '\\' => match letters.next()? {
                'n' => '\n',
                '\\' => '\\',
                _ => return None,
            },
            letter => letter,
        });
    }
    Some((path.into(), fence.parse().ok()?))
}

#[cfg(test)]
mod tests;
