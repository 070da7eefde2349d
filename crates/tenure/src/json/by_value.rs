//! JSON values compared as JSON means them: numbers by value, objects without regard to key order.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use serde_json::Value;

use super::number::Decimal;

/// Equal and hashed by value, so that `1.0` is the same element as `1`.
#[derive(Clone, Copy)]
pub(super) struct ByValue<'a>(pub(super) &'a Value);

impl PartialEq for ByValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self.0, other.0) {
            (Value::Number(a), Value::Number(b)) => a == b || Decimal::new(a) == Decimal::new(b),
            (Value::Array(a), Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| ByValue(a) == ByValue(b))
            }
            (Value::Object(a), Value::Object(b)) => {
                let same = |(key, value)| b.get(key).is_some_and(|b| ByValue(b) == ByValue(value));
                a.len() == b.len() && a.iter().all(same)
            }
            (a, b) => a == b,
        }
    }
}

impl Eq for ByValue<'_> {}

impl Hash for ByValue<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self.0).hash(state);
        match self.0 {
            Value::Null => {}
            Value::Bool(value) => value.hash(state),
            Value::Number(number) => Decimal::new(number).hash(state),
            Value::String(text) => text.hash(state),
            Value::Array(values) => {
                values.len().hash(state);
                for value in values {
                    ByValue(value).hash(state);
                }
            }
            // A sum does not depend on the order of the keys.
            Value::Object(object) => object
                .iter()
                .fold(0_u64, |sum, (key, value)| sum.wrapping_add(entry_hash(key, value)))
                .hash(state),
        }
    }
}

fn entry_hash(key: &str, value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    ByValue(value).hash(&mut hasher);
    hasher.finish()
}

/// The type of a value as JSON names it, for messages.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
