//! Documents, merges and patches.

use std::path::Path;

use tenure::json::{Object, Rules};
use tenure::{Document, ErrorKind, Value, json};
use tenure_testkit::SimFs;

use super::{DOCUMENT, Fate, disk, quickly};

/// A document with arbitrary content: it is read as it is, or refused and left unchanged.
pub fn document(bytes: &[u8]) -> Fate {
    let (sim, fs) = disk();
    sim.add_file(DOCUMENT, bytes);
    let document = Document::open_on(&fs, Path::new(DOCUMENT)).expect("a path");
    let parsed = json::parse(bytes);
    let read = document.read();
    let Ok(value) = parsed else {
        assert!(read.is_err(), "a document that is no JSON was read");
        let refused = document.set(&json!(1), &quickly());
        assert!(refused.is_err(), "a damaged document was replaced");
        assert_eq!(sim.peek(DOCUMENT).as_deref(), Some(bytes), "a damaged document was changed");
        return Fate::Refused;
    };
    let snapshot = read.expect("JSON can be read").expect("it is there");
    assert_eq!(snapshot.value, value);
    assert_eq!(snapshot.bytes, bytes);
    // Written and read again: every digit, every key in its place.
    let other = Document::open_on(&fs, Path::new("/d/copy.json")).expect("a path");
    other.set(&value, &quickly()).expect("what was read can be written");
    let again = other.read().expect("what was written can be read").expect("it is there").value;
    assert_eq!(again.to_string(), value.to_string(), "a round trip changes nothing");
    Fate::Believed
}

/// Values separated by NUL: the document, and the changes.
fn values(bytes: &[u8]) -> Option<Vec<Value>> {
    bytes.split(|byte| *byte == 0).map(|text| json::parse(text).ok()).collect()
}

/// A document on a disk of its own.
struct Bench {
    sim: SimFs,
    document: Document,
}

impl Bench {
    fn new(value: &Value) -> Self {
        let (sim, fs) = disk();
        let document = Document::open_on(&fs, Path::new(DOCUMENT)).expect("a path");
        document.set(value, &quickly()).expect("a value");
        Self { sim, document }
    }

    fn value(&self) -> Value {
        self.document.read().expect("readable").expect("there").value
    }

    /// Whether it was changed; a refusal changes nothing.
    fn merge(&self, patch: &Value) -> Option<bool> {
        let before = self.sim.peek(DOCUMENT);
        match self.document.merge(patch, &rules(), &quickly()) {
            Ok(written) => Some(written.changed),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                assert_eq!(self.sim.peek(DOCUMENT), before, "a refused merge changes nothing");
                None
            }
        }
    }

    /// Whether the field has this value: a `test` of RFC 6902 compares numbers by value.
    fn has(&self, field: &str, value: &Value) -> bool {
        let test = json!([{ "op": "test", "path": format!("/{field}"), "value": value }]);
        self.document.patch(&test, &quickly()).is_ok()
    }
}

/// A rule of every kind, each for the field of its name.
fn rules() -> Rules {
    let rules = Rules::new().union("/union").and_then(|rules| rules.max("/max"));
    let rules = rules.and_then(|rules| rules.min("/min")).and_then(|rules| rules.sum("/sum"));
    rules.and_then(|rules| rules.last("/last")).expect("rules")
}

/// A merge is RFC 7396 with rules. Checks each promise of their table, for a document and one or
/// two patches.
pub fn merge(bytes: &[u8]) -> Fate {
    let (base, patch, other) = match values(bytes).as_deref() {
        Some([base, patch]) => (base.clone(), patch.clone(), None),
        Some([base, patch, other]) => (base.clone(), patch.clone(), Some(other.clone())),
        _ => return Fate::Skipped,
    };
    let bench = Bench::new(&base);
    if bench.merge(&patch).is_none() {
        return Fate::Refused;
    }
    let once = bench.value();
    if let (Value::Object(base), Value::Object(patch)) = (&base, &patch) {
        fields(&bench, base, patch);
    }
    // A sum adds again, and may exceed the range of numbers; all other rules are idempotent.
    let sums = patch.get("sum").is_some_and(|sum| !sum.is_null());
    let again = bench.merge(&patch);
    assert!(sums || again == Some(false), "the same patch again changes nothing: {again:?}");
    if sums && again.is_some() {
        twice(&bench, &base, &patch);
    }
    if let Some(other) = other {
        orders(&base, &patch, &other);
    }
    let named = ["union", "max", "min", "sum", "last"].iter().any(|rule| patch.get(rule).is_some());
    Fate::seen(named && once.as_object().is_some())
}

