//! Writing a value as text, straight into memory.
//!
//! # Invariants
//!
//! 1. The text is the one that serde_json writes in the same layout, byte for byte. Tests compare them.
//! 2. Nothing deeper than [`MAX_DEPTH`] is written, so a value of any depth is safe to ask for.

use serde_json::Value;

use super::quick::plain_length;
use super::text::MAX_DEPTH;

/// What stands between the parts of a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout<'l> {
    pub(super) comma: &'l str,
    pub(super) colon: &'l str,
    /// One value per line, this before it for each level.
    pub(super) indent: Option<&'l str>,
}

/// Writes `value` behind `out`; `None` if it nests too deep.
pub(super) fn render(out: &mut Vec<u8>, layout: Layout<'_>, value: &Value) -> Option<()> {
    Writer { out, layout, level: 0 }.value(value)
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
    layout: Layout<'o>,
    /// How many arrays and objects are open.
    level: usize,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value) -> Option<()> {
        match value {
            Value::Null => self.text("null"),
            Value::Bool(true) => self.text("true"),
            Value::Bool(false) => self.text("false"),
            Value::Number(number) => self.text(number.as_str()),
            Value::String(string) => self.string(string),
            Value::Array(values) => {
                self.open("[")?;
                for (index, value) in values.iter().enumerate() {
                    self.next(index);
                    self.value(value)?;
                }
                self.close("]", values.is_empty());
            }
            Value::Object(fields) => {
                self.open("{")?;
                for (index, (key, value)) in fields.iter().enumerate() {
                    self.next(index);
                    self.string(key);
                    self.text(self.layout.colon);
                    self.value(value)?;
                }
                self.close("}", fields.is_empty());
            }
        }
        Some(())
    }

    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn open(&mut self, bracket: &str) -> Option<()> {
        self.level += 1;
        self.text(bracket);
        (self.level <= MAX_DEPTH).then_some(())
    }

    fn next(&mut self, index: usize) {
        if index > 0 {
            self.text(self.layout.comma);
        }
        self.new_line();
    }

    fn close(&mut self, bracket: &str, is_empty: bool) {
        self.level -= 1;
        if !is_empty {
            self.new_line();
        }
        self.text(bracket);
    }

    fn new_line(&mut self) {
        if let Some(indent) = self.layout.indent {
            self.text("\n");
            for _ in 0..self.level {
                self.text(indent);
            }
        }
    }

    fn string(&mut self, string: &str) {
        let mut rest = string.as_bytes();
        self.text("\"");
        loop {
            let (plain, special) = rest.split_at(plain_length(rest));
            self.out.extend_from_slice(plain);
            let Some((byte, behind)) = special.split_first() else { break };
            self.escape(*byte);
            rest = behind;
        }
        self.text("\"");
    }

    /// A quote, a backslash or a control character.
    fn escape(&mut self, byte: u8) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let short = match byte {
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0C => b'f',
            b'\r' => b'r',
            b'"' | b'\\' => byte,
            _ => {
                self.text("\\u00");
                self.out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
                return;
            }
        };
        self.out.extend([b'\\', short]);
    }
}
