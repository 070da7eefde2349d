//! A save through the JSON of another language: it also changes what the program did not touch.
//!
//! CLI-Anything sorts the keys "for deterministic diffs" and escapes every letter that is not ASCII
//! (Python's `sort_keys` and `ensure_ascii`). JavaScript has one kind of number, a float with 53
//! bits. This protocol does both.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::state;

/// A document that is loaded, changed and written whole.
#[derive(Debug)]
pub struct RoundTrip {
    path: PathBuf,
}

impl RoundTrip {
    /// The state in `directory`.
    pub fn open(directory: &Path) -> Self {
        Self { path: state::path(directory) }
    }

    /// Changes the fields of the document.
    pub fn update(&self, change: impl FnOnce(&mut Map<String, Value>)) -> io::Result<()> {
        let mut loaded = state::read(&self.path)?;
        if let Value::Object(fields) = &mut loaded {
            change(fields);
        }
        fs::write(&self.path, escaped(&serde_json::to_string_pretty(&as_floats(loaded))?))
    }
}

impl crate::Document for RoundTrip {
    fn add(&mut self, key: &str) -> io::Result<()> {
        self.update(|fields| {
            let changed = state::with_key(Some(&Value::Object(fields.clone())), key);
            if let Value::Object(changed) = changed {
                *fields = changed;
            }
        })
    }
}

/// The document as a program sees it that has unordered objects and floats only.
fn as_floats(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            // Whole numbers are written without a fraction, as `JSON.stringify` does.
            Some(float) if float.fract() == 0.0 => {
                serde_json::from_str(&format!("{float}")).unwrap_or(Value::Null)
            }
            float => float.into(),
        },
        Value::Array(values) => values.into_iter().map(as_floats).collect(),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().collect();
            fields.sort_by(|one, other| one.0.cmp(&other.0));
            fields.into_iter().map(|(key, value)| (key, as_floats(value))).collect()
        }
        other => other,
    }
}

fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut escaped, letter| {
        if letter.is_ascii() {
            escaped.push(letter);
        } else {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
        escaped
    })
}
