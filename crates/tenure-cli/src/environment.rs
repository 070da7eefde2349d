//! What a command finds out from, and hands down through, its environment.
//!
//! `run` and `lease hold` name their hold to the commands below them: `TENURE_TARGET` and
//! `TENURE_FENCE` are the innermost one, `TENURE_OUTER` lists those around it, nearest first, one
//! `FENCE PATH` per line with newlines and backslashes escaped. A nested command uses the fence of the
//! hold whose resolved path is its own target's, and no other.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tenure::Fence;

use crate::failure::{Failure, Result};

const TARGET: &str = "TENURE_TARGET";
const FENCE: &str = "TENURE_FENCE";
const OUTER: &str = "TENURE_OUTER";
const TOKEN: &str = "TENURE_TOKEN";

/// The fence of the hold on `path` that this command runs under, if there is one.
pub(crate) fn fence_of(path: &Path) -> Result<Option<Fence>> {
    Ok(holds()?.into_iter().find(|(target, _)| target == path).map(|(_, fence)| fence))
}

/// The token for a lease on `path`: that of the environment, unless it belongs to another target.
pub(crate) fn token_for(path: &Path) -> Option<String> {
    let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty())?;
    let other = value(TARGET).is_some_and(|target| Path::new(&target) != path);
    (!other).then_some(token)
}

/// The variables for a command below a hold. Without a token, that of an outer lease is taken away:
/// it belongs to another target.
pub(crate) fn below_hold(
    path: &Path,
    fence: Fence,
    token: Option<&str>,
) -> Result<Vec<(&'static str, Option<OsString>)>> {
    let outer: Vec<_> = holds()?.into_iter().filter(|(target, _)| target != path).collect();
    let lines: Vec<_> = outer.iter().filter_map(|(target, fence)| line(target, *fence)).collect();
    let outer = (!lines.is_empty()).then(|| lines.join("\n").into());
    Ok(vec![
        (TARGET, Some(path.into())),
        (FENCE, Some(fence.to_string().into())),
        (OUTER, outer),
        (TOKEN, token.map(OsString::from)),
    ])
}

/// All holds that this command runs under, innermost first.
fn holds() -> Result<Vec<(PathBuf, Fence)>> {
    let mut holds = Vec::new();
    if let (Some(target), Some(fence)) = (value(TARGET), value(FENCE)) {
        let fence = fence.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| {
            Failure::usage("read TENURE_FENCE", "it is not a number; unset it or set it right")
        })?;
        holds.push((PathBuf::from(target), fence));
    }
    if let Some(outer) = value(OUTER) {
        for text in outer.to_string_lossy().split('\n').filter(|line| !line.is_empty()) {
            let hold = parse(text).ok_or_else(|| {
                Failure::usage("read TENURE_OUTER", "a line is not `FENCE PATH`; unset it")
            })?;
            holds.push(hold);
        }
    }
    Ok(holds)
}

fn value(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// `None` for a name that is not UTF-8: that hold has to be proven with --fence. The innermost one is
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
}
