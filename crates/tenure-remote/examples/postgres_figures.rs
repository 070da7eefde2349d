//! What the engine on PostgreSQL costs, beside the raw statements that the same work needs, in one run.
//!
//! `cargo run --release -p tenure-remote --features postgres --example postgres_figures [-- URL]`
//!
//! Without a URL it starts a server of its own: in memory, or below `TENURE_ENGINE_DIR`, which should be on a disk. With one
//! it uses a schema that it removes, and does not kill the server. The raw statements are prepared, run by the same crate,
//! keep no queue, no sessions, no operation ids, and no receipts, and do not survive a failover.

mod figures;

use std::future::poll_fn;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use tenure::store;
use tenure_engines::Postgres;
use tenure_remote::engine::{Commit, Engine, Put};
use tenure_remote::postgres::PostgresEngine;
use tenure_remote::url::Url;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

use figures::{
    Baton, Result, append, beside, clocked, compare, done, gaps, head, held, lock_once, rates,
    ticket, waiters,
};

const ROUNDS: usize = 300;
const TAKE: &str = "update raw.lock set fence = fence + 1, owner = $2 where name = $1 and owner is null returning fence";
const RELEASE: &str =
    "update raw.lock set owner = null where name = $1 and fence = $2 returning fence";
const APPEND: &str = "with h as (insert into raw.head values ($1, 1) on conflict (name) do update \
    set last = raw.head.last + 1 returning last) \
    insert into raw.line select $1, last, $2 from h returning seq";

fn main() -> Result {
    let given = std::env::args().nth(1);
    let mut own = given.is_none().then(Postgres::start);
    let url = given.or_else(|| own.as_ref().map(Postgres::url)).ok_or("no URL")?;
    let url = url.split('?').next().unwrap_or(&url).to_owned();
    let raw = Raw::connect(&url)?;
    raw.set_up()?;
    let ours = format!("{url}?schema=tenure_figures");
    let engine = engine(&ours)?;
    engine.init()?;
    head();
    locks(&engine, &raw)?;
    guarded_writes(&engine, &raw)?;
    let (line, statement) = (vec![b'x'; 1024], raw.prepare(APPEND)?);
    compare(
        "append, 1 KiB",
        ROUNDS,
        || clocked(|| raw.one(&statement, &[&"j", &line]).map(drop)),
        || clocked(|| append(&engine, "/journal", &line)),
    )?;
    cold(&url, &ours)?;
    hand_offs(&url, &ours)?;
    appenders(&url, &ours)?;
    let others = [self::engine(&ours)?, self::engine(&ours)?];
    for count in [10, 1000] {
        waiters([&others[0], &others[1]], count, || {
            others.iter().map(PostgresEngine::requests).sum()
        })?;
    }
    match &mut own {
        Some(server) => crash(server, &url, &ours),
        None => raw.clean_up(),
    }
}

fn engine(url: &str) -> Result<PostgresEngine> {
    Ok(PostgresEngine::connect(&Url::parse(url)?)?)
}

/// A plain connection.
struct Raw {
    runtime: Runtime,
    client: Client,
}

impl Raw {
    fn connect(url: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (client, connection) = runtime.block_on(tokio_postgres::connect(url, NoTls))?;
        runtime.spawn(connection);
        Ok(Self { runtime, client })
    }

    fn set_up(&self) -> Result {
        self.clean_up()?;
        let script = "create schema raw; \
            create table raw.lock (name text primary key, fence bigint not null, owner text) with (fillfactor = 60); \
            create table raw.doc (name text primary key, version bigint not null, bytes bytea) with (fillfactor = 60); \
            create table raw.head (name text primary key, last bigint not null) with (fillfactor = 60); \
            create table raw.line (name text, seq bigint, bytes bytea, primary key (name, seq)); \
            insert into raw.lock values ('l', 0, null), ('g', 7, 'me'); insert into raw.doc values ('d', 0, '');";
        Ok(self.runtime.block_on(self.client.batch_execute(script))?)
    }

