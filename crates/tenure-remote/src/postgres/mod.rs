//! The engine on PostgreSQL: its own tables and functions in one schema, each step one statement.
//!
//! Read `begin.sql`, `tables.sql` and `functions.sql` first: what the engine promises is promised there. Then
//! `connection`, `pool` and `server` (how a request reaches the server), this file and `commit` (the steps), `hub`
//! (how a caller waits), `health` (`init` and `check`).
//!
//! # Invariants
//!
//! 1. A step is one call of a function of the schema, and so one transaction and one round trip. It leaves nothing in the
//!    connection, so it works through pgbouncer in transaction mode.
//! 2. No tables or functions are created outside of `init`.
//! 3. Whom to wake is found out in the transaction, and done after it: `NOTIFY` inside of it would make all commits of
//!    the database wait for each other.
//!
//! Crash: a client that dies leaves its session, which ends when its time is over. A server that dies leaves what was
//! committed.

mod commit;
mod connection;
mod failure;
mod health;
mod hub;
mod pool;
mod rows;
mod server;
mod tls;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure::json::parse as parse_json;
use tenure::status::{HoldKind, Holder};
use tenure::store::{self, Watcher};
use tenure::{Error, ErrorKind, Fence, Result, Value};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use self::commit::is_due;
use self::failure::Failure;
use self::hub::Hub;
use self::pool::Pool;
use self::rows::{Columns as _, milliseconds, signed, version};
use self::server::{CLIENT, Server};
use crate::engine::{
    Commit, Committed, Engine, Finding, Hold, Kind, LeaseState, Listed, Page, Read, SessionId,
    Taken, Ticket, Watched, with_former,
};
use crate::holder;
use crate::url::Url;

/// The shortest time to live of a lease.
const TTL_MIN: Duration = Duration::from_secs(2);
/// The longest document and the longest line.
const BYTES_MAX: u64 = 1 << 20;
/// The schema, if the URL names none.
const SCHEMA: &str = "tenure";
/// One session in so many looks for what is over and removes it.
const SESSIONS_PER_SWEEP: u64 = 32;
/// The bits of a number below its epoch.
const COUNTER_BITS: u32 = 36;

/// The columns of a hold.
const HOLD: &str = "t.name, t.fence as r_fence, case when t.kind <> 0 then t.holder end as r_holder, \
    (extract(epoch from t.since) * 1000000)::bigint as r_since, t.kind as r_kind, \
    t.kind = 1 and not exists (select from @@.session s where s.id = t.session \
        and s.expires > clock_timestamp()) as abandoned, \
    t.ttl, t.token_sum, case when t.expires > clock_timestamp() \
        then least(t.ttl, 1 + floor(extract(epoch from t.expires - clock_timestamp()) * 1000)::bigint) \
        end as expires_in, \
    array(select q.holder from @@.ticket q join @@.session s on s.id = q.session \
        where q.target = t.id and s.expires > clock_timestamp() order by q.seq) as waiters";

/// A store on PostgreSQL.
#[derive(Debug)]
pub struct PostgresEngine {
    server: Arc<Server>,
    hub: Arc<Hub>,
    /// Of sessions.
    ttl: Duration,
}

impl PostgresEngine {
    /// The engine of a URL. The server is asked by the first step.
    pub fn connect(url: &Url) -> Result<Self> {
        let schema = url.parameter("schema").unwrap_or(SCHEMA);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if schema.is_empty() || schema.len() > 63 || !schema.bytes().all(is_plain) {
            let detail = "`schema` must be 1 to 63 letters of ASCII, digits and underscores";
            return Err(Error::new(ErrorKind::Invalid, "read the URL of a store", detail));
        }
        let must_be_sync = match url.parameter("failover") {
            None => false,
            Some("sync") => true,
            Some(_) => {
                let error = Error::new(
                    ErrorKind::Invalid,
                    "read the URL of a store",
                    "`failover` is wrong",
                );
                return Err(error.hint("write failover=sync, or leave it out"));
            }
        };
        let server = Arc::new(Server {
            name: url.redacted().to_owned(),
            schema: format!("\"{schema}\""),
            pool: Pool::new(url)?,
            must_be_sync,
            is_alone: url.hosts.len() == 1,
            notices: Mutex::default(),
            has_looked: AtomicBool::new(false),
            requests: AtomicUsize::new(0),
        });
        Ok(Self { hub: Arc::new(Hub::new(server.clone())), server, ttl: url.ttl })
    }

