//! The setting of a race: a directory for their protocol, one for ours, and a tally.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure::options::Durability;
use tenure::{Document, Error, ErrorKind, Fence, Wait, WriteOptions};
use tenure_proof::live::Live;
use tenure_proof::puppet::{Child, Heard, Puppet};
use tenure_proof::{Tally, not_run, tenure};
use tenure_shipped::state::{self, Content};

/// A process number that no process has.
pub(crate) const DEAD: i32 = 2_147_483_646;

/// One race.
pub(crate) struct Scene {
    race: &'static str,
    scratch: TempDir,
    pub(crate) tally: Tally,
    broke: bool,
    not_run: bool,
}

impl Scene {
    /// The race of this number.
    pub(crate) fn new(race: &'static str) -> Self {
        let scratch = TempDir::new().unwrap();
        for name in ["theirs", "ours"] {
            std::fs::create_dir(scratch.path().join(name)).unwrap();
        }
        let tally = Tally::new("race_book", race);
        let scene = Self { race, scratch, tally, broke: false, not_run: false };
        Content::KeysOnly.create(&scene.theirs()).unwrap();
        scene
    }

    /// The directory of their protocol, with a document in it.
    pub(crate) fn theirs(&self) -> PathBuf {
        self.scratch.path().join("theirs")
    }

    /// The keys in their document.
    pub(crate) fn their_keys(&self) -> Vec<String> {
        let document = state::read(&state::path(&self.theirs())).unwrap();
        state::keys(&document).map(str::to_owned).collect()
    }

    /// A process with their lock, started by `launcher`; or why that is impossible.
    pub(crate) fn their_holder(&self, launcher: &[&str]) -> Result<Live, String> {
        let mut words = launcher.to_vec();
        words.extend([env!("CARGO_BIN_EXE_subject"), "session-lock"]);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(self.theirs());
        let holder = Live::start(command);
        match holder.line().as_deref() {
            Some("mine") => Ok(holder),
            Some(other) => panic!("their lock is not to be had: {other}"),
            None => Err(format!("{:?}", holder.end())),
        }
    }

    /// A file in our directory.
    pub(crate) fn ours(&self, name: &str) -> PathBuf {
        self.scratch.path().join("ours").join(name)
    }

    /// Our document.
    pub(crate) fn state(&self) -> PathBuf {
        self.ours("state.json")
    }

    /// Our journal.
    pub(crate) fn log(&self) -> PathBuf {
        self.ours("log.jsonl")
    }

    /// The sidecars of our document; there must be some.
    pub(crate) fn sidecars(&self) -> Vec<PathBuf> {
        let mut sidecars = paths_in(&self.ours(".tenure"));
        sidecars.retain(|path| is_ours(path));
        assert!(!sidecars.is_empty(), "nothing to be tried upon");
        sidecars
    }

    /// Their protocol broke, as it should; ours is next.
    pub(crate) fn broke(&mut self, what: &str) {
        self.tally.caught(what);
        self.broke = true;
    }

    /// The race, or the rest of it, needs namespaces, and there are none because of `why`. That
    /// must be allowed explicitly. The caller returns; no other race is excused.
    pub(crate) fn has_no_namespaces(&mut self, why: &str) {
        let may_not = std::env::var_os("TENURE_WITHOUT_NAMESPACES").is_some();
        assert!(may_not, "{why}; allow it, or set TENURE_WITHOUT_NAMESPACES=1");
        not_run(&format!("{}: {why}", self.race));
        self.not_run = true;
    }
}

impl Drop for Scene {
    /// A race in which nothing breaks proves nothing.
    fn drop(&mut self) {
        let told = self.broke || self.not_run;
        assert!(told || std::thread::panicking(), "nothing was seen to break");
    }
}

fn is_ours(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("state.json."))
}

