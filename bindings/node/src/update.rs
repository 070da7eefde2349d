//! `update`: a JavaScript function computes the new document while the lock is held.
//!
//! The function never throws here: `lib/document.cjs` keeps what was thrown, and asks for the refusal.

#![expect(clippy::needless_pass_by_value, reason = "napi hands functions over")]

use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};

use napi::Env;
use napi::bindgen_prelude::{FnArgs, Function, PromiseRaw, ToNapiValue};
use napi::threadsafe_function::ThreadsafeFunctionCallMode::NonBlocking;
use napi_derive::napi;
use tenure::embed;
use tenure::{Error, ErrorKind, Result, Value, json};

use crate::call::{Call, Caller, later};
use crate::document::{Document, Written, check_length};
use crate::environment::Environment;
use crate::failure::to_js;
use crate::options::{WriteOptions, duration};

/// What the function made of the document.
#[derive(Debug)]
enum Computed {
    /// The new document.
    Text(String),
    /// The function failed; JavaScript knows why.
    Refused,
}

impl Computed {
    fn into_text(self) -> Result<String> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Refused => {
                let error = Error::new(ErrorKind::Cancelled, "update", "the function failed");
                Err(error.committed(false))
            }
        }
    }
}

/// Computes text from text.
pub(crate) type Ask<'a> = &'a mut dyn FnMut(Option<String>) -> Result<String>;

/// Changes the document by value or (`raw`) by its text.
fn change(
    document: &tenure::Document,
    options: &tenure::WriteOptions,
    raw: bool,
    ask: Ask<'_>,
) -> Result<Written> {
    let written = if raw {
        embed::update_text(document, options, |current| {
            ask_within_length(ask, current.map(str::to_owned)).map(Some)
        })
    } else {
        document.update(options, by_value(ask))
    };
    written.map(Written::from)
}

/// What the core calls: the value as text, and the text that comes back as a value.
pub(crate) fn by_value(ask: Ask<'_>) -> impl FnMut(Option<&Value>) -> Result<Option<Value>> {
    move |current| {
        let text = ask_within_length(ask, current.map(ToString::to_string))?;
        let mut value = json::parse(text.as_bytes())?;
        if let Some(current) = current {
            restore_order(current, &mut value);
        }
        Ok(Some(value))
    }
}

fn ask_within_length(ask: Ask<'_>, text: Option<String>) -> Result<String> {
    text.as_deref().map_or(Ok(()), check_length)?;
    ask(text)
}

/// JavaScript moves keys that look like whole numbers to the front of their object. Where there are
/// such keys, those that were there before get their places back, and new ones come last.
fn restore_order(before: &Value, after: &mut Value) {
    match (before, after) {
        (Value::Array(before), Value::Array(after)) => {
            before.iter().zip(after).for_each(|(before, after)| restore_order(before, after));
        }
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in after.iter_mut() {
                if let Some(before) = before.get(key) {
                    restore_order(before, value);
                }
            }
            if after.keys().any(|key| key.bytes().all(|byte| byte.is_ascii_digit())) {
                let found = std::mem::take(after);
                after.extend(before.keys().filter_map(|key| Some((key, found.get(key)?))));
                after.extend(found.iter().filter(|(key, _)| before.get(key).is_none()));
            }
        }
        _ => {}
    }
}

/// What a waiting update receives, once.
#[derive(Debug)]
#[napi]
pub struct Reply {
    sender: Mutex<Option<Sender<Computed>>>,
}

#[napi]
impl Reply {
    /// Write this.
    #[napi(catch_unwind)]
    pub fn write(&self, text: String) {
        self.send(Computed::Text(text));
    }

    /// Give up.
    #[napi(catch_unwind)]
    pub fn refuse(&self) {
        self.send(Computed::Refused);
    }

    fn send(&self, computed: Computed) {
        let mut sender = self.sender.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(sender) = sender.take() {
            let _ = sender.send(computed); // No caller listens after the deadline.
        }
    }
}

/// The document as the function finds it, and where its answer goes.
#[derive(Debug)]
struct Question {
    text: Option<String>,
    reply: Sender<Computed>,
}

