//! What a puppet can do with the library, one function per order.

use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tenure::json::Rules;
use tenure::options::{Durability, Mode};
use tenure::outcome::{Follow, Leased};
use tenure::{
    AppendOptions, Cancel, Document, Error, ErrorKind, Guard, Journal, Lease, LeaseOptions, Lock,
    LockGuard, LockOptions, Wait, WriteOptions,
};

/// Every order.
pub(crate) const OPS: &[&str] = &[
    "lock",
    "release",
    "verify",
    "read",
    "set",
    "add",
    "merge",
    "append",
    "entries",
    "check",
    "rotate",
    "follow",
    "next",
    "acquire",
    "renew",
    "end",
    "take_over",
    "show",
    "storm",
    "program",
    "fork",
    "restart",
];

/// The fields that an order may have: a misspelt one must not be taken for the default.
const FIELDS: &[&str] = &[
    "op",
    "actor",
    "path",
    "as",
    "wait",
    "shared",
    "owner",
    "label",
    "reentrant",
    "fence",
    "value",
    "times",
    "guards",
    "if_version",
    "op_id",
    "sync",
    "lines",
    "from",
    "ttl",
    "token",
    "reason",
];

/// Why an order was not done.
enum Refusal {
    Misunderstood(String),
    Failed(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

type Done = Result<Value, Refusal>;

fn misunderstood<T>(why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Misunderstood(why.into()))
}

/// The handles of one actor.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    guards: HashMap<String, LockGuard>,
    followers: HashMap<String, Follow>,
    programs: Vec<Child>,
}

impl Stage {
    /// Executes an order; returns the answer.
    pub(crate) fn perform(&mut self, order: &Value) -> Value {
        match self.attempt(order) {
            Ok(done) => json!({ "ok": done }),
            Err(Refusal::Misunderstood(why)) => tenure_proof::puppet::misunderstood(&why),
            Err(Refusal::Failed(error)) => json!({ "error": {
                "code": error.kind().code(),
                "message": error.to_string(),
                "holder": error.holder().map(tenure::status::Holder::to_json),
            } }),
        }
    }

    fn attempt(&mut self, order: &Value) -> Done {
        let fields = order.as_object().map(|fields| fields.keys()).into_iter().flatten();
        if let Some(unknown) = fields.into_iter().find(|name| !FIELDS.contains(&name.as_str())) {
            return misunderstood(format!("no order has a field {unknown}"));
        }
        let name = order["as"].as_str().unwrap_or("it");
        match text(order, "op")? {
            "lock" => self.lock(name, order),
            "release" => match self.guards.remove(name) {
                Some(guard) => Ok(guard.release().map(|()| json!({}))?),
                None => misunderstood(format!("there is no hold {name}")),
            },
            "verify" => match self.guards.get(name) {
                Some(guard) => Ok(guard.verify().map(|()| json!({}))?),
                None => misunderstood(format!("there is no hold {name}")),
            },
            "follow" => {
                let journal = Journal::open(text(order, "path")?)?;
                let follow = journal.follow(order["from"].as_u64().unwrap_or(1))?;
                self.followers.insert(name.to_owned(), follow);
                Ok(json!({}))
            }
            "next" => match self.followers.get_mut(name) {
                Some(follow) => Ok(follow.next(wait(order))?.as_ref().map_or_else(
                    || json!({ "seq": null }),
                    |entry| json!({ "seq": entry.seq, "line": lossy(&entry.line) }),
                )),
                None => misunderstood(format!("there is no follower {name}")),
            },
            "program" => self.program(),
            "fork" => self.fork(name),
            "restart" => restart(),
            "read" | "set" | "add" | "merge" => document(order),
            "append" | "entries" | "check" | "rotate" => journal(order),
            "acquire" | "renew" | "end" | "take_over" | "show" => lease(order),
            "storm" => storm(order),
            other => misunderstood(format!("there is no order {other}")),
        }
    }

