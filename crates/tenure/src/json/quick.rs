//! The quick reader: builds a value straight from text that is in order.
//!
//! serde_json hands out every number as a map of one private key, which costs more than all the rest of
//! the reading. This reader knows the same grammar and nothing else: whatever it does not understand it
//! leaves to [`parse`](super::parse), which finds the reason and its place.
//!
//! # Invariants
//!
//! 1. What it accepts, the strict reader accepts as well, as the same value, key order and the text of
//!    numbers included. Tests compare the two.
//! 2. It never recurses deeper than [`MAX_DEPTH`].

use serde_json::{Map, Number, Value};

use super::text::MAX_DEPTH;

/// The value of a whole document, or `None` if anything about it is unusual.
pub(super) fn read(text: &str) -> Option<Value> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(MAX_DEPTH)?;
    reader.skip_space();
    (reader.at == text.len()).then_some(value)
}

/// After so many fields of the outermost object it is guessed how many there are, so that room is made once
/// and not each time that it has doubled. Of an inner one nobody knows how far it goes.
const FIELDS_SEEN: usize = 12;
/// The first fields may be shorter than the others; no more room than for so many is made on a guess.
const FIELDS_GUESSED_MAX: usize = 4096;

struct Reader<'text> {
    text: &'text str,
    /// Always at a character boundary where a slice begins or ends: behind an ASCII byte.
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Whether `byte` comes next; then it is passed.
    fn takes(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, levels: usize) -> Option<Value> {
        self.skip_space();
        match self.peek()? {
            b'"' => self.string().map(Value::String),
            b'{' => self.object(levels.checked_sub(1)?),
            b'[' => self.array(levels.checked_sub(1)?),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::Null),
            _ => None,
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Option<Value> {
        let found = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += word.len();
        found.then_some(value)
    }

    fn object(&mut self, levels: usize) -> Option<Value> {
        let mut object = Map::new();
        let start = self.at;
        self.at += 1;
        self.skip_space();
        if self.takes(b'}') {
            return Some(Value::Object(object));
        }
        loop {
            self.skip_space();
            let key = if self.peek()? == b'"' { self.string()? } else { return None };
            self.skip_space();
            if !self.takes(b':') {
                return None;
            }
            let value = self.value(levels)?;
            if object.insert(key, value).is_some() {
                return None; // A repeated key.
            }
            self.skip_space();
            if self.takes(b'}') {
                return Some(Value::Object(object));
            }
            if !self.takes(b',') {
                return None;
            }
            if object.len() == FIELDS_SEEN && levels + 1 == MAX_DEPTH {
                let mut roomy = Map::with_capacity(self.fields_like(start));
                roomy.extend(object);
                object = roomy;
            }
        }
    }

    /// How many fields there are to the end of the text if they are all as long as those since `start`.
    fn fields_like(&self, start: usize) -> usize {
        let guess = (self.text.len() - start) * FIELDS_SEEN / (self.at - start);
        guess.clamp(FIELDS_SEEN, FIELDS_GUESSED_MAX)
    }

    fn array(&mut self, levels: usize) -> Option<Value> {
        let mut array = Vec::new();
        self.at += 1;
        self.skip_space();
        if self.takes(b']') {
            return Some(Value::Array(array));
        }
        loop {
            array.push(self.value(levels)?);
            self.skip_space();
            if self.takes(b']') {
                return Some(Value::Array(array));
            }
            if !self.takes(b',') {
                return None;
            }
        }
    }

    fn number(&mut self) -> Option<Value> {
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
        let text = self.text[start..self.at].to_owned();
        Some(Value::Number(Number::from_string_unchecked(text)))
    }

    /// One digit or more.
    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    /// A string, from its opening quote to behind its closing one.
    fn string(&mut self) -> Option<String> {
        self.at += 1;
        let start = self.at;
        self.at += plain_length(&self.text.as_bytes()[start..]);
        if self.peek()? == b'"' {
            self.at += 1;
            return Some(self.text[start..self.at - 1].to_owned());
        }
        let mut string = self.text[start..self.at].to_owned();
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(string);
                }
                b'\\' => string.push(self.escaped()?),
                _ => return None, // A control character.
            }
            let start = self.at;
            self.at += plain_length(&self.text.as_bytes()[start..]);
            string.push_str(&self.text[start..self.at]);
        }
    }

    /// The character that an escape stands for.
    fn escaped(&mut self) -> Option<char> {
        self.at += 1;
        let kind = self.peek()?;
        self.at += 1;
        Some(match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex()?;
                if !(0xD800..0xDC00).contains(&first) {
                    return char::from_u32(first);
                }
                if !(self.takes(b'\\') && self.takes(b'u')) {
                    return None;
                }
                let second = self.hex().filter(|unit| (0xDC00..0xE000).contains(unit))?;
                char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00))?
            }
            _ => return None,
        })
    }

    /// Four hexadecimal digits.
    fn hex(&mut self) -> Option<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4)?;
        self.at += 4;
        digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
    }
}

