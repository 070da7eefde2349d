//! The JSON value and its accessors. Conversions are in `convert.rs`, objects in `object.rs`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use super::number::Number;
use super::text::Text;

/// A JSON value that keeps what was written: numbers digit for digit, fields in their order.
///
/// Make one with [`json!`](crate::json!), [`From`] or [`parse`](crate::json::parse); `Display` is
/// compact JSON, `{:#}` indented. Indexing reads `null` where there is nothing:
///
/// ```
/// let mut value = tenure::json!({ "name": "a", "runs": [1, 2.50] });
/// value["count"] = 3.into();
/// assert_eq!(value["count"], 3);
/// assert!(value["no"]["such"].is_null());
/// assert_eq!(value.to_string(), r#"{"name":"a","runs":[1,2.5],"count":3}"#);
/// ```
///
/// Values are equal as JSON means it: `1` is `1.0`, and the order of fields does not matter.
#[derive(Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of JSON")]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Value>),
    Object(Object),
}

/// A JSON object. Its fields keep their order; a new one comes last.
///
/// Two objects are equal if they have equal fields, in whatever order. A clone shares the fields until one
/// of the two is changed, so that cloning a document and changing a part of it copies little more than
/// that part.
#[derive(Clone, Default)]
pub struct Object(pub(super) Arc<Fields>);

/// The fields of an object, see `object.rs`.
#[derive(Clone, Default)]
pub(super) struct Fields {
    pub(super) list: Vec<(Text, Value)>,
    pub(super) table: Vec<usize>,
}

impl Value {
    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The value of a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    /// The value of a number that is written as an integer and fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number().and_then(Number::as_i64)
    }

    /// The value of a number that is written as an integer and fits.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number().and_then(Number::as_u64)
    }

    /// The float that is nearest to a number.
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number().and_then(Number::as_f64)
    }

    /// The number.
    pub(super) fn as_number(&self) -> Option<&Number> {
        if let Self::Number(number) = self { Some(number) } else { None }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The elements of an array.
    pub fn as_array(&self) -> Option<&Vec<Self>> {
        if let Self::Array(values) = self { Some(values) } else { None }
    }

    /// The elements of an array, to be changed.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Self>> {
        if let Self::Array(values) = self { Some(values) } else { None }
    }

    /// The fields of an object.
    pub fn as_object(&self) -> Option<&Object> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    /// The fields of an object, to be changed.
    pub fn as_object_mut(&mut self) -> Option<&mut Object> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    /// A field of an object.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object().and_then(|object| object.get(key))
    }

    /// The type as JSON names it, for messages.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }
}

/// Builds a [`Value`](crate::Value) from JSON with embedded expressions. Fields keep their order.
///
/// ```
/// let names = vec!["a", "b"];
/// let value = tenure::json!({ "names": names, "deep": [null, { "size": 2 * 21 }] });
/// assert_eq!(value.to_string(), r#"{"names":["a","b"],"deep":[null,{"size":42}]}"#);
/// ```
#[macro_export]
macro_rules! json {
    (@fields $object:ident) => {};
    (@fields $object:ident $key:tt : $value:tt $(, $($rest:tt)*)?) => {
        $object.insert(&$key, $crate::json!($value));
        $($crate::json!(@fields $object $($rest)*);)?
    };
    (@fields $object:ident $key:tt : $value:expr $(, $($rest:tt)*)?) => {
        $object.insert(&$key, $crate::Value::from(&$value));
        $($crate::json!(@fields $object $($rest)*);)?
    };
    (@values $array:ident) => {};
    (@values $array:ident $value:tt $(, $($rest:tt)*)?) => {
        $array.push($crate::json!($value));
        $($crate::json!(@values $array $($rest)*);)?
    };
    (@values $array:ident $value:expr $(, $($rest:tt)*)?) => {
        $array.push($crate::Value::from(&$value));
        $($crate::json!(@values $array $($rest)*);)?
    };
    (null) => { $crate::Value::Null };
    ([]) => { $crate::Value::Array(::std::vec::Vec::new()) };
    ([ $($values:tt)+ ]) => {{
        let mut array = ::std::vec::Vec::from([]);
        $crate::json!(@values array $($values)+);
        $crate::Value::Array(array)
    }};
    ({}) => { $crate::Value::Object($crate::json::Object::new()) };
    ({ $($fields:tt)+ }) => {{
        let mut object = $crate::json::Object::new();
        $crate::json!(@fields object $($fields)+);
        $crate::Value::Object(object)
    }};
    ($value:expr) => { $crate::Value::from(&$value) };
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Null => {}
            Self::Bool(value) => value.hash(state),
            Self::Number(number) => number.hash(state),
            Self::String(text) => text.hash(state),
            Self::Array(values) => values.hash(state),
            // A sum does not depend on the order of the fields.
            Self::Object(object) => {
                let hashes = object.iter().map(|field| {
                    let mut hasher = DefaultHasher::new();
                    field.hash(&mut hasher);
                    hasher.finish()
                });
                hashes.fold(0_u64, u64::wrapping_add).hash(state);
            }
        }
    }
}

impl<K: AsRef<str> + ?Sized> Index<&K> for Value {
    type Output = Self;

    /// A field; `null` if there is none.
    fn index(&self, key: &K) -> &Self {
        self.get(key.as_ref()).unwrap_or(&Self::Null)
    }
}

impl<K: AsRef<str> + ?Sized> IndexMut<&K> for Value {
    /// A field, which is created if there is none; `null` becomes an object.
    ///
    /// # Panics
    /// If the value is neither an object nor `null`.
    fn index_mut(&mut self, key: &K) -> &mut Self {
        if self.is_null() {
            *self = Self::Object(Object::new());
        }
        match self {
            Self::Object(object) => object.or_null(key.as_ref()),
            other => panic!("no field {:?} in a JSON {}", key.as_ref(), other.type_name()),
        }
    }
}

impl Index<usize> for Value {
    type Output = Self;

    /// An element; `null` if there is none.
    fn index(&self, index: usize) -> &Self {
        self.as_array().and_then(|values| values.get(index)).unwrap_or(&Self::Null)
    }
}