    /// How many requests were sent so far.
    pub fn requests(&self) -> usize {
        self.server.requests.load(Ordering::Relaxed)
    }

    /// Reads what a step answered.
    fn decoded<T>(
        &self,
        step: &'static str,
        name: &str,
        read: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T> {
        let about = Some(name).filter(|name| !name.is_empty());
        read().map_err(|failure| failure.into_error(&self.server.name, step, about, false))
    }

    fn ask(
        &self,
        name: &str,
        ticket: &Ticket,
        event: Option<&Value>,
        step: &'static str,
    ) -> Result<Taken> {
        let (kind, ttl, token_sum) = match ticket.kind {
            Kind::Lock => (1_i16, None, None),
            Kind::Lease { ttl, token_sum } => {
                (2, Some(milliseconds(ttl)), Some(token_sum.to_vec()))
            }
        };
        let who = holder::to_text(&ticket.holder);
        let event = event.map(Value::to_string);
        let channel = self.hub.channel()?;
        let rows = self.server.run(step, Some(name), |connection, again| {
            self.server.query(
                connection,
                "select * from @@.take($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
                &[
                    (&CLIENT, Type::INT4),
                    (&name, Type::TEXT),
                    (&ticket.id, Type::TEXT),
                    (&ticket.session.0, Type::TEXT),
                    (&kind, Type::INT2),
                    (&ttl, Type::INT8),
                    (&token_sum, Type::BYTEA),
                    (&who, Type::TEXT),
                    (&ticket.may_wait, Type::BOOL),
                    (&channel, Type::TEXT),
                    (&event, Type::TEXT),
                    (&again, Type::BOOL),
                ],
            )
        })?;
        let row = only(&rows, step, &self.server.name)?;
        self.hub.wake(row.column("r_wake").unwrap_or_default());
        self.decoded(step, name, || {
            if !row.column::<bool>("r_held")? {
                return Ok(Taken::Busy { holder: row.holder()?, expires_in: row.time("r_left")? });
            }
            let before = row.column::<Option<String>>("r_recovered")?;
            Ok(Taken::Held {
                fence: row.number("r_fence")?.unwrap_or(0),
                recovered_from: before.map(|text| Holder {
                    hold: HoldKind::Lock,
                    ..holder::from_text(text.as_bytes())
                }),
            })
        })
    }

    /// Ends a hold of a ticket, or of a token.
    fn end(
        &self,
        step: &'static str,
        name: &str,
        statement: &str,
        parameters: &[connection::Parameter<'_>],
    ) -> Result<bool> {
        let rows = self.server.run(step, Some(name), |connection, again| {
            let mut parameters = parameters.to_vec();
            parameters.push((&again, Type::BOOL));
            self.server.query(connection, statement, &parameters)
        })?;
        let row = only(&rows, step, &self.server.name)?;
        self.hub.wake(row.column("r_wake").unwrap_or_default());
        self.decoded(step, name, || row.column("r_done"))
    }

    fn holds(&self, name: &str, condition: &str, bound: &str) -> Result<Vec<(String, Hold)>> {
        let step = "look at the hold of";
        let statement = format!("select {HOLD} from @@.target t where {condition} order by t.name");
        let parameters: &[connection::Parameter<'_>] = &[(&name, Type::TEXT), (&bound, Type::TEXT)];
        let rows = self.server.rows(step, Some(name), &statement, parameters)?;
        self.decoded(step, name, || {
            rows.iter().map(|row| Ok((row.column("name")?, hold(row)?))).collect()
        })
    }
}

/// The one row of an answer.
fn only<'r>(rows: &'r [Row], step: &'static str, store: &str) -> Result<&'r Row> {
    let nothing = || {
        let detail = format!("the server answered nothing (store {store})");
        Error::new(ErrorKind::Damaged, step, detail)
    };
    rows.first().ok_or_else(nothing)
}

fn hold(row: &Row) -> Result<Hold, Failure> {
    let waiters: Vec<String> = row.column("waiters")?;
    let is_lease = row.column::<i16>("r_kind")? == 2;
    let token_sum: Option<Vec<u8>> = row.column("token_sum")?;
    let token_sum = token_sum.and_then(|sum| sum.try_into().ok()).unwrap_or_default();
    let (ttl, expires_in) = (row.time("ttl")?.unwrap_or_default(), row.time("expires_in")?);
    Ok(Hold {
        holder: row.holder()?,
        abandoned: row.column("abandoned")?,
        fence: row.number("r_fence")?.unwrap_or(0),
        lease: is_lease.then_some(LeaseState { ttl, expires_in, token_sum }),
        waiters: waiters.iter().map(|text| holder::from_text(text.as_bytes())).collect(),
    })
}

/// The names behind a directory: from `directory/` up to, and without, the second value.
fn below(directory: &str) -> (String, String) {
    let stem = directory.trim_end_matches('/');
    (format!("{stem}/"), format!("{stem}0")) // `0` follows `/`.
}

impl Engine for PostgresEngine {
    fn name(&self) -> &str {
        &self.server.name
    }

    fn ttl_min(&self) -> Duration {
        TTL_MIN
    }

    fn bytes_max(&self) -> u64 {
        BYTES_MAX
    }

    fn open_session(&self, ttl: Duration) -> Result<SessionId> {
        let id = store::new_token()?;
        self.server.rows(
            "open a session",
            None,
            "select @@.open_session($1, $2, $3)",
            &[(&CLIENT, Type::INT4), (&id, Type::TEXT), (&milliseconds(ttl), Type::INT8)],
        )?;
        self.server.look_at_replication();
        if is_due(&id, SESSIONS_PER_SWEEP) {
            self.sweep();
        }
        Ok(SessionId(id))
    }

    fn renew_session(&self, session: &SessionId) -> Result<Option<Fence>> {
        let step = "renew the session";
        let parameters: &[connection::Parameter<'_>] =
            &[(&CLIENT, Type::INT4), (&session.0, Type::TEXT)];
        let statement = "select @@.renew_session($1, $2) as epoch";
        let rows = self.server.renew(step, None, self.ttl, statement, parameters)?;
        let row = only(&rows, step, &self.server.name)?;
        self.decoded(step, "", || row.number("epoch"))
    }

    fn close_session(&self, session: &SessionId) -> Result<()> {
        let step = "close the session";
        let parameters: &[connection::Parameter<'_>] =
            &[(&CLIENT, Type::INT4), (&session.0, Type::TEXT)];
        let statement = "select @@.close_session($1, $2) as r_wake";
        let rows = self.server.rows(step, None, statement, parameters)?;
        self.hub.wake(only(&rows, step, &self.server.name)?.column("r_wake").unwrap_or_default());
        Ok(())
    }

    fn take(&self, name: &str, ticket: &Ticket) -> Result<Taken> {
        self.ask(name, ticket, None, "take")
    }

    fn take_over(&self, name: &str, ticket: &Ticket, event: &Value) -> Result<Taken> {
        self.ask(name, ticket, Some(event), "take over")
    }

    fn leave(&self, name: &str, ticket: &Ticket) -> Result<()> {
        let statement = "select * from @@.release($1, $2, $3, null, $4)";
        let parameters: &[connection::Parameter<'_>] =
            &[(&CLIENT, Type::INT4), (&name, Type::TEXT), (&ticket.id, Type::TEXT)];
        self.end("leave the queue of", name, statement, parameters).map(drop)
    }

    fn release(&self, name: &str, ticket: &Ticket, fence: Fence) -> Result<bool> {
        let statement = "select * from @@.release($1, $2, $3, $4, $5)";
        let fence = signed(fence);
        let parameters: &[connection::Parameter<'_>] = &[
            (&CLIENT, Type::INT4),
            (&name, Type::TEXT),
            (&ticket.id, Type::TEXT),
            (&fence, Type::INT8),
        ];
        self.end("release", name, statement, parameters)
    }

    fn renew_lease(
        &self,
        name: &str,
        token_sum: [u8; 16],
        ttl: Option<Duration>,
    ) -> Result<Option<Hold>> {
        let step = "renew the lease of";
        let rows = self.server.renew(
            step,
            Some(name),
            ttl.unwrap_or(self.ttl),
            "select @@.renew_lease($1, $2, $3, $4) as renewed",
            &[
                (&CLIENT, Type::INT4),
                (&name, Type::TEXT),
                (&token_sum.as_slice(), Type::BYTEA),
                (&ttl.map(milliseconds), Type::INT8),
            ],
        )?;
        let row = only(&rows, step, &self.server.name)?;
        if !self.decoded(step, name, || row.column("renewed"))? {
            return Ok(None);
        }
        let hold = self.hold(name)?;
        let is_ours = hold.lease.as_ref().is_some_and(|lease| lease.token_sum == token_sum);
        Ok(is_ours.then_some(hold))
    }

    fn end_lease(&self, name: &str, token_sum: [u8; 16]) -> Result<bool> {
        let statement = "select * from @@.end_lease($1, $2, $3, $4)";
        let token_sum = token_sum.as_slice();
        let parameters: &[connection::Parameter<'_>] =
            &[(&CLIENT, Type::INT4), (&name, Type::TEXT), (&token_sum, Type::BYTEA)];
        self.end("end the lease of", name, statement, parameters)
    }

    fn hold(&self, name: &str) -> Result<Hold> {
        let found = self.holds(name, "t.name = $1 and $2 = ''", "")?;
        Ok(found.into_iter().next().map(|(_, hold)| hold).unwrap_or_default())
    }

    fn read(&self, name: &str, operation: Option<&str>) -> Result<Read> {
        let step = "read document";
        let rows = self.server.rows(
            step,
            Some(name),
            "select document, version, exists (select from @@.operation o \
                where o.target = t.id and o.id = $2) as done from @@.target t where t.name = $1",
            &[(&name, Type::TEXT), (&operation, Type::TEXT)],
        )?;
        let Some(row) = rows.first() else { return Ok(Read::default()) };
        self.decoded(step, name, || {
            let bytes: Option<Vec<u8>> = row.column("document")?;
            let number = row.number("version")?.unwrap_or(0);
            let document = bytes.map(|bytes| (bytes, version(number)));
            Ok(Read { document, is_done: row.column("done")? })
        })
    }

    fn commit(&self, commit: &Commit<'_>) -> Result<Committed> {
        self.make(commit)
    }

    fn entries(&self, name: &str, from: u64, limit: usize) -> Result<Page> {
        let step = "read journal";
        let rows = self.server.rows(
            step,
            Some(name),
            "select seq, bytes from @@.line where target = (select id from @@.target where name = $1) \
                and seq >= $2 order by seq limit $3",
            &[
                (&name, Type::TEXT),
                (&signed(from), Type::INT8),
                (&i64::try_from(limit).unwrap_or(i64::MAX), Type::INT8),
            ],
        )?;
        let entries: Vec<(u64, Vec<u8>)> = self.decoded(step, name, || {
            let entry = |row: &Row| Ok((row.number("seq")?.unwrap_or(0), row.column("bytes")?));
            rows.iter().map(entry).collect()
        })?;
        let first = entries.first().map(|(first, _)| *first);
        let gap = match first {
            // No number was ever given out below the first epoch, which is 1.
            Some(first) if (1..first >> COUNTER_BITS).contains(&(from >> COUNTER_BITS)) => {
                self.lost_before(name, from)?.map(|lost| (lost, first - 1))
            }
            _ => None,
        };
        Ok(Page { gap, entries })
    }

    fn list(&self, directory: &str) -> Result<Vec<Listed>> {
        let step = "list";
        let (from, to) = below(directory);
        let rows = self.server.rows(
            step,
            Some(directory),
            // One reading of the clock for all: what is removed by age is chosen by comparing them.
            "select name, (document is not null or journal) as has_content, changes, \
                greatest(0, extract(epoch from (select clock_timestamp()) - changed) * 1000000)::bigint as age \
                from @@.target where name >= $1 and name < $2 \
                and strpos(substr(name, length($1) + 1), '/') = 0 and length(name) > length($1)",
            &[(&from, Type::TEXT), (&to, Type::TEXT)],
        )?;
        self.decoded(step, directory, || {
            let listed = |row: &Row| {
                Ok(Listed {
                    name: row.column("name")?,
                    has_content: row.column("has_content")?,
                    changes: row.number("changes")?.unwrap_or(0),
                    age: Duration::from_micros(row.number("age")?.unwrap_or(0)),
                })
            };
            rows.iter().map(listed).collect()
        })
    }

    fn survey(&self, prefix: &str) -> Result<Vec<(String, Hold)>> {
        let (from, to) = below(prefix);
        let stem = from.trim_end_matches('/');
        let condition = "t.since is not null and \
            (t.name = $1 or (t.name >= $1 || '/' and t.name < $2))";
        self.holds(stem, condition, &to)
    }

    fn events(&self, name: &str) -> Result<Vec<Value>> {
        let step = "read the events of";
        let rows = self.server.rows(
            step,
            Some(name),
            "select event, former as r_holder, former_fence as r_fence, 2::smallint as r_kind, \
                (extract(epoch from former_since) * 1000000)::bigint as r_since from @@.event \
                where target = (select id from @@.target where name = $1) order by seq",
            &[(&name, Type::TEXT)],
        )?;
        rows.iter()
            .map(|row| {
                let text: String = self.decoded(step, name, || row.column("event"))?;
                let former = self.decoded(step, name, || row.holder())?;
                Ok(with_former(&parse_json(text.as_bytes())?, former.as_ref()))
            })
            .collect()
    }

    fn watch(&self, name: &str, what: Watched<'_>) -> Result<Box<dyn Watcher>> {
        Ok(Box::new(Hub::watch(&self.hub, name, what)?))
    }

    fn notices(&self) -> Vec<Finding> {
        self.server.notices.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn check(&self) -> Result<Vec<Finding>> {
        self.server.check()
    }

    fn init(&self) -> Result<Vec<Finding>> {
        self.server.init()
    }
}

impl PostgresEngine {
    /// The first number before `from` that was given out in an earlier epoch and is gone.
    fn lost_before(&self, name: &str, from: u64) -> Result<Option<u64>> {
        let step = "read journal";
        let rows = self.server.rows(
            step,
            Some(name),
            "select max(seq) as newest from @@.line \
                where target = (select id from @@.target where name = $1) and seq < $2",
            &[(&name, Type::TEXT), (&signed(from), Type::INT8)],
        )?;
        let row = only(&rows, step, &self.server.name)?;
        let newest = self.decoded(step, name, || row.number("newest"))?;
        let before_epoch = from >> COUNTER_BITS << COUNTER_BITS;
        let expected = newest.unwrap_or(before_epoch).max(before_epoch) + 1;
        Ok((expected < from).then_some(expected))
    }
}
