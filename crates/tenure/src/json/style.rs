//! How a document is laid out, seen from its bytes, so that a change of one field is a change of one
//! line in somebody's diff.
//!
//! # Invariants
//!
//! 1. A document laid out in one of the known ways is written back byte for byte.
//! 2. Nothing is written that [`parse`](super::parse) would refuse for its depth.

use serde_json::Value;

use super::render::{Layout, render};
use super::text::MAX_DEPTH;

/// An indent wider than this is no habit of any writer; it is not copied.
const MAX_INDENT: usize = 16;

/// How far `detect` looks for the first separator of a one-line document.
const HEAD: usize = 4096;

/// The layout of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) indent: Indent,
    pub(crate) final_newline: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Indent {
    /// `{"a":1,"b":2}`
    None,
    /// `{"a": 1, "b": 2}`, the one line that Python writes by default.
    Separated,
    /// One value per line, this many spaces per level.
    Spaces(usize),
    /// One value per line, one tab per level.
    Tab,
}

impl Default for Style {
    /// Two spaces and a final newline: what people and `git diff` read best.
    fn default() -> Self {
        Self { indent: Indent::Spaces(2), final_newline: true }
    }
}

impl Style {
    /// The style of these bytes, from their head and their last byte. What the bytes do not tell
    /// (`{}` has no indent) is as in the default.
    pub(crate) fn detect(bytes: &[u8]) -> Self {
        let Some(last) = bytes.last() else {
            return Self::default();
        };
        let indent = detect_indent(bytes).unwrap_or(Self::default().indent);
        Self { indent, final_newline: *last == b'\n' }
    }

    /// The text of `value` in this style.
    pub(crate) fn render(&self, value: &Value) -> Result<Vec<u8>, String> {
        let spaces = match self.indent {
            Indent::Spaces(count) => " ".repeat(count),
            _ => String::new(),
        };
        let (comma, colon, indent) = match self.indent {
            Indent::None => (",", ":", None),
            Indent::Separated => (", ", ": ", None),
            Indent::Spaces(_) => (",", ": ", Some(spaces.as_str())),
            Indent::Tab => (",", ": ", Some("\t")),
        };
        let mut out = Vec::new();
        render(&mut out, Layout { comma, colon, indent }, value).ok_or_else(|| {
            format!("nests deeper than {MAX_DEPTH} levels, so it could not be read back")
        })?;
        if self.final_newline {
            out.push(b'\n');
        }
        Ok(out)
    }
}

/// Whether both have the same text in every style: keys in the same order, numbers in the same notation.
pub(crate) fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| one.0 == other.0 && is_same(one.1, other.1))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        _ => one == other,
    }
}

/// The indent of the first value inside the outermost array or object, if there is one.
fn detect_indent(bytes: &[u8]) -> Option<Indent> {
    let open = bytes.iter().take(HEAD).position(|byte| !byte.is_ascii_whitespace())?;
    if !matches!(bytes[open], b'{' | b'[') {
        return None;
    }
    let inside = &bytes[open + 1..];
    let gap = inside.iter().take(HEAD).position(|byte| !byte.is_ascii_whitespace())?;
    if matches!(inside[gap], b'}' | b']') {
        return None;
    }
    let Some(line_end) = inside[..gap].iter().rposition(|&byte| byte == b'\n') else {
        return Some(detect_separator(&inside[gap..]));
    };
    let lead = &inside[line_end + 1..gap];
    if lead.first() == Some(&b'\t') {
        return Some(Indent::Tab);
    }
    (lead.len() <= MAX_INDENT).then_some(Indent::Spaces(lead.len()))
}

/// Looks behind the first `:` or `,` that is not part of a string.
fn detect_separator(text: &[u8]) -> Indent {
    let mut in_string = false;
    let mut bytes = text.iter().take(HEAD);
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' => drop(bytes.next()),
            b':' | b',' if !in_string => {
                let spaced = bytes.next() == Some(&b' ');
                return if spaced { Indent::Separated } else { Indent::None };
            }
            _ => {}
        }
    }
    Indent::None
}
