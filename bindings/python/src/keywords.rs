//! Keyword arguments that many verbs share, and what they mean to the core. The names are those of the
//! command line's flags.

use std::path::Path;
use std::thread::ThreadId;
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use tenure::{Durability, Guard, Version, Wait, WriteOptions};

use crate::environment;
use crate::error::{invalid, raise};
use crate::path::PathArgument;
use crate::waiting::Cancel;

/// The keywords of one call. Each is taken once; what is left at the end is a `TypeError`.
pub(crate) struct Keywords<'py> {
    py: Python<'py>,
    rest: Option<Bound<'py, PyDict>>,
}

impl<'py> Keywords<'py> {
    pub(crate) fn new(py: Python<'py>, given: Option<&Bound<'py, PyDict>>) -> PyResult<Self> {
        Ok(Self { py, rest: given.map(PyDictMethods::copy).transpose()? })
    }

    /// The value of one keyword; `None` if it was not given, or given as `None`.
    pub(crate) fn take<T>(&mut self, name: &str) -> PyResult<Option<T>>
    where
        T: for<'a> FromPyObject<'a, 'py>,
        for<'a> <T as FromPyObject<'a, 'py>>::Error: Into<PyErr>,
    {
        let Some(object) = self.pop(name)?.filter(|object| !object.is_none()) else {
            return Ok(None);
        };
        object.extract::<T>().map(Some).map_err(|error| {
            let error: PyErr = error.into();
            if error.is_instance_of::<PyTypeError>(self.py) {
                let words = error.value(self.py).to_string();
                return PyTypeError::new_err(format!("argument '{name}': {words}"));
            }
            error
        })
    }

    fn pop(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(rest) = &self.rest else { return Ok(None) };
        let found = rest.get_item(name)?;
        if found.is_some() {
            rest.del_item(name)?;
        }
        Ok(found)
    }

    /// `wait`: seconds, `None` for ever, or as the command line writes it.
    pub(crate) fn wait(&mut self) -> PyResult<Wait> {
        match self.pop("wait")? {
            None => environment::wait().map_err(|error| raise(self.py, &error)),
            Some(given) => wait_of(&given),
        }
    }

    /// The same, for verbs that wait for news: for ever unless told otherwise.
    pub(crate) fn wait_for_news(&mut self) -> PyResult<Wait> {
        self.pop("wait")?.map_or(Ok(Wait::Forever), |given| wait_of(&given))
    }

    pub(crate) fn flag(&mut self, name: &str) -> PyResult<bool> {
        Ok(self.take::<bool>(name)?.unwrap_or(false))
    }

    pub(crate) fn text(&mut self, name: &str) -> PyResult<String> {
        Ok(self.take::<String>(name)?.unwrap_or_default())
    }

    pub(crate) fn seconds(&mut self, name: &str) -> PyResult<Option<Duration>> {
        self.take::<f64>(name)?.map(|seconds| duration(name, seconds)).transpose()
    }

    /// `cancel`: the token, and the thread that it waits for.
    pub(crate) fn cancel(&mut self) -> PyResult<(Option<tenure::Cancel>, Option<ThreadId>)> {
        let cancel = self.take::<Py<Cancel>>("cancel")?;
        Ok(cancel.map_or((None, None), |cancel| {
            let cancel = cancel.get();
            (Some(cancel.token()), cancel.thread())
        }))
    }

    /// What every write knows. `path` is the resolved target.
    pub(crate) fn write(&mut self, path: &Path) -> PyResult<WriteOptions> {
        let fence = match self.take("fence")? {
            Some(fence) => Some(fence),
            None => environment::fence_of(path).map_err(|error| raise(self.py, &error))?,
        };
        let no_sync = self.flag("no_sync")?;
        let (cancel, thread) = self.cancel()?;
        let defaults = WriteOptions::default();
        Ok(WriteOptions {
            wait: self.wait()?,
            cancel,
            thread,
            fence,
            guards: self.guards()?,
            if_version: self.version("if_version")?,
            durability: if no_sync { Durability::NoSync } else { Durability::Durable },
            operation: self.take("op_id")?,
            label: self.text("label")?,
            new_mode: self.take("new_mode")?.unwrap_or(defaults.new_mode),
            break_link: self.flag("break_link")?,
            allow_network: self.flag("allow_network")?,
            lock_file: self.take::<PathArgument>("lock_file")?.map(|path| path.0),
        })
    }

    /// `guard`: fences of other targets, by path.
    fn guards(&mut self) -> PyResult<Vec<Guard>> {
        let Some(given) = self.pop("guard")?.filter(|given| !given.is_none()) else {
            return Ok(Vec::new());
        };
        let given = given.cast::<PyDict>().map_err(|_| {
            PyTypeError::new_err("argument 'guard': a dict of paths and their fences is needed")
        })?;
        let mut guards = Vec::with_capacity(given.len());
        for (target, fence) in given.iter() {
            let target = target.extract::<PathArgument>()?.0;
            guards.push(Guard { target, fence: fence.extract()? });
        }
        Ok(guards)
    }

    pub(crate) fn version(&mut self, name: &str) -> PyResult<Option<Version>> {
        let text = self.take::<String>(name)?;
        text.map(|text| version(self.py, &text)).transpose()
    }

    /// Nothing may be left.
    pub(crate) fn finish(self) -> PyResult<()> {
        let Some(rest) = self.rest else { return Ok(()) };
        match rest.keys().iter().next() {
            None => Ok(()),
            Some(name) => {
                Err(PyTypeError::new_err(format!("unexpected keyword argument '{name}'")))
            }
        }
    }
}

/// The version that an earlier call returned.
pub(crate) fn version(py: Python<'_>, text: &str) -> PyResult<Version> {
    text.parse().map_err(|error| raise(py, &error))
}

/// Seconds, as Python counts time.
pub(crate) fn duration(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        PyValueError::new_err(format!("{name} is a number of seconds, and not {seconds}"))
    })
}

fn wait_of(given: &Bound<'_, PyAny>) -> PyResult<Wait> {
    if given.is_none() {
        return Ok(Wait::Forever);
    }
    if let Ok(text) = given.cast::<PyString>() {
        let text = text.to_cow()?;
        return environment::parse_wait(&text).ok_or_else(|| {
            let detail = format!("`{text}` is no wait; write 500ms, 10s, 2m, 0 or forever");
            invalid(given.py(), "wait", detail, None)
        });
    }
    let seconds = given.extract::<f64>().map_err(|_| {
        PyTypeError::new_err("argument 'wait': seconds, None for ever, or a text like \"10s\"")
    })?;
    if seconds == f64::INFINITY {
        return Ok(Wait::Forever);
    }
    let time = duration("wait", seconds)?;
    Ok(if time.is_zero() { Wait::No } else { Wait::For(time) })
}
