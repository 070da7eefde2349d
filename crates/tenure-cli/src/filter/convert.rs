//! JSON values to and from the values of the jq engine, without losing a digit or the order of keys.

use jaq_json::{Map as ValMap, Num, Val};
use tenure::Value;
use tenure::json::{Number, Object};

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
        Value::Object(object) => {
            let fields = object.iter();
            let fields =
                fields.map(|(key, value)| (Val::utf8_str(key.as_bytes().to_vec()), to_val(value)));
            Val::obj(fields.collect::<ValMap>())
        }
    }
}

/// An integer that prints as it was written is one to the engine; anything else stays text until a filter
/// computes with it.
fn to_num(text: &str) -> Num {
    let integer = if text == "-0" { None } else { Num::from_str_radix(text, 10) };
    integer.unwrap_or_else(|| Num::Dec(text.to_owned().into()))
}

/// What a filter made.
pub(super) fn from_val(val: &Val) -> Result<Value, String> {
    convert(val, DEPTH_MAX)
}

fn convert(val: &Val, depth: usize) -> Result<Value, String> {
    let deeper = || {
        let left = depth.checked_sub(1);
        left.ok_or_else(|| format!("its result nests deeper than {DEPTH_MAX} levels"))
    };
    Ok(match val {
        Val::Null => Value::Null,
        Val::Bool(value) => Value::Bool(*value),
        Val::Num(number) => Value::Number(from_num(number)?),
        Val::TStr(bytes) => Value::String(text(bytes)?.to_owned()),
        Val::BStr(_) => return Err("its result contains bytes, which JSON cannot hold".to_owned()),
        Val::Arr(values) => {
            let depth = deeper()?;
            let values = values.iter().map(|value| convert(value, depth));
            Value::Array(values.collect::<Result<_, _>>()?)
        }
        Val::Obj(map) => {
            let depth = deeper()?;
            let mut object = Object::new();
            for (key, value) in map.iter() {
                let Val::TStr(key) = key else {
                    return Err("its result has a key that is not a string".to_owned());
                };
                object.insert(text(key)?, convert(value, depth)?);
            }
            Value::Object(object)
        }
    })
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    let text = std::str::from_utf8(bytes);
    text.map_err(|_| "its result contains a string that is not UTF-8".to_owned())
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
    text.parse().map_err(|_| format!("its result contains {text}, which is no JSON number"))
}
