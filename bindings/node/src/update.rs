//! `update`: a JavaScript function computes the new document while the lock is held.
//!
//! The function never throws here: `lib/document.cjs` keeps what was thrown, and asks for the refusal.

use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};

use napi::Env;
use napi::bindgen_prelude::{Either3, FnArgs, Function, Null, PromiseRaw, Undefined};
use napi::threadsafe_function::ThreadsafeFunctionCallMode::NonBlocking;
use napi_derive::napi;
use serde_json::Value;
use tenure::{Error, ErrorKind, Result, parse_json};

use crate::call::{Call, Caller, later};
use crate::document::{Document, Written, check_length};
use crate::failure::to_js;
use crate::options::{WriteOptions, duration};

/// What the function made of the document.
#[derive(Debug)]
enum Computed {
    /// The new document.
    Text(String),
    /// It stays as it is.
    Same,
    /// The function failed; JavaScript knows why.
    Refused,
}

impl Computed {
    fn into_value(self) -> Result<Option<Value>> {
        match self {
            Self::Text(text) => parse_json(text.as_bytes()).map(Some),
            Self::Same => Ok(None),
            Self::Refused => {
                Err(Error::new(ErrorKind::Cancelled, "update", "the function failed").committed(false))
            }
        }
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

    /// Leave it as it is.
    #[napi(catch_unwind)]
    pub fn keep(&self) {
        self.send(Computed::Same);
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
struct Question {
    text: Option<String>,
    reply: Sender<Computed>,
}

fn text_of(current: Option<&Value>) -> Result<Option<String>> {
    let text = current.map(ToString::to_string);
    text.as_deref().map_or(Ok(()), check_length)?;
    Ok(text)
}

#[napi]
impl Document {
    /// Updates it on this thread: a string is written, undefined keeps it, null gives up.
    #[napi(catch_unwind)]
    pub fn update_sync(
        &self,
        options: WriteOptions,
        compute: Function<'_, FnArgs<(Option<String>,)>, Either3<String, Null, Undefined>>,
    ) -> napi::Result<Written> {
        let mut thrown = None;
        let update = || {
            let options = options.for_caller(Caller::default())?;
            self.inner.update(&options, |current| {
                let answer = compute.call(FnArgs::from((text_of(current)?,)));
                match answer {
                    Ok(Either3::A(text)) => Computed::Text(text),
                    Ok(Either3::B(Null)) => Computed::Refused,
                    Ok(Either3::C(())) => Computed::Same,
                    Err(error) => {
                        thrown = Some(error);
                        Computed::Refused
                    }
                }
                .into_value()
            })
        };
        let written = update();
        match thrown {
            Some(error) => Err(error),
            None => written.map(Written::from).map_err(to_js),
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
        max_hold_ms: f64,
        compute: Function<'_, FnArgs<(Option<String>, Reply)>, ()>,
    ) -> napi::Result<PromiseRaw<'env, Written>> {
        let document = self.inner.clone();
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
            let options = options.for_caller(caller)?;
            let written = document.update(&options, |current| {
                let (reply, replied) = mpsc::channel();
                ask.call(Question { text: text_of(current)?, reply }, NonBlocking);
                match replied.recv_timeout(limit) {
                    Ok(computed) => computed.into_value(),
                    Err(RecvTimeoutError::Timeout) => Err(late()),
                    // The thread of JavaScript has ended.
                    Err(RecvTimeoutError::Disconnected) => Computed::Refused.into_value(),
                }
            });
            written.map(Written::from)
        })
    }
}
