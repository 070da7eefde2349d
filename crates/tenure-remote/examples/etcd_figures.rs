//! What the engine on etcd costs, against the raw transactions that each step needs, in the same run.
//!
//! `cargo run --release -p tenure-remote --features etcd --example etcd_figures [-- etcd://127.0.0.1:2379/figures]`
//!
//! Without a URL it starts three members of its own: in memory, or below `TENURE_ENGINE_DIR`, which should be on a disk.
//! With one it kills no member. The raw client is a bare HTTP/1.1 connection, and keeps no queue, no operation ids, and
//! nothing to find out what a lost reply was.

#![expect(clippy::print_stdout, reason = "it prints a table")]

mod figures;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tenure::store;
use tenure_engines::Etcd;
use tenure_remote::engine::{Commit, Engine, Put, SessionId};
use tenure_remote::etcd::EtcdEngine;
use tenure_remote::url::Url;

use figures::{
    Baton, Result, append, beside, clocked, compare, done, gaps, head, held, lock_once, rates,
    ticket, waiters,
};

const ROUNDS: usize = 200;

/// A bare client of the gateway.
struct Raw {
    stream: BufReader<TcpStream>,
}

impl Raw {
    fn new(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    fn send(&mut self, path: &str, body: &Value) -> io::Result<()> {
        let body = body.to_string();
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
        self.stream.get_mut().write_all((head + &body).as_bytes())
    }

    fn ask(&mut self, path: &str, body: &Value) -> Result<Value> {
        self.send(path, body)?;
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            if self.stream.read_line(&mut line)? == 0 {
                return Err("the connection is closed".into());
            }
            if line == "\r\n" {
                break;
            }
            if let Some(bytes) = line.strip_prefix("Content-Length: ") {
                length = bytes.trim().parse()?;
            }
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer)?;
        Ok(serde_json::from_slice(&answer)?)
    }

    fn txn(&mut self, compare: &Value, success: &Value) -> Result<u64> {
        let answer = self.ask("/v3/kv/txn", &json!({ "compare": compare, "success": success }))?;
        let revision =
            answer["header"]["revision"].as_str().filter(|_| answer["succeeded"] == true);
        Ok(revision.ok_or_else(|| answer.to_string())?.parse()?)
    }

    /// Reads a stream until a line has this.
    fn skip_to(&mut self, part: &str) -> Result {
        let mut line = String::new();
        while !line.contains(part) {
            line.clear();
            self.stream.read_line(&mut line)?;
        }
        Ok(())
    }
}

