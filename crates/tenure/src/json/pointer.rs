//! JSON Pointers (RFC 6901): the names of places in a value.

use super::value::Value;

/// The keys and indices that lead to a place.
pub(super) type Tokens = Vec<String>;

/// Reads a pointer; the error says why it is not one.
pub(super) fn tokens(pointer: &str) -> Result<Tokens, String> {
    if pointer.is_empty() {
        return Ok(Vec::new());
    }
    let Some(rest) = pointer.strip_prefix('/') else {
        return Err(format!("{pointer:?} is not a JSON Pointer: it must be empty or start with /"));
    };
    let unescape = |token: &str| {
        if token.split('~').skip(1).all(|escaped| escaped.starts_with(['0', '1'])) {
            return Ok(token.replace("~1", "/").replace("~0", "~"));
        }
        Err(format!("{pointer:?} is not a JSON Pointer: ~ must be written ~0, and / in a key ~1"))
    };
    rest.split('/').map(unescape).collect()
}

impl Value {
    /// The value at a JSON Pointer (RFC 6901), such as `/runs/0`.
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        find(self, &tokens(pointer).ok()?)
    }
}

/// The index that a token names in an array: digits without a leading zero.
pub(super) fn index(token: &str) -> Option<usize> {
    let plain = token.bytes().all(|byte| byte.is_ascii_digit()) && !token.starts_with('0');
    if plain || token == "0" { token.parse().ok() } else { None }
}

pub(super) fn find<'v>(value: &'v Value, tokens: &[String]) -> Option<&'v Value> {
    tokens.iter().try_fold(value, |value, token| match value {
        Value::Array(values) => values.get(index(token)?),
        Value::Object(object) => object.get(token),
        _ => None,
    })
}

pub(super) fn find_mut<'v>(value: &'v mut Value, tokens: &[String]) -> Option<&'v mut Value> {
    tokens.iter().try_fold(value, |value, token| match value {
        Value::Array(values) => values.get_mut(index(token)?),
        Value::Object(object) => object.get_mut(token),
        _ => None,
    })
}
