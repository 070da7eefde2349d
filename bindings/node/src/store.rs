//! Stores: where targets are that are no local files.

#![expect(clippy::needless_pass_by_value, reason = "napi hands text over")]

use napi::Env;
use napi_derive::napi;
use tenure_remote::Place;

use crate::call::{Answer, Call, answer};
use crate::failure::{invalid, to_js};

/// A store on a server, opened once and shared.
#[derive(Debug)]
#[napi]
pub struct Store {
    place: Place,
}

/// One line of a health report.
#[derive(Debug)]
#[napi(object, object_from_js = false)]
pub struct Finding {
    /// What was looked at.
    pub what: String,
    /// What was found.
    pub found: String,
    /// How it endangers a guarantee.
    pub problem: Option<String>,
}

#[napi]
impl Store {
    /// The store at a URL.
    #[napi(constructor, catch_unwind)]
    pub fn new(url: String) -> napi::Result<Self> {
        Ok(Self { place: Place::open(&url).map_err(to_js)? })
    }

    /// Its URL without the password.
    #[napi(getter, catch_unwind)]
    pub fn name(&self) -> String {
        self.place.name().unwrap_or_default().to_owned()
    }

    /// The health of the server.
    #[napi(catch_unwind)]
    pub fn check<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
    ) -> napi::Result<Answer<'env, Vec<Finding>>> {
        let place = self.place.clone();
        answer(env, call, move |_| {
            let store = place.remote().ok_or_else(|| invalid("check", "it is no store"))?;
            let findings = store.check()?.into_iter().map(|found| Finding {
                what: found.what.to_owned(),
                found: found.found,
                problem: found.problem,
            });
            Ok(findings.collect())
        })
    }
}

/// Where a call without a store finds its targets.
static FILES: Place = Place::files();

/// The place of a call: its store, else the local files.
pub(crate) fn place(store: Option<&Store>) -> &Place {
    store.map_or(&FILES, |store| &store.place)
}
