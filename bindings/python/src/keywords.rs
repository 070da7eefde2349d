//! Keyword arguments that many verbs share, and what they mean to the core. The names are those of the
//! command line's flags.

use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};
use std::thread::ThreadId;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tenure::embed::Inherited;
use tenure::file::FileOptions;
use tenure::options::Durability;
use tenure::{Fence, Guard, Version, Wait, WriteOptions};
use tenure_remote::Place;

use crate::argument::{self, wrong_type};
use crate::environment;
use crate::error::{argument as refuse, raise};
use crate::path::path_of;
use crate::store::place_of;
use crate::waiting::Cancel;

/// The keywords of one call. Each is taken once; what is left at the end is an `ArgumentError`.
pub(crate) struct Keywords<'py> {
    py: Python<'py>,
    rest: Option<Bound<'py, PyDict>>,
    inherited: OnceCell<Inherited>,
    /// The names that this call knows, as far as it has come.
    known: RefCell<Vec<&'static str>>,
}

impl<'py> Keywords<'py> {
    pub(crate) fn new(py: Python<'py>, given: Option<&Bound<'py, PyDict>>) -> PyResult<Self> {
        let rest = given.map(PyDictMethods::copy).transpose()?;
        Ok(Self { py, rest, inherited: OnceCell::new(), known: RefCell::default() })
    }

    /// What the environment says to this call, which is read once.
    pub(crate) fn inherited(&self) -> &Inherited {
        self.inherited.get_or_init(environment::inherited)
    }

    /// The value of one keyword; `None` if it was not given, or given as `None`.
    pub(crate) fn take<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&Bound<'py, PyAny>, &str) -> PyResult<T>,
    ) -> PyResult<Option<T>> {
        let given = self.pop(name)?.filter(|given| !given.is_none());
        given.map(|given| read(&given, name)).transpose()
    }

    fn pop(&self, name: &'static str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(rest) = &self.rest else { return Ok(None) };
        self.known.borrow_mut().push(name);
        let found = rest.get_item(name)?;
        if found.is_some() {
            rest.del_item(name)?;
        }
        Ok(found)
    }

    /// `wait`: seconds, `None` for ever, or as the command line writes it.
    pub(crate) fn wait(&mut self) -> PyResult<Wait> {
        match self.pop("wait")? {
            None => self.inherited().wait().map_err(|error| raise(self.py, &error)),
            Some(given) => argument::wait(&given, "wait"),
        }
    }

    /// The same, for verbs that wait for news.
    pub(crate) fn wait_for_news(&mut self, default: Wait) -> PyResult<Wait> {
        self.pop("wait")?.map_or(Ok(default), |given| argument::wait(&given, "wait"))
    }

    pub(crate) fn flag(&mut self, name: &'static str) -> PyResult<bool> {
        Ok(self.take(name, argument::flag)?.unwrap_or(false))
    }

    pub(crate) fn text(&mut self, name: &'static str) -> PyResult<String> {
        Ok(self.take(name, argument::text)?.unwrap_or_default())
    }

    pub(crate) fn texts(&mut self, name: &'static str) -> PyResult<Vec<String>> {
        Ok(self.take(name, argument::texts)?.unwrap_or_default())
    }

    pub(crate) fn seconds(&mut self, name: &'static str) -> PyResult<Option<Duration>> {
        self.take(name, argument::seconds)
    }

    pub(crate) fn path(&mut self, name: &'static str) -> PyResult<Option<PathBuf>> {
        self.take(name, path_of)
    }

    /// `fence`: that of the call, else that of the hold on `path` (resolved) around this program.
    pub(crate) fn fence(&mut self, path: &Path) -> PyResult<Option<Fence>> {
        match self.given_fence()? {
            Some(fence) => Ok(Some(fence)),
            None => self.inherited().fence_of(path).map_err(|error| raise(self.py, &error)),
        }
    }

    /// `fence`, as it was given.
    pub(crate) fn given_fence(&mut self) -> PyResult<Option<Fence>> {
        self.take("fence", argument::whole)
    }

    /// `store`: where the target is.
    pub(crate) fn store(&mut self) -> PyResult<Place> {
        place_of(self.pop("store")?.as_ref())
    }

    /// `cancel`: the token, and the thread that it waits for.
    pub(crate) fn cancel(&mut self) -> PyResult<(Option<tenure::Cancel>, Option<ThreadId>)> {
        let token = |given: &Bound<'py, PyAny>, name: &str| {
            given.extract::<Py<Cancel>>().map_err(|_| wrong_type(given, name, "a tenure.Cancel"))
        };
        Ok(self.take("cancel", token)?.map_or((None, None), |cancel| {
            let cancel = cancel.get();
            (Some(cancel.token()), cancel.thread())
        }))
    }

    /// What every write knows. `path` is the resolved target.
    pub(crate) fn write(&mut self, path: &Path) -> PyResult<WriteOptions> {
        let fence = self.fence(path)?;
        let no_sync = self.flag("no_sync")?;
        let (cancel, thread) = self.cancel()?;
        let defaults = FileOptions::default();
        Ok(WriteOptions {
            wait: self.wait()?,
            cancel,
            thread,
            fence,
            guards: self.take("guard", guards)?.unwrap_or_default(),
            if_version: self.version("if_version")?,
            durability: if no_sync { Durability::NoSync } else { Durability::Durable },
            operation: self.take("op_id", argument::text)?,
            label: self.text("label")?,
            file: FileOptions {
                new_mode: self.take("new_mode", mode)?.unwrap_or(defaults.new_mode),
                break_link: self.flag("break_link")?,
                allow_network: self.flag("allow_network")?,
                lock_file: self.path("lock_file")?,
            },
        })
    }

    pub(crate) fn version(&mut self, name: &'static str) -> PyResult<Option<Version>> {
        let text = self.take(name, argument::text)?;
        text.map(|text| version(self.py, &text)).transpose()
    }

    /// Nothing may be left.
    pub(crate) fn finish(self) -> PyResult<()> {
        let Some(rest) = self.rest else { return Ok(()) };
        match rest.keys().iter().next() {
            None => Ok(()),
            Some(name) => {
                let known = self.known.borrow();
                let way_out = match meant(&name.to_string(), &known) {
                    Some(meant) => format!("did you mean '{meant}'?"),
                    None => format!("the options are {}", known.join(", ")),
                };
                let message =
                    format!("failed to read the arguments: there is no '{name}' here; {way_out}");
                Err(refuse(self.py, "read the arguments", &message))
            }
        }
    }
}

