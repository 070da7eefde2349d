//! A transaction of etcd: what is compared, what is done, and what came of it.
//!
//! Keys and values travel in base64, 64-bit numbers as strings. A compare with a range holds if it holds for every key
//! in it; an empty range is compared as one key that does not exist. That is how "the queue is empty" and "I am the
//! first" become one compare each.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// A range of keys: from the first to the one before the second.
pub(super) type Span = (Vec<u8>, Vec<u8>);

/// A transaction. All compares hold: the operations in `then` are done, else those in `otherwise`.
#[derive(Debug, Clone, Default)]
pub(super) struct Txn {
    pub(super) compare: Vec<Value>,
    pub(super) then: Vec<Value>,
    pub(super) otherwise: Vec<Value>,
}

impl Txn {
    /// A transaction that reads.
    pub(super) fn reading(operations: Vec<Value>) -> Self {
        Self { then: operations, ..Self::default() }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "compare": self.compare, "success": self.then, "failure": self.otherwise })
    }

    /// As an operation of another transaction.
    pub(super) fn nested(&self) -> Value {
        json!({ "request_txn": self.to_json() })
    }

    /// How many bytes of keys and values it writes, and how many operations it has at most.
    pub(super) fn size(&self) -> (usize, usize) {
        let text = |value: &Value| value.as_str().map_or(0, |text| text.len() / 4 * 3);
        let put = |operation: &Value| {
            let put = &operation["request_put"];
            text(&put["key"]) + text(&put["value"]) + 64
        };
        let bytes = self.then.iter().map(put).sum();
        (bytes, self.then.len().max(self.otherwise.len()).max(self.compare.len()))
    }
}

fn text(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Compares of one key.
pub(super) mod when {
    use super::{Span, Value, json, text};

    fn compare(key: &[u8], target: &str, result: &str, field: &str, value: Value) -> Value {
        let mut compare = json!({ "key": text(key), "target": target, "result": result });
        compare[field] = value;
        compare
    }

    fn number(key: &[u8], target: &str, result: &str, number: u64) -> Value {
        let field = if target == "CREATE" { "create_revision" } else { "mod_revision" };
        compare(key, target, result, field, Value::String(number.to_string()))
    }

    fn over(mut compare: Value, end: &[u8]) -> Value {
        compare["range_end"] = Value::String(text(end));
        compare
    }

    /// There is no such key.
    pub(in crate::etcd) fn absent(key: &[u8]) -> Value {
        number(key, "CREATE", "EQUAL", 0)
    }

    /// There is such a key.
    pub(in crate::etcd) fn present(key: &[u8]) -> Value {
        number(key, "CREATE", "GREATER", 0)
    }

    /// The key was created at this revision.
    pub(in crate::etcd) fn created(key: &[u8], revision: u64) -> Value {
        number(key, "CREATE", "EQUAL", revision)
    }

    /// The key was written last at this revision; 0 for none.
    pub(in crate::etcd) fn written(key: &[u8], revision: u64) -> Value {
        number(key, "MOD", "EQUAL", revision)
    }

    /// The key has this value.
    pub(in crate::etcd) fn value(key: &[u8], value: &[u8]) -> Value {
        compare(key, "VALUE", "EQUAL", "value", Value::String(text(value)))
    }

    /// There is no key in the range.
    pub(in crate::etcd) fn empty(span: &Span) -> Value {
        over(absent(&span.0), &span.1)
    }

    /// There is a key in the range.
    pub(in crate::etcd) fn any(span: &Span) -> Value {
        over(present(&span.0), &span.1)
    }

    /// No key in the range was created before this revision.
    pub(in crate::etcd) fn none_created_before(span: &Span, revision: u64) -> Value {
        over(number(&span.0, "CREATE", "GREATER", revision - 1), &span.1)
    }

    /// No key in the range was written after this revision.
    pub(in crate::etcd) fn none_written_after(span: &Span, revision: u64) -> Value {
        over(number(&span.0, "MOD", "LESS", revision + 1), &span.1)
    }
}

/// Operations.
pub(super) mod then {
    use super::{Span, Value, json, text};

    pub(in crate::etcd) fn put(key: &[u8], value: &[u8]) -> Value {
        json!({ "request_put": { "key": text(key), "value": text(value) } })
    }

    /// Puts a key that ends with a lease.
    pub(in crate::etcd) fn lend(key: &[u8], value: &[u8], lease: u64) -> Value {
        json!({ "request_put": {
            "key": text(key), "value": text(value), "lease": lease.to_string(),
        } })
    }

    /// Puts a key, and answers with what it was before.
    pub(in crate::etcd) fn swap(key: &[u8], value: &[u8]) -> Value {
        json!({ "request_put": { "key": text(key), "value": text(value), "prev_kv": true } })
    }

    pub(in crate::etcd) fn get(key: &[u8]) -> Value {
        json!({ "request_range": { "key": text(key) } })
    }

    /// Reads a key without its value.
    pub(in crate::etcd) fn look(key: &[u8]) -> Value {
        json!({ "request_range": { "key": text(key), "keys_only": true } })
    }

    /// Reads a range in the order of its keys; `limit` 0 for all of it.
    pub(in crate::etcd) fn range(span: &Span, limit: usize) -> Value {
        json!({ "request_range": {
            "key": text(&span.0), "range_end": text(&span.1), "limit": limit.to_string(),
        } })
    }

    /// Reads the last key of a range.
    pub(in crate::etcd) fn last(span: &Span) -> Value {
        json!({ "request_range": {
            "key": text(&span.0), "range_end": text(&span.1), "limit": "1",
            "sort_order": "DESCEND", "sort_target": "KEY",
        } })
    }

    /// Reads a range in the order in which its keys were created.
    pub(in crate::etcd) fn oldest(span: &Span, limit: usize) -> Value {
        json!({ "request_range": {
            "key": text(&span.0), "range_end": text(&span.1), "limit": limit.to_string(),
            "sort_order": "ASCEND", "sort_target": "CREATE",
        } })
    }

    /// Reads the key of a range that was created last before this revision.
    pub(in crate::etcd) fn before(span: &Span, revision: u64) -> Value {
        json!({ "request_range": {
            "key": text(&span.0), "range_end": text(&span.1), "limit": "1", "keys_only": true,
            "max_create_revision": (revision - 1).to_string(),
            "sort_order": "DESCEND", "sort_target": "CREATE",
        } })
    }

    pub(in crate::etcd) fn delete(key: &[u8]) -> Value {
        json!({ "request_delete_range": { "key": text(key) } })
    }

    pub(in crate::etcd) fn delete_all(span: &Span) -> Value {
        json!({ "request_delete_range": { "key": text(&span.0), "range_end": text(&span.1) } })
    }
}

/// A key as it is.
#[derive(Debug, Clone)]
pub(super) struct Kv {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) created: u64,
    pub(super) written: u64,
}

