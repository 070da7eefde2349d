//! JSON values to and from the values of the jq engine, without losing a digit or the order of keys.

use jaq_json::{Map as ValMap, Num, Val};
use serde_json::{Map, Number, Value};

/// As deep as a document that tenure reads back.
const DEPTH_MAX: usize = 127;
/// jq prints whole numbers up to here as integers.
const WHOLE_MAX: f64 = 1e17;

pub(super) fn to_val(value: &Value) -> Val {
    match value {
        Value::Null => Val::Null,
        Value::Bool(value) => Val::Bool(*value),
        Value::Number(number) => Val::Num(to_num(number.as_str())),
        Value::String(text) => Val::utf8_str(text.clone().into_bytes()),
        Value::Array(values) => values.iter().map(to_val).collect(),
        Value::Object(map) => {
            let pairs = map.iter();
            let pairs =
                pairs.map(|(key, value)| (Val::utf8_str(key.clone().into_bytes()), to_val(value)));
            Val::obj(pairs.collect::<ValMap>())
        }
    }
}

/// An integer that prints as it was written is one to the engine; anything else stays text until
/// somebody computes with it.
fn to_num(text: &str) -> Num {
    let integer = if text == "-0" { None } else { Num::from_str_radix(text, 10) };
    integer.unwrap_or_else(|| Num::Dec(text.to_owned().into()))
}

/// What a filter made of `before`. Most filters change little: what is as it was is copied from there, keys
/// with their places, which takes a third of the time of building it anew.
pub(super) fn from_val(val: &Val, before: &Value) -> Result<Value, String> {
    match (before, val) {
        (Value::Object(fields), Val::Obj(map)) if continues(fields, map) => {
            let mut value = before.clone();
            adopt(&mut value, val, DEPTH_MAX)?;
            Ok(value)
        }
        _ => convert(val, DEPTH_MAX),
    }
}

/// Whether `map` has all keys of `fields`, at the same places, and perhaps more behind them.
fn continues(fields: &Map<String, Value>, map: &ValMap) -> bool {
    let is_same = |(old, new): (&String, &Val)| match new {
        Val::TStr(new) => **new == *old.as_bytes(),
        _ => false,
    };
    fields.len() <= map.len() && fields.keys().zip(map.keys()).all(is_same)
}

/// Makes `value` what `val` is, where it is not that already.
fn adopt(value: &mut Value, val: &Val, depth: usize) -> Result<(), String> {
    match (&mut *value, val) {
        (Value::Null, Val::Null) => {}
        (Value::String(old), Val::TStr(new)) if **new == *old.as_bytes() => {}
        (Value::Array(old), Val::Arr(new)) if old.len() == new.len() => {
            let depth = deeper(depth)?;
            for (value, val) in old.iter_mut().zip(new.iter()) {
                adopt(value, val, depth)?;
            }
        }
        (Value::Object(old), Val::Obj(new)) if continues(old, new) => {
            let (depth, kept) = (deeper(depth)?, old.len());
            for (value, val) in old.values_mut().zip(new.values()) {
                adopt(value, val, depth)?;
            }
            for (key, val) in new.iter().skip(kept) {
                old.insert(key_text(key)?, convert(val, depth)?);
            }
        }
        _ => *value = convert(val, depth)?,
    }
    Ok(())
}

fn deeper(depth: usize) -> Result<usize, String> {
    let left = depth.checked_sub(1);
    left.ok_or_else(|| format!("its result nests deeper than {DEPTH_MAX} levels"))
}

fn convert(val: &Val, depth: usize) -> Result<Value, String> {
    Ok(match val {
        Val::Null => Value::Null,
        Val::Bool(value) => Value::Bool(*value),
        Val::Num(number) => Value::Number(from_num(number)?),
        Val::TStr(bytes) => Value::String(text(bytes)?),
        Val::BStr(_) => return Err("its result contains bytes, which JSON cannot hold".to_owned()),
        Val::Arr(values) => {
            let depth = deeper(depth)?;
            let values = values.iter().map(|value| convert(value, depth));
            Value::Array(values.collect::<Result<_, _>>()?)
        }
        Val::Obj(map) => {
            let depth = deeper(depth)?;
            let mut object = Map::with_capacity(map.len());
            for (key, value) in map.iter() {
                object.insert(key_text(key)?, convert(value, depth)?);
            }
            Value::Object(object)
        }
    })
}

fn key_text(key: &Val) -> Result<String, String> {
    match key {
        Val::TStr(key) => text(key),
        _ => Err("its result has a key that is not a string".to_owned()),
    }
}

fn text(bytes: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(bytes);
    text.map(str::to_owned).map_err(|_| "its result contains a string that is not UTF-8".to_owned())
}

fn from_num(number: &Num) -> Result<Number, String> {
    let text = match number {
        Num::Float(float) if !float.is_finite() => {
            return Err(format!("its result contains {number}, which JSON cannot hold"));
        }
        // Computed: 6 / 2 is 3, not 3.0.
        Num::Float(float) if float.fract() == 0.0 && float.abs() < WHOLE_MAX => {
            format!("{float:.0}")
        }
        number => number.to_string(),
    };
    match text.parse::<Number>() {
        // Parsing is only the check: it would write `1e3` as `1e+3`.
        Ok(_) => Ok(Number::from_string_unchecked(text)),
        Err(_) => Err(format!("its result contains {text}, which is no JSON number")),
    }
}
