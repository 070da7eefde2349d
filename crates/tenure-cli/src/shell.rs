//! Words for the shell.

use std::ffi::{OsStr, OsString};

/// The text as one word that a shell reads back, whatever bytes it has.
pub(crate) fn word(text: &OsStr) -> OsString {
    let bytes = text.as_encoded_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./+=:@%,".contains(byte);
    if !bytes.is_empty() && bytes.iter().all(is_plain) {
        return text.to_owned();
    }
    let mut word = Vec::from(*b"'");
    for byte in bytes {
        match byte {
            b'\'' => word.extend_from_slice(b"'\\''"),
            byte => word.push(*byte),
        }
    }
    word.push(b'\'');
    from_bytes(word)
}

#[cfg(unix)]
fn from_bytes(bytes: Vec<u8>) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

#[cfg(not(unix))]
fn from_bytes(bytes: Vec<u8>) -> OsString {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one() {
        for (text, expected) in
            [("/a/b.json", "/a/b.json"), ("a b", "'a b'"), ("it's", "'it'\\''s'"), ("", "''")]
        {
            assert_eq!(word(OsStr::new(text)), *expected);
        }
    }
}
