//! Printing: a new document in the default style, a change as the smallest edit of the old text.
//!
//! A change is printed by walking the old value, the new one and the old text together. What is equal
//! stays as it was written; an object or array that gains or loses members takes the whitespace of its
//! neighbours; everything else is rendered in the style of the document.
//!
//! # Invariants
//!
//! 1. Parsing the result gives exactly the new value: key order and the text of numbers included.
//! 2. A value that is equal, with its fields in the same order and its numbers written alike, is no change.
//! 3. Nothing deeper than [`MAX_DEPTH`] is printed; a deeper value is refused.
//!
//! No spans are stored: the walk finds them, since the old value says what comes next in the text.

use std::fmt;
use std::ops::Range;

use super::MAX_DEPTH;
use super::parse::plain_length;
use super::style::{Place, Style};
use super::text::Text;
use super::value::Value;

/// The text of a new document.
pub(crate) fn print(value: &Value) -> Result<Vec<u8>, String> {
    let mut printer = Printer::new(Style::DEFAULT, b"");
    printer.render(value, Style::DEFAULT.line(), 0)?;
    printer.out.push(b'\n');
    Ok(printer.out)
}

/// The text of `new`, where `source` is the text of `old`; `None` if they are the same.
pub(crate) fn rewrite(source: &[u8], old: &Value, new: &Value) -> Result<Option<Vec<u8>>, String> {
    let style = Style::detect(source);
    let mut printer = Printer::new(style, source);
    printer.skip_space();
    printer.walk(old, new, style.line(), 0)?;
    if !printer.changed {
        return Ok(None);
    }
    printer.copy_to(source.len());
    Ok(Some(printer.out))
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&show(self, out.alternate()))
    }
}

/// As JSON.
impl fmt::Debug for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// The value on one line or indented, however deep it is.
fn show(value: &Value, indented: bool) -> String {
    let style =
        if indented { Style::DEFAULT } else { Style { unit: None, space: b"", ..Style::DEFAULT } };
    let mut printer = Printer::new(style, b"");
    printer.depth_max = usize::MAX;
    let _ = printer.render(value, style.line(), 0); // It refuses nothing but depth.
    String::from_utf8(printer.out).unwrap_or_default()
}

/// The brackets of an array or object.
fn brackets(value: &Value) -> Option<(u8, u8)> {
    match value {
        Value::Array(_) => Some((b'[', b']')),
        Value::Object(_) => Some((b'{', b'}')),
        _ => None,
    }
}

/// How many members an array or object has.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(values) => values.len(),
        Value::Object(object) => object.len(),
        _ => 0,
    }
}

/// The key of a member of an object.
fn key(value: &Value, at: usize) -> Option<&Text> {
    value.as_object().map(|object| object.key(at))
}

/// The value of a member.
fn member(value: &Value, at: usize) -> &Value {
    match value {
        Value::Array(values) => &values[at],
        Value::Object(object) => object.value(at),
        other => other,
    }
}

/// For each member of `new`, the old member whose text it takes over: the one with the same key. In an
/// array members are matched from the start, and those of a common end from the end.
fn origins(old: &Value, new: &Value) -> Vec<Option<usize>> {
    let (old_count, new_count) = (count(old), count(new));
    if let (Value::Object(old), Value::Object(new)) = (old, new) {
        return (0..new_count).map(|at| old.find(new.key(at))).collect();
    }
    let is_same = |old_at, new_at| member(old, old_at) == member(new, new_at);
    let shorter = old_count.min(new_count);
    let start = (0..shorter).take_while(|at| is_same(*at, *at)).count();
    let behind = (1..=shorter - start).map(|back| (old_count - back, new_count - back));
    let end = behind.take_while(|(old_at, new_at)| is_same(*old_at, *new_at)).count();
    let origin = |at| match at {
        at if at >= new_count - end => Some(at + old_count - new_count),
        at => (at < old_count - end).then_some(at),
    };
    (0..new_count).map(origin).collect()
}

/// The error says why a value cannot be printed, as the end of a sentence.
type Printed = Result<(), String>;

/// Where a member of an array or object is in the text. In an array the key is empty.
struct Span {
    key: Range<usize>,
    value: Range<usize>,
}

