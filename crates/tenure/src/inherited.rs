//! What a program inherits from its parents: their holds, and how long it waits.
//!
//! `tenure run` and `tenure lease hold` name their hold to the programs below them: `TENURE_TARGET` and
//! `TENURE_FENCE` are the innermost one, `TENURE_OUTER` lists those around it, nearest first, one
//! `FENCE PATH` per line, or `FENCE:TOKEN PATH` of a lease. `\\n`, `\\\\`, `\\s` and `\\xHH` stand for a newline,
//! a backslash, a space of a token, and a byte that is not UTF-8. `TENURE_TOKEN` is the token of the lease on
//! `TENURE_TARGET`, or of any lease if there is no target (`*` in `TENURE_OUTER`). `TENURE_WAIT` is the
//! wait of calls that do not say theirs. Where a hold is on another store than the local files, its path is an address,
//! `STORE#NAME` ([`address`](crate::store::address)).
//!
//! # Invariants
//!
//! 1. A program uses the fence of the hold whose resolved path or address is its own target's, and no other.
//! 2. Nothing here reads the environment: the caller passes it in. A library whose behaviour
//!    depended on a variable would surprise its users; a command or a package may want that.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::options::Fence;
use crate::sys;
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
/// use tenure::WriteOptions;
/// use tenure::embed::Inherited;
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
    /// The tokens in `outer`, with their targets.
    outer_tokens: Vec<(PathBuf, String)>,
}

/// Stands for every target, in a line of `TENURE_OUTER`.
const ANY: &str = "*";

/// A hold around this program.
#[derive(Debug, PartialEq, Eq)]
struct Outer {
    target: PathBuf,
    fence: Fence,
    token: Option<String>,
}

impl Inherited {
    /// What the variables say; an empty one says nothing.
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let value = |name| variable(name).filter(|value| !value.is_empty());
        let outer = value(OUTER);
        let text = outer.as_ref().map(|outer| outer.to_string_lossy()).unwrap_or_default();
        // A line that cannot be read is an error to those who need its fence.
        let outer_tokens = text
            .split('\n')
            .filter_map(parse)
            .filter_map(|hold| Some((hold.target, hold.token?)))
            .collect();
        Self {
            target: value(TARGET),
            fence: value(FENCE),
            token: value(TOKEN),
            wait: value(WAIT),
            outer_tokens,
            outer,
        }
    }

    /// The fence of the hold on `path` (resolved, or an address) that this program runs under, if there is one.
    pub fn fence_of(&self, path: &Path) -> Result<Option<Fence>> {
        Ok(self.holds()?.into_iter().find(|hold| hold.target == path).map(|hold| hold.fence))
    }

    /// The token for a lease on `path` (resolved), unless it belongs to another target.
    pub fn token_for(&self, path: &Path) -> Option<&str> {
        let own = self.token.as_ref().and_then(|token| token.to_str());
        let is_other = self.target.as_ref().is_some_and(|target| Path::new(target) != path);
        let outer = |wanted: &Path| {
            let found = self.outer_tokens.iter().find(|(target, _)| target == wanted);
            found.map(|(_, token)| token.as_str())
        };
        own.filter(|_| !is_other).or_else(|| outer(path)).or_else(|| outer(Path::new(ANY)))
    }

    /// The wait of calls that do not set one.
    pub fn wait(&self) -> Result<Wait> {
        let Some(text) = &self.wait else { return Ok(Wait::default()) };
        let wrong =
            || wrong("read TENURE_WAIT", "write a duration like 500ms, 10s or 2m, 0 or forever");
        text.to_str().and_then(|text| text.parse().ok()).ok_or_else(wrong)
    }

    /// The variables for a program below a further hold; `None` takes one away. The tokens of outer leases
    /// stay with their targets.
    pub fn below(
        &self,
        path: &Path,
        fence: Fence,
        token: Option<&str>,
    ) -> Result<Vec<(&'static str, Option<OsString>)>> {
        let mut holds = self.holds()?;
        if let (Some(token), None) = (&self.token, &self.target) {
            let token = token.to_str().map(str::to_owned);
            holds.push(Outer { target: ANY.into(), fence: 0, token });
        }
        let outer = holds.iter().filter(|hold| hold.target != path);
        let lines: Vec<_> = outer.filter_map(line).collect();
        Ok(vec![
            (TARGET, Some(path.into())),
            (FENCE, Some(fence.to_string().into())),
            (OUTER, (!lines.is_empty()).then(|| lines.join("\n").into())),
            (TOKEN, token.map(OsString::from)),
        ])
    }

    /// All holds that this program runs under, innermost first.
    fn holds(&self) -> Result<Vec<Outer>> {
        let mut holds = Vec::new();
        if let (Some(target), Some(fence)) = (&self.target, &self.fence) {
            let fence = fence.to_str().and_then(|text| text.parse().ok());
            let fence = fence.ok_or_else(|| wrong("read TENURE_FENCE", "it is not a number"))?;
            let token = self.token.as_ref().and_then(|token| token.to_str()).map(str::to_owned);
            holds.push(Outer { target: PathBuf::from(target), fence, token });
        }
        let outer = self.outer.as_ref().map(|outer| outer.to_string_lossy()).unwrap_or_default();
        for text in outer.split('\n').filter(|line| !line.is_empty()) {
            let hold = parse(text);
            let wrong =
                || wrong("read TENURE_OUTER", "a line is not `FENCE PATH` or `FENCE:TOKEN PATH`");
            holds.push(hold.ok_or_else(wrong)?);
        }
        Ok(holds)
    }
}

fn wrong(action: &'static str, detail: &str) -> Error {
    Error::new(ErrorKind::Invalid, action, detail).hint("unset it or set it right")
}

/// `None` for a name that this system cannot give back from its bytes: that hold has to be proven by its fence.
fn line(hold: &Outer) -> Option<String> {
    let bytes = hold.target.as_os_str().as_encoded_bytes();
    sys::path_from_bytes(bytes.to_vec())?;
    let mut path = String::new();
    for chunk in bytes.utf8_chunks() {
        path.push_str(&chunk.valid().replace('\\', "\\\\").replace('\n', "\\n"));
        for byte in chunk.invalid() {
            let _ = write!(path, "\\x{byte:02x}");
        }
    }
    let fence = hold.fence;
    Some(match &hold.token {
        None => format!("{fence} {path}"),
        Some(token) => {
            let token = token.replace('\\', "\\\\").replace('\n', "\\n").replace(' ', "\\s");
            format!("{fence}:{token} {path}")
        }
    })
}

fn parse(line: &str) -> Option<Outer> {
    let (head, path) = line.split_once(' ')?;
    let (fence, token) = match head.split_once(':') {
        Some((fence, token)) => (fence, Some(String::from_utf8(unescape(token)?).ok()?)),
        None => (head, None),
    };
    let target = sys::path_from_bytes(unescape(path)?)?;
    Some(Outer { target, fence: fence.parse().ok()?, token })
}

fn unescape(escaped: &str) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut bytes = escaped.bytes();
    while let Some(byte) = bytes.next() {
        text.push(match byte {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b's' => b' ',
                b'\\' => b'\\',
                b'x' => {
                    let mut digit = || char::from(bytes.next()?).to_digit(16);
                    u8::try_from(digit()? * 16 + digit()?).ok()?
                }
                _ => return None,
            },
            byte => byte,
        });
    }
    Some(text)
}

#[cfg(test)]
mod tests;
