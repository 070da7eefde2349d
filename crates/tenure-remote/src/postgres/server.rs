//! Requests to the server that survive lost connections and transactions in their way.
//!
//! # Invariants
//!
//! 1. A request is repeated until it has an answer, or the deadline is over. A repeated one says that it is, so that the
//!    server answers what it answered the first time.
//! 2. An error says whether the request was done: `None` if that could not be found out.
//! 3. A server that was never reached and refuses the connection, or refuses for good, is reported at once; if several
//!    are named, after a few seconds, since one of them may be about to take over. One that was reached before is waited
//!    for: it may be starting again.
//! 4. A renewal gives a silent connection up early enough for another one to be in time.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tenure::Result;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connection::{Connection, Parameter};
use super::failure::{Failure, Remedy};
use super::pool::{Pace, Pool};
use super::rows::Columns as _;
use crate::engine::Finding;

/// The version of the tables and functions that this client speaks.
pub(super) const CLIENT: i32 = 1;

/// How long one request may take.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
/// How long it is repeated.
const DEADLINE: Duration = Duration::from_secs(20);
/// How long several servers that were never reached are tried.
const FAILOVER: Duration = Duration::from_secs(5);
/// The shortest time that a renewal waits for its answer.
const RENEWAL_MIN: Duration = Duration::from_millis(500);
/// The first pause before a repetition; the following ones double up to the longest.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The server, or several with the same data.
#[derive(Debug)]
pub(super) struct Server {
    /// The URL without its password.
    pub(super) name: String,
    /// Quoted.
    pub(super) schema: String,
    pub(super) pool: Pool,
    /// Only a server whose replication is synchronous is used.
    pub(super) must_be_sync: bool,
    /// Whether the server that is written to is the only one in the URL.
    pub(super) is_alone: bool,
    /// What the first session found.
    pub(super) notices: Mutex<Vec<Finding>>,
    pub(super) has_looked: AtomicBool,
    /// How many statements were sent, the repeated ones included.
    pub(super) requests: AtomicUsize,
}

impl Pace {
    const USUAL: Self = Self { reserve: 0, within: REQUEST_WITHIN };
}

