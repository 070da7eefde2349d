//! The parser: one strict pass from text to value.
//!
//! # Invariants
//!
//! 1. Nothing is dropped silently: a repeated key is refused, a number keeps its text.
//! 2. A reason is one line and reads on from the name of the document: "state.json" + "is empty".
//! 3. It never recurses deeper than [`MAX_DEPTH`].

use std::str::FromStr;

use super::MAX_DEPTH;
use super::number::Number;
use super::text::Text;
use super::value::{Object, Value};
use crate::error::{Error, ErrorKind, Result};

/// The error is the reason, as the end of a sentence.
type Parsed<T> = std::result::Result<T, String>;

/// Reads JSON as strictly as documents are read: no duplicate keys, no byte order mark, every number
/// digit for digit.
pub fn parse(text: &[u8]) -> Result<Value> {
    read(text).map_err(|why| Error::new(ErrorKind::Invalid, "read JSON", format!("it {why}")))
}

impl FromStr for Value {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text.as_bytes())
    }
}

/// Reads one JSON document.
pub(crate) fn read(bytes: &[u8]) -> Parsed<Value> {
    refuse_non_text(bytes)?;
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("is not valid UTF-8 at byte {}", error.valid_up_to()))?;
    let mut parser = Parser { text, at: 0 };
    parser.skip_space();
    let value = parser.value(MAX_DEPTH)?;
    parser.skip_space();
    if parser.at < text.len() {
        return Err(format!("has more text after its end{}", parser.place(parser.at)));
    }
    Ok(value)
}

/// Whether the text is a JSON number and nothing else.
pub(super) fn is_number(text: &str) -> bool {
    let mut parser = Parser { text, at: 0 };
    parser.number().is_ok() && parser.at == text.len()
}

