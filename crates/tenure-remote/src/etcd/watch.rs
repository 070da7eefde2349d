//! Waiting for a change: a stream of events of one key or two, opened anew whenever it breaks.
//!
//! # Invariants
//!
//! 1. A stream that is opened again goes on behind the last revision that was seen. If that was compacted meanwhile, it
//!    begins now, and the waiter is woken.
//! 2. The turn of a ticket has one key to wait for: the place of the ticket before it, or the hold itself if it is the
//!    first. So the end of a hold wakes one waiter, however many there are.
//! 3. A lost stream wakes the waiter, at most every [`RETRY`].

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tenure::store::Watcher;
use tenure::{Error, Result};

use super::EtcdEngine;
use super::client::{Client, Failure};
use super::http::Lines;
use super::keys::Keys;
use super::txn::{self, Done, Span, Txn, int, then};
use crate::engine::Watched;
use crate::session::locked;

/// The pause after a stream was lost.
const RETRY: Duration = Duration::from_millis(100);
/// A stream on which nothing came for so long is opened anew, at the next member: this one may be cut off.
const SILENCE: Duration = Duration::from_secs(60);

/// Events of a range of keys.
struct Events {
    client: Arc<Client>,
    span: Span,
    /// Only the end of a key is an event.
    deletes_only: bool,
    /// Where the next stream begins; 0 for now. Then something may have been missed before.
    from: u64,
    stream: Option<(Lines, Instant)>,
}

/// What came of a wait.
enum Woken {
    Event,
    Nothing,
    Lost,
}

impl Events {
    /// Opens the stream and waits until the server has confirmed it.
    fn open(&mut self) -> Result<(), Failure> {
        let request = txn::watch(&self.span, self.from, self.deletes_only);
        let mut lines = self.client.stream("/v3/watch", &request)?;
        let until = Instant::now() + self.client.timeout;
        let line = lines.next(until).map_err(|err| {
            let error = Error::new(tenure::ErrorKind::Io, "watch", "the stream broke");
            Failure::Error(error.caused_by(err))
        })?;
        let answer = self.read(&line)?;
        self.from = self.from.max(int(&answer["header"]["revision"]) + 1);
        self.stream = Some((lines, Instant::now()));
        Ok(())
    }

    /// The result in a line.
    fn read(&self, line: &[u8]) -> Result<Value, Failure> {
        let mut value: Value = serde_json::from_slice(line).unwrap_or_default();
        if value["error"].is_object() {
            let message = value["error"]["message"].as_str().unwrap_or_default();
            return Err(self.client.judge_line(message));
        }
        let result = value.get_mut("result").map(Value::take).unwrap_or_default();
        if int(&result["compact_revision"]) > 0 {
            return Err(Failure::Compacted);
        }
        if result["canceled"].as_bool().unwrap_or(false) {
            let reason = result["cancel_reason"].as_str().unwrap_or("the watch was cancelled");
            return Err(self.client.judge_line(reason));
        }
        Ok(result)
    }

    /// Waits for an event.
    fn wait(&mut self, until: Instant) -> Result<Woken> {
        if self.stream.is_none() {
            let missed = self.from == 0;
            match self.open() {
                Ok(()) if missed => return Ok(Woken::Lost),
                Ok(()) => {}
                Err(Failure::Compacted) => {
                    self.from = 0;
                    return self.wait(until);
                }
                Err(Failure::Error(error)) if error.kind() == tenure::ErrorKind::Invalid => {
                    return Err(error);
                }
                Err(_) => {
                    let left = until.saturating_duration_since(Instant::now());
                    thread::park_timeout(RETRY.min(left));
                    return Ok(Woken::Lost);
                }
            }
        }
        loop {
            let Some((lines, heard)) = &mut self.stream else { return Ok(Woken::Lost) };
            let line = match lines.next(until) {
                Ok(line) => line,
                Err(err) if err.kind() == std::io::ErrorKind::TimedOut => {
                    if heard.elapsed() >= SILENCE {
                        self.stream = None;
                        self.client.next_member();
                    }
                    return Ok(Woken::Nothing);
                }
                Err(_) => {
                    self.stream = None;
                    self.client.next_member();
                    return Ok(Woken::Lost);
                }
            };
            *heard = Instant::now();
            match self.read(&line) {
                Ok(answer) => {
                    self.from = self.from.max(int(&answer["header"]["revision"]) + 1);
                    if answer["events"].as_array().is_some_and(|events| !events.is_empty()) {
                        return Ok(Woken::Event);
                    }
                }
                Err(failure) => {
                    self.stream = None;
                    if matches!(failure, Failure::Compacted) {
                        self.from = 0;
                        return self.wait(until);
                    }
                    return Ok(Woken::Lost);
                }
            }
        }
    }
}