impl Server {
    /// Runs one statement on a connection; `@@` stands for the schema.
    pub(super) fn query(
        &self,
        connection: &mut Connection,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Failure> {
        self.query_within(connection, statement, parameters, REQUEST_WITHIN)
    }

    fn query_within(
        &self,
        connection: &mut Connection,
        statement: &str,
        parameters: &[Parameter<'_>],
        within: Duration,
    ) -> Result<Vec<Row>, Failure> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        connection.query(&statement.replace("@@", &self.schema), parameters, within)
    }

    /// Runs one statement that can be repeated as it is.
    pub(super) fn rows(
        &self,
        step: &'static str,
        name: Option<&str>,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        self.run(step, name, |connection, _| self.query(connection, statement, parameters))
    }

    /// The same for the renewal of what lives for `ttl`. It must not wait until other callers are done, so it may use one
    /// connection more; and not long for a connection that is silent.
    pub(super) fn renew(
        &self,
        step: &'static str,
        name: Option<&str>,
        ttl: Duration,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        let within = (ttl / 6).clamp(RENEWAL_MIN, REQUEST_WITHIN);
        self.repeat(step, name, Pace { reserve: 1, within }, |connection, _| {
            self.query_within(connection, statement, parameters, within)
        })
    }

    /// Makes a request; it learns whether an earlier attempt may have been done.
    pub(super) fn run<T>(
        &self,
        step: &'static str,
        name: Option<&str>,
        request: impl Fn(&mut Connection, bool) -> Result<T, Failure>,
    ) -> Result<T> {
        self.repeat(step, name, Pace::USUAL, request)
    }

    fn repeat<T>(
        &self,
        step: &'static str,
        name: Option<&str>,
        pace: Pace,
        request: impl Fn(&mut Connection, bool) -> Result<T, Failure>,
    ) -> Result<T> {
        let began = Instant::now();
        let until = began + DEADLINE;
        let mut again = false;
        let (mut pause, mut attempts) = (PAUSE, 0);
        loop {
            attempts += 1;
            let failure = match self.attempt(until, pace, again, &request) {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let remedy = failure.remedy();
            let is_final = match remedy {
                Remedy::Report => true,
                Remedy::Reconnect => {
                    (attempts >= failure.first_attempts()
                        && (self.is_alone || began.elapsed() >= FAILOVER)
                        && !self.pool.was_reached())
                        || (self.is_alone && failure.is_read_only())
                }
                Remedy::Repeat | Remedy::Bar | Remedy::Again => false,
            };
            if is_final || Instant::now() + pause > until {
                let unknown = again || failure.is_unknown();
                return Err(failure.into_error(&self.name, step, name, unknown));
            }
            again |= failure.is_unknown() || remedy == Remedy::Again;
            if let (Remedy::Bar, Some(name)) = (remedy, name) {
                self.bar(until, name);
            }
            rest(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn attempt<T>(
        &self,
        until: Instant,
        pace: Pace,
        again: bool,
        request: impl Fn(&mut Connection, bool) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut connection = self.pool.take(until, pace, |connection| self.greet(connection))?;
        let answer = request(&mut connection, again);
        match &answer {
            Err(failure) if failure.remedy() == Remedy::Reconnect => {
                drop(connection);
                self.pool.discard();
            }
            _ => self.pool.give_back(connection),
        }
        answer
    }

    /// Asks a new connection what has to be known before it is used.
    fn greet(&self, connection: &mut Connection) -> Result<(), Failure> {
        if !self.must_be_sync {
            return Ok(());
        }
        let rows = self.query(connection, "select @@.replication() as replication", &[])?;
        let replication: String =
            rows.first().map_or(Ok(String::new()), |row| row.column("replication"))?;
        self.refuse_unsafe(&replication)
    }

    /// Refuses a server whose replication is not what the URL asks for.
    pub(super) fn refuse_unsafe(&self, replication: &str) -> Result<(), Failure> {
        if !self.must_be_sync || matches!(replication, "sync" | "mixed") {
            return Ok(());
        }
        Err(Failure::Unsafe(format!(
            "failover=sync was requested, but the replication is `{replication}`"
        )))
    }

    /// Looks once whether what is acknowledged could be lost. Not part of the greeting: a single write need not wait for
    /// it.
    pub(super) fn look_at_replication(&self) {
        if self.has_looked.swap(true, Ordering::Relaxed) {
            return;
        }
        let statement =
            "select @@.replication() as replication, timeline <> 0 as timeline from @@.meta";
        let Ok(rows) = self.rows("look at the replication", None, statement, &[]) else { return };
        let Some(row) = rows.first() else { return };
        let replication: String = row.column("replication").unwrap_or_default();
        let timeline = row.column("timeline").unwrap_or(true);
        let found = [replication_finding(&replication), timeline_finding(timeline)];
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        *notices = found.into_iter().filter(|finding| finding.problem.is_some()).collect();
    }

    fn bar(&self, until: Instant, name: &str) {
        let barred = self.attempt(until, Pace::USUAL, false, |connection, _| {
            self.query(connection, "select @@.bar($1)", &[(&name, Type::TEXT)])
        });
        drop(barred); // Without it the next attempt waits as this one did.
    }
}

/// What is known of the standbys.
pub(super) fn replication_finding(replication: &str) -> Finding {
    let lost = "the promotion of an asynchronous standby loses the last acknowledged writes (fences, versions and \
                numbers still grow, and followers learn of the break)";
    let (found, problem) = match replication {
        "none" => ("no standby", None),
        "sync" => ("synchronous", None),
        "mixed" => ("synchronous, plus an asynchronous standby", Some(lost)),
        "async" => ("asynchronous", Some(lost)),
        _ => (
            "standbys whose mode is hidden from this user",
            Some(
                "if they are asynchronous, a failover loses the last acknowledged writes; grant pg_monitor to see it",
            ),
        ),
    };
    Finding { what: "replication", found: found.to_owned(), problem: problem.map(str::to_owned) }
}

/// Whether numbers grow across a failover.
pub(super) fn timeline_finding(is_known: bool) -> Finding {
    let problem = "after a failover to a standby that is behind, fences, versions and numbers could be issued twice";
    Finding {
        what: "timeline",
        found: if is_known { "readable" } else { "hidden by the server" }.to_owned(),
        problem: (!is_known).then(|| problem.to_owned()),
    }
}

/// Waits between half of this time and all of it.
fn rest(time: Duration) {
    let chance = RandomState::new().build_hasher().finish() % 512;
    let until = Instant::now() + time / 2 + time * u32::try_from(chance).unwrap_or(0) / 1024;
    while let Some(left) =
        until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    {
        thread::park_timeout(left);
    }
}
