//! The loop: one message a line from the client, one thread for each call that touches files.
//!
//! # Invariants
//!
//! 1. A call that waits stalls no other one: only the loop reads, and it never touches a file itself.
//! 2. A cancelled call ends soon, and its answer is not sent. A task that it has claimed is given back.
//! 3. When the input ends, calls have a moment to end and be answered: a script may send all and then read. Then
//!    the rest is cancelled, and the loop returns once they have ended.
//! 4. Lines and the number of calls are bounded.

use std::collections::HashMap;
use std::io::{self, BufRead, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tenure::store::Store;
use tenure::{Cancel, Result, Value, json};

use crate::protocol::{self, Era, Fault, Message};
use crate::resources;
use crate::root::Root;
use crate::tools::{self, Context};

/// A longer line is refused: an agent does not send a document of this size.
const LINE_MAX: u64 = 16 << 20;
/// More calls at once are refused.
const CALLS_MAX: usize = 64;
/// How long calls may go on when the input has ended. Clients kill a server that takes a few seconds.
const LAST_CALLS: Duration = Duration::from_secs(1);

/// What is served.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where documents, journals and tasks are kept.
    pub store: Arc<dyn Store>,
    /// No name of a document, journal or task leaves this directory.
    pub root: PathBuf,
    /// The project whose files agents reserve.
    pub directory: PathBuf,
    /// The version of the program.
    pub version: String,
}

/// Serves until the input ends.
pub fn serve(options: Options, input: impl BufRead, output: impl Write + Send) -> Result<()> {
    let root = Root::new(options.store, &options.root)?;
    let server = Server {
        about: about(&options.version),
        context: Context::new(root, &options.directory)?,
        output: Mutex::new(output),
        calls: Mutex::default(),
        ended: Condvar::new(),
    };
    // Invariant 3. The scope of the threads is in `run`: they have ended.
    server.run(input).map_err(|err| tenure::Error::io("read from", "the client".as_ref(), err))
}

/// What clients learn about the server.
fn about(version: &str) -> Value {
    json!({
        "server": { "name": "tenure", "title": "tenure", "version": version },
        "capabilities": { "tools": {}, "resources": {} },
        "instructions": tools::INSTRUCTIONS,
    })
}

struct Server<W> {
    about: Value,
    context: Context,
    output: Mutex<W>,
    /// The calls under way, by the text of their ids.
    calls: Mutex<HashMap<String, Cancel>>,
    /// A call has ended.
    ended: Condvar,
}

impl<W: Write + Send> Server<W> {
    fn run(&self, mut input: impl BufRead) -> io::Result<()> {
        thread::scope(|scope| {
            let mut line = Vec::new();
            let ended = loop {
                line.clear();
                match (&mut input).take(LINE_MAX).read_until(b'\n', &mut line) {
                    Ok(0) => break Ok(()),
                    Err(err) => break Err(err),
                    Ok(_) => {}
                }
                if line.last() != Some(&b'\n') && line.len() as u64 == LINE_MAX {
                    if let Err(err) = skip_line(&mut input) {
                        break Err(err);
                    }
                    let why = format!("a message may have at most {LINE_MAX} bytes");
                    self.answer(&Value::Null, Era::Handshake, "", Err(Fault::parse(why)));
                    continue;
                }
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                match Message::read(&line) {
                    Ok(message) => self.handle(scope, message),
                    Err((id, fault)) => {
                        self.answer(&id, Era::Handshake, "", Err(fault));
                    }
                }
            };
            self.end_calls();
            ended
        })
    }

    /// Waits a moment for the calls that are under way, and cancels the rest.
    fn end_calls(&self) {
        let calls = lock(&self.calls);
        let waited = self.ended.wait_timeout_while(calls, LAST_CALLS, |calls| !calls.is_empty());
        let (calls, _) = waited.unwrap_or_else(PoisonError::into_inner);
        calls.values().for_each(Cancel::cancel);
    }

