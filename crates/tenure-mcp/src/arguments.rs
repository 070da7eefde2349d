//! The arguments of a call: typed access with errors that name the argument.

use std::time::Duration;

use tenure::{Error, ErrorKind, Result, Value, Wait};

/// No call waits longer than this: clients give up long before.
const WAIT_MAX: f64 = 3600.0;

/// Other writers hold a document for milliseconds.
const WRITE_WAIT: Duration = Duration::from_secs(10);

/// The arguments of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arguments<'a>(pub(crate) &'a Value);

impl<'a> Arguments<'a> {
    /// The argument, if it was given and is not null.
    pub(crate) fn value(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn required(self, name: &str) -> Result<&'a Value> {
        self.value(name).ok_or_else(|| wrong(name, "is missing"))
    }

    pub(crate) fn text(self, name: &str) -> Result<&'a str> {
        self.required(name)?.as_str().ok_or_else(|| wrong(name, "must be a string"))
    }

    pub(crate) fn optional_text(self, name: &str) -> Result<Option<&'a str>> {
        self.value(name).map(|_| self.text(name)).transpose()
    }

    /// Whether it was given and is true.
    pub(crate) fn flag(self, name: &str) -> Result<bool> {
        let Some(value) = self.value(name) else { return Ok(false) };
        value.as_bool().ok_or_else(|| wrong(name, "must be true or false"))
    }

    pub(crate) fn number(self, name: &str) -> Result<Option<u64>> {
        let number = |value: &Value| {
            value.as_u64().ok_or_else(|| wrong(name, "must be a number that is not negative"))
        };
        self.value(name).map(number).transpose()
    }

    /// Strings; none if it was not given.
    pub(crate) fn texts(self, name: &str) -> Result<Vec<&'a str>> {
        let Some(value) = self.value(name) else { return Ok(Vec::new()) };
        let list = value.as_array().ok_or_else(|| wrong(name, "must be an array of strings"))?;
        list.iter()
            .map(|text| text.as_str().ok_or_else(|| wrong(name, "must be an array of strings")))
            .collect()
    }

    /// A time in seconds.
    pub(crate) fn seconds(self, name: &str, default: Duration) -> Result<Duration> {
        let Some(value) = self.value(name) else { return Ok(default) };
        let seconds = value.as_f64().filter(|time| (0.0..=WAIT_MAX).contains(time));
        let seconds = seconds.ok_or_else(|| wrong(name, "must be seconds, from 0 to 3600"))?;
        Ok(Duration::from_secs_f64(seconds))
    }

    /// How long a write waits for other holders: as long as the command does, unless it is said.
    pub(crate) fn write_wait(self) -> Result<Wait> {
        self.wait(WRITE_WAIT)
    }

    pub(crate) fn wait(self, default: Duration) -> Result<Wait> {
        let time = self.seconds("wait_seconds", default)?;
        Ok(if time.is_zero() { Wait::No } else { Wait::For(time) })
    }
}

pub(crate) fn wrong(name: &str, why: &str) -> Error {
    Error::new(ErrorKind::Invalid, "call the tool", format!("`{name}` {why}"))
}