/// How many bytes come before the next quote, backslash or control character: eight at a time.
pub(super) fn plain_length(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let words = text.chunks_exact(8);
    let rest = words.remainder();
    for (index, word) in words.enumerate() {
        let word = u64::from_le_bytes(std::array::from_fn(|at| word[at]));
        // The lowest high bit that is set is exact: a borrow only reaches bytes behind it.
        let below_space = word.wrapping_sub(ONES * 0x20) & !word;
        let equals = |byte: u8| {
            let differs = word ^ (ONES * u64::from(byte));
            differs.wrapping_sub(ONES) & !differs
        };
        let special = (below_space | equals(b'"') | equals(b'\\')) & HIGH;
        if special != 0 {
            return index * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1F);
    text.len() - rest.len() + rest.iter().position(is_special).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::super::text::read_strictly;
    use super::*;

    /// Compact texts, so that key order and the notation of numbers count.
    fn shown(value: &Value) -> String {
        serde_json::to_string(value).expect("a value is always writable")
    }

    fn compare(text: &str) {
        let (quick, strict) = (read(text), read_strictly(text));
        if let Some(quick) = &quick {
            let strict = strict.as_ref().unwrap_or_else(|why| panic!("{text:?} {why}"));
            assert_eq!(shown(quick), shown(strict), "{text:?}");
        }
        assert_eq!(
            quick.is_some(),
            strict.is_ok(),
            "nothing valid is left to the slow one: {text:?}"
        );
    }

    #[test]
    fn both_readers_agree_on_what_is_a_document() {
        let texts = [
            "null",
            " true ",
            "false\n",
            "tru",
            "nulls",
            "0",
            "-0",
            "-0.0",
            "01",
            "1.",
            ".1",
            "1e5",
            "1E+05",
            "1e",
            "-",
            "+1",
            "1E400",
            "123456789012345678901234567890.10",
            "\"\"",
            "\"a",
            "\"a\tb\"",
            "\"a\\tb\"",
            "\"\\u0041\"",
            "\"\\ud83d\\ude00\"",
            "\"\\ud83d\"",
            "\"\\ude00\"",
            "\"\\ud83dx\"",
            "\"\\ud83d\\u0041\"",
            "\"\\u00g0\"",
            "\"\\x\"",
            "\"\\u+123\"",
            "\"\u{1F600}e\u{301}\"",
            "\"\\/\\b\\f\\n\\r\"",
            "[]",
            "[ ]",
            "[1]",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1",
            "{}",
            "{ }",
            "{\"a\":1}",
            "{\"a\":1,}",
            "{\"a\" : [ {} , {\"b\":null} ]}",
            "{a:1}",
            "{\"a\"}",
            "{\"a\":1,\"a\":2}",
            "{\"a\":1 \"b\":2}",
            "{\"\\u0061\":1,\"a\":2}",
            "1 2",
            "",
            " ",
            "\u{feff}1",
            "\"\u{7f}\"",
            "\"1234567\u{1}\"",
            "{\"$serde_json::private::Number\":\"1\"}",
            "\u{a0}1",
            "\u{b}1",
            "\"12345678\\\"90\"",
        ];
        for text in &texts {
            compare(text);
        }
        for depth in [1, 126, 127, 128, 129] {
            compare(&format!("{}1{}", "[".repeat(depth), "]".repeat(depth)));
            compare(&format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)));
        }
    }

    #[test]
    fn both_readers_agree_on_mangled_documents() {
        let seeds = [
            "{\"name\": \"a\\u00e9 \\\"x\\\"\", \"n\": [1, -2.50, 3E+7, true, null], \"deep\": {\"a\": {}}}",
            "[\"\u{1F600}\", {\"k\":\"0123456789abcdef\\\\\", \"l\": [[], [[]]]}, false, 0.1e-3]\n",
        ];
        let marks = b"\"\\{}[]:,0e.-u \n\t\x01\x7ft";
        for seed in seeds {
            for at in 0..seed.len() {
                for mark in marks {
                    for cut in [0, 1] {
                        let mut bytes = seed.as_bytes().to_vec();
                        bytes.splice(at..at + cut, [*mark]);
                        if let Ok(text) = std::str::from_utf8(&bytes) {
                            compare(text);
                        }
                    }
                }
                if seed.is_char_boundary(at) {
                    compare(&seed[..at]);
                    compare(&seed[at..]);
                }
            }
        }
    }
}
