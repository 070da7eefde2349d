//! Documents. Their content crosses as JSON text.

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use napi::Env;
use napi_derive::napi;
use tenure::json::Rules;
use tenure::{Error, ErrorKind, Result, Wait, json};
use tenure_remote::Place;

use crate::call::{Answer, Call, Caller, answer};
use crate::failure::to_js;
use crate::options::{Name, WriteOptions, path, wait};
use crate::store::{Store, place};

/// Node keeps no longer text.
const TEXT_BYTES_MAX: usize = 0x1FFF_FFE8;
/// How often a wait that the core cannot be asked to cancel is looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A document as it was at one moment.
#[derive(Debug)]
#[napi(object, object_from_js = false)]
pub struct Snapshot {
    /// What the file says.
    pub text: String,
    /// Opaque.
    pub version: String,
    /// The file was cut by a power loss; this is its last synced version.
    pub repaired: bool,
}

impl Snapshot {
    fn new(snapshot: tenure::outcome::Snapshot) -> Result<Self> {
        let not_text = |_| Error::new(ErrorKind::Damaged, "read document", "it is not UTF-8");
        let text = String::from_utf8(snapshot.bytes).map_err(not_text)?;
        check_length(&text)?;
        Ok(Self { text, version: snapshot.version.to_string(), repaired: snapshot.repaired })
    }
}

/// Longer text would be an untyped error deep inside node.
pub(crate) fn check_length(text: &str) -> Result<()> {
    if text.len() > TEXT_BYTES_MAX {
        let detail = "it is longer than a JavaScript string can be";
        return Err(Error::new(ErrorKind::Unsupported, "read document", detail));
    }
    Ok(())
}

/// What a change did.
#[derive(Debug)]
#[napi(object, object_from_js = false)]
pub struct Written {
    /// The version that is there now.
    pub version: String,
    /// False if the content was that already.
    pub changed: bool,
    /// The operation had been done before.
    pub replayed: bool,
}

impl From<tenure::outcome::Written> for Written {
    fn from(written: tenure::outcome::Written) -> Self {
        let tenure::outcome::Written { version, changed, replayed } = written;
        Self { version: version.to_string(), changed, replayed }
    }
}

/// Rules of a merge: JSON Pointers.
#[derive(Debug)]
#[napi(object, object_to_js = false)]
pub struct MergeRules {
    /// Every element once.
    pub union: Vec<String>,
    /// The larger number.
    pub max: Vec<String>,
    /// The smaller number.
    pub min: Vec<String>,
    /// Both added.
    pub sum: Vec<String>,
    /// The patch's value, whole.
    pub last: Vec<String>,
}

impl MergeRules {
    fn declare(&self) -> Result<Rules> {
        type Declare = fn(Rules, &str) -> Result<Rules>;
        let declared: [(&[String], Declare); 5] = [
            (&self.union, Rules::union),
            (&self.max, Rules::max),
            (&self.min, Rules::min),
            (&self.sum, Rules::sum),
            (&self.last, Rules::last),
        ];
        let mut rules = Rules::new();
        for (pointers, declare) in declared {
            for pointer in pointers {
                rules = declare(rules, pointer)?;
            }
        }
        Ok(rules)
    }
}

/// A JSON document in a file.
#[derive(Debug)]
#[napi]
pub struct Document {
    pub(crate) inner: tenure::Document,
    place: Place,
}

impl Document {
    pub(crate) fn new(inner: tenure::Document, place: &Place) -> Self {
        Self { inner, place: place.clone() }
    }

    /// How it is named outside of its store.
    pub(crate) fn address(&self) -> Cow<'_, Path> {
        self.place.address(self.inner.path())
    }
}

#[napi]
impl Document {
    /// The document at a path, whether or not there is a file yet.
    #[napi(constructor, catch_unwind)]
    pub fn open(name: Name, store: Option<&Store>) -> napi::Result<Self> {
        let open = |name| place(store).document(path(name)?);
        Ok(Self::new(open(name).map_err(to_js)?, place(store)))
    }

    /// The resolved path.
    #[napi(getter, catch_unwind)]
    pub fn path(&self) -> String {
        self.inner.path().to_string_lossy().into_owned()
    }