/// Waits for a change of a document or a journal.
struct Content(Events);

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Content").finish()
    }
}

impl Watcher for Content {
    fn wait(&mut self, time: Duration) -> Result<bool> {
        Ok(!matches!(self.0.wait(Instant::now() + time)?, Woken::Nothing))
    }
}

/// Waits for the turn of a ticket.
struct Turn {
    client: Arc<Client>,
    keys: Keys,
    ticket: String,
    /// The create revision of its place, if it is known.
    place: Option<u64>,
    /// What it waits for at present.
    events: Option<Events>,
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

impl Turn {
    /// Finds the key to wait for; `None` if the turn has come, or the ticket is over.
    fn find(&mut self) -> Result<Option<Events>> {
        let mine = self.keys.place(&self.ticket);
        if self.place.is_none() {
            self.place = self.ask(vec![then::look(&mine)])?.key(0).map(|mine| mine.created);
        }
        let Some(place) = self.place else { return Ok(None) };
        let done = self.ask(vec![
            then::look(&mine),
            then::before(&self.keys.queue, place),
            then::look(&self.keys.alive),
        ])?;
        if done.key(0).is_none_or(|mine| mine.created != place) {
            self.place = None;
            return Ok(None);
        }
        let before = done.key(1).or_else(|| done.key(2));
        Ok(before.map(|before| Events {
            client: self.client.clone(),
            span: (before.key, Vec::new()),
            deletes_only: true,
            from: done.revision + 1,
            stream: None,
        }))
    }

    fn ask(&self, reads: Vec<Value>) -> Result<Done> {
        let step = "wait for";
        let answer = self.client.ask(step, "/v3/kv/txn", &Txn::reading(reads).to_json());
        answer.map(|answer| Done::read(answer.body)).map_err(|failure| failure.error(step))
    }
}

impl Watcher for Turn {
    fn wait(&mut self, time: Duration) -> Result<bool> {
        let until = Instant::now() + time;
        if self.events.is_none() {
            self.events = self.find()?;
        }
        let Some(events) = &mut self.events else { return Ok(true) };
        match events.wait(until)? {
            Woken::Nothing => Ok(false),
            Woken::Event | Woken::Lost => {
                self.events = None;
                Ok(true)
            }
        }
    }
}

impl EtcdEngine {
    pub(super) fn open_watch(&self, name: &str, what: Watched<'_>) -> Result<Box<dyn Watcher>> {
        let keys = self.layout.of(name);
        match what {
            Watched::Turn(ticket) => {
                let place = locked(&self.here().places).get(&ticket.id).copied();
                let (client, ticket) = (self.client.clone(), ticket.id.clone());
                Ok(Box::new(Turn { client, keys, ticket, place, events: None }))
            }
            Watched::Content => {
                let mut events = Events {
                    client: self.client.clone(),
                    span: keys.touched,
                    deletes_only: false,
                    from: 0,
                    stream: None,
                };
                // From here on changes are seen. If it fails, the first wait wakes the caller.
                if let Err(Failure::Error(error)) = events.open() {
                    if error.kind() == tenure::ErrorKind::Invalid {
                        return Err(error);
                    }
                }
                Ok(Box::new(Content(events)))
            }
        }
    }
}
