//! The lock and its guard.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use napi::Env;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::ThreadsafeFunctionCallMode::NonBlocking;
use napi_derive::napi;
use tenure::embed;
use tenure::embed::Inherited;
use tenure::options::MaxHold;
use tenure::status::Holder;
use tenure::{Error, ErrorKind, LockGuard};
use tenure_remote::Place;

use crate::call::{Answer, Call, Caller, answer};
use crate::environment::Environment;
use crate::failure::{invalid, to_js};
use crate::options::{LockOptions, Name, duration, number, path};
use crate::store::{Store, place};

/// A hold that its holder wants to be told about, or ended.
#[derive(Debug, Clone, Copy)]
#[napi(object, object_to_js = false)]
pub struct MaxHoldOption {
    /// How long is too long.
    pub after_ms: f64,
    /// Release the lock as well.
    pub end: bool,
}

/// A lock that is asked for.
#[derive(Debug)]
struct Asked {
    environment: Arc<Environment>,
    options: tenure::LockOptions,
    inherited: Inherited,
    place: Place,
    /// Set when `maxHold` ended it.
    ended: Arc<AtomicBool>,
}

impl Asked {
    /// No options are the default ones: reading them costs as much as half a lock.
    fn read(env: Env, place: &Place, options: Option<LockOptions>) -> napi::Result<Self> {
        let (options, inherited) = options.map(LockOptions::read).transpose()?.unwrap_or_default();
        let environment = Environment::here(env)?;
        let place = place.clone();
        Ok(Self { environment, options, inherited, place, ended: Arc::default() })
    }

    fn limited(
        mut self,
        limit: Option<MaxHoldOption>,
        report: Option<Function<'_, (), ()>>,
    ) -> napi::Result<Self> {
        let Some(MaxHoldOption { after_ms, end }) = limit else { return Ok(self) };
        // Weak: a hold does not keep the process alive.
        let report = report.map(|report| {
            let told = report.build_threadsafe_function::<()>().callee_handled::<false>();
            told.weak::<true>().build_callback(|_| Ok(()))
        });
        let (report, over) = (report.transpose()?, self.ended.clone());
        let tell = move |_: &Path| {
            over.store(end, Ordering::SeqCst);
            if let Some(report) = &report {
                report.call((), NonBlocking);
            }
        };
        let after = duration(after_ms).map_err(to_js)?;
        self.options.max_hold = Some(MaxHold { after, end, report: Arc::new(tell) });
        Ok(self)
    }

    fn take(mut self, lock: &tenure::Lock, caller: Caller) -> tenure::Result<Guard> {
        self.inherit(lock)?;
        let options = caller.lock(self.options);
        // What others share, or watch, can end in ways that this guard does not know of.
        let alone = !options.reentrant && options.max_hold.is_none();
        Guard::new(self.environment, lock.acquire(&options)?, self.ended, alone)
    }

    /// Takes several, all or none. Those that this program is held under already need no wait.
    fn take_all(self, paths: Vec<PathBuf>, caller: Caller) -> tenure::Result<Vec<Guard>> {
        let options = caller.lock(self.options);
        let alone = !options.reentrant;
        let (mut free, mut guards) = (Vec::new(), Vec::new());
        for path in paths {
            let lock = self.place.lock(path)?;
            let fence = self.inherited.fence_of(&self.place.address(lock.path()))?;
            if fence.is_none() {
                free.push(lock);
            } else {
                guards.push(lock.acquire(&tenure::LockOptions { fence, ..options.clone() })?);
            }
        }
        guards.extend(tenure::Lock::acquire_all(&free, &options)?);
        guards.sort_by(|one, other| one.path().cmp(other.path()));
        let keep = |guard| Guard::new(self.environment.clone(), guard, Arc::default(), alone);
        guards.into_iter().map(keep).collect()
    }

    /// Takes it now or not at all: an event loop can do that by itself.
    fn take_now(mut self, lock: &tenure::Lock) -> tenure::Result<Option<Guard>> {
        self.inherit(lock)?;
        let guard = embed::try_lock_fast(lock, &self.options)?;
        guard.map(|guard| Guard::new(self.environment, guard, self.ended, true)).transpose()
    }

    fn inherit(&mut self, lock: &tenure::Lock) -> tenure::Result<()> {
        if self.options.fence.is_none() {
            self.options.fence = self.inherited.fence_of(&self.place.address(lock.path()))?;
        }
        Ok(())
    }
}

/// Takes the lock on a path.
#[napi(catch_unwind)]
pub(crate) fn acquire<'env>(
    env: &'env Env,
    call: Option<&Call>,
    name: Name,
    store: Option<&Store>,
    options: Option<LockOptions>,
    max_hold: Option<MaxHoldOption>,
    report: Option<Function<'_, (), ()>>,
) -> napi::Result<Answer<'env, Guard>> {
    let asked = Asked::read(*env, place(store), options)?.limited(max_hold, report)?;
    let path = path(name).map_err(to_js)?;
    answer(env, call, move |caller| {
        let lock = asked.place.lock(path)?;
        asked.take(&lock, caller)
    })
}

/// Takes the lock on a path if that neither waits nor syncs; null if it would.
#[napi(catch_unwind)]
pub(crate) fn acquire_now(
    env: Env,
    name: Name,
    store: Option<&Store>,
    options: Option<LockOptions>,
) -> napi::Result<Option<Guard>> {
    let asked = Asked::read(env, place(store), options)?;
    let lock = path(name).and_then(|path| asked.place.lock(path));
    lock.and_then(|lock| asked.take_now(&lock)).map_err(to_js)
}

