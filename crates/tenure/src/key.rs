//! Keys and file names: reversible, and safe on every file system.

use crate::error::{Error, ErrorKind, Result};

/// The longest file name of a key, without its suffix.
const NAME_BYTES_MAX: usize = 180;
/// Names that Windows keeps for devices, whatever the suffix.
const DEVICES: &[&str] = &["con", "prn", "aux", "nul", "com", "lpt"];

/// Lower-case letters, digits, `_`, `-` and inner dots stand for themselves; everything else becomes
/// `%XX`. Capital letters too: two keys that differ in case must not meet on a file system that
/// ignores it.
pub(crate) fn to_name(key: &str) -> Result<String> {
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
pub(crate) fn from_name(name: &str) -> Option<String> {
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
mod tests;
