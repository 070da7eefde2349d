//! The lock and its guard.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use napi::Env;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::ThreadsafeFunctionCallMode::NonBlocking;
use napi_derive::napi;
use tenure::{Error, ErrorKind, Holder, LockGuard, MaxHold};

use crate::call::{Answer, Call, answer};
use crate::environment::Environment;
use crate::failure::{invalid, to_js};
use crate::options::{LockOptions, Name, duration, number, path};

/// A hold that its holder wants to be told about, or ended.
#[derive(Debug)]
#[napi(object, object_to_js = false)]
pub(crate) struct MaxHoldOption {
    /// How long is too long.
    pub after_ms: f64,
    /// Release the lock as well.
    pub end: bool,
}

/// Takes the lock on a path.
#[napi(catch_unwind)]
pub(crate) fn acquire<'env>(
    env: &'env Env,
    call: Option<&Call>,
    name: Name,
    options: LockOptions,
    max_hold: Option<MaxHoldOption>,
    report: Option<Function<'_, (), ()>>,
) -> napi::Result<Answer<'env, Guard>> {
    let environment = Environment::here(*env)?;
    let path = path(name).map_err(to_js)?;
    let (options, inherited) = options.read()?;
    // Weak: a hold does not keep the process alive.
    let report = report.map(|report| {
        let told = report.build_threadsafe_function::<()>().callee_handled::<false>();
        told.weak::<true>().build_callback(|_| Ok(()))
    });
    let report = report.transpose()?;
    answer(env, call, move |caller| {
        let lock = tenure::Lock::open(&path)?;
        let mut options = caller.lock(options);
        if options.fence.is_none() {
            options.fence = inherited.fence_of(lock.path())?;
        }
        let ended = Arc::new(AtomicBool::new(false));
        if let Some(limit) = max_hold {
            let over = ended.clone();
            let tell = move |_: &Path| {
                over.store(limit.end, Ordering::SeqCst);
                if let Some(report) = &report {
                    report.call((), NonBlocking);
                }
            };
            let after = duration(limit.after_ms)?;
            options.max_hold = Some(MaxHold { after, end: limit.end, report: Arc::new(tell) });
        }
        Guard::new(environment, lock.acquire(&options)?, ended)
    })
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
}

impl Guard {
    fn new(
        environment: Arc<Environment>,
        guard: LockGuard,
        ended: Arc<AtomicBool>,
    ) -> tenure::Result<Self> {
        Ok(Self {
            fence: number(guard.fence())?,
            path: guard.path().to_path_buf(),
            recovered_from: guard
                .recovered_from()
                .map(|holder| Holder::to_json(holder).to_string()),
            id: environment.keep(guard),
            environment,
            ended,
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
    /// The fence of this hold; 0 for a shared one.
    #[napi(getter, catch_unwind)]
    pub fn fence(&self) -> f64 {
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

    /// False once it was released, or its `maxHold` ended it.
    #[napi(getter, catch_unwind)]
    pub fn held(&self) -> bool {
        let ended = self.ended.load(Ordering::SeqCst);
        !ended && self.environment.look(self.id, |_| ()).is_some()
    }

    /// Checks that nobody removed or replaced the lock file under the hold.
    #[napi(catch_unwind)]
    pub fn verify<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
    ) -> napi::Result<Answer<'env, ()>> {
        let ended = self.ended_error();
        let (environment, id, path) = (self.environment.clone(), self.id, self.path.clone());
        answer(env, call, move |_| {
            if let Some(error) = ended {
                return Err(error);
            }
            let released = || Err(invalid("verify the lock on", "it was released").at(&path));
            environment.look(id, LockGuard::verify).unwrap_or_else(released)
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
            (Some(guard), None) => guard.release(),
            (None, _) => Ok(()),
        })
    }
}
