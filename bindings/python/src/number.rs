//! Numbers between JSON text and Python: never damaged without a word.
//!
//! A file may say `0.1234567890123456789`. As a Python float that becomes another number. So a number
//! that a float cannot hold is refused, unless the caller asked for floats or for decimals.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFloat, PyInt, PyString};
use tenure::json::Number;

use crate::argument::one_of;
use crate::error::raise;

/// The interpreter refuses to convert longer texts to an `int` by itself.
const DIGITS_MAX: usize = 4000;

/// How numbers that are not integers reach Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Numbers {
    /// As floats; one that a float cannot hold is an error.
    #[default]
    Exact,
    /// As floats, rounded.
    Float,
    /// As `decimal.Decimal`, digit for digit.
    Decimal,
}

impl<'py> FromPyObject<'_, 'py> for Numbers {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let choices = [("exact", Self::Exact), ("float", Self::Float), ("decimal", Self::Decimal)];
        one_of(&object, "numbers", &choices)
    }
}

/// A number of a document as a Python object; `None` if it would be damaged.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    number: &Number,
    numbers: Numbers,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let text = number.as_str();
    if let Ok(small) = text.parse::<i64>() {
        return Ok(Some(small.into_pyobject(py)?.into_any()));
    }
    if is_integer(text) {
        let digits = PyString::new(py, text);
        let whole = if text.len() > DIGITS_MAX {
            decimal(py)?.call1((digits,))?
        } else {
            digits.into_any()
        };
        return Ok(Some(py.get_type::<PyInt>().call1((whole,))?));
    }
    if numbers == Numbers::Decimal {
        return Ok(Some(decimal(py)?.call1((text,))?));
    }
    let float: f64 = text.parse().unwrap_or(f64::INFINITY);
    let damaged = !float.is_finite() || (numbers == Numbers::Exact && !holds(float, text));
    Ok((!damaged).then(|| PyFloat::new(py, float).into_any()))
}

/// A Python `int`, digit for digit.
pub(crate) fn from_int(int: &Bound<'_, PyInt>) -> PyResult<Number> {
    if let Ok(small) = int.extract::<i64>() {
        return Ok(small.into());
    }
    let py = int.py();
    // `Decimal` has no limit on digits, and no notion of subclasses that print otherwise.
    let text = decimal(py)?.call1((py.get_type::<PyInt>().call1((int,))?,))?.str()?;
    text.to_cow()?.parse().map_err(|error| raise(py, &error))
}

/// A `decimal.Decimal`; `None` if it is not finite.
pub(crate) fn from_decimal(object: &Bound<'_, PyAny>) -> PyResult<Option<Number>> {
    if !object.call_method0("is_finite")?.is_truthy()? {
        return Ok(None);
    }
    let text = object.str()?;
    text.to_cow()?.parse().map(Some).map_err(|error| raise(object.py(), &error))
}

/// Whether the object is a `decimal.Decimal`. Who never imported it has none.
pub(crate) fn is_decimal(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    let loaded = py.import("sys")?.getattr("modules")?.contains("decimal")?;
    Ok(loaded && object.is_instance(decimal(py)?)?)
}

fn decimal(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static DECIMAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    DECIMAL.import(py, "decimal", "Decimal")
}

/// Whether a number that Python gives back is the one it was given. Rounded floats are: only the
/// reader's view of them was rounded.
pub(crate) fn says_the_same(old: &str, new: &str, numbers: Numbers) -> bool {
    if is_integer(old) != is_integer(new) {
        return false; // 1 and 1.0 are two things to Python.
    }
    let rounded = || {
        let (before, after) = (old.parse::<f64>(), new.parse::<f64>());
        before == after && after.is_ok_and(|after| holds(after, new))
    };
    normal(old) == normal(new) || (numbers == Numbers::Float && !is_integer(new) && rounded())
}

/// Whether a number is written as an integer.
fn is_integer(text: &str) -> bool {
    !text.contains(['.', 'e', 'E'])
}

/// Whether the shortest text of `float` and `text` are the same number.
fn holds(float: f64, text: &str) -> bool {
    normal(&format!("{float:e}")) == normal(text)
}

/// The digits without zeros at either end, and the exponent of the last one. Zero has no digits.
fn normal(text: &str) -> (bool, String, i64) {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    // An exponent that fits no i64 is far beyond any float: such texts differ anyway.
    let exponent: i64 = exponent.parse().unwrap_or(i64::MAX / 2);
    let negative = mantissa.starts_with('-');
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{}{fraction}", whole.trim_start_matches('-'));
    let digits = digits.trim_start_matches('0');
    let kept = digits.trim_end_matches('0');
    if kept.is_empty() {
        return (negative, String::new(), 0);
    }
    let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX / 4);
    let dropped = length(digits) - length(kept);
    (negative, kept.to_owned(), exponent - length(fraction) + dropped)
}
