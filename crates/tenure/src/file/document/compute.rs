//! From what is on the disk to the bytes that replace it: by value, in the layout that the document has,
//! or by text, in the caller's own.
//!
//! Invariant: where a value goes with bytes, it is exactly what the parser makes of them. The printer relies
//! on it.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::json::{self, Value};

/// A document as it is now: its bytes and their value.
pub(crate) type Current<'a> = Option<(&'a [u8], &'a Value)>;

/// A document as it shall be: its bytes and their value, if that is known.
pub(crate) struct New {
    pub(crate) bytes: Vec<u8>,
    pub(crate) value: Option<Value>,
}

/// The bytes of what `compute` makes of the value; `None` if that is no change. The same value in
/// another layout is none.
pub(crate) fn by_value<'f>(
    path: &'f Path,
    mut compute: impl FnMut(Option<&Value>) -> Result<Option<Value>> + 'f,
) -> impl FnMut(Current<'_>) -> Result<Option<New>> + 'f {
    move |current| {
        let Some(value) = compute(current.map(|(_, value)| value))? else { return Ok(None) };
        let bytes = match current {
            Some((bytes, old)) => json::rewrite(bytes, old, &value),
            None => json::print(&value).map(Some),
        };
        let bytes = bytes.map_err(|why| refused(path, format!("the new value {why}")))?;
        Ok(bytes.map(|bytes| New { bytes, value: Some(value) }))
    }
}

/// The text that `compute` makes of the text, checked; `None` if it is the same to the byte.
pub(crate) fn by_text<'f>(
    path: &'f Path,
    mut compute: impl FnMut(Option<&str>) -> Result<Option<String>> + 'f,
) -> impl FnMut(Current<'_>) -> Result<Option<New>> + 'f {
    move |current| {
        let old = current.map(|(bytes, _)| std::str::from_utf8(bytes)).transpose();
        let old = old.map_err(|_| refused(path, "the old text is not UTF-8".into()))?;
        let Some(text) = compute(old)? else { return Ok(None) };
        if old == Some(text.as_str()) {
            return Ok(None);
        }
        let value = json::parse(text.as_bytes());
        let value = value.map_err(|why| refused(path, format!("the new text {why}")))?;
        Ok(Some(New { bytes: text.into_bytes(), value: Some(value) }))
    }
}

fn refused(path: &Path, detail: String) -> Error {
    Error::new(ErrorKind::Invalid, "write document", detail).at(path)
}
