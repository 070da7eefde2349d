//! Keys and file names: reversible, and safe on every file system.

use crate::error::{Error, ErrorKind, Result};

/// The longest file name of a key, without its suffix.
const NAME_BYTES_MAX: usize = 180;
/// Names that Windows keeps for devices, whatever the suffix.
const DEVICES: &[&str] = &["con", "prn", "aux", "nul", "com", "lpt"];

/// Lower-case letters, digits, `_`, `-` and inner dots stand for themselves; everything else becomes
/// `%XX`. Capital letters too: two keys that differ in case must not meet on a file system that
/// ignores it.
pub(super) fn to_name(key: &str) -> Result<String> {
    use std::fmt::Write;
    let mut name = String::with_capacity(key.len());
    for (index, byte) in key.bytes().enumerate() {
        let inner = index > 0 && index + 1 < key.len();
        let plain = match byte {
            b'a'..=b'z' => index > 0 || !is_device(key),
            b'0'..=b'9' | b'_' | b'-' => true,
            b'.' => inner,
            _ => false,
        };
        if plain {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02X}");
        }
    }
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let detail = format!("a key has 1 to {NAME_BYTES_MAX} bytes in its file name");
        return Err(Error::new(ErrorKind::Invalid, "use key", detail));
    }
    Ok(name)
}

/// The key of a file name, if some key has that name.
pub(super) fn from_name(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    let key = String::from_utf8(bytes).ok()?;
    (to_name(&key).ok()?.as_str() == name).then_some(key)
}

fn is_device(key: &str) -> bool {
    let stem = key.split('.').next().unwrap_or_default();
    let stem = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    DEVICES.contains(&stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_name_of_its_own_that_stays_in_the_directory() {
        let keys = [
            "a",
            "A",
            "a.b",
            "..",
            ".",
            ".a",
            "a.",
            "a/b",
            "a\\b",
            "con",
            "con.x",
            "com1",
            "%41",
            "caf\u{e9}",
            "cafe\u{301}",
            "new\nline",
            "-rf",
            "~",
            "session 1",
            "\u{1F600}",
        ];
        let mut names: Vec<_> = keys.iter().map(|key| to_name(key).unwrap()).collect();
        for (key, name) in keys.iter().zip(&names) {
            assert_eq!(from_name(name).as_deref(), Some(*key));
            assert!(!name.starts_with('.') && !name.contains(['/', '\\']), "{name}");
            assert_eq!(name.to_lowercase().to_uppercase(), name.to_uppercase());
        }
        for name in &mut names {
            name.make_ascii_lowercase();
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), keys.len(), "no two keys share a name, whatever the case");
    }

    #[test]
    fn empty_and_overlong_keys_and_foreign_names_are_refused() {
        assert!(to_name("").is_err());
        assert!(to_name(&"x".repeat(NAME_BYTES_MAX + 1)).is_err());
        for name in ["A", "%4", "%zz", "%61", ".a", "state (copy)"] {
            assert_eq!(from_name(name), None, "{name}");
        }
    }
}