    fn handle<'scope, 'env>(
        &'env self,
        scope: &'scope thread::Scope<'scope, 'env>,
        message: Message,
    ) {
        let Message { id, method, params, era } = message;
        let Some(id) = id else {
            if method == "notifications/cancelled" {
                let calls = lock(&self.calls);
                calls.get(&params["requestId"].to_string()).into_iter().for_each(Cancel::cancel);
            }
            return;
        };
        let outcome = match (method.as_str(), era) {
            ("tools/call" | "resources/list" | "resources/read", _) => {
                return self.call(scope, &id, era, &method, params);
            }
            ("initialize", _) => Ok(protocol::handshake(&params, &self.about)),
            ("server/discover", _) => Ok(protocol::discovery(&self.about)),
            ("ping", Era::Handshake) => Ok(json!({})),
            ("tools/list", _) => Ok(tools::list()),
            ("resources/templates/list", _) => Ok(resources::templates()),
            _ => Err(Fault::method(&method)),
        };
        self.answer(&id, era, &method, outcome);
    }

    /// Runs a tool, or reads resources, on a thread of its own.
    fn call<'scope, 'env>(
        &'env self,
        scope: &'scope thread::Scope<'scope, 'env>,
        id: &Value,
        era: Era,
        method: &str,
        params: Value,
    ) {
        let (key, cancel) = (id.to_string(), Cancel::new());
        let refused = {
            let mut calls = lock(&self.calls);
            if calls.len() >= CALLS_MAX {
                Some(Fault::overloaded(CALLS_MAX))
            } else if calls.insert(key.clone(), cancel.clone()).is_some() {
                Some(Fault::request("a call with this id is under way already"))
            } else {
                None
            }
        };
        if let Some(fault) = refused {
            self.answer(id, era, method, Err(fault));
            return;
        }
        let name = "tool".to_owned();
        let shared = (id.clone(), key.clone(), method.to_owned());
        let started = thread::Builder::new().name(name).spawn_scoped(scope, move || {
            let (id, key, method) = shared;
            // A tool that panics is a bug. It must not keep the place of its call, nor leave the client waiting.
            let call = || match method.as_str() {
                "resources/list" => resources::list(&self.context.root, &cancel),
                "resources/read" => resources::read(&self.context.root, &params, &cancel),
                _ => tools::call(&self.context, &params, &cancel),
            };
            let outcome = catch_unwind(AssertUnwindSafe(call))
                .unwrap_or_else(|_| Err(Fault::internal("the tool failed; please report it")));
            let claimed = tools::claimed(&params, &outcome);
            // A cancellation that comes from here on is too late: it finds a token that is no longer looked at.
            lock(&self.calls).insert(key.clone(), Cancel::new());
            let is_sent = !cancel.is_cancelled() && self.answer(&id, era, &method, outcome);
            if let Some(claimed) = claimed.filter(|_| !is_sent) {
                tools::give_back(&self.context, &params, &claimed);
            }
            lock(&self.calls).remove(&key);
            self.ended.notify_all();
        });
        if let Err(err) = started {
            lock(&self.calls).remove(&key);
            let fault = Fault::request(format!("no thread for this call: {err}"));
            self.answer(id, era, method, Err(fault));
        }
    }

    /// Sends a response; `false` if the client is gone, which the loop notices when the input ends.
    fn answer(
        &self,
        id: &Value,
        era: Era,
        method: &str,
        outcome: std::result::Result<Value, Fault>,
    ) -> bool {
        let line = protocol::response(id, era, method, outcome);
        let mut output = lock(&self.output);
        output.write_all(line.as_bytes()).and_then(|()| output.flush()).is_ok()
    }
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let part = input.fill_buf()?;
        let end = part.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(part.len(), |end| end + 1);
        if length == 0 {
            return Ok(());
        }
        input.consume(length);
        if end.is_some() {
            return Ok(());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
