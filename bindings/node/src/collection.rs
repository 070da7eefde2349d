//! Collections.

#![expect(clippy::needless_pass_by_value, reason = "napi hands text over")]

use napi::Env;
use napi_derive::napi;
use tenure::options::CollectionKind;
use tenure_remote::Place;

use crate::call::{Answer, Call, answer};
use crate::document::Document;
use crate::failure::to_js;
use crate::journal::Journal;
use crate::options::{Name, WriteOptions, duration, path};
use crate::store::{Store, place};

/// What to remove.
#[derive(Debug)]
#[napi(object, object_to_js = false)]
pub struct Prune {
    /// Remove what did not change for so long.
    pub max_age_ms: Option<f64>,
    /// Keep at most this many.
    pub max_count: Option<u32>,
    /// Never remove these.
    pub keep: Vec<String>,
    /// Only tell.
    pub dry_run: bool,
}

/// What was removed.
#[derive(Debug)]
#[napi(object, object_from_js = false)]
pub struct Pruned {
    /// Keys that are gone.
    pub removed: Vec<String>,
    /// Keys that were due but are held or were changed just now.
    pub skipped: Vec<String>,
    /// How many keys remain.
    pub remaining: u32,
}

/// What a split did.
#[derive(Debug)]
#[napi(object, object_from_js = false)]
pub(crate) struct Split {
    /// Keys that were written.
    pub created: Vec<String>,
    /// Keys that were there with the same content.
    pub present: Vec<String>,
    /// Keys that were there with other content.
    pub differing: Vec<String>,
}

/// A directory of documents or journals by key.
#[derive(Debug)]
#[napi]
pub struct Collection {
    inner: tenure::Collection,
    place: Place,
}

#[napi]
impl Collection {
    /// The collection in a directory, whether or not it is there yet.
    #[napi(constructor, catch_unwind)]
    pub fn new(name: Name, journals: bool, store: Option<&Store>) -> napi::Result<Self> {
        let kind = if journals { CollectionKind::Journals } else { CollectionKind::Documents };
        let open = |name| place(store).collection(path(name)?, kind);
        Ok(Self { inner: open(name).map_err(to_js)?, place: place(store).clone() })
    }

    /// The resolved directory.
    #[napi(getter, catch_unwind)]
    pub fn path(&self) -> String {
        self.inner.path().to_string_lossy().into_owned()
    }

    /// The file of a key.
    #[napi(catch_unwind)]
    pub fn path_of(&self, key: String) -> napi::Result<String> {
        let path = self.inner.path_of(&key).map_err(to_js)?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// The document of a key.
    #[napi(catch_unwind)]
    pub fn document(&self, key: String) -> napi::Result<Document> {
        Ok(Document::new(self.inner.document(&key).map_err(to_js)?, &self.place))
    }

    /// The journal of a key.
    #[napi(catch_unwind)]
    pub fn journal(&self, key: String) -> napi::Result<Journal> {
        Ok(Journal::new(self.inner.journal(&key).map_err(to_js)?, &self.place))
    }

    /// The keys that have a file.
    #[napi(catch_unwind)]
    pub fn keys<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
    ) -> napi::Result<Answer<'env, Vec<String>>> {
        let collection = self.inner.clone();
        answer(env, call, move |_| {
            let mut keys = collection.keys()?;
            keys.sort();
            Ok(keys)
        })
    }

    /// Removes what is due.
    #[napi(catch_unwind)]
    pub fn prune<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        prune: Prune,
        options: WriteOptions,
    ) -> napi::Result<Answer<'env, Pruned>> {
        let (collection, options) =
            (self.inner.clone(), options.read(&self.place.address(self.inner.path()))?);
        answer(env, call, move |caller| {
            let prune = tenure::options::Prune {
                max_age: prune.max_age_ms.map(duration).transpose()?,
                max_count: prune.max_count.map(|count| count as usize),
                keep: prune.keep,
                dry_run: prune.dry_run,
            };
            let done = collection.prune(&prune, &caller.write(options))?;
            let remaining = u32::try_from(done.remaining).unwrap_or(u32::MAX);
            Ok(Pruned { removed: done.removed, skipped: done.skipped, remaining })
        })
    }
}

/// Writes every member of the JSON object in an index file as a document of its own.
#[napi(catch_unwind)]
pub(crate) fn split<'env>(
    env: &'env Env,
    call: Option<&Call>,
    index: Name,
    dir: Name,
    store: Option<&Store>,
    options: WriteOptions,
) -> napi::Result<Answer<'env, Split>> {
    let names = path(index).and_then(|index| Ok((index, path(dir)?)));
    let (index, dir) = names.map_err(to_js)?;
    let place = place(store).clone();
    let resolved = place.lock(&index).map_err(to_js)?;
    let options = options.read(&place.address(resolved.path()))?;
    answer(env, call, move |caller| {
        let done =
            tenure::Collection::split_on(&place.store(), index, dir, &caller.write(options))?;
        let tenure::outcome::Split { created, present, differing } = done;
        Ok(Split { created, present, differing })
    })
}
