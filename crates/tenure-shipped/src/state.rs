//! The shared document of every race: plain JSON with the list of keys that were added to it.
//!
//! A key that a process has acknowledged is a promise. The final read of the file shows which
//! promises were kept.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// The field that holds the keys (the name is GateGuard's).
const KEYS: &str = "checked";

/// The document's file in a race directory.
pub fn path(directory: &Path) -> PathBuf {
    directory.join("state.json")
}

/// What the document contains besides the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Nothing: a hook's state, a lock's journal.
    KeysOnly,
    /// A project of some 30 KB, so that one save takes several writes.
    Project,
}

impl Content {
    /// Writes the document that the race starts with.
    pub fn create(self, directory: &Path) -> io::Result<()> {
        let layers: Vec<Value> = match self {
            Self::KeysOnly => Vec::new(),
            Self::Project => (0..250).map(layer).collect(),
        };
        let document = json!({ KEYS: [], "last_active": 0, "layers": layers });
        fs::write(path(directory), serde_json::to_vec_pretty(&document)?)
    }
}

fn layer(number: u32) -> Value {
    json!({
        "id": number,
        "name": format!("layer {number}"),
        "source": format!("assets/layer-{number:04}.png"),
        "opacity": 1.0,
        "visible": true,
    })
}

/// The document with one key more.
pub fn with_key(old: Option<&Value>, key: &str) -> Value {
    with_keys(old.cloned().unwrap_or(Value::Null), [key.to_owned()])
}

/// The document with these keys added in order, each once.
pub fn with_keys(document: Value, more: impl IntoIterator<Item = String>) -> Value {
    let mut fields = match document {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let list = fields.entry(KEYS).or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(list) = list {
        let mut known: HashSet<String> =
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        list.extend(more.into_iter().filter(|key| known.insert(key.clone())).map(Value::String));
    }
    Value::Object(fields)
}

/// The keys of a parsed document, in order.
pub fn keys(document: &Value) -> impl Iterator<Item = &str> {
    document.get(KEYS).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Reads and parses the document, as any plain reader would.
pub fn read(path: &Path) -> io::Result<Value> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{keys, with_key, with_keys};

    #[test]
    fn a_key_is_added_once_and_the_rest_is_kept() {
        let document = json!({ "layers": [1], "checked": ["a"] });
        let document = with_key(Some(&document), "b");
        let document = with_keys(document, ["a".to_owned(), "c".to_owned()]);
        assert_eq!(document, json!({ "layers": [1], "checked": ["a", "b", "c"] }));
        assert_eq!(keys(&document).collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn a_missing_document_starts_empty() {
        assert_eq!(with_key(None, "a"), json!({ "checked": ["a"] }));
    }
}
