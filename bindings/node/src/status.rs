//! Who holds a target, for people: it decides nothing.

use napi::Env;
use napi_derive::napi;

use crate::call::{Answer, Call, answer};
use crate::failure::to_js;
use crate::options::{Name, path};
use crate::store::{Store, place};

/// What a target is doing, as the JSON of `tenure who`.
#[napi(catch_unwind)]
pub(crate) fn status<'env>(
    env: &'env Env,
    call: Option<&Call>,
    name: Name,
    store: Option<&Store>,
) -> napi::Result<Answer<'env, String>> {
    let path = path(name).map_err(to_js)?;
    let place = place(store).clone();
    answer(env, call, move |_| Ok(place.target(path)?.status()?.to_json().to_string()))
}
