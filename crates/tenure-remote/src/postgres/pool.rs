//! The connections of a process: as many as callers are at work at the same time, up to a few.
//!
//! # Invariants
//!
//! 1. A connection is used by one caller at a time, and given back only if it is in order.
//! 2. Each process has its own. A forked child starts with none.
//! 3. The host that answered last is asked first.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenure::store::ProcessLocal;
use tenure::{Error, ErrorKind, Result};
use tokio_postgres::Config;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection::Connection;
use super::failure::Failure;
use super::tls;
use crate::url::Url;

/// More callers than this wait for each other.
const CONNECTIONS_MAX: usize = 8;
/// How long one host may take to answer.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// How urgent a request is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// It may use so many connections more.
    pub(super) reserve: usize,
    /// How long it waits for its answer. A connection may take twice as long to be made.
    pub(super) within: Duration,
}

/// The connections.
pub(super) struct Pool {
    /// A configuration for each host, and how people call the host.
    hosts: Vec<(String, Config)>,
    tls: MakeRustlsConnect,
    within: Duration,
    last_good: AtomicUsize,
    here: ProcessLocal<Here>,
}

#[derive(Default)]
struct Here {
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Connection>,
    /// Idle and used.
    open: usize,
    /// The server was reached before.
    reached: bool,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> = self.hosts.iter().map(|(host, _)| host).collect();
        f.debug_struct("Pool").field("hosts", &hosts).finish_non_exhaustive()
    }
}

impl Pool {
    pub(super) fn new(url: &Url) -> Result<Self> {
        let (mode, tls) = tls::of(url)?;
        let attributes = match url.parameter("target_session_attrs") {
            // With several hosts the one that can be written to is meant.
            None if url.hosts.len() > 1 => TargetSessionAttrs::ReadWrite,
            None | Some("any") => TargetSessionAttrs::Any,
            Some("read-write" | "primary") => TargetSessionAttrs::ReadWrite,
            Some(_) => {
                let detail = "`target_session_attrs` is neither any nor read-write";
                return Err(Error::new(ErrorKind::Invalid, "read the URL of a store", detail));
            }
        };
        let within = url.duration("connect_timeout")?.unwrap_or(CONNECT_WITHIN);
        let config = |host: &crate::url::Host| {
            let mut config = Config::new();
            config.host(&host.name).port(host.port).ssl_mode(mode).connect_timeout(within);
            config.target_session_attrs(attributes).application_name("tenure");
            config.keepalives_idle(Duration::from_secs(30));
            config.keepalives_interval(Duration::from_secs(10));
            config.keepalives_retries(3);
            if let Some(user) = &url.user {
                config.user(user);
            }
            if let Some(password) = &url.password {
                config.password(password.expose());
            }
            if !url.path.is_empty() {
                config.dbname(&url.path);
            }
            (host.to_string(), config)
        };
        let hosts = url.hosts.iter().map(config).collect();
        Ok(Self { hosts, tls, within, last_good: AtomicUsize::new(0), here: ProcessLocal::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.here.here().state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new connection, outside of the pool.
    pub(super) fn connect(&self) -> Result<Connection, Failure> {
        self.connect_within(self.within)
    }

    fn connect_within(&self, within: Duration) -> Result<Connection, Failure> {
        let first = self.last_good.load(Ordering::Relaxed);
        let mut failure = None;
        for turn in 0..self.hosts.len() {
            let at = (first + turn) % self.hosts.len();
            let (host, config) = &self.hosts[at];
            match Connection::open(host, config, &self.tls, within) {
                Ok(connection) => {
                    self.last_good.store(at, Ordering::Relaxed);
                    return Ok(connection);
                }
                Err(error) => failure = Some(error),
            }
        }
        let none = || Failure::Unreachable { code: None, message: "no host is named".to_owned() };
        Err(failure.unwrap_or_else(none))
    }

    /// A connection to use, of as many as there may be at this pace; and to [`give_back`](Self::give_back) or [`discard`](Self::discard). A new one is greeted.
    pub(super) fn take(
        &self,
        until: Instant,
        pace: Pace,
        greet: impl FnOnce(&mut Connection) -> Result<(), Failure>,
    ) -> Result<Connection, Failure> {
        let here = self.here.here();
        let mut state = self.state();
        loop {
            if let Some(connection) = state.idle.pop() {
                return Ok(connection);
            }
            if state.open < CONNECTIONS_MAX + pace.reserve {
                state.open += 1;
                break;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let message = "all connections of this process are in use".to_owned();
                return Err(Failure::Unreachable { code: None, message });
            }
            let woken = here.returned.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        let within = self.within.min(2 * pace.within);
        let greeted = self.connect_within(within).and_then(|mut connection| {
            greet(&mut connection)?;
            Ok(connection)
        });
        match greeted {
            Ok(connection) => {
                self.state().reached = true;
                Ok(connection)
            }
            Err(error) => {
                self.discard();
                Err(error)
            }
        }
    }

    /// Returns a connection that is in order.
    pub(super) fn give_back(&self, connection: Connection) {
        if !connection.is_open() {
            return self.discard();
        }
        let mut state = self.state();
        if state.open > CONNECTIONS_MAX {
            state.open -= 1; // The reserve stays free for the next urgent request.
        } else {
            state.idle.push(connection);
        }
        drop(state);
        self.here.here().returned.notify_one();
    }

    /// One connection is not used any more. The idle ones are likely to be as broken.
    pub(super) fn discard(&self) {
        let mut state = self.state();
        let idle = std::mem::take(&mut state.idle);
        state.open = state.open.saturating_sub(1 + idle.len());
        drop(state);
        drop(idle);
        self.here.here().returned.notify_one();
    }

    /// Whether the server was reached before.
    pub(super) fn was_reached(&self) -> bool {
        self.state().reached
    }
}
