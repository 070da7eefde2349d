//! Applying the difference of two values to a third one, which knows more fields than they do.

use super::value::Value;

/// Changes `value` as `before` was changed into `after`. Fields of `value` that neither of them has stay; so does
/// everything that is equal in both.
pub(crate) fn apply_difference(value: &mut Value, before: &Value, after: Value) {
    if *before == after {
        return;
    }
    match (value, before, after) {
        (Value::Object(value), Value::Object(before), Value::Object(after)) => {
            value.retain(|key, _| !before.contains_key(key) || after.contains_key(key));
            for (key, new) in after.iter() {
                match (value.get_mut(key), before.get(key)) {
                    (Some(value), Some(old)) => apply_difference(value, old, new.clone()),
                    _ => drop(value.insert(key, new.clone())),
                }
            }
        }
        (value, _, after) => *value = after,
    }
}
