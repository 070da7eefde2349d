//! The lock and its guard.

use std::sync::Arc;

use napi::Env;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::ThreadsafeFunctionCallMode::NonBlocking;
use napi_derive::napi;
use tenure::{Holder, LockGuard, MaxHold};

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
    let (path, options) = (path(name).map_err(to_js)?, options.read()?);
    // Weak: a hold does not keep the process alive.
    let report = report.map(|report| {
        let told = report.build_threadsafe_function::<()>().callee_handled::<false>();
        told.weak::<true>().build_callback(|_| Ok(()))
    });
    let report = report.transpose()?;
    answer(env, call, move |caller| {
        let mut options = caller.lock(options);
        if let Some(limit) = max_hold {
            let tell = move |_: &std::path::Path| {
                if let Some(report) = &report {
                    report.call((), NonBlocking);
                }
            };
            let after = duration(limit.after_ms)?;
            options.max_hold = Some(MaxHold { after, end: limit.end, report: Arc::new(tell) });
        }
        Guard::new(environment, tenure::Lock::open(&path)?.acquire(&options)?)
    })
}

/// A lock that is held.
#[derive(Debug)]
#[napi]
pub struct Guard {
    environment: Arc<Environment>,
    id: u64,
    fence: f64,
    path: std::path::PathBuf,
    recovered_from: Option<String>,
}

impl Guard {
    fn new(environment: Arc<Environment>, guard: LockGuard) -> tenure::Result<Self> {
        Ok(Self {
            fence: number(guard.fence())?,
            path: guard.path().to_path_buf(),
            recovered_from: guard
                .recovered_from()
                .map(|holder| Holder::to_json(holder).to_string()),
            id: environment.keep(guard),
            environment,
        })
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

    /// False once it was released.
    #[napi(getter, catch_unwind)]
    pub fn held(&self) -> bool {
        self.environment.look(self.id, |_| ()).is_some()
    }

    /// Checks that nobody removed or replaced the lock file under the hold.
    #[napi(catch_unwind)]
    pub fn verify<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
    ) -> napi::Result<Answer<'env, ()>> {
        let (environment, id, path) = (self.environment.clone(), self.id, self.path.clone());
        answer(env, call, move |_| {
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
        let guard = self.environment.take(self.id);
        answer(env, call, move |_| guard.map_or(Ok(()), LockGuard::release))
    }
}