impl Kv {
    pub(super) fn read(value: &Value) -> Option<Self> {
        let bytes = |field: &str| {
            STANDARD.decode(value[field].as_str().unwrap_or_default()).unwrap_or_default()
        };
        value.is_object().then(|| Self {
            key: bytes("key"),
            value: bytes("value"),
            created: int(&value["create_revision"]),
            written: int(&value["mod_revision"]),
        })
    }
}

/// A 64-bit number, which the gateway writes as a string, and leaves out if it is 0.
pub(super) fn int(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}

/// What came of a transaction.
#[derive(Debug, Clone)]
pub(super) struct Done {
    pub(super) succeeded: bool,
    pub(super) revision: u64,
    responses: Vec<Value>,
}

impl Done {
    pub(super) fn read(mut body: Value) -> Self {
        let responses = match body.get_mut("responses").map(Value::take) {
            Some(Value::Array(responses)) => responses,
            _ => Vec::new(),
        };
        let succeeded = body["succeeded"].as_bool().unwrap_or(false);
        Self { succeeded, revision: int(&body["header"]["revision"]), responses }
    }

    /// The keys that the operation at this place has read.
    pub(super) fn keys(&self, place: usize) -> Vec<Kv> {
        let found = self.responses.get(place).map(|response| &response["response_range"]["kvs"]);
        let found = found.and_then(Value::as_array);
        found.map_or_else(Vec::new, |found| found.iter().filter_map(Kv::read).collect())
    }

    /// The one key that the operation at this place has read.
    pub(super) fn key(&self, place: usize) -> Option<Kv> {
        self.keys(place).pop()
    }

    /// How many operations were done.
    pub(super) fn len(&self) -> usize {
        self.responses.len()
    }

    /// How many keys there are in the range of the operation at this place, those that it did not read included.
    pub(super) fn count(&self, place: usize) -> usize {
        let count =
            self.responses.get(place).map_or(0, |found| int(&found["response_range"]["count"]));
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    /// Whether there are more keys than the operation at this place has read.
    pub(super) fn has_more(&self, place: usize) -> bool {
        let response = self.responses.get(place).map(|response| &response["response_range"]);
        response.is_some_and(|response| response["more"].as_bool().unwrap_or(false))
    }

    /// Whether its first operation wrote a key.
    pub(super) fn wrote(&self) -> bool {
        self.responses.first().is_some_and(|response| response["response_put"].is_object())
    }

    /// The key before the operation at this place wrote it.
    pub(super) fn former(&self, place: usize) -> Option<Kv> {
        Kv::read(&self.responses.get(place)?["response_put"]["prev_kv"])
    }

    /// The nested transaction at this place.
    pub(super) fn nested(&self, place: usize) -> Self {
        let body = self.responses.get(place).map(|response| response["response_txn"].clone());
        Self { revision: self.revision, ..Self::read(body.unwrap_or_default()) }
    }
}

/// What a watch asks for.
pub(super) fn watch(span: &Span, from: u64, deletes_only: bool) -> Value {
    let mut request = json!({ "key": text(&span.0), "start_revision": from.to_string() });
    if !span.1.is_empty() {
        request["range_end"] = Value::String(text(&span.1));
    }
    if deletes_only {
        request["filters"] = json!(["NOPUT"]);
    }
    json!({ "create_request": request })
}
