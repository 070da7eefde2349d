//! What a program inherits from those that run it: the holds around it, and how long it waits.
//!
//! `tenure run` and `tenure lease hold` name their hold to the programs below them: `TENURE_TARGET` and
//! `TENURE_FENCE` are the innermost one, `TENURE_OUTER` lists those around it, nearest first, one
//! `FENCE PATH` per line with newlines and backslashes escaped. `TENURE_TOKEN` is the token of a lease,
//! `TENURE_WAIT` the wait of calls that do not say theirs.
//!
//! # Invariants
//!
//! 1. A program uses the fence of the hold whose resolved path is its own target's, and no other.
//! 2. Nothing here reads the environment: whoever calls brings it. A library that changed its mind
//!    because of a variable would surprise those who link it; a command or a package may want that.

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

    /// How long calls wait that do not say it.
    pub fn wait(&self) -> Result<Wait> {
        let Some(text) = &self.wait else { return Ok(Wait::default()) };
        let wrong =
            || wrong("read TENURE_WAIT", "write a duration like 500ms, 10s or 2m, 0 or forever");
        text.to_str().and_then(|text| text.parse().ok()).ok_or_else(wrong)
    }

    /// The variables for a program below a further hold; `None` takes one away. Without a token, that
    /// of an outer lease goes: it belongs to another target.
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
mod tests {
    use super::*;

    /// A program with these variables.
    fn given(variables: &[(&str, &str)]) -> Inherited {
        Inherited::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    /// The variables that a program below `inherited` finds.
    fn below(inherited: &Inherited, path: &str, fence: Fence, token: Option<&str>) -> Inherited {
        let variables = inherited.below(Path::new(path), fence, token).unwrap();
        Inherited::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.and_then(|(_, value)| value.clone())
        })
    }

    #[test]
    fn an_outer_hold_reads_back_as_it_was_written() {
        for path in ["/a/b", "/a b/c=d", "/new\nline", "/back\\slash\\n", "/tail\\"] {
            let line = line(Path::new(path), 42).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(parse(&line), Some((PathBuf::from(path), 42)), "{path}");
        }
        for wrong in ["", "42", "x /a", "42 /a\\", "42 /a\\x"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_program_knows_every_hold_around_it_and_no_other() {
        let outer = below(&Inherited::default(), "/a", 1, Some("token of a"));
        let inner = below(&below(&outer, "/b\nc", 2, None), "/d", 3, None);
        let fence = |path: &str| inner.fence_of(Path::new(path)).unwrap();
        assert_eq!([fence("/a"), fence("/b\nc"), fence("/d")], [Some(1), Some(2), Some(3)]);
        assert_eq!(fence("/b"), None);
        // A second hold on the same target takes the place of the first.
        let again = below(&inner, "/a", 9, None);
        assert_eq!(again.fence_of(Path::new("/a")).unwrap(), Some(9));
    }

    #[test]
    fn a_token_belongs_to_its_target() {
        let leased = below(&Inherited::default(), "/a", 1, Some("token"));
        assert_eq!(leased.token_for(Path::new("/a")), Some("token"));
        assert_eq!(leased.token_for(Path::new("/b")), None);
        assert_eq!(below(&leased, "/b", 2, None).token_for(Path::new("/a")), None);
        assert_eq!(given(&[(TOKEN, "t")]).token_for(Path::new("/any")), Some("t"));
        assert_eq!(given(&[(TOKEN, "")]).token_for(Path::new("/any")), None);
    }

    #[test]
    fn what_cannot_be_read_is_told_to_those_who_need_it() {
        let broken = given(&[(TARGET, "/a"), (FENCE, "many"), (WAIT, "soon")]);
        assert_eq!(broken.fence_of(Path::new("/a")).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(broken.wait().unwrap_err().kind(), ErrorKind::Invalid);
        assert!(given(&[(OUTER, "x")]).fence_of(Path::new("/a")).is_err());
        assert_eq!(given(&[]).wait().unwrap(), Wait::default());
        assert_eq!(given(&[(WAIT, "0")]).wait().unwrap(), Wait::No);
    }
}