/// Takes the locks on several paths, all or none.
#[napi(catch_unwind)]
pub(crate) fn acquire_all<'env>(
    env: &'env Env,
    call: Option<&Call>,
    names: Vec<Name>,
    store: Option<&Store>,
    options: Option<LockOptions>,
) -> napi::Result<Answer<'env, Vec<Guard>>> {
    let asked = Asked::read(*env, place(store), options)?;
    let paths: tenure::Result<Vec<_>> = names.into_iter().map(path).collect();
    let paths = paths.map_err(to_js)?;
    answer(env, call, move |caller| asked.take_all(paths, caller))
}

/// A target that can be locked again and again: its path is resolved once, its files stay open.
#[derive(Debug)]
#[napi]
pub struct Lock {
    inner: tenure::Lock,
    place: Place,
}

#[napi]
impl Lock {
    /// The lock of a path, whether or not there is a file.
    #[napi(constructor, catch_unwind)]
    pub fn new(name: Name, store: Option<&Store>) -> napi::Result<Self> {
        let inner = path(name).and_then(|path| place(store).lock(path)).map_err(to_js)?;
        Ok(Self { inner, place: place(store).clone() })
    }

    /// The resolved path.
    #[napi(getter, catch_unwind)]
    pub fn path(&self) -> String {
        self.inner.path().to_string_lossy().into_owned()
    }

    /// Takes the lock.
    #[napi(catch_unwind)]
    pub fn acquire<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        options: Option<LockOptions>,
        max_hold: Option<MaxHoldOption>,
        report: Option<Function<'_, (), ()>>,
    ) -> napi::Result<Answer<'env, Guard>> {
        let asked = Asked::read(*env, &self.place, options)?.limited(max_hold, report)?;
        let lock = self.inner.clone();
        answer(env, call, move |caller| asked.take(&lock, caller))
    }

    /// Takes the lock if that neither waits nor syncs; null if it would.
    #[napi(catch_unwind)]
    pub fn acquire_now(
        &self,
        env: Env,
        options: Option<LockOptions>,
    ) -> napi::Result<Option<Guard>> {
        Asked::read(env, &self.place, options)?.take_now(&self.inner).map_err(to_js)
    }
}

/// A lock that is held.
#[derive(Debug)]
#[napi]
pub struct Guard {
    environment: Arc<Environment>,
    id: u64,
    fence: f64,
    path: PathBuf,
    recovered_from: Option<String>,
    /// Set when `maxHold` ended it.
    ended: Arc<AtomicBool>,
    /// No other caller can write under it: it is not shared, and its fence is not known.
    alone: AtomicBool,
}

impl Guard {
    fn new(
        environment: Arc<Environment>,
        guard: LockGuard,
        ended: Arc<AtomicBool>,
        alone: bool,
    ) -> tenure::Result<Self> {
        Ok(Self {
            fence: number(embed::unpublished_fence(&guard))?,
            path: guard.path().to_path_buf(),
            recovered_from: guard
                .recovered_from()
                .map(|holder| Holder::to_json(holder).to_string()),
            id: environment.keep(guard),
            environment,
            ended,
            alone: AtomicBool::new(alone),
        })
    }

    /// What the core says of it, with the name that the option has here.
    fn ended_error(&self) -> Option<Error> {
        let detail = "it lasted longer than its maxHold and was ended";
        let error = || Error::new(ErrorKind::Fenced, "hold", detail).at(&self.path);
        self.ended.load(Ordering::SeqCst).then(error)
    }
}

#[napi]
impl Guard {
    /// The fence of this hold; 0 for a shared one. This publishes it, unless the hold
    /// has ended: then it is a number that proves nothing.
    #[napi(getter, catch_unwind)]
    pub fn fence(&self) -> f64 {
        self.alone.store(false, Ordering::SeqCst);
        if let Some(guard) = self.environment.hold(self.id) {
            guard.publish_fence();
        }
        self.fence
    }

    /// The resolved path.
    #[napi(getter, catch_unwind)]
    pub fn path(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Who held it before and died without releasing, as JSON.
    #[napi(getter, catch_unwind)]
    pub fn recovered_from(&self) -> Option<String> {
        self.recovered_from.clone()
    }

    /// False once it was released, its `maxHold` ended it, or its store has not renewed it in time.
    #[napi(getter, catch_unwind)]
    pub fn held(&self) -> bool {
        let is_lost =
            |guard: &LockGuard| guard.loss().is_some_and(|loss| loss.wait(Duration::ZERO));
        let ended = self.ended.load(Ordering::SeqCst);
        !ended && self.environment.hold(self.id).is_some_and(|guard| !is_lost(&guard))
    }

    /// Whether a release waits for no other caller, so that an event loop can do it by itself.
    #[napi(getter, catch_unwind)]
    pub fn ends_now(&self) -> bool {
        self.alone.load(Ordering::SeqCst)
    }

    /// Checks that the lock file was not removed or replaced during the hold.
    #[napi(catch_unwind)]
    pub fn verify<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
    ) -> napi::Result<Answer<'env, ()>> {
        let ended = self.ended_error();
        let (guard, path) = (self.environment.hold(self.id), self.path.clone());
        answer(env, call, move |_| match (guard, ended) {
            (_, Some(error)) => Err(error),
            (Some(guard), None) => guard.verify(),
            (None, None) => Err(invalid("verify the lock on", "it was released").at(&path)),
        })
    }

    /// Releases the lock. The second time does nothing.
    #[napi(catch_unwind)]
    pub fn release<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
    ) -> napi::Result<Answer<'env, ()>> {
        let ended = self.ended_error();
        let guard = self.environment.take(self.id);
        answer(env, call, move |_| match (guard, ended) {
            (Some(_), Some(error)) => Err(error),
            // Another thread may be verifying it: then it is released behind that.
            (Some(guard), None) => embed::end(&guard),
            (None, _) => Ok(()),
        })
    }
}
