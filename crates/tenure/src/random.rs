//! Randomness of the operating system: names that never repeat, tokens that cannot be guessed.

use crate::error::{Error, ErrorKind, Result};

/// Sixty-four random bits.
pub(crate) fn number() -> Result<u64> {
    getrandom::u64().map_err(failed)
}

/// A secret of 128 random bits, as 32 hexadecimal digits.
pub(crate) fn token() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

fn failed(err: getrandom::Error) -> Error {
    Error::new(ErrorKind::Io, "get random bytes from the system", err.to_string())
}