/// Names the damage that a syntax error at line 1 column 1 would hide.
fn refuse_non_text(bytes: &[u8]) -> Parsed<()> {
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

struct Parser<'text> {
    text: &'text str,
    /// Always at a character boundary where a slice begins or ends: after an ASCII byte.
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Skips `byte` if it comes next, and returns whether it did.
    fn takes(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// The value that begins here; so many levels may still be opened.
    fn value(&mut self, levels: usize) -> Parsed<Value> {
        match self.peek() {
            Some(b'"') => self.string().map(Value::String),
            Some(b'{' | b'[') if levels == 0 => {
                Err(format!("nests deeper than {MAX_DEPTH} levels{}", self.place(self.at)))
            }
            Some(b'{') => self.object(levels - 1),
            Some(b'[') => self.array(levels - 1),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => self.fail("expected a value"),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Parsed<Value> {
        for byte in word.bytes() {
            if !self.takes(byte) {
                return self.fail("expected a value");
            }
        }
        Ok(value)
    }

    fn object(&mut self, levels: usize) -> Parsed<Value> {
        let start = self.at;
        let mut fields = Vec::new();
        self.members(b'}', |parser| {
            let key = parser.key()?;
            parser.skip_space();
            if !parser.takes(b':') {
                return parser.fail("expected `:`");
            }
            parser.skip_space();
            fields.push((key, parser.value(levels)?));
            Ok(())
        })?;
        Object::of(fields).map(Value::Object).map_err(|key| {
            format!("repeats the key {} in the object{}", quoted(key.as_str()), self.place(start))
        })
    }

    fn array(&mut self, levels: usize) -> Parsed<Value> {
        let mut values = Vec::new();
        self.members(b']', |parser| {
            values.push(parser.value(levels)?);
            Ok(())
        })?;
        Ok(Value::Array(values))
    }

    /// What is between brackets, the opening one of which is here.
    fn members(&mut self, close: u8, mut one: impl FnMut(&mut Self) -> Parsed<()>) -> Parsed<()> {
        self.at += 1;
        self.skip_space();
        if self.takes(close) {
            return Ok(());
        }
        loop {
            one(self)?;
            self.skip_space();
            if self.takes(close) {
                return Ok(());
            }
            if !self.takes(b',') {
                return self.fail("expected a comma or the closing bracket");
            }
            self.skip_space();
        }
    }

    fn number(&mut self) -> Parsed<Number> {
        let start = self.at;
        self.takes(b'-');
        if !self.takes(b'0') {
            self.digits()?;
        }
        if self.takes(b'.') {
            self.digits()?;
        }
        if self.takes(b'e') || self.takes(b'E') {
            if !self.takes(b'+') {
                self.takes(b'-');
            }
            self.digits()?;
        }
        Ok(Number::checked(&self.text[start..self.at]))
    }

    /// One digit or more.
    fn digits(&mut self) -> Parsed<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { self.fail("expected a digit") }
    }

    fn key(&mut self) -> Parsed<Text> {
        if self.peek() != Some(b'"') {
            return self.fail("expected a key in quotes");
        }
        match self.plain_string() {
            Some(key) => Ok(key.into()),
            None => self.string().map(|key| key.as_str().into()),
        }
    }

    /// A string, from its opening quote to after its closing one.
    fn string(&mut self) -> Parsed<String> {
        if let Some(plain) = self.plain_string() {
            return Ok(plain.to_owned());
        }
        let mut string = String::new();
        self.at += 1;
        loop {
            let start = self.at;
            self.at += plain_length(&self.text.as_bytes()[start..]);
            string.push_str(&self.text[start..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(string);
                }
                Some(b'\\') => string.push(self.escaped()?),
                _ => return self.fail("a control character must be escaped"),
            }
        }
    }

    /// The same if it has no escapes; else nothing is skipped.
    fn plain_string(&mut self) -> Option<&str> {
        let start = self.at + 1;
        let end = start + plain_length(&self.text.as_bytes()[start..]);
        if self.text.as_bytes().get(end) != Some(&b'"') {
            return None;
        }
        self.at = end + 1;
        Some(&self.text[start..end])
    }

    /// The character that an escape stands for.
    fn escaped(&mut self) -> Parsed<char> {
        self.at += 1;
        let kind = self.peek();
        self.at += 1;
        Ok(match kind {
            Some(kind @ (b'"' | b'\\' | b'/')) => char::from(kind),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let mut unit = self.hex()?;
                if (0xD800..0xDC00).contains(&unit) && self.takes(b'\\') && self.takes(b'u') {
                    let low = self.hex()?.checked_sub(0xDC00).filter(|low| *low < 0x400);
                    unit = low.map_or(unit, |low| 0x1_0000 + ((unit - 0xD800) << 10) + low);
                }
                match char::from_u32(unit) {
                    Some(letter) => letter,
                    None => return self.fail("a surrogate without its other half"),
                }
            }
            _ => {
                self.at -= 1;
                return self.fail("no such escape");
            }
        })
    }

    /// Four hexadecimal digits.
    fn hex(&mut self) -> Parsed<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|digit| char::from(digit).to_digit(16));
            let Some(digit) = digit else { return self.fail("expected four hexadecimal digits") };
            unit = unit << 4 | digit;
            self.at += 1;
        }
        Ok(unit)
    }

    #[cold]
    fn fail<T>(&self, why: &str) -> Parsed<T> {
        let place = self.place(self.at);
        Err(if self.at < self.text.len() {
            format!("has a syntax error: {why}{place}")
        } else {
            format!("ends too early{place}")
        })
    }

    /// Where a byte is, for people.
    fn place(&self, at: usize) -> String {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
        format!(" at line {line} column {column}")
    }
}

/// A key for a one-line message.
fn quoted(key: &str) -> String {
    match key.char_indices().nth(80) {
        Some((end, _)) => format!("{:?}", format!("{}...", &key[..end])),
        None => format!("{key:?}"),
    }
}

/// How many bytes come before the next quote, backslash or control character. Eight bytes at a time.
pub(super) fn plain_length(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut at = 0;
    while let Some(word) = text[at..].first_chunk() {
        let word = u64::from_le_bytes(*word);
        // In a byte below 0x80 a borrow sets the high bit: below a space, or at one of the two bytes. The
        // lowest such bit is exact: a borrow only reaches higher bytes.
        let below_space = word.wrapping_sub(ONES * 0x20);
        let equals = |byte: u8| (word ^ (ONES * u64::from(byte))).wrapping_sub(ONES);
        let special = (below_space | equals(b'"') | equals(b'\\')) & !word & HIGH;
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1F);
    at + text[at..].iter().position(is_special).unwrap_or(text.len() - at)
}