fn coded(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

fn absent(key: &str) -> Value {
    json!({ "key": coded(key), "target": "CREATE", "create_revision": "0" })
}

fn created(key: &str, revision: u64) -> Value {
    json!({ "key": coded(key), "target": "CREATE", "create_revision": revision.to_string() })
}

fn written(key: &str, revision: u64) -> Value {
    json!({ "key": coded(key), "target": "MOD", "mod_revision": revision.to_string() })
}

fn put(key: &str, value: &[u8], lease: u64) -> Value {
    json!({ "request_put": { "key": coded(key), "value": coded(value), "lease": lease.to_string() } })
}

fn delete(key: &str) -> Value {
    json!({ "request_delete_range": { "key": coded(key) } })
}

/// A journal as few keys as possible: its head, and an entry.
struct RawJournal {
    raw: Raw,
    name: String,
    head: u64,
}

impl RawJournal {
    fn new(address: &str, name: String) -> Result<Self> {
        let mut raw = Raw::new(address)?;
        let head = raw.txn(&json!([]), &json!([put(&format!("/raw/{name}"), b"0", 0)]))?;
        Ok(Self { raw, name, head })
    }

    fn append(&mut self, text: &[u8]) -> Result {
        let (key, entry) =
            (format!("/raw/{}", self.name), format!("/raw/{}/{:020}", self.name, self.head));
        let success = json!([put(&key, b"1", 0), put(&entry, text, 0)]);
        self.head = self.raw.txn(&json!([written(&key, self.head)]), &success)?;
        Ok(())
    }
}

fn main() -> Result {
    let given = std::env::args().nth(1);
    let mut own = given.is_none().then(|| Etcd::start(3));
    let text = given.or_else(|| own.as_ref().map(Etcd::fresh_url)).ok_or("no URL")?;
    let url = Url::parse(&text)?;
    let engine = EtcdEngine::connect(&url)?;
    engine.init()?;
    let address = url.hosts[0].to_string();
    let mut raw = Raw::new(&address)?;
    let session = engine.open_session(Duration::from_secs(60))?;
    let lease = raw.ask("/v3/lease/grant", &json!({ "TTL": "600" }))?;
    let lease: u64 = lease["ID"].as_str().ok_or("no lease")?.parse()?;
    head();
    locks(&engine, &session, &mut raw, lease)?;
    guarded_writes(&engine, &session, &mut raw, lease)?;
    let line = vec![b'x'; 1024];
    let mut journal = RawJournal::new(&address, "j".to_owned())?;
    compare(
        "append, 1 KiB",
        ROUNDS,
        || clocked(|| journal.append(&line)),
        || clocked(|| append(&engine, "/j", &line)),
    )?;
    cold(&url, &address)?;
    hand_offs(&url, &mut raw, lease, &address)?;
    rates(&[
        ("raw", &|number| {
            let (mut journal, line) = (RawJournal::new(&address, format!("a{number}"))?, &line);
            Ok(Box::new(move || journal.append(line)))
        }),
        ("tenure, a process each", &|number| {
            let (engine, name) = (EtcdEngine::connect(&url)?, format!("/a{number}"));
            let line = &line;
            Ok(Box::new(move || append(&engine, &name, line)))
        }),
        ("tenure, threads of one process", &|number| {
            let (engine, name, line) = (&engine, format!("/t{number}"), &line);
            Ok(Box::new(move || append(engine, &name, line)))
        }),
    ])?;
    let others = [EtcdEngine::connect(&url)?, EtcdEngine::connect(&url)?];
    for count in [10, 1000] {
        waiters([&others[0], &others[1]], count, || others.iter().map(EtcdEngine::requests).sum())?;
    }
    own.as_mut().map_or(Ok(()), |cluster| leader_kill(cluster, &url))
}

fn locks(engine: &EtcdEngine, session: &SessionId, raw: &mut Raw, lease: u64) -> Result {
    compare(
        "lock + unlock",
        ROUNDS,
        || {
            clocked(|| {
                let compare = json!([absent("/raw/lock")]);
                let fence = raw.txn(&compare, &json!([put("/raw/lock", b"me", lease)]))?;
                let compare = json!([created("/raw/lock", fence)]);
                raw.txn(&compare, &json!([delete("/raw/lock")])).map(drop)
            })
        },
        || clocked(|| lock_once(engine, session, "/lock")),
    )
}

fn guarded_writes(engine: &EtcdEngine, session: &SessionId, raw: &mut Raw, lease: u64) -> Result {
    let text = vec![b'x'; 1024];
    let fence = raw.txn(&json!([]), &json!([put("/raw/guard", b"me", lease)]))?;
    let mine = ticket(session)?;
    let guard = held(&engine.take("/guard", &mine)?)?;
    let (mut revision, mut version) = (raw.txn(&json!([]), &json!([put("/raw/d", b"", 0)]))?, None);
    compare(
        "guarded compare-and-set, 1 KiB",
        ROUNDS,
        || {
            clocked(|| {
                let compare = json!([written("/raw/guard", fence), written("/raw/d", revision)]);
                revision = raw.txn(&compare, &json!([put("/raw/d", &text, 0)]))?;
                Ok(())
            })
        },
        || {
            clocked(|| {
                let id = store::new_token()?;
                let document = Some(Put { name: "/d", base: version.as_ref(), bytes: Some(&text) });
                let proofs = vec![("/guard", guard)];
                let change = Commit { id: &id, proofs, document, ..Commit::default() };
                version = done(engine.commit(&change)?)?.version;
                Ok(())
            })
        },
    )
}

/// Connect, one write, end. And a lock of a fresh process.
fn cold(url: &Url, address: &str) -> Result {
    let line = vec![b'x'; 1024];
    append(&EtcdEngine::connect(url)?, "/cold", &line)?;
    let mut head = RawJournal::new(address, "cold".to_owned())?.head;
    compare(
        "cold: connect + append",
        100,
        || {
            clocked(|| {
                let raw = Raw::new(address)?;
                let mut journal = RawJournal { raw, name: "cold".to_owned(), head };
                journal.append(&line)?;
                head = journal.head;
                Ok(())
            })
        },
        || clocked(|| append(&EtcdEngine::connect(url)?, "/cold", &line)),
    )?;
    let lock = || {
        let engine = EtcdEngine::connect(url)?;
        let session = engine.open_session(Duration::from_secs(60))?;
        lock_once(&engine, &session, "/cold lock")?;
        Ok(engine.close_session(&session)?)
    };
    beside("cold: session, lock + unlock", 50, || clocked(lock), "tenure, without its process")?;
    let control = || {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", address, "lock", "figures", "true"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if command.status()?.success() { Ok(()) } else { Err("etcdctl lock failed".into()) }
    };
    if Command::new("etcdctl").arg("version").stdout(Stdio::null()).status().is_err() {
        println!("  etcdctl lock: not installed (Debian: etcd-client)");
        return Ok(());
    }
    let lacks = "its process included; no write is refused when the lease of its holder is over";
    beside("  etcdctl lock NAME true", 20, || clocked(control), lacks)
}

/// From the release until the other holds the lock: a watch and two transactions.
fn hand_offs(url: &Url, raw: &mut Raw, lease: u64, address: &str) -> Result {
    let engines = [EtcdEngine::connect(url)?, EtcdEngine::connect(url)?];
    let mut baton = Baton::new([&engines[0], &engines[1]])?;
    compare(
        "hand-off: release to held",
        100,
        || {
            let fence =
                raw.txn(&json!([absent("/raw/h")]), &json!([put("/raw/h", b"a", lease)]))?;
            let (ready, is_ready) = mpsc::channel();
            let waiter = thread::spawn({
                let address = address.to_owned();
                move || -> Result<Instant> {
                    let mut taking = Raw::new(&address)?;
                    taking.ask("/v3/kv/range", &json!({ "key": coded("/raw/h") }))?;
                    let mut watch = Raw::new(&address)?;
                    let body = json!({ "create_request": { "key": coded("/raw/h") } });
                    watch.send("/v3/watch", &body)?;
                    watch.skip_to("created")?;
                    ready.send(())?;
                    watch.skip_to("DELETE")?;
                    taking.txn(&json!([absent("/raw/h")]), &json!([put("/raw/h", b"b", lease)]))?;
                    Ok(Instant::now())
                }
            });
            is_ready.recv()?;
            let began = Instant::now();
            raw.txn(&json!([created("/raw/h", fence)]), &json!([delete("/raw/h")]))?;
            let took = waiter.join().map_err(|_| "a panic")?? - began;
            raw.ask("/v3/kv/deleterange", &json!({ "key": coded("/raw/h") }))?;
            Ok(took)
        },
        || baton.pass(),
    )
}

/// `kill -9` of the leader. The others elect another one.
fn leader_kill(cluster: &mut Etcd, url: &Url) -> Result {
    let line = [b'x'; 1024];
    let addresses: Vec<_> = url.hosts.iter().map(ToString::to_string).collect();
    let (mut at, mut connected) = (0, None);
    let engine = EtcdEngine::connect(url)?;
    append(&engine, "/gap", &line)?;
    let leader = cluster.leader();
    gaps(
        "kill of the leader",
        || {
            let raw = connected.take().map_or_else(|| Raw::new(&addresses[at]), Ok);
            let written = raw.and_then(|mut raw| {
                raw.txn(&json!([]), &json!([put("/raw/gap", &line, 0)])).map(|_| raw)
            });
            let is_done = written.is_ok();
            if !is_done {
                at = (at + 1) % addresses.len();
                thread::park_timeout(Duration::from_millis(10));
            }
            connected = written.ok();
            is_done
        },
        || append(&engine, "/gap", &line),
        || cluster.kill(leader),
    )
}