/// Every field after one merge.
fn fields(bench: &Bench, base: &Object, patch: &Object) {
    let once = bench.value();
    for (key, value) in base.iter().filter(|(key, _)| patch.get(key).is_none()) {
        assert_eq!(once.get(key), Some(value), "a field that no patch names");
    }
    for (key, value) in patch.iter() {
        let now = once.get(key);
        if value.is_null() {
            assert_eq!(now, None, "a tombstone deletes, whatever the rule");
            continue;
        }
        let now = now.expect("what the patch names is there");
        let stored = base.get(key).unwrap_or(&Value::Null);
        match key {
            "last" => assert_eq!(now, value, "whole, with every null in it"),
            "union" => union_holds(now, stored, value),
            "max" => assert!(not_less(now, stored) && not_less(now, value), "{now}"),
            "min" => assert!(not_less(stored, now) && not_less(value, now), "{now}"),
            "sum" if small(stored) + small(value) != 0 && whole(stored) && whole(value) => {
                assert!(bench.has("sum", &json!(small(stored) + small(value))), "{now}");
            }
            _ => {}
        }
    }
}

/// Every element of both, none twice; elements are compared as text, so numbers are left out.
fn union_holds(now: &Value, stored: &Value, patch: &Value) {
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let now = items(now);
    let plain = |item: &Value| matches!(item, Value::String(_) | Value::Bool(_) | Value::Null);
    for item in items(stored).iter().chain(&items(patch)).filter(|item| plain(item)) {
        let times = now.iter().filter(|other| *other == item).count();
        assert_eq!(times, 1, "{item} in {now:?}");
    }
    assert!(now.len() <= items(stored).len() + items(patch).len());
}

/// Numbers that a test can compute with.
fn whole(value: &Value) -> bool {
    value.is_null() || value.as_i64().is_some_and(|number| number.abs() < 1 << 40)
}

fn small(value: &Value) -> i64 {
    if whole(value) { value.as_i64().unwrap_or(0) } else { 0 }
}

/// As floats, which do not distinguish neighbours; a value that is no number is skipped.
fn not_less(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one >= other,
        _ => true,
    }
}

/// A sum that was merged twice is added twice.
fn twice(bench: &Bench, base: &Value, patch: &Value) {
    let stored = base.get("sum").unwrap_or(&Value::Null);
    if let (true, true, Some(sum)) = (whole(stored), whole(&patch["sum"]), patch.get("sum")) {
        let expected = json!(small(stored) + 2 * small(sum));
        assert!(bench.has("sum", &expected), "{} is not {expected}", bench.value()["sum"]);
    }
}

/// If two patches name only commutative fields, either may come first.
fn orders(base: &Value, one: &Value, other: &Value) {
    let careless = |patch: &Value| {
        patch.as_object().is_some_and(|fields| {
            let free = |(key, value): (&str, &Value)| {
                let rule = ["union", "max", "min", "sum"].contains(&key);
                rule && !value.is_null() && (key != "sum" || whole(value))
            };
            fields.iter().all(free)
        })
    };
    let stored = base.get("sum").is_none_or(whole);
    if !(careless(one) && careless(other) && base.as_object().is_some() && stored) {
        return;
    }
    let (forward, backward) = (Bench::new(base), Bench::new(base));
    let done = [(&forward, one), (&forward, other), (&backward, other), (&backward, one)];
    if done.iter().any(|(bench, patch)| bench.merge(patch).is_none()) {
        return;
    }
    let there = backward.value();
    for field in ["max", "min", "sum"] {
        if let Some(value) = there.get(field) {
            assert!(forward.has(field, value), "{field}: {} is not {value}", forward.value());
        }
    }
    let len = |value: &Value| value.get("union").and_then(Value::as_array).map(Vec::len);
    assert_eq!(len(&forward.value()), len(&there), "a union has the same elements in any order");
}

/// A JSON patch is applied whole or not at all.
pub fn patch(bytes: &[u8]) -> Fate {
    let Some([base, operations]) = values(bytes).and_then(|all| <[Value; 2]>::try_from(all).ok())
    else {
        return Fate::Skipped;
    };
    let bench = Bench::new(&base);
    let before = bench.sim.peek(DOCUMENT);
    if let Err(error) = bench.document.patch(&operations, &quickly()) {
        let expected = [ErrorKind::Invalid, ErrorKind::Conflict];
        assert!(expected.contains(&error.kind()), "{error}");
        assert_eq!(bench.sim.peek(DOCUMENT), before, "a refused patch changes nothing");
        return Fate::Refused;
    }
    let after = bench.sim.peek(DOCUMENT).expect("the document");
    json::parse(&after).expect("what a patch leaves is JSON");
    Fate::Believed
}