    fn lock(&mut self, name: &str, order: &Value) -> Done {
        let options = LockOptions {
            mode: if order["shared"] == true { Mode::Shared } else { Mode::Exclusive },
            wait: wait(order),
            label: or_empty(order, "label"),
            owner: or_empty(order, "owner"),
            reentrant: order["reentrant"] == true,
            fence: order["fence"].as_u64(),
            ..LockOptions::default()
        };
        let guard = Lock::open(text(order, "path")?)?.acquire(&options)?;
        let died = guard.recovered_from().map(|holder| holder.pid);
        let answer = json!({ "fence": guard.publish_fence(), "recovered_from": died });
        self.guards.insert(name.to_owned(), guard);
        Ok(answer)
    }

    /// Starts a program that lives until the puppet dies, and that was started during a hold.
    fn program(&mut self) -> Done {
        let program = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let program = program.or_else(|err| misunderstood(format!("no program: {err}")))?;
        let pid = program.id();
        self.programs.push(program);
        Ok(json!({ "pid": pid }))
    }

    /// The forked child reports what it may do with its copy of the hold, and ends.
    fn fork(&mut self, name: &str) -> Done {
        let Some(guard) = self.guards.remove(name) else {
            return misunderstood(format!("there is no hold {name}"));
        };
        let (mut ours, theirs) =
            std::io::pipe().or_else(|err| misunderstood(format!("no pipe: {err}")))?;
        #[expect(unsafe_code, reason = "there is no safe fork")]
        // SAFETY: the child calls nothing but the library and ends with `_exit`; that the library
        // survives a fork is what is tested.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = |done: tenure::Result<()>| done.map_or_else(|e| e.kind().code(), |()| "ok");
            let verified = code(guard.verify());
            let told = json!({ "verify": verified, "release": code(guard.release()) });
            let _ = std::io::Write::write_all(&mut &theirs, told.to_string().as_bytes());
            #[expect(unsafe_code, reason = "no exit handlers of the parent in the child")]
            // SAFETY: ends the process; nothing runs afterwards.
            unsafe {
                libc::_exit(0)
            }
        }
        drop(theirs);
        let told = std::io::read_to_string(&mut ours).unwrap_or_default();
        if let Some(pid) = rustix::process::Pid::from_raw(child) {
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        }
        self.guards.insert(name.to_owned(), guard);
        serde_json::from_str(&told).or_else(|err| misunderstood(format!("the child: {err}")))
    }
}

/// Becomes a new puppet by `exec`: the same process number and nothing else. It greets again.
fn restart() -> Done {
    let program = std::env::current_exe().or_else(|err| misunderstood(err.to_string()))?;
    misunderstood(Command::new(program).exec().to_string())
}

fn document(order: &Value) -> Done {
    let document = Document::open(text(order, "path")?)?;
    let options = write_options(order)?;
    let written = match text(order, "op")? {
        "read" => {
            let found = document.read()?;
            let version = found.as_ref().map(|found| found.version.to_string());
            return Ok(json!({ "value": found.map(|found| found.value), "version": version }));
        }
        "add" => {
            let mut n = 0;
            for _ in 0..order["times"].as_u64().unwrap_or(1) {
                document.update(&options, |value| {
                    n = value.and_then(|value| value["n"].as_u64()).unwrap_or(0) + 1;
                    let mut value = value.cloned().unwrap_or_else(|| tenure::json!({}));
                    value["n"] = n.into();
                    Ok(Some(value))
                })?;
            }
            return Ok(json!({ "n": n }));
        }
        "set" => document.set(&order["value"], &options)?,
        _ => document.merge(&order["value"], &Rules::default(), &options)?,
    };
    let version = written.version.to_string();
    Ok(json!({ "version": version, "changed": written.changed, "replayed": written.replayed }))
}

fn journal(order: &Value) -> Done {
    let journal = Journal::open(text(order, "path")?)?;
    let write = write_options(order)?;
    match text(order, "op")? {
        "append" => {
            let lines = order["lines"].as_array().into_iter().flatten();
            let lines: Vec<&str> = lines.filter_map(Value::as_str).collect();
            let done =
                journal.append(&lines, &AppendOptions { write, ..AppendOptions::default() })?;
            Ok(json!({
                "first": done.first,
                "last": done.last,
                "replayed": done.replayed,
                "closed_tail": done.closed_tail,
            }))
        }
        "entries" => {
            let entries = match journal.read(order["from"].as_u64().unwrap_or(1), None) {
                Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
                entries => entries?.collect::<tenure::Result<_>>()?,
            };
            let shown = |entry: &tenure::outcome::Entry| json!({ "seq": entry.seq, "line": lossy(&entry.line) });
            Ok(json!({ "entries": entries.iter().map(shown).collect::<Vec<_>>() }))
        }
        "check" => {
            let report = journal.verify()?;
            Ok(json!({ "sound": report.is_sound(), "entries": report.entries }))
        }
        _ => Ok(json!({ "next": journal.rotate(&write)?.next })),
    }
}

