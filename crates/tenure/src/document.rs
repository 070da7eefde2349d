//! The document: one JSON value that many processes read and change without losing an update.
//!
//! This module defines what a change means: set, update, merge, patch. The store keeps the document
//! and excludes other writers.

use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::file::FileStore;
use crate::fs::Fs;
use crate::json::{self, Object, PatchError, Rules, Value};
use crate::options::{Durability, WriteOptions};
use crate::printable::{command, to_create};
use crate::results::{Earlier, Snapshot, Written};
use crate::store::{Current, New, Store, Target, Watcher};
use crate::wait::{Deadline, Wait};

/// A wake-up is only a hint and may never come, so the document is read again this often.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A JSON document. Opening it touches nothing.
#[derive(Debug, Clone)]
pub struct Document {
    target: Arc<dyn Target>,
}

impl Document {
    /// The document in a file, whether or not there is one yet.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::on(&FileStore::local(), path)
    }

    /// The document with this name in a store.
    pub fn on(store: &dyn Store, name: impl AsRef<Path>) -> Result<Self> {
        Ok(Self { target: store.open(name.as_ref())? })
    }

    /// The same, on another file system.
    #[doc(hidden)]
    pub fn open_on(fs: &Arc<dyn Fs>, path: &Path) -> Result<Self> {
        Self::on(&FileStore::on(fs), path)
    }

    /// The resolved name.
    pub fn path(&self) -> &Path {
        self.target.name()
    }

    pub(crate) fn target(&self) -> &dyn Target {
        self.target.as_ref()
    }

    /// Reads the document, or `None` if there is none. Takes no lock and creates nothing.
    pub fn read(&self) -> Result<Option<Snapshot>> {
        self.target.read()
    }

    /// Changes from now on, one snapshot each. Of quick successive changes some may be skipped.
    pub fn watch(&self) -> Result<Watch> {
        // Before the first read, since a change in between must wake us.
        let watcher = self.target.watch()?;
        let seen = self.read()?.map(|found| checksum::wide(&found.bytes));
        Ok(Watch { target: self.target.clone(), watcher, seen })
    }

    /// Replaces the whole document. With [`WriteOptions::if_version`] this is a compare-and-set: `conflict` if the
    /// document has another version by now.
    pub fn set(
        &self,
        value: &(impl Clone + Into<Value>),
        options: &WriteOptions,
    ) -> Result<Written> {
        let value = Value::from(value);
        self.update(options, |_| Ok(Some(value.clone())))
    }

    /// Computes a new document from the present one. `None` leaves it as it is; so does an error, which is passed on.
    /// The function runs again if the document was changed meanwhile.
    pub fn update(
        &self,
        options: &WriteOptions,
        compute: impl FnMut(Option<&Value>) -> Result<Option<Value>>,
    ) -> Result<Written> {
        self.target.change(options, &mut by_value(self.path(), compute))
    }

    /// Changes the document in place, and returns what the function returns. A missing document begins as `init`. An
    /// error of the function, of a type of its own, leaves the document as it is and is passed on.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("tenure-edit-{}", std::process::id()));
    /// # let path = dir.join("queue.json");
    /// use tenure::{Document, WriteOptions, json};
    ///
    /// let queue = Document::open(&path)?;
    /// let options = WriteOptions::default();
    /// let next = queue.edit(&options, json!({ "open": ["a", "b"] }), |queue| {
    ///     let open = queue["open"].as_array_mut().ok_or("no list of open tasks")?;
    ///     Ok::<_, Box<dyn std::error::Error>>((!open.is_empty()).then(|| open.remove(0)))
    /// })?;
    /// assert_eq!(next.unwrap(), "a");
    /// # std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn edit<R, E: From<Error>>(
        &self,
        options: &WriteOptions,
        init: impl Into<Value>,
        mut change: impl FnMut(&mut Value) -> Result<R, E>,
    ) -> Result<R, E> {
        if options.operation.is_some() {
            let detail =
                "what the function returned is not kept, so it cannot be repeated by its id";
            let error = Error::new(ErrorKind::Invalid, "edit", detail).at(self.path());
            return Err(error.hint("use `update` with an operation id").into());
        }
        let (init, mut outcome) = (init.into(), None);
        let done = self.update(options, |current| {
            let mut value = current.unwrap_or(&init).clone();
            match change(&mut value) {
                Ok(result) => {
                    outcome = Some(Ok(result));
                    Ok(Some(value))
                }
                Err(error) => {
                    outcome = Some(Err(error));
                    Err(Error::new(ErrorKind::Cancelled, "edit", "the function failed"))
                }
            }
        });
        match (done, outcome) {
            (_, Some(Err(error))) => Err(error),
            (Ok(_), Some(Ok(result))) => Ok(result),
            (Err(error), _) => Err(error.into()),
            (Ok(_), None) => {
                let detail = "the store did not ask for a change";
                Err(Error::new(ErrorKind::Unsupported, "edit", detail).at(self.path()).into())
            }
        }
    }

    /// The document as a type of the caller. Fields that the type does not know survive its
    /// changes.
    pub fn typed<T>(&self) -> Typed<T> {
        Typed { document: self.clone(), kind: PhantomData }
    }

    /// See [`update_text`](crate::embed::update_text).
    pub(crate) fn update_text(
        &self,
        options: &WriteOptions,
        compute: impl FnMut(Option<&str>) -> Result<Option<String>>,
    ) -> Result<Written> {
        self.target.change(options, &mut by_text(self.path(), compute))
    }

    /// Merges a patch into the document (RFC 7396), with declared rules for single fields. A missing
    /// document is an empty object.
    pub fn merge(
        &self,
        patch: &(impl Clone + Into<Value>),
        rules: &Rules,
        options: &WriteOptions,
    ) -> Result<Written> {
        let (patch, empty) = (Value::from(patch), Value::Object(Object::new()));
        self.update(options, |current| {
            // An empty object is what a missing document counts as; a patch may be anything then.
            let replaced = current.and_then(|current| json::replaced_kind(current, &patch, rules));
            if let Some(detail) = replaced {
                let hint = "nothing was changed; fix the patch, or allow the replacement";
                let error = Error::new(ErrorKind::Conflict, "merge into", detail);
                return Err(error.at(self.path()).hint(hint));
            }
            json::merge(current.unwrap_or(&empty), &patch, rules).map(Some).map_err(|why| {
                Error::new(ErrorKind::Invalid, "merge into", why)
                    .at(self.path())
                    .hint("nothing was changed; fix the patch or its rules")
            })
        })
    }

    /// Applies a JSON Patch (RFC 6902), whole or not at all. A failed `test` is a conflict.
    pub fn patch(
        &self,
        operations: &(impl Clone + Into<Value>),
        options: &WriteOptions,
    ) -> Result<Written> {
        let operations = Value::from(operations);
        self.update(options, |current| {
            let Some(current) = current else {
                let detail = "there is no document to patch";
                return Err(Error::new(ErrorKind::NotFound, "patch", detail)
                    .at(self.path())
                    .hint(format!("check the name, or create it: {}", to_create(self.path()))));
            };
            json::patch(current, &operations).map(Some).map_err(|error| {
                match error {
                    PatchError::Invalid(why) => Error::new(ErrorKind::Invalid, "patch", why),
                    PatchError::TestFailed(why) => Error::new(ErrorKind::Conflict, "patch", why),
                }
                .at(self.path())
                .hint("nothing was changed; read the document again and fix the patch")
            })
        })
    }

    /// Earlier versions, the newest first: the one before the last durable change, then those that
    /// [`Self::keep_versions`] has kept. What cannot be parsed is left out.
    pub fn earlier(&self) -> Result<Vec<Earlier>> {
        self.target.earlier()
    }

    /// Publishes the version that was there `back` durable changes ago (1 is the one before the last). What
    /// it replaces becomes the one before the last, so undoing again by 1 redoes.
    pub fn undo(&self, back: usize, options: &WriteOptions) -> Result<Written> {
        let earlier = |back: usize| {
            let versions = self.earlier()?;
            let kept = versions.len();
            versions.into_iter().nth(back.saturating_sub(1)).filter(|_| back > 0).ok_or_else(|| {
                let detail = match kept {
                    0 => "no earlier version was kept: there was no durable change before the last"
                        .to_owned(),
                    kept => format!("there is no version {back}; {kept} are kept"),
                };
                Error::new(ErrorKind::NotFound, "undo", detail)
                    .at(self.path())
                    .hint(format!("{} lists what there is", command("doc history", self.path())))
            })
        };
        earlier(back)?; // Without a lock: a mistyped name leaves nothing behind.
        // What is replaced is kept only if it was synced. A call that changes nothing makes sure of that.
        let synced =
            WriteOptions { durability: Durability::Durable, operation: None, ..options.clone() };
        let now = self.update(&synced, |_| Ok(None))?.version;
        let if_version = options.if_version.as_ref().map(|_| now);
        self.update_text(&WriteOptions { if_version, ..options.clone() }, |_| {
            let bytes = earlier(back)?.bytes;
            let text = String::from_utf8(bytes);
            text.map(Some).map_err(|_| {
                Error::new(ErrorKind::Damaged, "undo", "the version is not UTF-8").at(self.path())
            })
        })
    }

    /// Keeps so many earlier versions from now on; 1 is what every document has.
    pub fn keep_versions(&self, count: u16, options: &WriteOptions) -> Result<()> {
        self.target.keep_versions(count, options)
    }

    /// How many earlier versions are kept.
    pub fn kept_versions(&self) -> Result<u16> {
        self.target.kept_versions()
    }

    /// Brings back the last good version of a document that cannot be parsed. The damaged bytes are
    /// kept aside, and operation ids are forgotten. A document that is fine is left alone. Without a
    /// good version it is `damaged`, without a document `not_found`.
    pub fn restore(&self, options: &WriteOptions) -> Result<Written> {
        self.target.restore(options)
    }
}

