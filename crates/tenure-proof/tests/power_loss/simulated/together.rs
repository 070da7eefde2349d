//! A document and a journal that change together, and the fences of locks and leases.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure::fs::Fs;
use tenure::{
    AppendOptions, Document, ErrorKind, Journal, Lease, LeaseOptions, Lock, LockOptions, Wait,
    WriteOptions, json, update_and_append,
};
use tenure_testkit::CrashKind;

use super::world::{Finding, Step};

const DOCUMENT: &str = "/d/both.json";
const JOURNAL: &str = "/d/both.jsonl";

/// `update_and_append` with an operation id: repeated after a crash, it is done once.
#[derive(Debug, Clone, Default)]
pub(crate) struct TogetherPart {
    tried: u64,
    acked: u64,
    /// The least number in the document: that of the last acknowledged operation.
    number: u64,
    /// A sync of the operation in progress failed. After a power loss it is unknown whether it was
    /// done.
    doubt: bool,
    /// Its caller no longer repeats it.
    gives_up: bool,
    /// Operations that were given up. A part of their line may be left.
    given_up: Vec<u64>,
}

impl TogetherPart {
    pub(crate) fn step(&mut self, fs: &Arc<dyn Fs>) -> Step {
        // An operation that was not acknowledged is repeated, as its caller would do.
        let number = self.acked + 1;
        self.tried = number;
        let write = WriteOptions {
            wait: Wait::No,
            operation: Some(format!("operation {number}")),
            ..WriteOptions::default()
        };
        let options = AppendOptions { write, ..AppendOptions::default() };
        let line = [format!("U {number}.")];
        let both = || -> tenure::Result<()> {
            let document = Document::open_on(fs, Path::new(DOCUMENT))?;
            let journal = Journal::open_on(fs, Path::new(JOURNAL))?;
            let new = |_: Option<&_>| Ok(Some(json!({ "n": number })));
            update_and_append(&document, &journal, &line, &options, new).map(drop)
        };
        both().map_err(|error| format!("{DOCUMENT} and {JOURNAL}: {error}"))?;
        (self.acked, self.number, self.doubt) = (number, number, false);
        Ok(())
    }

    pub(crate) fn doubt(&mut self, again: bool) {
        (self.doubt, self.gives_up) = (true, again);
    }

    pub(crate) fn examine(&mut self, fs: &Arc<dyn Fs>, kind: CrashKind) -> Finding {
        let look = || -> tenure::Result<(u64, Vec<Vec<u8>>)> {
            let read = Document::open_on(fs, Path::new(DOCUMENT))?.read()?;
            let number = read.and_then(|found| found.value["n"].as_u64()).unwrap_or(0);
            let entries = Journal::open_on(fs, Path::new(JOURNAL))?.read(1, None)?;
            let lines: tenure::Result<_> = entries.map(|entry| Ok(entry?.line)).collect();
            Ok((number, lines?))
        };
        let (number, lines) = look().map_err(|error| format!("{DOCUMENT}: {error}"))?;
        // Before it is acknowledged, a crash may leave either part without the other; a repetition
        // completes it.
        let is_right = (self.number..=self.tried).contains(&number);
        if self.gives_up || (self.doubt && kind == CrashKind::Power) {
            self.given_up.push(self.tried);
            (self.acked, self.doubt, self.gives_up) = (self.tried, false, false);
        }
        if is_right && self.are_right(&lines) {
            return Ok(());
        }
        Err(format!("{self:?}, document {number}, {lines:?}"))
    }

    fn are_right(&self, lines: &[Vec<u8>]) -> bool {
        let is_known = |number: &u64| !self.given_up.contains(number);
        let parse = |line: &Vec<u8>| -> Option<u64> {
            std::str::from_utf8(line).ok()?.strip_prefix("U ")?.strip_suffix('.')?.parse().ok()
        };
        let is_there = |upto: u64| {
            let expected = (1..=upto).filter(is_known);
            lines.iter().filter_map(parse).filter(is_known).eq(expected)
        };
        let are_whole = lines.iter().all(|line| parse(line).is_some());
        (are_whole || !self.given_up.is_empty()) && (is_there(self.acked) || is_there(self.tried))
    }
}

/// Locks and leases of one target: fences grow.
#[derive(Debug, Clone)]
pub(crate) struct FencePart {
    path: &'static str,
    newest: u64,
    token: Option<String>,
    /// A fence that did not grow.
    went_back: Option<String>,
}

impl FencePart {
    pub(crate) fn new(path: &'static str) -> Self {
        Self { path, newest: 0, token: None, went_back: None }
    }

    pub(crate) fn step(&mut self, fs: &Arc<dyn Fs>, lease: bool) -> Step {
        let failed = |error: tenure::Error| format!("{}: {error}", self.path);
        let fence = if lease {
            let options = LeaseOptions { ttl: Duration::from_secs(3600), ..at_once() };
            let lease = Lease::open_on(fs, Path::new(self.path)).map_err(failed)?;
            if let Some(token) = self.token.take() {
                // Its holder may have died; a release that comes too late is allowed.
                let _ = lease.release(&token);
            }
            let leased = match lease.acquire(&options) {
                Err(error) if error.kind() == ErrorKind::Busy => {
                    lease.take_over(&options, "its holder died").map_err(failed)?
                }
                leased => leased.map_err(failed)?,
            };
            self.token = Some(leased.token);
            leased.fence
        } else {
            if let Some(token) = self.token.take() {
                let lease = Lease::open_on(fs, Path::new(self.path)).map_err(failed)?;
                let _ = lease.release(&token);
            }
            let lock = Lock::open_on(fs, Path::new(self.path)).map_err(failed)?;
            let options = LockOptions { wait: Wait::No, ..LockOptions::default() };
            match lock.acquire(&options) {
                // The lease of a process that died without an answer keeps running.
                Err(error) if error.kind() == ErrorKind::Busy => return self.step(fs, true),
                held => held.map_err(failed)?.publish_fence(),
            }
        };
        if fence <= self.newest {
            self.went_back = Some(format!("{}: fence {fence} after {}", self.path, self.newest));
        }
        self.newest = fence;
        Ok(())
    }

    /// Whether a fence has decreased since the last check.
    pub(crate) fn examine(&mut self) -> Finding {
        self.went_back.take().map_or(Ok(()), Err)
    }
}

fn at_once() -> LeaseOptions {
    LeaseOptions { wait: Wait::No, ..LeaseOptions::default() }
}
