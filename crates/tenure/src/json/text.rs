//! Reads JSON text strictly: one pass that builds the value and refuses what would be lost in it.
//!
//! # Invariants
//!
//! 1. A reason is one line and reads on from the name of the document: "state.json" + "is empty".
//! 2. No part of the text is dropped without a word: a repeated key is refused, and a number keeps
//!    its text (`1E400`, `0.1000`, `-0.0`).
//! 3. An object of the document is never taken for a number, whatever its keys are.

use std::fmt;

use memchr::{memchr2, memchr3};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use super::quick;

/// How deep arrays and objects may nest: the limit of serde_json, and so of everyone who reads our
/// files with it.
pub(super) const MAX_DEPTH: usize = 127;

/// Reads one JSON document. The error is the reason, as the end of a sentence.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    refuse_non_text(bytes)?;
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("is not valid UTF-8 at byte {}", error.valid_up_to()))?;
    quick::read(text).map_or_else(|| read_strictly(text), Ok)
}

/// Reads with serde_json, which tells what is wrong and where.
pub(super) fn read_strictly(text: &str) -> Result<Value, String> {
    let mut source = serde_json::Deserializer::from_str(text);
    let mut exponents = Exponents { rest: text.as_bytes() };
    let value = Build(&mut exponents).deserialize(&mut source).map_err(|e| reason(&e))?;
    source.end().map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("has more text after its end at line {line} column {column}")
    })?;
    Ok(value)
}

/// Names the damage that a syntax error at line 1 column 1 would hide.
fn refuse_non_text(bytes: &[u8]) -> Result<(), String> {
    let reason = if bytes.is_empty() {
        "is empty"
    } else if bytes.iter().all(|&byte| byte == 0) {
        "contains only zero bytes, as after a power loss"
    } else if bytes.starts_with(b"\xEF\xBB\xBF") {
        "starts with a UTF-8 byte order mark"
    } else if bytes.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')) {
        "contains only whitespace"
    } else {
        return Ok(());
    };
    Err(reason.to_owned())
}

fn reason(error: &serde_json::Error) -> String {
    let message = error.to_string();
    // The only way to recognise this error: it has no category of its own.
    if let Some(place) = message.strip_prefix("recursion limit exceeded") {
        return format!("nests deeper than {MAX_DEPTH} levels{place}");
    }
    match error.classify() {
        Category::Data => message,
        Category::Eof => format!("ends too early: {message}"),
        Category::Syntax | Category::Io => format!("has a syntax error: {message}"),
    }
}

/// Builds a value. serde_json's own reader would keep the last of two equal keys, rewrite
/// exponents, and take an object with its private key for a number.
struct Build<'a, 'text>(&'a mut Exponents<'text>);

impl<'de> DeserializeSeed<'de> for Build<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Build<'_, '_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    // Small integers come as integers: JSON allows only one notation for each.
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut source: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = source.next_element_seed(Build(&mut *self.0))? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    /// Objects, and all other numbers: with arbitrary precision these come as a map of one private
    /// key.
    fn visit_map<A: MapAccess<'de>>(self, mut source: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = source.next_key_seed(KeySeed)? {
            match key {
                Key::OfNumber => {
                    let text = self.0.restore(source.next_value()?);
                    return Ok(Value::Number(Number::from_string_unchecked(text)));
                }
                Key::OfObject(key) => match object.entry(key) {
                    Entry::Vacant(entry) => {
                        entry.insert(source.next_value_seed(Build(&mut *self.0))?);
                    }
                    Entry::Occupied(entry) => {
                        return Err(A::Error::custom(format_args!(
                            "repeats the key {}",
                            quoted(entry.key())
                        )));
                    }
                },
            }
        }
        Ok(Value::Object(object))
    }
}

/// A key for a one-line message. It ends in a quote, so that serde_json does not read a position
/// out of the key's own text.
fn quoted(key: &str) -> String {
    match key.char_indices().nth(80) {
        Some((end, _)) => format!("{:?}", format!("{}...", &key[..end])),
        None => format!("{key:?}"),
    }
}

enum Key {
    OfNumber,
    OfObject(String),
}

/// Tells the two kinds of keys apart by how they arrive, not by their text: a key that was written
/// in the document can be asked for as a newtype, the private key of a number only as a string.
struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Key, D::Error> {
        source.deserialize_newtype_struct("Key", self)
    }
}

impl<'de> Visitor<'de> for KeySeed {
    type Value = Key;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a key")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, source: D) -> Result<Key, D::Error> {
        String::deserialize(source).map(Key::OfObject)
    }

    fn visit_str<E>(self, _private: &str) -> Result<Key, E> {
        Ok(Key::OfNumber)
    }
}

/// The exponents of the text in order, found on demand. serde_json hands `1E5` out as `1e+5`; the
/// document must not change because somebody read it.
struct Exponents<'text> {
    rest: &'text [u8],
}

impl Exponents<'_> {
    /// The number as it was written. Numbers come in document order, so the next exponent of the
    /// text is the one of this number; the text up to here is known to be valid.
    fn restore(&mut self, mut number: String) -> String {
        if let Some(at) = number.find('e') {
            if let Some(written) = self.next() {
                number.truncate(at);
                number.extend(written.iter().map(|&byte| char::from(byte)));
            }
        }
        number
    }

    fn next(&mut self) -> Option<&[u8]> {
        loop {
            let at = memchr3(b'"', b'e', b'E', self.rest)?;
            if self.rest[at] == b'"' {
                self.rest = after_string(&self.rest[at + 1..])?;
            } else if at > 0 && self.rest[at - 1].is_ascii_digit() {
                let (exponent, rest) = split_exponent(&self.rest[at..]);
                self.rest = rest;
                return Some(exponent);
            } else {
                // The `e` of `true` or `false`.
                self.rest = &self.rest[at + 1..];
            }
        }
    }
}

/// Splits `e+12, ...` behind its last digit.
fn split_exponent(text: &[u8]) -> (&[u8], &[u8]) {
    let length = text[1..]
        .iter()
        .position(|byte| !matches!(byte, b'+' | b'-' | b'0'..=b'9'))
        .map_or(text.len(), |length| length + 1);
    text.split_at(length)
}

/// The text behind the closing quote, given the text behind the opening one.
fn after_string(mut text: &[u8]) -> Option<&[u8]> {
    loop {
        let at = memchr2(b'"', b'\\', text)?;
        if text[at] == b'"' {
            return Some(&text[at + 1..]);
        }
        text = text.get(at + 2..)?;
    }
}
