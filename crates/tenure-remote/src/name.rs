//! The names of targets.
//!
//! # Invariants
//!
//! 1. Two spellings of a name are one target: `.`, `..` and doubled slashes are resolved, as in an absolute path.
//! 2. A name is UTF-8 without control characters, at most 512 bytes: every engine can keep it as it is.

use std::path::{Component, Path};

use tenure::{Error, ErrorKind, Result};

const BYTES_MAX: usize = 512;

/// The name of a target: `/a/b`.
pub(crate) fn resolved(name: &Path) -> Result<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in name.components() {
        match part {
            Component::Normal(part) => {
                parts.push(part.to_str().ok_or_else(|| invalid(name, "it is not UTF-8"))?);
            }
            Component::ParentDir => drop(parts.pop()),
            _ => {}
        }
    }
    let resolved = format!("/{}", parts.join("/"));
    if resolved.len() > BYTES_MAX {
        return Err(invalid(name, &format!("it has more than {BYTES_MAX} bytes")));
    }
    if resolved.chars().any(char::is_control) {
        return Err(invalid(name, "it has a control character"));
    }
    Ok(resolved)
}

fn invalid(name: &Path, detail: &str) -> Error {
    Error::new(ErrorKind::Invalid, "use the name", detail)
        .at(name)
        .hint("use a shorter name of printable UTF-8")
        .committed(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name_are_one_name() {
        for name in ["a/b", "/a/b", "./a//b", "/x/../a/./b", "../a/b/"] {
            assert_eq!(resolved(Path::new(name)).expect(name), "/a/b");
        }
        assert_eq!(resolved(Path::new("/")).expect("the root"), "/");
    }

    #[test]
    fn names_that_no_engine_can_keep_are_refused() {
        for name in ["a\nb", "a\0b", &"x".repeat(BYTES_MAX)] {
            let error = resolved(Path::new(name)).expect_err(name);
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
        assert!(resolved(Path::new(&"x".repeat(BYTES_MAX - 1))).is_ok());
    }
}