/// A document that is read and changed as a `T`. Made by [`Document::typed`].
#[derive(Debug, Clone)]
pub struct Typed<T> {
    document: Document,
    kind: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> Typed<T> {
    /// The document, or `None` if there is none. One that does not parse as `T` is `damaged`.
    pub fn read(&self) -> Result<Option<T>> {
        let snapshot = self.document.read()?;
        snapshot.map(|snapshot| self.decode(&snapshot.value)).transpose()
    }

    /// Changes the document in place, as [`Document::edit`] does. Only what the function changed is written: the
    /// difference of `T` before and after it is applied to the document.
    pub fn edit<R, E: From<Error>>(
        &self,
        options: &WriteOptions,
        init: impl Fn() -> T,
        mut change: impl FnMut(&mut T) -> Result<R, E>,
    ) -> Result<R, E> {
        self.document.edit(options, Value::Null, |value| {
            let is_new = value.is_null();
            let mut typed = if is_new { init() } else { self.decode(value)? };
            let before = self.encode(&typed)?;
            let result = change(&mut typed)?;
            let after = self.encode(&typed)?;
            if is_new {
                *value = after;
            } else {
                json::apply_difference(value, &before, after);
            }
            Ok(result)
        })
    }

    fn decode(&self, value: &Value) -> Result<T> {
        let decoded = serde_json::to_value(value).and_then(serde_json::from_value);
        decoded.map_err(|err| self.refused(ErrorKind::Damaged, "read", &err))
    }

    fn encode(&self, typed: &T) -> Result<Value> {
        let encoded = serde_json::to_value(typed).map(Value::from);
        encoded.map_err(|err| self.refused(ErrorKind::Invalid, "write", &err))
    }

    fn refused(&self, kind: ErrorKind, action: &'static str, err: &serde_json::Error) -> Error {
        let detail = format!("it does not fit {}: {err}", std::any::type_name::<T>());
        Error::new(kind, action, detail).at(self.document.path())
    }
}

/// Follows the changes of a document. A wake-up is a hint, the content decides.
#[derive(Debug)]
pub struct Watch {
    target: Arc<dyn Target>,
    watcher: Box<dyn Watcher>,
    seen: Option<[u8; 16]>,
}

impl Watch {
    /// The document after its next change, or `None` when the wait is over. If the document is
    /// deleted, waits until it exists again; if another tool is rewriting it, until it is complete.
    pub fn next(&mut self, wait: Wait) -> Result<Option<Snapshot>> {
        let deadline = Deadline::after(wait);
        loop {
            match self.target.read() {
                Ok(Some(snapshot)) if self.seen != Some(checksum::wide(&snapshot.bytes)) => {
                    self.seen = Some(checksum::wide(&snapshot.bytes));
                    return Ok(Some(snapshot));
                }
                Err(error) if error.kind() != ErrorKind::Damaged => return Err(error),
                _ => {}
            }
            if deadline.has_passed() {
                return Ok(None);
            }
            let sleep = deadline.remaining().map_or(LOOK_EVERY, |time| time.min(LOOK_EVERY));
            self.watcher.wait(sleep)?;
        }
    }
}

/// The bytes of what `compute` makes of the value; `None` if that is no change. The same value in
/// another layout is no change.
pub(crate) fn by_value<'f>(
    path: &'f Path,
    mut compute: impl FnMut(Option<&Value>) -> Result<Option<Value>> + 'f,
) -> impl FnMut(Current<'_>) -> Result<Option<New>> + 'f {
    move |current| {
        let Some(value) = compute(current.map(|(_, value)| value))? else { return Ok(None) };
        let bytes = match current {
            Some((bytes, old)) => json::rewrite(bytes, old, &value),
            None => json::print(&value).map(Some),
        };
        let bytes = bytes.map_err(|why| refused(path, format!("the new value {why}")))?;
        Ok(bytes.map(|bytes| New { bytes, value }))
    }
}

/// The text that `compute` makes of the text, checked; `None` if it is the same to the byte.
fn by_text<'f>(
    path: &'f Path,
    mut compute: impl FnMut(Option<&str>) -> Result<Option<String>> + 'f,
) -> impl FnMut(Current<'_>) -> Result<Option<New>> + 'f {
    move |current| {
        let old = current.map(|(bytes, _)| std::str::from_utf8(bytes)).transpose();
        let old = old.map_err(|_| refused(path, "the old text is not UTF-8".into()))?;
        let Some(text) = compute(old)? else { return Ok(None) };
        if old == Some(text.as_str()) {
            return Ok(None);
        }
        let value = json::read(text.as_bytes());
        let value = value.map_err(|why| refused(path, format!("the new text {why}")))?;
        Ok(Some(New { bytes: text.into_bytes(), value }))
    }
}

fn refused(path: &Path, detail: String) -> Error {
    Error::new(ErrorKind::Invalid, "write document", detail).at(path)
}