struct Printer<'s> {
    style: Style<'s>,
    depth_max: usize,
    /// The old text, which the parser accepted; empty for a new document.
    source: &'s [u8],
    /// The position in it.
    at: usize,
    /// What stays of the text before this position is in `out`.
    copied: usize,
    changed: bool,
    out: Vec<u8>,
}

impl<'s> Printer<'s> {
    fn new(style: Style<'s>, source: &'s [u8]) -> Self {
        let out = Vec::with_capacity(source.len());
        Self { style, depth_max: MAX_DEPTH, source, at: 0, copied: 0, changed: false, out }
    }

    /// Skips the old value, which begins here, and edits its text where the new one differs.
    fn walk(&mut self, old: &Value, new: &Value, place: Place<'s>, level: usize) -> Printed {
        let members = count(old).min(count(new)) > 0 && brackets(old) == brackets(new);
        let is_same = match (old, new) {
            (Value::Object(old), Value::Object(new)) if members => old.is_shared(new),
            (Value::Number(old), Value::Number(new)) => old.is_written_as(new),
            _ => !members && old == new,
        };
        if is_same {
            self.skip(old);
        } else if members {
            let same_count = count(old) == count(new);
            if same_count && (0..count(old)).all(|at| key(old, at) == key(new, at)) {
                return self.walk_members(old, new, level);
            }
            return self.rebuild(old, new, level);
        } else {
            self.copy_to(self.at);
            self.skip(old);
            (self.copied, self.changed) = (self.at, true);
            self.render(new, place, level)?;
        }
        Ok(())
    }

    /// [`walk`](Self::walk) for an array or object with the same keys in the same order.
    fn walk_members(&mut self, old: &Value, new: &Value, level: usize) -> Printed {
        let open = self.at;
        let mut place = None;
        for at in 0..count(old) {
            self.at += 1; // The bracket or a comma.
            self.skip_space();
            if at == 0 {
                place = self.line(open + 1..self.at);
            }
            self.skip_key(key(old, at));
            self.walk(member(old, at), member(new, at), place, level + 1)?;
            self.skip_space();
        }
        self.at += 1;
        Ok(())
    }

    /// [`walk`](Self::walk) for one that gained, lost or moved members. A member that stays keeps its text;
    /// neighbours that stay keep what is between them.
    fn rebuild(&mut self, old: &Value, new: &Value, level: usize) -> Printed {
        let (source, open) = (self.source, self.at);
        let mut spans = Vec::with_capacity(count(old));
        for at in 0..count(old) {
            self.at += 1; // The bracket or a comma.
            self.skip_space();
            let start = self.at;
            let key_end = self.skip_key(key(old, at));
            let value = self.at;
            self.skip(member(old, at));
            spans.push(Span { key: start..key_end, value: value..self.at });
            self.skip_space();
        }
        let end = self.at + 1;
        let (first, last) = (&spans[0], &spans[spans.len() - 1]);
        let gap = open + 1..first.key.start;
        let place = self.line(gap.clone());
        let between = match (spans.get(1), place) {
            (Some(second), _) => source[first.value.end..second.key.start].to_vec(),
            (None, Some(_)) => [b",", &source[gap]].concat(),
            (None, None) => [b",", self.style.space].concat(),
        };
        self.copy_to(first.key.start);
        let mut before: Option<usize> = None;
        for (at, origin) in origins(old, new).into_iter().enumerate() {
            match (before, origin) {
                _ if at == 0 => {}
                (Some(left), Some(right)) if left + 1 == right => {
                    self.out.extend(&source[spans[left].value.end..spans[right].key.start]);
                }
                _ => self.out.extend(&between),
            }
            if let Some(origin) = origin {
                (self.copied, self.at) = (spans[origin].key.start, spans[origin].value.start);
                self.walk(member(old, origin), member(new, at), place, level + 1)?;
                self.copy_to(self.at);
            } else {
                if let Some(key) = key(new, at) {
                    self.string(key.as_bytes());
                    self.out.extend(&source[first.key.end..first.value.start]);
                }
                self.render(member(new, at), place, level + 1)?;
            }
            before = origin;
        }
        (self.copied, self.at, self.changed) = (last.value.end, end, true);
        Ok(())
    }

