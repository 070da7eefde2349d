//! What a program finds in its environment when it runs below `tenure run` or `tenure lease hold`.
//!
//! The same rules as the command line's: a program below the holder of a target uses the fence of that
//! hold for that very target, and no other; `TENURE_WAIT` is the default wait.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure::{Error, ErrorKind, Fence, Result, Wait};

/// The fence of the hold on `path` that this program runs under, if there is one.
pub(crate) fn fence_of(path: &Path) -> Result<Option<Fence>> {
    Ok(holds()?.into_iter().find(|(target, _)| target == path).map(|(_, fence)| fence))
}

/// The token for a lease on `path`: that of the environment, unless it belongs to another target.
pub(crate) fn token_for(path: &Path) -> Option<String> {
    let token = std::env::var("TENURE_TOKEN").ok().filter(|token| !token.is_empty())?;
    let other = value("TENURE_TARGET").is_some_and(|target| Path::new(&target) != path);
    (!other).then_some(token)
}

/// How long calls wait that do not say it.
pub(crate) fn wait() -> Result<Wait> {
    match value("TENURE_WAIT") {
        None => Ok(Wait::default()),
        Some(text) => parse_wait(&text.to_string_lossy()).ok_or_else(|| {
            wrong("read TENURE_WAIT", "write a duration like 500ms, 10s or 2m, 0 or forever")
        }),
    }
}

/// `500ms`, `10s`, `2m`, `1h`, `7d`, a number of seconds, or `forever`.
pub(crate) fn parse_wait(text: &str) -> Option<Wait> {
    if text == "forever" {
        return Some(Wait::Forever);
    }
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    };
    let time = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
    Some(if time.is_zero() { Wait::No } else { Wait::For(time) })
}

/// All holds that this program runs under, innermost first.
fn holds() -> Result<Vec<(PathBuf, Fence)>> {
    let mut holds = Vec::new();
    if let (Some(target), Some(fence)) = (value("TENURE_TARGET"), value("TENURE_FENCE")) {
        let fence = fence.to_str().and_then(|text| text.parse().ok());
        let fence = fence.ok_or_else(|| wrong("read TENURE_FENCE", "it is not a number"))?;
        holds.push((PathBuf::from(target), fence));
    }
    if let Some(outer) = value("TENURE_OUTER") {
        for line in outer.to_string_lossy().split('\n').filter(|line| !line.is_empty()) {
            let hold = parse_hold(line);
            holds.push(hold.ok_or_else(|| wrong("read TENURE_OUTER", "a line is not a hold"))?);
        }
    }
    Ok(holds)
}

/// `FENCE PATH`, with newlines and backslashes escaped.
fn parse_hold(line: &str) -> Option<(PathBuf, Fence)> {
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

fn value(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn wrong(action: &'static str, detail: &str) -> Error {
    Error::new(ErrorKind::Invalid, action, detail).hint("unset it or set it right")
}
