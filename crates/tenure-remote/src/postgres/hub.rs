//! Waiting: one thread for all watchers of a process, and one connection that listens while there are some.
//!
//! # Invariants
//!
//! 1. A notification is a hint. The thread also looks at the server from time to time, for all watchers at once.
//! 2. `LISTEN` is trusted after a notification of our own came through. Below a pooler that gives each transaction another
//!    connection it never does: then the thread looks more often instead.
//! 3. A watcher that lost its connection wakes.
//! 4. The thread ends when nothing waits for a while. A forked child has its own.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tenure::store::{self, ProcessLocal, Watcher};
use tenure::{Error, ErrorKind, Result};
use tokio_postgres::types::Type;

use super::connection::Connection;
use super::rows::Columns as _;
use super::server::{CLIENT, Server};
use crate::engine::Watched;

/// How often the thread looks although nothing was heard.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often it looks if it cannot listen: at first, and when nothing happens for a while.
const POLL_FIRST: Duration = Duration::from_millis(10);
const POLL_LAST: Duration = Duration::from_millis(250);
/// The thread outlives its last watcher for this long.
const LINGER: Duration = Duration::from_secs(2);
/// A notification of our own comes through in this time, or never.
const PROBE_WITHIN: Duration = Duration::from_secs(2);
/// A registration at the server lasts a minute.
const REGISTER_EVERY: Duration = Duration::from_secs(20);
/// After a failure to listen, the next attempt.
const LISTEN_AGAIN: Duration = Duration::from_secs(30);
/// What the own notification says.
const PROBE: &str = "probe";

/// Who waits in this process.
#[derive(Debug)]
pub(super) struct Hub {
    server: Arc<Server>,
    here: ProcessLocal<Here>,
}

#[derive(Debug, Default)]
struct Here {
    channel: OnceLock<String>,
    state: Mutex<State>,
    /// Someone began to wait, or the hub is gone.
    news: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    watches: HashMap<u64, Watch>,
    /// The thread runs.
    runs: bool,
    /// A notification came through on the connection.
    listens: bool,
}

#[derive(Debug)]
struct Watch {
    name: String,
    /// The ticket whose turn is waited for; empty for a change of content.
    ticket: String,
    /// The newest change that is known.
    seen: Option<i64>,
    signal: Arc<Signal>,
}

