//! JSON values between the core and Python. Key order, big integers and the text of untouched numbers
//! survive; what JSON cannot say is refused, with the place where it stands.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use tenure::Value;
use tenure::json::{Number, Object};

use crate::error::invalid;
use crate::number::{self, Numbers};

/// Deeper values could not be read back; the limit also ends values that contain themselves.
const DEPTH_MAX: usize = 127;

/// A value of the core as Python objects.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    value: &Value,
    numbers: Numbers,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Number(number) => {
            number::to_python(py, number, numbers)?.ok_or_else(|| damaged(py, number, numbers))?
        }
        Value::Array(values) => {
            let list = PyList::empty(py);
            for value in values {
                list.append(to_python(py, value, numbers)?)?;
            }
            list.into_any()
        }
        Value::Object(object) => {
            let dict = PyDict::new(py);
            for (key, value) in object.iter() {
                dict.set_item(key, to_python(py, value, numbers)?)?;
            }
            dict.into_any()
        }
    })
}

fn damaged(py: Python<'_>, number: &Number, numbers: Numbers) -> PyErr {
    let shown: String = number.as_str().chars().take(60).collect();
    let way_out = match numbers {
        Numbers::Exact => "use numbers=\"decimal\" to keep it, or numbers=\"float\" to round it",
        _ => "use numbers=\"decimal\" to keep it",
    };
    let detail = format!("a float cannot hold the number {shown}; {way_out}");
    invalid(py, "read numbers as floats", detail, None)
}

/// Python objects as a value of the core.
pub(crate) fn from_python(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    Place::Top.convert(object, 0)
}

/// Where in the value we are, for the message.
enum Place<'a> {
    Top,
    Key(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
}

impl Place<'_> {
    fn convert(&self, object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
        if depth > DEPTH_MAX {
            let detail = format!("it nests deeper than {DEPTH_MAX} levels, or contains itself");
            return Err(invalid(object.py(), "write as JSON", detail, None));
        }
        if object.is_none() {
            return Ok(Value::Null);
        }
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Value::String(self.text(text)?));
        }
        if let Ok(flag) = object.cast::<PyBool>() {
            return Ok(Value::Bool(flag.is_true()));
        }
        if let Ok(int) = object.cast::<PyInt>() {
            return Ok(Value::Number(number::from_int(int)?));
        }
        if let Ok(float) = object.cast::<PyFloat>() {
            return Number::from_f64(float.value())
                .map(Value::Number)
                .ok_or_else(|| self.refuse(object, "JSON has no NaN and no infinity"));
        }
        if let Ok(dict) = object.cast::<PyDict>() {
            return self.object(dict, depth);
        }
        if let Ok(list) = object.cast::<PyList>() {
            return self.array(list.iter(), list.len(), depth);
        }
        if let Ok(tuple) = object.cast::<PyTuple>() {
            return self.array(tuple.iter(), tuple.len(), depth);
        }
        if number::is_decimal(object)? {
            return number::from_decimal(object)?
                .map(Value::Number)
                .ok_or_else(|| self.refuse(object, "JSON has no NaN and no infinity"));
        }
        let kind = object.get_type().name()?;
        Err(self.refuse(object, &format!("JSON has nothing like a Python {kind}")))
    }

    fn text(&self, text: &Bound<'_, PyString>) -> PyResult<String> {
        match text.to_cow() {
            Ok(text) => Ok(text.into_owned()),
            Err(_) => Err(self.refuse(text.as_any(), "it has surrogates, which are no text")),
        }
    }

    fn object(&self, dict: &Bound<'_, PyDict>, depth: usize) -> PyResult<Value> {
        let mut object = Object::new();
        for (key, value) in dict.iter() {
            let Ok(text) = key.cast::<PyString>() else {
                let kind = key.get_type().name()?;
                return Err(self.refuse(&key, &format!("a key is a str, not a Python {kind}")));
            };
            let key = self.text(text)?;
            let value = Place::Key(self, &key).convert(&value, depth + 1)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }

    fn array<'py>(
        &self,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
        length: usize,
        depth: usize,
    ) -> PyResult<Value> {
        let mut array = Vec::with_capacity(length);
        for (index, item) in items.enumerate() {
            array.push(Place::Index(self, index).convert(&item, depth + 1)?);
        }
        Ok(Value::Array(array))
    }

    fn refuse(&self, object: &Bound<'_, PyAny>, why: &str) -> PyErr {
        let place = self.pointer();
        let place = if place.is_empty() { "the value".to_owned() } else { format!("`{place}`") };
        invalid(object.py(), "write as JSON", format!("{place}: {why}"), None)
    }

    /// As a JSON Pointer.
    fn pointer(&self) -> String {
        match self {
            Place::Top => String::new(),
            Place::Key(outer, key) => {
                let key = key.replace('~', "~0").replace('/', "~1");
                format!("{}/{}", outer.pointer(), key.escape_debug())
            }
            Place::Index(outer, index) => format!("{}/{index}", outer.pointer()),
        }
    }
}

/// Gives numbers that are where they were, and mean the same to Python, the text that they had: who
/// changes one field of a document does not rewrite the digits of another.
pub(crate) fn keep_digits(old: &Value, new: &mut Value, numbers: Numbers) {
    match (old, new) {
        (Value::Number(old), Value::Number(new))
            if number::says_the_same(old.as_str(), new.as_str(), numbers) =>
        {
            *new = old.clone();
        }
        (Value::Array(old), Value::Array(new)) => {
            old.iter().zip(new).for_each(|(old, new)| keep_digits(old, new, numbers));
        }
        (Value::Object(old), Value::Object(new)) => {
            for (key, new) in new.iter_mut() {
                if let Some(old) = old.get(key) {
                    keep_digits(old, new, numbers);
                }
            }
        }
        _ => {}
    }
}
