//! `update`: a JavaScript function computes the new document while the lock is held.
//!
//! The function never throws here: `lib/document.cjs` keeps what was thrown, and asks for the refusal.

#![expect(clippy::needless_pass_by_value, reason = "napi hands functions over")]

use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};

use napi::Env;
use napi::bindgen_prelude::{FnArgs, Function, PromiseRaw};
use napi::threadsafe_function::ThreadsafeFunctionCallMode::NonBlocking;
use napi_derive::napi;
use serde_json::Value;
use tenure::{Error, ErrorKind, Result, parse_json};

use crate::call::{Call, later};
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

/// Changes the document by value or (`raw`) by its text; `ask` computes text from text.
fn change(
    document: &tenure::Document,
    options: &tenure::WriteOptions,
    raw: bool,
    mut ask: impl FnMut(Option<String>) -> Result<String>,
) -> Result<Written> {
    let mut ask = |text: Option<String>| {
        text.as_deref().map_or(Ok(()), check_length)?;
        ask(text)
    };
    let written = if raw {
        document.update_text(options, |current| ask(current.map(str::to_owned)).map(Some))
    } else {
        document.update(options, |current| {
            let text = ask(current.map(ToString::to_string))?;
            let mut value = parse_json(text.as_bytes())?;
            if let Some(current) = current {
                restore_order(current, &mut value);
            }
            Ok(Some(value))
        })
    };
    written.map(Written::from)
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
                let mut found = std::mem::take(after);
                for key in before.keys() {
                    after.extend(found.shift_remove_entry(key));
                }
                after.append(&mut found);
            }
        }
        _ => {}
    }
}

/// What a waiting update is told, once.
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
            let _ = sender.send(computed); // Nobody listens after the deadline.
        }
    }
}

/// The document as the function finds it, and where its answer goes.
#[derive(Debug)]
struct Question {
    text: Option<String>,
    reply: Sender<Computed>,
}

#[napi]
impl Document {
    /// Updates it on this thread: a string is written, null gives up.
    #[napi(catch_unwind)]
    pub fn update_sync(
        &self,
        options: WriteOptions,
        raw: bool,
        compute: Function<'_, FnArgs<(Option<String>,)>, Option<String>>,
    ) -> napi::Result<Written> {
        let (mut thrown, options) = (None, options.read()?);
        let written = change(&self.inner, &options, raw, |text| {
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
            None => written.map_err(to_js),
        }
    }

    /// Updates it on a thread of the crew, which holds the lock until the function has replied, at
    /// most for `max_hold_ms`.
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
        let (document, options) = (self.inner.clone(), options.read()?);
        let environment = Environment::here(*env)?;
        let ask = compute.build_threadsafe_function::<Question>().callee_handled::<false>();
        let ask = ask.build_callback(|context| {
            let Question { text, reply } = context.value;
            Ok(FnArgs::from((text, Reply { sender: Mutex::new(Some(reply)) })))
        })?;
        later(env, call, move |caller| {
            let limit = duration(max_hold_ms)?;
            let late = || {
                let detail = format!("its function took longer than {max_hold_ms} ms");
                let error = Error::new(ErrorKind::Cancelled, "update", detail);
                error.at(document.path()).committed(false).hint("allow more with maxHoldMs")
            };
            change(&document, &caller.write(options), raw, |text| {
                let (reply, replied) = mpsc::channel();
                let end = reply.clone();
                let _waiting = environment.waits(move || drop(end.send(Computed::Refused)));
                ask.call(Question { text, reply }, NonBlocking);
                replied.recv_timeout(limit).map_err(|_| late())?.into_text()
            })
        })
    }
}
