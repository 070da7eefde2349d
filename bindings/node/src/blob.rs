//! Files that are not JSON. Their content crosses as bytes.

#![expect(clippy::needless_pass_by_value, reason = "napi hands bytes over")]

use napi::Env;
use napi::bindgen_prelude::{Buffer, Uint8Array};
use napi_derive::napi;
use tenure_remote::Place;

use crate::call::{Answer, Call, answer};
use crate::document::Written;
use crate::failure::to_js;
use crate::options::{Name, WriteOptions, path};
use crate::store::{Store, place};

/// A file as it was at one moment.
#[expect(missing_debug_implementations, reason = "a buffer of JavaScript has none")]
#[napi(object, object_from_js = false)]
pub struct Content {
    /// What is in it.
    pub bytes: Buffer,
    /// Opaque.
    pub version: String,
}

/// A file with any content.
#[derive(Debug)]
#[napi]
pub struct Blob {
    inner: tenure::blob::Blob,
    place: Place,
}

#[napi]
impl Blob {
    /// The file at a path, whether or not there is one yet.
    #[napi(constructor, catch_unwind)]
    pub fn open(name: Name, store: Option<&Store>) -> napi::Result<Self> {
        let open = |name| tenure::blob::Blob::on(place(store).store().as_ref(), path(name)?);
        Ok(Self { inner: open(name).map_err(to_js)?, place: place(store).clone() })
    }

    /// The resolved path.
    #[napi(getter, catch_unwind)]
    pub fn path(&self) -> String {
        self.inner.path().to_string_lossy().into_owned()
    }

    /// Reads it; null if there is none.
    #[napi(catch_unwind)]
    pub fn get<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
    ) -> napi::Result<Answer<'env, Option<Content>>> {
        let blob = self.inner.clone();
        answer(env, call, move |_| {
            let found = blob.read()?;
            Ok(found.map(|found| Content {
                bytes: found.bytes.into(),
                version: found.version.to_string(),
            }))
        })
    }

    /// Its version; null if there is none.
    #[napi(catch_unwind)]
    pub fn version<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
    ) -> napi::Result<Answer<'env, Option<String>>> {
        let blob = self.inner.clone();
        answer(env, call, move |_| Ok(blob.read()?.map(|found| found.version.to_string())))
    }

    /// Replaces the whole content.
    #[napi(catch_unwind)]
    pub fn put<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        bytes: Uint8Array,
        options: WriteOptions,
    ) -> napi::Result<Answer<'env, Written>> {
        let (blob, bytes) = (self.inner.clone(), bytes.to_vec());
        let options = options.read(&self.place.address(self.inner.path()))?;
        answer(env, call, move |caller| blob.put(&bytes, &caller.write(options)).map(Written::from))
    }

    /// Publishes the content from before the last change.
    #[napi(catch_unwind)]
    pub fn undo<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        options: WriteOptions,
    ) -> napi::Result<Answer<'env, Written>> {
        let blob = self.inner.clone();
        let options = options.read(&self.place.address(self.inner.path()))?;
        answer(env, call, move |caller| blob.undo(&caller.write(options)).map(Written::from))
    }
}
