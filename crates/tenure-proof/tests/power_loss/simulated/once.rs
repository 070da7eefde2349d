//! A counter whose every step has an operation id: however often a step is repeated, it is done
//! once. Only a step that was not acknowledged before a power loss may be done a second time, and
//! no step is ever acknowledged that is not there.

use std::path::Path;
use std::sync::Arc;

use tenure::fs::Fs;
use tenure::outcome::Written;
use tenure::{Document, Value, Wait, WriteOptions, json};
use tenure_testkit::{CrashKind, Random};

use super::world::{Finding, Step};

const PATH: &str = "/d/once.json";
/// A document remembers at least the 4,096 newest operations: more than a story has.
const REMEMBERED: u64 = 4096;

/// What must be true of it: each operation adds one.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Debug, Clone, Default)]
pub(crate) struct OncePart {
    acked: u64,
    tried: u64,
    /// The value before the operation in progress, in this boot; or the value if there is none.
    number: u64,
    /// The least value that a power loss leaves.
    durable: u64,
    /// A sync of the operation in progress failed. After a power loss it is unknown whether it was
    /// done.
    doubt: bool,
    /// The power was lost while it was in progress, and its effect is there: its id may be lost.
    is_there: bool,
    /// Its caller no longer repeats it.
    gives_up: bool,
    /// Operations that were given up.
    given_up: Vec<u64>,
    /// The disk failed to write it, and then the power was lost (RELIABILITY.md says when). No more
    /// steps use it.
    lost: bool,
}

impl OncePart {
    /// An operation without an answer is repeated; else one that was done is, or the next one
    /// comes.
    pub(crate) fn step(&mut self, fs: &Arc<dyn Fs>, random: &mut Random) -> Step {
        if self.lost {
            return Ok(());
        }
        let known = self.acked.min(REMEMBERED);
        if self.tried == self.acked && known > 0 && random.chance(64) {
            let again = self.acked - random.below(known);
            if !self.given_up.contains(&again) {
                return self.ask_again(fs, again);
            }
        }
        let next = self.acked + 1;
        self.tried = next;
        let before = read(fs)?;
        let done = count(fs, next)?;
        let now = read(fs)?;
        let is_known = before > self.number;
        let is_told_right = done.replayed == is_known || (self.is_there && done.replayed);
        if !(is_told_right && now == before + u64::from(!done.replayed)) {
            return Err(format!("{PATH}: {next}, from {before} to {now}: {done:?}"));
        }
        (self.acked, self.number, self.durable) = (next, now, now);
        (self.doubt, self.is_there) = (false, false);
        Ok(())
    }

    pub(crate) fn doubt(&mut self, again: bool) {
        self.doubt = self.tried > self.acked;
        self.gives_up = self.doubt && again;
    }

    fn ask_again(&self, fs: &Arc<dyn Fs>, nth: u64) -> Step {
        let done = count(fs, nth)?;
        let is_right = done.replayed && read(fs)? == self.number;
        if is_right { Ok(()) } else { Err(format!("{PATH}: {nth} again: {done:?}")) }
    }

    pub(crate) fn examine(&mut self, fs: &Arc<dyn Fs>, kind: CrashKind) -> Finding {
        let found = read(fs);
        self.lost |= found.is_err() && self.doubt && kind == CrashKind::Power;
        if self.lost {
            return Ok(());
        }
        let number = found?;
        let under_way = self.tried - self.acked;
        let least = if kind == CrashKind::Power { self.durable } else { self.number };
        if !(least..=self.number + under_way).contains(&number) {
            return Err(format!("{PATH}: {self:?}, there is {number}"));
        }
        if kind == CrashKind::Power {
            self.is_there |= number > self.number;
            (self.number, self.durable) = (number, number);
        }
        if self.gives_up || (self.doubt && kind == CrashKind::Power) {
            self.given_up.push(self.tried);
            (self.acked, self.number) = (self.tried, number);
            (self.doubt, self.gives_up, self.is_there) = (false, false, false);
        }
        Ok(())
    }
}

fn open(fs: &Arc<dyn Fs>) -> Result<Document, String> {
    Document::open_on(fs, Path::new(PATH)).map_err(|error| format!("{PATH}: {error}"))
}

fn number_of(value: Option<&Value>) -> u64 {
    value.and_then(|value| value["n"].as_u64()).unwrap_or(0)
}

fn read(fs: &Arc<dyn Fs>) -> Result<u64, String> {
    let read = open(fs)?.read().map_err(|error| format!("{PATH}: {error}"))?;
    Ok(number_of(read.as_ref().map(|found| &found.value)))
}

fn count(fs: &Arc<dyn Fs>, nth: u64) -> Result<Written, String> {
    let operation = Some(format!("operation {nth}"));
    let options = WriteOptions { wait: Wait::No, operation, ..WriteOptions::default() };
    let up = |current: Option<&Value>| Ok(Some(json!({ "n": number_of(current) + 1 })));
    open(fs)?.update(&options, up).map_err(|error| format!("{PATH}: {error}"))
}