fn lease(order: &Value) -> Done {
    let lease = Lease::open(text(order, "path")?)?;
    let ttl = order["ttl"].as_u64().map(Duration::from_millis);
    let terms = LeaseOptions {
        owner: or_empty(order, "owner"),
        ttl: ttl.unwrap_or_default(),
        wait: wait(order),
        token: order["token"].as_str().map(str::to_owned),
        ..LeaseOptions::default()
    };
    let told = |got: &Leased| json!({ "token": got.token, "fence": got.fence });
    Ok(match text(order, "op")? {
        "acquire" => told(&lease.acquire(&terms)?),
        "take_over" => told(&lease.take_over(&terms, text(order, "reason")?)?),
        "renew" => told(&lease.renew(text(order, "token")?, ttl)?),
        "end" => lease.release(text(order, "token")?).map(|()| json!({}))?,
        _ => {
            let shown = lease.show()?;
            let running = shown.as_ref().is_some_and(|info| info.expires_in.is_some());
            json!({ "owner": shown.map(|info| info.holder.owner), "running": running })
        }
    })
}

/// Waits without a deadline, all at the same time, each cancelled by its own token.
fn storm(order: &Value) -> Done {
    let lock = Lock::open(text(order, "path")?)?;
    let cancels: Vec<_> =
        (0..order["times"].as_u64().unwrap_or(1)).map(|_| Cancel::new()).collect();
    let wait = |cancel: &Cancel| {
        let cancel = Some(cancel.clone());
        lock.acquire(&LockOptions { wait: Wait::Forever, cancel, ..LockOptions::default() })
    };
    let cancelled = std::thread::scope(|scope| {
        let waiting: Vec<_> = cancels.iter().map(|cancel| scope.spawn(|| wait(cancel))).collect();
        cancels.iter().for_each(Cancel::cancel);
        let ended = waiting.into_iter().filter_map(|thread| thread.join().ok());
        ended.filter(|ended| matches!(ended, Err(e) if e.kind() == ErrorKind::Cancelled)).count()
    });
    Ok(json!({ "cancelled": cancelled }))
}

fn write_options(order: &Value) -> Result<WriteOptions, Refusal> {
    let guards = order["guards"].as_array().into_iter().flatten().map(|guard| {
        let target = text(guard, "target")?.into();
        match guard["fence"].as_u64() {
            Some(fence) => Ok(Guard { target, fence }),
            None => misunderstood("a guard without a fence"),
        }
    });
    let durability = if order["sync"] == true { Durability::Durable } else { Durability::NoSync };
    Ok(WriteOptions {
        wait: wait(order),
        fence: order["fence"].as_u64(),
        guards: guards.collect::<Result<_, _>>()?,
        if_version: order["if_version"].as_str().map(str::parse).transpose()?,
        operation: order["op_id"].as_str().map(str::to_owned),
        label: or_empty(order, "label"),
        durability,
        ..WriteOptions::default()
    })
}

fn wait(order: &Value) -> Wait {
    match &order["wait"] {
        Value::Number(ms) => Wait::For(Duration::from_millis(ms.as_u64().unwrap_or(0))),
        wait if wait == "forever" => Wait::Forever,
        _ => Wait::No,
    }
}

fn text<'a>(order: &'a Value, field: &str) -> Result<&'a str, Refusal> {
    order[field].as_str().map_or_else(|| misunderstood(format!("{field} is missing")), Ok)
}

fn or_empty(order: &Value, field: &str) -> String {
    order[field].as_str().unwrap_or_default().to_owned()
}

fn lossy(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}
