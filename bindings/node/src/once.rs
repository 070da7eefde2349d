//! Actions that one caller does for many. Their result crosses as text.

use std::sync::{Arc, Mutex, PoisonError};

use napi::Env;
use napi_derive::napi;
use tenure::Result;
use tenure_remote::Place;

use crate::call::{Answer, Call, answer};
use crate::environment::{Environment, Waiting};
use crate::failure::{invalid, to_js};
use crate::options::{LockOptions, Name, duration, path};
use crate::store::{Store, place};

/// What a caller gets: one of these.
#[derive(Debug)]
#[napi(object, object_from_js = false)]
pub struct Asked {
    /// The result, which is fresh.
    pub fresh: Option<String>,
    /// The action failed with this number after this caller asked.
    pub failed: Option<i32>,
    /// It is this caller's turn.
    pub turn: Option<Turn>,
}

/// The result of an action that is done once for many callers.
#[derive(Debug)]
#[napi]
pub struct Once {
    inner: tenure::once::Once,
    place: Place,
}

#[napi]
impl Once {
    /// The action that has this path as its name.
    #[napi(constructor, catch_unwind)]
    pub fn new(name: Name, store: Option<&Store>) -> napi::Result<Self> {
        let open = |name| tenure::once::Once::on(place(store).store().as_ref(), path(name)?);
        Ok(Self { inner: open(name).map_err(to_js)?, place: place(store).clone() })
    }

    /// The resolved path.
    #[napi(getter, catch_unwind)]
    pub fn path(&self) -> String {
        self.inner.path().to_string_lossy().into_owned()
    }

    /// Asks for the result, or for the turn.
    #[napi(catch_unwind)]
    pub fn ask<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        options: LockOptions,
    ) -> napi::Result<Answer<'env, Asked>> {
        let (mut options, inherited) = options.read()?;
        let address = self.place.address(self.inner.lock().path());
        options.fence = inherited.fence_of(&address).map_err(to_js)?;
        let (once, environment) = (self.inner.clone(), Environment::here(*env)?);
        answer(env, call, move |caller| {
            let (mut fresh, mut failed, mut turn) = (None, None, None);
            match once.ask(&caller.lock(options))? {
                tenure::once::Asked::Fresh(bytes) => {
                    let not_text = |_| invalid("read the result of", "it is not UTF-8");
                    let text = String::from_utf8(bytes);
                    fresh = Some(text.map_err(|err| not_text(err).at(once.path()))?);
                }
                tenure::once::Asked::Failed(code) => failed = Some(code),
                tenure::once::Asked::Turn(given) => turn = Some(Turn::new(&environment, given)),
            }
            Ok(Asked { fresh, failed, turn })
        })
    }
}

/// The right to do the action. It ends with its thread of JavaScript.
#[derive(Debug)]
#[napi]
pub struct Turn {
    /// `None` once it has ended.
    turn: Arc<Mutex<Option<tenure::once::Turn>>>,
    _ends_with_thread: Waiting,
}

impl Turn {
    fn new(environment: &Arc<Environment>, turn: tenure::once::Turn) -> Self {
        let turn = Arc::new(Mutex::new(Some(turn)));
        let ends = turn.clone();
        Self { turn, _ends_with_thread: environment.waits(move || drop(take(&ends))) }
    }

    fn end<'env, T>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        end: impl FnOnce(tenure::once::Turn) -> Result<T> + Send + 'static,
    ) -> napi::Result<Answer<'env, T>>
    where
        T: napi::bindgen_prelude::ToNapiValue + Send + 'static,
    {
        let turn = take(&self.turn);
        answer(
            env,
            call,
            move |_| end(turn.ok_or_else(|| invalid("end the turn", "it has ended"))?),
        )
    }
}

fn take(turn: &Mutex<Option<tenure::once::Turn>>) -> Option<tenure::once::Turn> {
    turn.lock().unwrap_or_else(PoisonError::into_inner).take()
}

#[napi]
impl Turn {
    /// Stores the result for this time; false if it is too long for that.
    #[napi(catch_unwind)]
    pub fn succeed<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        text: String,
        ttl_ms: f64,
    ) -> napi::Result<Answer<'env, bool>> {
        self.end(env, call, move |turn| turn.succeed(text.as_bytes(), duration(ttl_ms)?))
    }

    /// Passes a failure on to those who wait.
    #[napi(catch_unwind)]
    pub fn fail<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
    ) -> napi::Result<Answer<'env, ()>> {
        self.end(env, call, move |turn| turn.fail(1))
    }

    /// Gives the turn to the next caller.
    #[napi(catch_unwind)]
    pub fn pass<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
    ) -> napi::Result<Answer<'env, ()>> {
        self.end(env, call, |turn| {
            drop(turn);
            Ok(())
        })
    }
}