    /// The place of members that follow an opening bracket and this whitespace.
    fn line(&self, gap: Range<usize>) -> Place<'s> {
        let gap = &self.source[gap];
        let line_end = gap.iter().rposition(|byte| *byte == b'\n')?;
        self.style.unit.map(|_| (&gap[line_end + 1..], 0))
    }

    fn copy_to(&mut self, end: usize) {
        self.out.extend(&self.source[self.copied..end]);
        self.copied = end;
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.source.get(self.at) {
            self.at += 1;
        }
    }

    /// Skips a key with its colon, and returns where the key ends.
    fn skip_key(&mut self, key: Option<&Text>) -> usize {
        let Some(key) = key else { return self.at };
        self.skip_string(key.as_bytes());
        let end = self.at;
        self.skip_space();
        self.at += 1;
        self.skip_space();
        end
    }

    /// Whether the string that begins here is `text`, written without escapes.
    fn is_plain(&self, text: &[u8]) -> bool {
        let inside = &self.source[self.at + 1..];
        inside.get(text.len()) == Some(&b'"') && inside.starts_with(text)
    }

    /// Skips a string whose value is known.
    fn skip_string(&mut self, known: &[u8]) {
        if self.is_plain(known) {
            self.at += known.len() + 2;
            return;
        }
        self.at += 1;
        loop {
            self.at += plain_length(&self.source[self.at..]);
            if self.source[self.at] == b'"' {
                break;
            }
            self.at += 2; // A backslash, and what it escapes.
        }
        self.at += 1;
    }

    /// Skips the text of a value.
    fn skip(&mut self, value: &Value) {
        match value {
            Value::Null | Value::Bool(true) => self.at += 4,
            Value::Bool(false) => self.at += 5,
            Value::Number(number) => self.at += number.text().len(),
            Value::String(text) => self.skip_string(text.as_bytes()),
            Value::Array(_) | Value::Object(_) => {
                for at in 0..count(value) {
                    self.at += 1; // The bracket or a comma.
                    self.skip_space();
                    self.skip_key(key(value, at));
                    self.skip(member(value, at));
                    self.skip_space();
                }
                if count(value) == 0 {
                    self.at += 1;
                    self.skip_space();
                }
                self.at += 1;
            }
        }
    }

    /// Prints a new value.
    fn render(&mut self, value: &Value, place: Place<'_>, level: usize) -> Printed {
        match value {
            Value::Null => self.out.extend(b"null"),
            Value::Bool(true) => self.out.extend(b"true"),
            Value::Bool(false) => self.out.extend(b"false"),
            Value::Number(number) => self.out.extend(number.text()),
            Value::String(text) => self.string(text.as_bytes()),
            Value::Array(_) | Value::Object(_) => self.render_members(value, place, level)?,
        }
        Ok(())
    }

    fn render_members(&mut self, value: &Value, place: Place<'_>, level: usize) -> Printed {
        if level >= self.depth_max {
            let max = self.depth_max;
            return Err(format!("nests deeper than {max} levels, so it could not be read back"));
        }
        let inner = place.map(|(line, units)| (line, units + 1));
        self.out.extend(brackets(value).map(|(open, _)| open));
        for at in 0..count(value) {
            if at > 0 {
                self.out.push(b',');
            }
            match inner {
                Some(inner) => self.new_line(inner),
                None if at > 0 => self.out.extend(self.style.space),
                None => {}
            }
            if let Some(key) = key(value, at) {
                self.string(key.as_bytes());
                self.out.push(b':');
                self.out.extend(self.style.space);
            }
            self.render(member(value, at), inner, level + 1)?;
        }
        if let Some(place) = place.filter(|_| count(value) > 0) {
            self.new_line(place);
        }
        self.out.extend(brackets(value).map(|(_, close)| close));
        Ok(())
    }

    fn new_line(&mut self, (line, units): (&[u8], usize)) {
        self.out.extend(self.style.newline);
        self.out.extend(line);
        for _ in 0..units {
            self.out.extend(self.style.unit.unwrap_or_default());
        }
    }

    fn string(&mut self, mut rest: &[u8]) {
        self.out.push(b'"');
        loop {
            let (plain, special) = rest.split_at(plain_length(rest));
            self.out.extend(plain);
            let Some((byte, behind)) = special.split_first() else { break };
            self.escape(*byte);
            rest = behind;
        }
        self.out.push(b'"');
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
                self.out.extend(b"\\u00");
                self.out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
                return;
            }
        };
        self.out.extend([b'\\', short]);
    }
}