/// A function of JavaScript that is called on its own thread: a string is written, null gives up.
pub(crate) type Compute<'env> = Function<'env, FnArgs<(Option<String>,)>, Option<String>>;
/// One that replies when it is ready.
pub(crate) type ComputeLater<'env> = Function<'env, FnArgs<(Option<String>, Reply)>, ()>;

/// Does work that asks the function, on this thread.
pub(crate) fn asking<T>(
    compute: Compute<'_>,
    work: impl FnOnce(Ask<'_>) -> Result<T>,
) -> napi::Result<T> {
    let mut thrown = None;
    let done = work(&mut |text| {
        match compute.call(FnArgs::from((text,))) {
            Ok(computed) => computed.map_or(Computed::Refused, Computed::Text),
            Err(error) => {
                thrown = Some(error);
                Computed::Refused
            }
        }
        .into_text()
    });
    match thrown {
        Some(error) => Err(error),
        None => done.map_err(to_js),
    }
}

/// Does work that asks the function on a thread of the crew, which holds the lock on `path` until the
/// function has replied, at most for `max_hold_ms`. Without a limit nothing is held.
pub(crate) fn asking_later<'env, T>(
    env: &'env Env,
    call: &Call,
    path: &Path,
    max_hold_ms: impl Into<Option<f64>>,
    compute: ComputeLater<'_>,
    work: impl FnOnce(Caller, Ask<'_>) -> Result<T> + Send + 'static,
) -> napi::Result<PromiseRaw<'env, T>>
where
    T: ToNapiValue + Send + 'static,
{
    let environment = Environment::here(*env)?;
    let ask = compute.build_threadsafe_function::<Question>().callee_handled::<false>();
    let ask = ask.build_callback(|context| {
        let Question { text, reply } = context.value;
        Ok(FnArgs::from((text, Reply { sender: Mutex::new(Some(reply)) })))
    })?;
    let (path, max_hold_ms) = (path.to_path_buf(), max_hold_ms.into());
    later(env, call, move |caller| {
        let limit = max_hold_ms.map(duration).transpose()?;
        let late = |max_hold_ms: f64| {
            let detail = format!("its function took longer than {max_hold_ms} ms");
            let error = Error::new(ErrorKind::Cancelled, "update", detail);
            error.at(&path).committed(false).hint("allow more with maxHoldMs")
        };
        work(caller, &mut |text| {
            let (reply, replied) = mpsc::channel();
            let end = reply.clone();
            let _waiting = environment.waits(move || drop(end.send(Computed::Refused)));
            ask.call(Question { text, reply }, NonBlocking);
            let computed = match limit {
                Some(limit) => {
                    let late = |_| late(max_hold_ms.unwrap_or_default());
                    replied.recv_timeout(limit).map_err(late)?
                }
                // A reply comes at the latest when the environment ends.
                None => replied.recv().unwrap_or(Computed::Refused),
            };
            computed.into_text()
        })
    })
}

#[napi]
impl Document {
    /// Updates it on this thread.
    #[napi(catch_unwind)]
    pub fn update_sync(
        &self,
        options: WriteOptions,
        raw: bool,
        compute: Function<'_, FnArgs<(Option<String>,)>, Option<String>>,
    ) -> napi::Result<Written> {
        let options = options.read(&self.address())?;
        asking(compute, |ask| change(&self.inner, &options, raw, ask))
    }

    /// Updates it on a thread of the crew.
    #[napi(catch_unwind)]
    pub fn update<'env>(
        &self,
        env: &'env Env,
        call: &Call,
        options: WriteOptions,
        raw: bool,
        max_hold_ms: f64,
        compute: Function<'_, FnArgs<(Option<String>, Reply)>, ()>,
    ) -> napi::Result<PromiseRaw<'env, Written>> {
        let (document, options) = (self.inner.clone(), options.read(&self.address())?);
        asking_later(env, call, self.inner.path(), max_hold_ms, compute, move |caller, ask| {
            change(&document, &caller.write(options), raw, ask)
        })
    }
}
