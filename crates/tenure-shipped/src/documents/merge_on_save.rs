//! ECC GateGuard's session state: load, add, and merge with the disk once more before the rename.
//!
//! The save is atomic, so nothing tears. But between the second read and the rename (the weak
//! moment) another process can publish its own merge. The rename then replaces it, and its
//! acknowledged key is lost. Also, a key that another process removed on purpose returns with the
//! next merge.
//!
//! Left out because it would only lose more: the prune to 500 entries (a round adds fewer keys) and
//! the expiry after 30 idle minutes. The shipped hook is a fresh process for each call; here one
//! process makes many calls, as parallel tool calls would.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::{Dice, Meanwhile, state};

const LAST_ACTIVE: &str = "last_active";

/// The state file of one session.
#[derive(Debug)]
pub struct State {
    path: PathBuf,
    dice: Dice,
    /// After the second read and the write of the temporary file, before the rename.
    pub meanwhile: Meanwhile,
}

impl State {
    /// The state in `directory`.
    pub fn open(directory: &Path, seed: u64) -> Self {
        let dice = Dice::new(seed);
        Self { path: state::path(directory), dice, meanwhile: Meanwhile::default() }
    }

    /// A missing or unreadable state counts as empty: the hook never blocks its caller.
    pub fn load(&self) -> Value {
        state::read(&self.path).unwrap_or(Value::Null)
    }

    /// Merges with what is on the disk by now, and publishes.
    pub fn save(&mut self, state: &Value) -> io::Result<()> {
        let disk = self.load();
        let newest = last_active(&disk).max(last_active(state));
        let mut merged = state::with_keys(disk, state::keys(state).map(str::to_owned));
        if let Value::Object(fields) = &mut merged {
            fields.insert(LAST_ACTIVE.to_owned(), json!(newest));
        }
        let temporary = format!(
            "{}.tmp.{}.{:08x}",
            self.path.display(),
            std::process::id(),
            self.dice.between(0, 1 << 32)
        );
        fs::write(&temporary, serde_json::to_vec_pretty(&merged)?)?;
        self.meanwhile.now();
        fs::rename(&temporary, &self.path)
    }
}

impl crate::Document for State {
    fn add(&mut self, key: &str) -> io::Result<()> {
        let mut state = state::with_key(Some(&self.load()), key);
        if let Value::Object(fields) = &mut state {
            fields.insert(LAST_ACTIVE.to_owned(), json!(now_ms()));
        }
        self.save(&state)
    }
}

fn last_active(state: &Value) -> u64 {
    state.get(LAST_ACTIVE).and_then(Value::as_u64).unwrap_or(0)
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