#[derive(Debug, Default)]
struct Signal {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    fn set(&self) {
        *self.set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

impl Hub {
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self { server, here: ProcessLocal::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.here.here().state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The channel on which this process is woken.
    pub(super) fn channel(&self) -> Result<&str> {
        let channel = &self.here.here().channel;
        if let Some(known) = channel.get() {
            return Ok(known);
        }
        let new = format!("tenure_{}", store::new_token()?);
        Ok(channel.get_or_init(|| new))
    }

    /// Wakes waiters, each named by its channel, a colon and its ticket or target.
    pub(super) fn wake(&self, waiters: Option<Vec<String>>) {
        let ours = self.here.here().channel.get();
        let mut others = Vec::new();
        for waiter in waiters.into_iter().flatten() {
            match waiter.split_once(':') {
                Some((channel, payload)) if ours.is_some_and(|ours| ours == channel) => {
                    self.deliver(payload);
                }
                _ => others.push(waiter),
            }
        }
        if !others.is_empty() {
            let statement = "select pg_notify(split_part(w, ':', 1), substr(w, strpos(w, ':') + 1)) \
                             from unnest($1) as w";
            // A hint that is lost is found by looking.
            drop(self.server.rows("notify", None, statement, &[(&others, Type::TEXT_ARRAY)]));
        }
    }

    /// Wakes those who wait for a ticket's turn, or for a change of a target.
    fn deliver(&self, payload: &str) {
        for watch in self.state().watches.values() {
            if watch.ticket == payload || (watch.ticket.is_empty() && watch.name == payload) {
                watch.signal.set();
            }
        }
    }

    /// Wakes all.
    fn wake_all(&self) {
        self.state().watches.values().for_each(|watch| watch.signal.set());
    }

    /// Begins to wait.
    pub(super) fn watch(hub: &Arc<Self>, name: &str, what: Watched<'_>) -> Result<HubWatcher> {
        let (ticket, seen) = match what {
            Watched::Turn(ticket) => (ticket.id.clone(), None),
            Watched::Content => (String::new(), hub.register(name)?),
        };
        let signal = Arc::new(Signal::default());
        let mut state = hub.state();
        state.next += 1;
        let id = state.next;
        state
            .watches
            .insert(id, Watch { name: name.to_owned(), ticket, seen, signal: signal.clone() });
        if !state.runs {
            let weak = Arc::downgrade(hub);
            let started =
                thread::Builder::new().name("tenure-postgres".to_owned()).spawn(move || run(&weak));
            if let Err(err) = started {
                state.watches.remove(&id);
                return Err(Error::new(ErrorKind::Io, "start a thread", "").caused_by(err));
            }
            state.runs = true;
        }
        drop(state);
        hub.here.here().news.notify_all();
        Ok(HubWatcher { hub: hub.clone(), process: std::process::id(), id, signal })
    }

    /// Notes at the server that this process wants to hear of changes; the newest one.
    fn register(&self, name: &str) -> Result<Option<i64>> {
        let step = "watch";
        let rows = self.server.rows(
            step,
            Some(name),
            "select @@.watch($1, $2, $3) as changes",
            &[(&CLIENT, Type::INT4), (&name, Type::TEXT), (&self.channel()?, Type::TEXT)],
        )?;
        Ok(rows.first().and_then(|row| row.column("changes").unwrap_or_default()))
    }

    /// Looks at the server for all watchers; how many were woken.
    fn look(&self) -> Result<usize> {
        let (mut ids, mut names, mut tickets) = (Vec::new(), Vec::new(), Vec::new());
        for (id, watch) in &self.state().watches {
            ids.push(*id);
            names.push(watch.name.clone());
            tickets.push(watch.ticket.clone());
        }
        // A ticket's turn has come if it has the hold, or is first and the hold is over, or if it is gone.
        let rows = self.server.rows(
            "watch",
            None,
            "select t.changes, t.ticket is not distinct from w.ticket or w.ticket = coalesce(( \
                    select q.id from @@.ticket q join @@.session s on s.id = q.session \
                    where q.target = t.id and s.expires > clock_timestamp() and (t.kind = 0 \
                        or (t.kind = 2 and t.expires <= clock_timestamp()) \
                        or (t.kind = 1 and not exists (select from @@.session h \
                            where h.id = t.session and h.expires > clock_timestamp()))) \
                    order by q.seq limit 1), '') \
                    or not exists (select from @@.ticket q where q.id = w.ticket) as turn \
                from unnest($1, $2) with ordinality as w (name, ticket, at) \
                left join @@.target t on t.name = w.name collate \"C\" order by w.at",
            &[(&names, Type::TEXT_ARRAY), (&tickets, Type::TEXT_ARRAY)],
        )?;
        let mut woken = 0;
        let mut state = self.state();
        for (id, row) in ids.iter().zip(&rows) {
            let Some(watch) = state.watches.get_mut(id) else { continue };
            let changes: Option<i64> = row.column("changes").unwrap_or_default();
            let is_due = if watch.ticket.is_empty() {
                watch.seen != changes
            } else {
                row.column("turn").unwrap_or(true)
            };
            if is_due {
                watch.seen = changes;
                watch.signal.set();
                woken += 1;
            }
        }
        Ok(woken)
    }

    /// The names whose content is watched.
    fn watched_content(&self) -> Vec<String> {
        let state = self.state();
        let content = state.watches.values().filter(|watch| watch.ticket.is_empty());
        let mut names: Vec<_> = content.map(|watch| watch.name.clone()).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// The connection that listens.
#[derive(Debug)]
struct Ear {
    connection: Connection,
    /// When our own notification was sent; `None` once it came through.
    probed: Option<Instant>,
}

/// What the thread remembers between its turns.
#[derive(Debug)]
struct Turns {
    ear: Option<Ear>,
    listen_at: Instant,
    look_at: Instant,
    register_at: Instant,
    poll: Duration,
    idle_since: Option<Instant>,
}

/// The thread.
fn run(hub: &Weak<Hub>) {
    let now = Instant::now();
    let mut turns = Turns {
        ear: None,
        listen_at: now,
        look_at: now,
        register_at: now + REGISTER_EVERY,
        poll: POLL_FIRST,
        idle_since: None,
    };
    while let Some(hub) = hub.upgrade() {
        if !turns.go_on(&hub) {
            return;
        }
        turns.listen(&hub);
        turns.look(&hub);
        turns.wait(&hub);
    }
}

impl Turns {
    /// Whether something waits, or did a moment ago.
    fn go_on(&mut self, hub: &Hub) -> bool {
        let mut state = hub.state();
        if !state.watches.is_empty() {
            self.idle_since = None;
            return true;
        }
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        // The hub itself is only held by this turn.
        if since.elapsed() < LINGER {
            return true;
        }
        (state.runs, state.listens) = (false, false);
        false
    }

    /// Opens the connection that listens, and tries it.
    fn listen(&mut self, hub: &Hub) {
        if self.ear.is_none() && Instant::now() >= self.listen_at {
            self.listen_at = Instant::now() + LISTEN_AGAIN;
            let Ok(channel) = hub.channel() else { return };
            let Ok(mut connection) = hub.server.pool.connect() else { return };
            if connection.execute(&format!("listen {channel}"), PROBE_WITHIN).is_ok() {
                self.ear = Some(Ear { connection, probed: Some(Instant::now()) });
                self.look_at = Instant::now();
                let statement = "select pg_notify($1, $2)";
                let parameters: &[super::connection::Parameter<'_>] =
                    &[(&channel, Type::TEXT), (&PROBE, Type::TEXT)];
                drop(hub.server.rows("notify", None, statement, parameters));
            }
        }
        let is_deaf = |ear: &Ear| ear.probed.is_some_and(|at| at.elapsed() > PROBE_WITHIN);
        if self.ear.as_ref().is_some_and(is_deaf) {
            self.ear = None; // Invariant 2.
            self.listen_at = Instant::now() + 10 * LISTEN_AGAIN;
        }
    }

    /// Looks at the server, if it is time to.
    fn look(&mut self, hub: &Hub) {
        let now = Instant::now();
        if now >= self.register_at && hub.state().listens {
            self.register_at = now + REGISTER_EVERY;
            for name in hub.watched_content() {
                drop(hub.register(&name)); // The next look finds what is not heard.
            }
        }
        if now < self.look_at || hub.state().watches.is_empty() {
            return;
        }
        match hub.look() {
            Ok(0) => self.poll = (self.poll * 3 / 2).min(POLL_LAST),
            Ok(_) => self.poll = POLL_FIRST,
            Err(_) => hub.wake_all(), // Invariant 3.
        }
        let every = if hub.state().listens { LOOK_EVERY } else { self.poll };
        self.look_at = Instant::now() + every;
    }

    /// Waits for a notification, or until the next look.
    fn wait(&mut self, hub: &Hub) {
        let left = self.look_at.saturating_duration_since(Instant::now());
        let left = if hub.state().watches.is_empty() { LINGER / 4 } else { left };
        let Some(ear) = &mut self.ear else {
            let here = hub.here.here();
            let state = hub.state();
            if here.news.wait_timeout(state, left).is_ok_and(|(_, waited)| !waited.timed_out()) {
                (self.poll, self.look_at) = (POLL_FIRST, Instant::now());
            }
            return;
        };
        match ear.connection.listen(left) {
            Ok(Some(payload)) if payload == PROBE => {
                ear.probed = None;
                hub.state().listens = true;
                self.register_at = Instant::now();
            }
            Ok(Some(payload)) => hub.deliver(&payload),
            Ok(None) => {}
            Err(_) => {
                self.ear = None;
                self.listen_at = Instant::now();
                hub.state().listens = false;
                hub.wake_all();
            }
        }
    }
}

/// Waits for one thing.
#[derive(Debug)]
pub(super) struct HubWatcher {
    hub: Arc<Hub>,
    process: u32,
    id: u64,
    signal: Arc<Signal>,
}

impl Watcher for HubWatcher {
    fn wait(&mut self, time: Duration) -> Result<bool> {
        let until = Instant::now() + time;
        let mut set = self.signal.set.lock().unwrap_or_else(PoisonError::into_inner);
        while !*set {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let woken = self.signal.changed.wait_timeout(set, left);
            set = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        *set = false;
        Ok(true)
    }
}

impl Drop for HubWatcher {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.hub.state().watches.remove(&self.id);
        }
    }
}