    fn clean_up(&self) -> Result {
        let script =
            "drop schema if exists raw cascade; drop schema if exists tenure_figures cascade";
        Ok(self.runtime.block_on(self.client.batch_execute(script))?)
    }

    fn prepare(&self, statement: &str) -> Result<Statement> {
        Ok(self.runtime.block_on(self.client.prepare(statement))?)
    }

    fn one(&self, statement: &Statement, parameters: &[&(dyn ToSql + Sync)]) -> Result<i64> {
        Ok(self.runtime.block_on(self.client.query_one(statement, parameters))?.get(0))
    }

    fn run(&self, statement: &str) -> Result {
        Ok(self.runtime.block_on(self.client.batch_execute(statement))?)
    }
}

fn locks(engine: &PostgresEngine, raw: &Raw) -> Result {
    let (take, release) = (raw.prepare(TAKE)?, raw.prepare(RELEASE)?);
    let session = engine.open_session(Duration::from_secs(60))?;
    compare(
        "lock + unlock",
        ROUNDS,
        || {
            clocked(|| {
                let fence = raw.one(&take, &[&"l", &"me"])?;
                raw.one(&release, &[&"l", &fence]).map(drop)
            })
        },
        || clocked(|| lock_once(engine, &session, "/lock")),
    )?;
    beside(
        "  advisory lock + unlock",
        ROUNDS,
        || {
            clocked(|| {
                raw.run("select pg_advisory_lock(7)")?;
                raw.run("select pg_advisory_unlock(7)")
            })
        },
        "no fence, nothing on disk, two holders below a pooler",
    )
}

fn guarded_writes(engine: &PostgresEngine, raw: &Raw) -> Result {
    let write = raw.prepare(
        "with g as (select from raw.lock where name = $1 and fence = $2 for key share) \
         update raw.doc set bytes = $3, version = version + 1 where name = $4 and version = $5 \
         and exists (select from g) returning version",
    )?;
    let bytes = vec![b'1'; 1024];
    let session = engine.open_session(Duration::from_secs(60))?;
    let guard = ticket(&session)?;
    let fence = held(&engine.take("/guard", &guard)?)?;
    let (mut raw_version, mut version) = (0_i64, None);
    compare(
        "guarded compare-and-set, 1 KiB",
        ROUNDS,
        || {
            clocked(|| {
                raw_version = raw.one(&write, &[&"g", &7_i64, &bytes, &"d", &raw_version])?;
                Ok(())
            })
        },
        || {
            clocked(|| {
                let id = store::new_token()?;
                let document = Put { name: "/doc", base: version.as_ref(), bytes: Some(&bytes) };
                let committed = engine.commit(&Commit {
                    id: &id,
                    free: vec!["/doc"],
                    proofs: vec![("/guard", fence)],
                    document: Some(document),
                    ..Commit::default()
                })?;
                version = done(committed)?.version;
                Ok(())
            })
        },
    )
}

/// Connect, one write, end.
fn cold(url: &str, ours: &str) -> Result {
    let line = vec![b'x'; 1024];
    append(&engine(ours)?, "/cold", &line)?;
    compare(
        "cold: connect + append",
        100,
        || {
            clocked(|| {
                let raw = Raw::connect(url)?;
                raw.one(&raw.prepare(APPEND)?, &[&"cold", &line]).map(drop)
            })
        },
        || clocked(|| append(&engine(ours)?, "/cold", &line)),
    )
}

/// A connection that waits for notifications.
fn ear(url: &str) -> Result<(Client, Receiver<()>)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (client, mut connection) = runtime.block_on(tokio_postgres::connect(url, NoTls))?;
    let (sender, heard) = mpsc::channel();
    thread::spawn(move || {
        runtime.block_on(async {
            while let Some(Ok(_)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if sender.send(()).is_err() {
                    return;
                }
            }
        });
    });
    Ok((client, heard))
}

