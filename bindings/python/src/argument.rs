//! Single arguments: what they mean to the core, and what is said of those that mean nothing.
//!
//! An argument of a wrong type is an `ArgumentError`, which is an `InvalidError` and a `TypeError`; one
//! of the right type and a wrong value is an `InvalidError`. Both quote it.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use tenure::Wait;

use crate::error::{argument, exception};

/// How much of a value is shown.
const SHOWN_CHARS: usize = 60;

/// What a time may be.
const SECONDS: &str = "a number of seconds, or a text like \"500ms\", \"10s\" or \"2m\"";
/// What a wait may be.
const WAIT: &str =
    "a number of seconds, None for ever, or a text like \"500ms\", \"10s\", \"2m\" or \"forever\"";

/// The argument is of a wrong type.
pub(crate) fn wrong_type(given: &Bound<'_, PyAny>, name: &str, wanted: &str) -> PyErr {
    argument(given.py(), &format!("read {name}"), &complaint(given, name, wanted))
}

/// The argument is of the right type, but out of bounds.
fn wrong_value(given: &Bound<'_, PyAny>, name: &str, wanted: &str) -> PyErr {
    let message = complaint(given, name, wanted);
    exception(given.py(), "invalid", &message, None).unwrap_or_else(|failure| failure)
}

fn complaint(given: &Bound<'_, PyAny>, name: &str, wanted: &str) -> String {
    format!("failed to read {name}: it must be {wanted}, not {}", shown(given))
}

/// A value as a programmer would write it, cut if it is long.
fn shown(given: &Bound<'_, PyAny>) -> String {
    let whole = match (given.repr(), given.get_type().name()) {
        (Ok(text), _) => text.to_string_lossy().into_owned(),
        (Err(_), Ok(name)) => format!("a value of type {name}"), // Its own `__repr__` fails.
        (Err(_), Err(_)) => "a value without a name".to_owned(),
    };
    match whole.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}...", &whole[..end]),
        None => whole,
    }
}

pub(crate) fn text(given: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
    given.extract().map_err(|_| wrong_type(given, name, "a str"))
}

pub(crate) fn flag(given: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    given.extract().map_err(|_| wrong_type(given, name, "True or False"))
}

/// A fence, sequence number or count.
pub(crate) fn whole(given: &Bound<'_, PyAny>, name: &str) -> PyResult<u64> {
    given.extract().map_err(|_| wrong_type(given, name, "a whole number from 0 to 2**64 - 1"))
}

pub(crate) fn texts(given: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<String>> {
    given.extract().map_err(|_| wrong_type(given, name, "a list of str"))
}

/// A function. Found out before anything is locked, not when it is called.
pub(crate) fn callable(given: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
    if given.is_callable() {
        return Ok(());
    }
    Err(wrong_type(given, name, "a function"))
}

/// One of a few words.
pub(crate) fn one_of<T: Copy>(
    given: &Bound<'_, PyAny>,
    name: &str,
    choices: &[(&str, T)],
) -> PyResult<T> {
    let words: Vec<_> = choices.iter().map(|(word, _)| format!("{word:?}")).collect();
    let wanted = format!("one of {}", words.join(", "));
    let Ok(word) = given.extract::<String>() else { return Err(wrong_type(given, name, &wanted)) };
    let found = choices.iter().find(|(known, _)| *known == word);
    found.map(|(_, choice)| *choice).ok_or_else(|| wrong_value(given, name, &wanted))
}

/// A time that ends.
pub(crate) fn seconds(given: &Bound<'_, PyAny>, name: &str) -> PyResult<Duration> {
    match time(given, name, SECONDS)? {
        Wait::No => Ok(Duration::ZERO),
        Wait::For(time) => Ok(time),
        Wait::Forever => Err(wrong_value(given, name, SECONDS)),
    }
}

/// A time that may be for ever.
pub(crate) fn wait(given: &Bound<'_, PyAny>, name: &str) -> PyResult<Wait> {
    if given.is_none() {
        return Ok(Wait::Forever);
    }
    time(given, name, WAIT)
}

fn time(given: &Bound<'_, PyAny>, name: &str, wanted: &str) -> PyResult<Wait> {
    if let Ok(text) = given.cast::<PyString>() {
        return text.to_cow()?.parse().map_err(|_| wrong_value(given, name, wanted));
    }
    // True is a number in Python, and never a time.
    let number = if given.is_instance_of::<PyBool>() { None } else { given.extract::<f64>().ok() };
    let Some(seconds) = number else { return Err(wrong_type(given, name, wanted)) };
    if seconds == f64::INFINITY {
        return Ok(Wait::Forever);
    }
    let time =
        Duration::try_from_secs_f64(seconds).map_err(|_| wrong_value(given, name, wanted))?;
    Ok(if time.is_zero() { Wait::No } else { Wait::For(time) })
}
