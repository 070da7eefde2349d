//! Values from and to Rust's own types, `serde_json::Value`, and everything that serde knows.
//!
//! serde and `serde_json::Value` do not support numbers of any size: what fits no 64-bit integer
//! becomes the nearest `f64`, and what is beyond those is an error. From and to text nothing is
//! lost. Where another crate of a build turns on serde_json's `arbitrary_precision`, serde hands
//! out fractions as objects: read text with [`parse`](crate::json::parse) there.

use std::borrow::Cow;
use std::fmt;
use std::result::Result as StdResult;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::Value as SerdeValue;

use super::number::Number;
use super::parse::is_number;
use super::value::{Object, Value};
use crate::error::{Error, ErrorKind, Result};

impl FromStr for Number {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if is_number(text) {
            return Ok(Self::checked(text));
        }
        Err(Error::new(ErrorKind::Invalid, "read a number", "it is no JSON number"))
    }
}

/// Conversion into a value, and comparison with one.
macro_rules! plain {
    ($($type:ty: $value:ident => $make:expr;)*) => {$(
        impl From<$type> for Value {
            fn from($value: $type) -> Self {
                $make
            }
        }

        impl PartialEq<$type> for Value {
            fn eq(&self, other: &$type) -> bool {
                let other = Self::from(other.clone());
                *self == other
            }
        }
    )*};
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl From<$integer> for Number {
            fn from(value: $integer) -> Self {
                Self::checked(&value.to_string())
            }
        }

        plain! { $integer: value => Self::Number(value.into()); }
    )*};
}

integers!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);

plain! {
    bool: value => Self::Bool(value);
    // JSON has no infinity and no NaN: they become null, as in JavaScript and serde_json.
    f64: value => Number::from_f64(value).map_or(Self::Null, Self::Number);
    &str: value => Self::String(value.to_owned());
    String: value => Self::String(value);
    Cow<'_, str>: value => Self::String(value.into_owned());
    Object: value => Self::Object(value);
    SerdeValue: value => match value {
        SerdeValue::Null => Self::Null,
        SerdeValue::Bool(value) => Self::Bool(value),
        // Its text is JSON, in whatever way serde_json was built.
        SerdeValue::Number(number) => number.to_string().parse().map_or(Self::Null, Self::Number),
        SerdeValue::String(text) => Self::String(text),
        SerdeValue::Array(values) => values.into_iter().collect(),
        SerdeValue::Object(fields) => Self::Object(fields.into_iter().collect()),
    };
}

impl PartialEq<str> for Value {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == Some(other)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        values.into_iter().collect()
    }
}

impl<T: Clone + Into<Value>> From<&T> for Value {
    fn from(value: &T) -> Self {
        value.clone().into()
    }
}

impl<T: Into<Value>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self::Array(values.into_iter().map(Into::into).collect())
    }
}

impl TryFrom<&Value> for SerdeValue {
    type Error = Error;

    /// Fails for a number that is beyond an `f64`.
    fn try_from(value: &Value) -> Result<Self> {
        // Not through serde: a build with `arbitrary_precision` keeps more of a number.
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(number.as_str().parse().map_err(|_| {
                let detail = format!("serde_json cannot hold the number {number}");
                Error::new(ErrorKind::Invalid, "convert JSON", detail)
            })?),
            Value::String(text) => Self::String(text.clone()),
            Value::Array(values) => values.iter().map(Self::try_from).collect::<Result<_>>()?,
            Value::Object(object) => {
                let convert = |(key, value)| Ok((key, Self::try_from(value)?));
                object.iter().map(convert).collect::<Result<_>>()?
            }
        })
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, out: S) -> StdResult<S::Ok, S::Error> {
        match self {
            Self::Null => out.serialize_unit(),
            Self::Bool(value) => out.serialize_bool(*value),
            Self::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(integer), ..) => out.serialize_i64(integer),
                (_, Some(integer), _) => out.serialize_u64(integer),
                (.., Some(float)) => out.serialize_f64(float),
                _ => Err(S::Error::custom(format_args!("no f64 can hold the number {number}"))),
            },
            Self::String(text) => out.serialize_str(text),
            Self::Array(values) => out.collect_seq(values),
            Self::Object(object) => out.collect_map(object.iter()),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(source: D) -> StdResult<Self, D::Error> {
        source.deserialize_any(Build)
    }
}

struct Build;

macro_rules! visit {
    ($($visit:ident($type:ty))*) => {$(
        fn $visit<E>(self, value: $type) -> StdResult<Value, E> {
            Ok(value.into())
        }
    )*};
}

impl<'de> Visitor<'de> for Build {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    visit! { visit_bool(bool) visit_i64(i64) visit_u64(u64) visit_f64(f64) visit_str(&str) }

    fn visit_unit<E>(self) -> StdResult<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut source: A) -> StdResult<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = source.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut source: A) -> StdResult<Value, A::Error> {
        let mut object = Object::new();
        while let Some((key, value)) = source.next_entry::<String, Value>()? {
            if object.insert(&key, value).is_some() {
                return Err(A::Error::custom(format_args!("repeats the key {key:?}")));
            }
        }
        Ok(Value::Object(object))
    }
}