/// From the release to the moment in which the waiter, a process of its own, has the lock. The raw one is woken by NOTIFY.
fn hand_offs(url: &str, ours: &str) -> Result {
    let (releaser, taker) = (Raw::connect(url)?, Raw::connect(url)?);
    let (first, second) = (releaser.prepare(TAKE)?, taker.prepare(TAKE)?);
    let (release, end) = (releaser.prepare(RELEASE)?, taker.prepare(RELEASE)?);
    let (listener, heard) = ear(url)?;
    releaser.runtime.block_on(listener.batch_execute("listen raw"))?;
    let engines = [engine(ours)?, engine(ours)?];
    let mut baton = Baton::new([&engines[0], &engines[1]])?;
    compare(
        "hand-off: release to held",
        ROUNDS,
        || {
            let fence = releaser.one(&first, &[&"l", &"a"])?;
            let began = Instant::now();
            releaser.one(&release, &[&"l", &fence])?;
            releaser.run("notify raw")?;
            heard.recv_timeout(Duration::from_secs(10))?;
            let fence = taker.one(&second, &[&"l", &"b"])?;
            let took = began.elapsed();
            taker.one(&end, &[&"l", &fence])?;
            Ok(took)
        },
        || baton.pass(),
    )?;
    let (lock, unlock) = ("select pg_advisory_lock(8)", "select pg_advisory_unlock(8)");
    let waits = "select count(*) from pg_locks where locktype = 'advisory' and not granted";
    let waits = releaser.prepare(waits)?;
    beside(
        "  of an advisory lock",
        ROUNDS,
        || {
            releaser.run(lock)?;
            let took = thread::scope(|scope| {
                let waiter = scope.spawn(|| taker.run(lock).map(|()| Instant::now()));
                while releaser.one(&waits, &[])? == 0 {}
                let began = Instant::now();
                releaser.run(unlock)?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(
                    waiter.join().map_err(|_| "a panic")?? - began,
                )
            })?;
            taker.run(unlock)?;
            Ok(took)
        },
        "the same; each waiter occupies a connection of the server",
    )
}

fn appenders(url: &str, ours: &str) -> Result {
    let line = &[b'x'; 1024];
    let shared = engine(ours)?;
    let shared = &shared;
    rates(&[
        ("raw, prepared", &|number| {
            let raw = Raw::connect(url)?;
            let (statement, name) = (raw.prepare(APPEND)?, format!("many {number}"));
            Ok(Box::new(move || raw.one(&statement, &[&name, &line.as_slice()]).map(drop)))
        }),
        ("tenure, a process each", &|number| {
            let (engine, name) = (engine(ours)?, format!("/many/{number}"));
            Ok(Box::new(move || append(&engine, &name, line)))
        }),
        ("tenure, threads of one process", &|number| {
            let name = format!("/threads/{number}");
            Ok(Box::new(move || append(shared, &name, line)))
        }),
    ])
}

/// `kill -9` of the server, which is started again at once.
fn crash(server: &mut Postgres, url: &str, ours: &str) -> Result {
    let (line, mut connected) = ([b'x'; 1024], None);
    let engine = engine(ours)?;
    append(&engine, "/gap", &line)?;
    gaps(
        "crash of the server",
        || {
            let connect = || Raw::connect(url).and_then(|raw| Ok((raw.prepare(APPEND)?, raw))).ok();
            let Some(raw) = connected.take().or_else(connect) else {
                thread::park_timeout(Duration::from_millis(10));
                return false;
            };
            let is_done = raw.1.one(&raw.0, &[&"gap", &line.as_slice()]).is_ok();
            connected = Some(raw).filter(|_| is_done);
            is_done
        },
        || append(&engine, "/gap", &line),
        || {
            server.kill();
            server.launch();
        },
    )
}