/// What a directory holds, sorted; nothing if there is none.
pub(crate) fn paths_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// A write that neither waits nor syncs.
pub(crate) fn at_once(fence: Option<Fence>) -> WriteOptions {
    let (wait, durability) = (Wait::No, Durability::NoSync);
    WriteOptions { wait, durability, fence, ..WriteOptions::default() }
}

/// A write that waits as long as it takes.
pub(crate) fn patiently() -> WriteOptions {
    WriteOptions { wait: Wait::Forever, ..at_once(None) }
}

/// The counter in our document.
pub(crate) fn count(path: &Path) -> u64 {
    let found = Document::open(path).unwrap().read().unwrap();
    found.map_or(0, |found| found.value["n"].as_u64().unwrap())
}

/// Adds one to the counter in our document.
pub(crate) fn add(path: &Path, options: &WriteOptions) -> tenure::Result<()> {
    let update = |value: Option<&tenure::Value>| {
        let n = value.and_then(|value| value["n"].as_u64()).unwrap_or(0);
        Ok(Some(tenure::json!({ "n": n + 1 })))
    };
    Document::open(path)?.update(options, update).map(drop)
}

/// What went wrong.
pub(crate) fn kind<T>(result: tenure::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error: Error| error.kind())
}

/// An order on a path.
pub(crate) fn on(op: &str, path: &Path) -> Value {
    json!({ "op": op, "path": path })
}

/// An order on a path that waits as long as it takes.
pub(crate) fn await_on(op: &str, path: &Path) -> Value {
    json!({ "op": op, "path": path, "wait": "forever" })
}

/// A puppet that holds the lock of `path`, and the fence.
pub(crate) fn holder(path: &Path) -> (Child, Fence) {
    let mut puppet = Child::rust();
    let got = puppet.does(&on("lock", path));
    (puppet, got["fence"].as_u64().unwrap())
}

/// Kills a process in the middle of many updates.
pub(crate) fn kill_a_writer(path: &Path) {
    let mut victim = Child::rust();
    let before = count(path);
    victim.tell(&json!({ "op": "add", "path": path, "times": 10_000_000 }));
    while count(path) < before + 3 {
        assert_eq!(victim.hear_within(Duration::ZERO), Heard::Silence, "it is at work");
    }
    victim.kill();
}

/// The one of these puppets that answers; all others are silent.
pub(crate) fn only_one(puppets: &mut [Child]) -> (usize, Value) {
    let started = std::time::Instant::now();
    let (winner, answer) = loop {
        assert!(started.elapsed() < tenure_proof::puppet::FAR_TOO_LONG, "no puppet answers");
        let mut heard = puppets.iter_mut().enumerate();
        let moment = Duration::from_millis(5);
        let first = heard.find_map(|(at, puppet)| match puppet.hear_within(moment) {
            Heard::Answer(answer) => Some((at, answer)),
            _ => None,
        });
        if let Some(first) = first {
            break first;
        }
    };
    for (at, puppet) in puppets.iter_mut().enumerate() {
        if at != winner {
            puppet.is_silent();
        }
    }
    (winner, answer)
}

/// Runs `tenure` below a shell, with its path in `$0`.
pub(crate) fn below_shell(script: &str, arguments: &[&Path]) -> Output {
    Command::new("sh").arg("-c").arg(script).arg(tenure()).args(arguments).output().unwrap()
}

/// Standard output and error, for a failing assertion.
pub(crate) fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}: {} {}", output.status, text(&output.stdout), text(&output.stderr))
}

/// The limit of CPU time for half a second of waiting.
pub(crate) const TOO_MUCH: Duration = Duration::from_millis(50);

/// The CPU time of a process, all its threads together; or of `thread-self`.
pub(crate) fn cpu_time(whose: &str) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{whose}/stat")).unwrap();
    // The name may contain anything; the fields after it are numbers. Linux counts 100 ticks a
    // second.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().unwrap());
    Duration::from_millis(10 * ticks.sum::<u64>())
}
