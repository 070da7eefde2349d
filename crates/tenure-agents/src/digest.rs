//! SHA-256 in hexadecimal digits.

use std::fmt::Write;

/// The first 24 digits: a name for what is too long to be one.
pub(crate) fn short(text: &str) -> String {
    hex(&hmac_sha256::Hash::hash(text.as_bytes())[..12])
}

/// Thirty-two digits that only the owner of `secret` can compute.
pub(crate) fn keyed(secret: &str, text: &str) -> String {
    hex(&hmac_sha256::HMAC::mac(text.as_bytes(), secret.as_bytes())[..16])
}

/// Two digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_other_tools() {
        assert_eq!(short("abc"), "ba7816bf8f01cfea414140de");
        assert_ne!(keyed("a", "x"), keyed("b", "x"));
        assert_eq!(keyed("a", "x").len(), 32);
    }
}
