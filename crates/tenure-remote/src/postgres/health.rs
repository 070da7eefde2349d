//! `init` and `check`.

use std::time::Duration;

use tenure::{Error, ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::rows::Columns as _;
use super::server::{CLIENT, Server, replication_finding, timeline_finding};
use crate::engine::Finding;

const BEGIN: &str = include_str!("begin.sql");
const TABLES: &str = include_str!("tables.sql");
const FUNCTIONS: &str = include_str!("functions.sql");

/// PostgreSQL 13, the oldest that is tested.
const SERVER_MIN: i32 = 130_000;
/// Creating everything on a slow server.
const INIT_WITHIN: Duration = Duration::from_secs(60);
/// Two that begin at the same time meet in the catalogue.
const INIT_ATTEMPTS: usize = 5;

const SERVER: &str = "select current_setting('server_version_num')::int as number, \
    current_setting('server_version') as version, pg_is_in_recovery() as standby, \
    current_setting('transaction_read_only') = 'on' as read_only, \
    current_setting('default_transaction_isolation') as isolation, \
    current_setting('server_encoding') as encoding, \
    current_setting('fsync') = 'on' and current_setting('full_page_writes') = 'on' as durable, \
    current_setting('max_connections')::int as connections_max, \
    (select count(*) from pg_stat_activity where backend_type = 'client backend') as connections";

impl Server {
    fn fail(&self, step: &'static str) -> impl Fn(Failure) -> Error + '_ {
        move |failure| failure.into_error(&self.name, step, None, false)
    }

    /// Creates or upgrades the schema.
    pub(super) fn init(&self) -> Result<Vec<Finding>> {
        let step = "initialise the store";
        let fail = self.fail(step);
        let mut connection = self.pool.connect().map_err(&fail)?;
        let rows = self.query(&mut connection, SERVER, &[]).map_err(&fail)?;
        let mut found = server_findings(&rows).map_err(&fail)?;
        let is_final = |finding: &&Finding| matches!(finding.what, "server" | "role");
        if let Some(problem) =
            found.iter().filter(is_final).find_map(|finding| finding.problem.as_ref())
        {
            let detail = format!("{problem} (store {})", self.name);
            return Err(Error::new(ErrorKind::Unsupported, step, detail).committed(false));
        }
        let script = [BEGIN, TABLES, FUNCTIONS].concat();
        let script = script.replace("@@", &self.schema).replace("@version@", &CLIENT.to_string());
        for attempt in 1.. {
            match connection.execute(&script, INIT_WITHIN) {
                Ok(()) => break,
                Err(Failure::Refused { code, .. })
                    if attempt < INIT_ATTEMPTS
                        && ["23505", "42P06", "42P07", "42710", "XX000"].contains(&code.code()) => {
                }
                Err(failure) => return Err(fail(failure)),
            }
        }
        let schema = &self.schema;
        found.push(Finding {
            what: "schema",
            found: format!("{schema} has version {CLIENT}"),
            problem: None,
        });
        found.push(Finding {
            what: "rights",
            found: format!("another user may use it after: select {schema}.allow('USER')"),
            problem: None,
        });
        Ok(found)
    }

    /// The health of the server and of the schema.
    pub(super) fn check(&self) -> Result<Vec<Finding>> {
        let step = "check the store";
        let fail = self.fail(step);
        let mut connection = self.pool.connect().map_err(&fail)?;
        let rows = self.query(&mut connection, SERVER, &[]).map_err(&fail)?;
        let mut found = server_findings(&rows).map_err(&fail)?;
        let statement = "select version, oldest_writer, base + timeline as epoch, timeline <> 0 as timeline, \
            @@.replication() as replication, (select count(*) from @@.session where expires > clock_timestamp()) \
            as sessions, (select count(*) from @@.target where kind = 1) as locks, (select count(*) from @@.target \
            where kind = 2 and expires > clock_timestamp()) as leases, (select count(*) from @@.target where kind = 2 \
            and expires <= clock_timestamp()) as expired, (select count(*) from @@.ticket) as waiting, \
            (select count(*) from @@.target) as targets, $1::int >= oldest_writer as may_write from @@.meta";
        let rows =
            self.query(&mut connection, statement, &[(&CLIENT, Type::INT4)]).map_err(&fail)?;
        let Some(row) = rows.first() else { return Ok(found) };
        found.extend(schema_findings(row, &self.schema).map_err(&fail)?);
        if self.must_be_sync {
            let replication: String = row.column("replication").map_err(&fail)?;
            let problem = self.refuse_unsafe(&replication).err().map(|failure| match failure {
                Failure::Unsafe(why) => format!("{why}: every other command refuses this store"),
                _ => String::new(),
            });
            found.push(Finding { what: "failover", found: "sync is required".to_owned(), problem });
        }
        Ok(found)
    }
}

fn server_findings(rows: &[Row]) -> Result<Vec<Finding>, Failure> {
    let Some(row) = rows.first() else { return Ok(Vec::new()) };
    let number: i32 = row.column("number")?;
    let problem = match number {
        ..SERVER_MIN => Some("older than 13, which tenure needs".to_owned()),
        // https://www.postgresql.org/docs/release/14.4/: concurrent index builds could miss rows.
        140_000..=140_003 => {
            Some("14.0 to 14.3 can corrupt indexes: upgrade to 14.4 or later".to_owned())
        }
        _ => None,
    };
    let version: String = row.column("version")?;
    let mut found =
        vec![Finding { what: "server", found: format!("PostgreSQL {version}"), problem }];
    let mut note = |what, is_bad: bool, good: &str, problem: &str| {
        let problem = is_bad.then(|| problem.to_owned());
        found.push(Finding { what, found: good.to_owned(), problem });
    };
    let is_standby: bool = row.column("standby")?;
    let is_read_only: bool = row.column("read_only")?;
    let kind = if is_standby { "a standby" } else { "a primary" };
    note(
        "role",
        is_standby || is_read_only,
        kind,
        "the database is read-only: name the primary in the URL",
    );
    let is_durable: bool = row.column("durable")?;
    let durable = if is_durable { "synced" } else { "not synced" };
    note(
        "writes",
        !is_durable,
        durable,
        "fsync or full_page_writes is off: a crash can damage all data",
    );
    let isolation: String = row.column("isolation")?;
    let shown = format!("{isolation} by default");
    if isolation != "read committed" {
        note("isolation", false, &format!("{shown}: conflicting steps are repeated"), "");
    }
    let encoding: String = row.column("encoding")?;
    if encoding != "UTF8" {
        note(
            "encoding",
            true,
            &encoding,
            "names that are not ASCII may be refused: use a database in UTF8",
        );
    }
    let (open, most): (i64, i32) = (row.column("connections")?, row.column("connections_max")?);
    let is_full = open * 10 > i64::from(most) * 9;
    let shown = format!("{open} of {most}");
    note(
        "connections",
        is_full,
        &shown,
        "nearly all connections are used: raise max_connections, or use pgbouncer",
    );
    Ok(found)
}

fn schema_findings(row: &Row, schema: &str) -> Result<Vec<Finding>, Failure> {
    let (version, oldest): (i32, i32) = (row.column("version")?, row.column("oldest_writer")?);
    let may_write: bool = row.column("may_write")?;
    let problem = format!(
        "clients of version {oldest} and later may write, this one is {CLIENT}: upgrade tenure"
    );
    let count = |name: &str| row.column::<i64>(name);
    let (targets, sessions, locks) = (count("targets")?, count("sessions")?, count("locks")?);
    let (leases, expired, waiting) = (count("leases")?, count("expired")?, count("waiting")?);
    Ok(vec![
        Finding {
            what: "schema",
            found: format!("{schema} has version {version}, epoch {}", count("epoch")?),
            problem: (!may_write).then_some(problem),
        },
        replication_finding(&row.column::<String>("replication")?),
        timeline_finding(row.column("timeline")?),
        Finding {
            what: "holds",
            found: format!(
                "{targets} targets, {sessions} sessions, {locks} locks, {leases} leases, {expired} expired, {waiting} waiting"
            ),
            problem: None,
        },
    ])
}