    /// Reads it; null if there is none.
    #[napi(catch_unwind)]
    pub fn read<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
    ) -> napi::Result<Answer<'env, Option<Snapshot>>> {
        let document = self.inner.clone();
        answer(env, call, move |_| document.read()?.map(Snapshot::new).transpose())
    }

    /// Its version; null if there is none.
    #[napi(catch_unwind)]
    pub fn version<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
    ) -> napi::Result<Answer<'env, Option<String>>> {
        let document = self.inner.clone();
        answer(env, call, move |_| Ok(document.read()?.map(|found| found.version.to_string())))
    }

    /// Replaces the whole document.
    #[napi(catch_unwind)]
    pub fn set<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        text: String,
        options: WriteOptions,
    ) -> napi::Result<Answer<'env, Written>> {
        self.write(env, call, options, move |document, options| {
            document.set(&json::parse(text.as_bytes())?, options)
        })
    }

    /// Merges a patch, RFC 7396 with rules.
    #[napi(catch_unwind)]
    pub fn merge<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        text: String,
        rules: MergeRules,
        options: WriteOptions,
    ) -> napi::Result<Answer<'env, Written>> {
        self.write(env, call, options, move |document, options| {
            document.merge(&json::parse(text.as_bytes())?, &rules.declare()?, options)
        })
    }

    /// Applies a JSON Patch, RFC 6902.
    #[napi(catch_unwind)]
    pub fn patch<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        text: String,
        options: WriteOptions,
    ) -> napi::Result<Answer<'env, Written>> {
        self.write(env, call, options, move |document, options| {
            document.patch(&json::parse(text.as_bytes())?, options)
        })
    }

    /// Brings back the last good version of a damaged document.
    #[napi(catch_unwind)]
    pub fn restore<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        options: WriteOptions,
    ) -> napi::Result<Answer<'env, Written>> {
        self.write(env, call, options, tenure::Document::restore)
    }

    /// Changes that come after now.
    #[napi(catch_unwind)]
    pub fn watch<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
    ) -> napi::Result<Answer<'env, Watch>> {
        let document = self.inner.clone();
        answer(env, call, move |_| Ok(Watch { inner: Arc::new(Mutex::new(document.watch()?)) }))
    }

    fn write<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        options: WriteOptions,
        write: impl FnOnce(&tenure::Document, &tenure::WriteOptions) -> Result<tenure::outcome::Written>
        + Send
        + 'static,
    ) -> napi::Result<Answer<'env, Written>> {
        let (document, options) = (self.inner.clone(), options.read(&self.address())?);
        answer(env, call, move |caller| write(&document, &caller.write(options)).map(Written::from))
    }
}

/// Follows the changes of a document.
#[derive(Debug)]
#[napi]
pub struct Watch {
    inner: Arc<Mutex<tenure::outcome::Watch>>,
}

#[napi]
impl Watch {
    /// The document after its next change; null when the wait is over.
    #[napi(catch_unwind)]
    pub fn next<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        wait_ms: f64,
    ) -> napi::Result<Answer<'env, Option<Snapshot>>> {
        let watch = self.inner.clone();
        answer(env, call, move |caller| {
            let mut watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
            let next = in_slices(wait(wait_ms)?, &caller, |wait| watch.next(wait))?;
            next.map(Snapshot::new).transpose()
        })
    }
}

/// Waits in slices, since a watch of the core cannot be cancelled.
pub(crate) fn in_slices<T>(
    wait: Wait,
    caller: &Caller,
    mut next: impl FnMut(Wait) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let start = std::time::Instant::now();
    loop {
        let left = match wait {
            Wait::No => Duration::ZERO,
            Wait::For(time) => time.saturating_sub(start.elapsed()),
            Wait::Forever => Duration::MAX,
        };
        if caller.cancel.as_ref().is_some_and(tenure::Cancel::is_cancelled) {
            return Err(Error::new(ErrorKind::Cancelled, "watch", "the wait was cancelled"));
        }
        let slice = if left.is_zero() { Wait::No } else { Wait::For(left.min(LOOK_EVERY)) };
        let found = next(slice)?;
        if found.is_some() || left.is_zero() {
            return Ok(found);
        }
    }
}
