//! One call: now, on the thread that made it, or later, on a thread of the crew.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::ThreadId;

use napi::bindgen_prelude::{Either, PromiseRaw, ToNapiValue};
use napi::{Env, JsValue};
use napi_derive::napi;
use tenure::{Cancel, Error, LeaseOptions, LockOptions, Result, WriteOptions};

use crate::crew::Worker;
use crate::environment::Environment;
use crate::failure;

/// Makes a call asynchronous, and cancels it.
#[derive(Debug)]
#[napi]
pub struct Call {
    cancel: Cancel,
}

#[napi]
impl Call {
    /// A call that was not cancelled yet.
    #[napi(constructor, catch_unwind)]
    pub fn new() -> Self {
        Self { cancel: Cancel::new() }
    }

    /// Ends its wait with `cancelled`.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.cancel.cancel();
    }
}

/// Who asked for the work.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    /// Ends its waits.
    pub(crate) cancel: Option<Cancel>,
    /// The thread of JavaScript that it is done for, if another one does it.
    pub(crate) thread: Option<ThreadId>,
}

impl Caller {
    pub(crate) fn lock(self, options: LockOptions) -> LockOptions {
        LockOptions { cancel: self.cancel, thread: self.thread, ..options }
    }

    pub(crate) fn write(self, options: WriteOptions) -> WriteOptions {
        WriteOptions { cancel: self.cancel, thread: self.thread, ..options }
    }

    /// No caller waits for its own lease by mistake: it has a deadline by nature.
    pub(crate) fn lease(self, options: LeaseOptions) -> LeaseOptions {
        LeaseOptions { cancel: self.cancel, ..options }
    }
}

/// A value, or the promise of one.
///
/// Spell out the `Result` around it: the napi macro goes by that word.
pub(crate) type Answer<'env, T> = Either<T, PromiseRaw<'env, T>>;

/// Does the work: now without a call, later with one.
pub(crate) fn answer<'env, T>(
    env: &'env Env,
    call: Option<&Call>,
    work: impl FnOnce(Caller) -> Result<T> + Send + 'static,
) -> napi::Result<Answer<'env, T>>
where
    T: ToNapiValue + Send + 'static,
{
    match call {
        None => work(Caller::default()).map(Either::A).map_err(failure::to_js),
        Some(call) => later(env, call, work).map(Either::B),
    }
}

/// Does the work on a thread of the crew.
pub(crate) fn later<'env, T>(
    env: &'env Env,
    call: &Call,
    work: impl FnOnce(Caller) -> Result<T> + Send + 'static,
) -> napi::Result<PromiseRaw<'env, T>>
where
    T: ToNapiValue + Send + 'static,
{
    let cancel = call.cancel.clone();
    let waiting = Environment::here(*env)?.waits(move || cancel.cancel());
    let thread = std::thread::current().id();
    let caller = Caller { cancel: Some(call.cancel.clone()), thread: Some(thread) };
    let (deferred, promise) = env.create_deferred()?;
    let promise = PromiseRaw::new(env.raw(), promise.raw());
    let worker = match Worker::hire() {
        Ok(worker) => worker,
        Err(err) => {
            let error = Error::new(tenure::ErrorKind::Io, "start a thread", "").caused_by(err);
            deferred.reject(failure::to_js(error));
            return Ok(promise);
        }
    };
    let job = move || {
        let done = catch_unwind(AssertUnwindSafe(|| work(caller)));
        drop(waiting);
        match done {
            Ok(Ok(value)) => deferred.resolve(move |_| Ok(value)),
            Ok(Err(error)) => deferred.reject(failure::to_js(error)),
            Err(payload) => deferred.reject(failure::panicked(payload.as_ref())),
        }
    };
    worker.work(Box::new(job));
    Ok(promise)
}