/// What other libraries call our options.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("timeout", "wait"),
    ("blocking", "wait"),
    ("deadline", "wait"),
    ("sync", "no_sync"),
    ("fsync", "no_sync"),
    ("durable", "no_sync"),
    ("default", "init"),
    ("initial", "init"),
    ("version", "if_version"),
    ("expected_version", "if_version"),
    ("etag", "if_version"),
    ("idempotency_key", "op_id"),
    ("operation_id", "op_id"),
    ("request_id", "op_id"),
    ("mode", "new_mode"),
    ("name", "label"),
    ("reason", "label"),
    ("guards", "guard"),
    ("fences", "guard"),
    ("token", "fence"),
    ("exclusive", "shared"),
    ("read", "shared"),
    ("recursive", "reentrant"),
    ("network", "allow_network"),
    ("max_size", "max_count"),
    ("ttl", "max_hold"),
];

/// The option that was meant by a name that is none.
fn meant(given: &str, known: &[&'static str]) -> Option<&'static str> {
    let other = OTHER_NAMES.iter().find(|(name, _)| *name == given).map(|(_, ours)| *ours);
    if let Some(ours) = other.filter(|ours| known.contains(ours)) {
        return Some(ours);
    }
    let plain = given.replace('_', "").to_lowercase();
    let near = |name: &&&'static str| differences(&plain, &name.replace('_', "")) <= 2;
    let close = known.iter().filter(|name| name.len() > 3).filter(near);
    close.min_by_key(|name| differences(&plain, &name.replace('_', ""))).copied()
}

/// How many letters have to be added, removed or changed to make one word of another.
fn differences(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut corner = index;
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
        for (place, theirs) in other.iter().enumerate() {
            let (left, above) = (row[place], row[place + 1]);
            row[place + 1] = (corner + usize::from(letter != *theirs)).min(left + 1).min(above + 1);
            corner = above;
        }
    }
    row.last().copied().unwrap_or_default()
}

/// The version that an earlier call returned.
pub(crate) fn version(py: Python<'_>, text: &str) -> PyResult<Version> {
    text.parse().map_err(|error| raise(py, &error))
}

/// `guard`: fences of other targets, by path.
fn guards(given: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<Guard>> {
    let wrong = || wrong_type(given, name, "a dict of paths and their fences");
    let given = given.cast::<PyDict>().map_err(|_| wrong())?;
    let guard = |(target, fence): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let target = path_of(&target, "the target of a guard")?;
        Ok(Guard { target, fence: argument::whole(&fence, "the fence of a guard")? })
    };
    given.iter().map(guard).collect()
}

fn mode(given: &Bound<'_, PyAny>, name: &str) -> PyResult<u32> {
    given.extract().map_err(|_| wrong_type(given, name, "the bits of a mode, like 0o600"))
}
