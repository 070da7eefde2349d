//! What a session was asked already: `{checked, last_active, fact_force_denials}` in `state-KEY.json`.
//!
//! # Invariants
//!
//! 1. A mark is decided and made under the lock of the document: of many processes that touch a file first,
//!    one is denied, and no mark is lost.
//! 2. A state that was idle for half an hour counts as empty. So does one from the future: its clock jumped.
//! 3. It is bounded: 500 marks, of which at most 50 are not files; states of dead sessions are removed when
//!    a new session begins.
//! 4. Fields that are not known here stay.
//!
//! A crash leaves the state before or after the mark. A state that is no JSON is removed: it guards nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tenure::embed::update_text;
use tenure::options::{CollectionKind, Durability, Prune};
use tenure::{
    Collection, Document, Error, ErrorKind, Lock, LockOptions, Result, Wait, WriteOptions,
};

use crate::clock;

/// Idle for longer, a session has ended.
const TIMEOUT_MS: u64 = 30 * 60 * 1000;
/// A read notes that the session lives, at most this often.
const HEARTBEAT_MS: u64 = 60 * 1000;
/// So many marks are kept, ...
const MARKS_MAX: usize = 500;
/// ... so many of them that are not files, ...
const SESSION_MARKS_MAX: usize = 50;
/// ... and always this one.
const PINNED: &str = "__bash_session__";
/// A hook must answer in a moment.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// The state of one session. Opening touches nothing.
#[derive(Debug)]
pub(super) struct State {
    dir: PathBuf,
    file: PathBuf,
}

/// What is known about a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Touch {
    /// It was touched before.
    Again,
    /// It was not. So many files have been denied in this session, this one included.
    First {
        /// How many.
        denials: u64,
    },
}

impl State {
    pub(super) fn open(dir: &Path, key: &str) -> Self {
        Self { dir: dir.to_path_buf(), file: dir.join(format!("state-{key}.json")) }
    }

    /// Marks the file, unless it is marked.
    pub(super) fn touch(&self, file: &str) -> Result<Touch> {
        let document = Document::open(&self.file)?;
        let (now, known) = (now_ms(), document.read().ok().flatten());
        let is_new = known.is_none();
        let parsed = known.and_then(|found| serde_json::from_slice(&found.bytes).ok());
        if let Some(state) = parsed.map(|found: Value| current(&found, now))
            && is_marked(&state, file)
        {
            if now.saturating_sub(last_active(&state)) > HEARTBEAT_MS {
                // A failure costs nothing but an earlier end of the session.
                let _ = mark(&document, file, now);
            }
            return Ok(Touch::Again);
        }
        let touch = match mark(&document, file, now) {
            Err(error) if error.kind() == ErrorKind::Damaged => {
                self.discard()?;
                mark(&document, file, now)
            }
            done => done,
        }?;
        if is_new {
            self.prune();
        }
        Ok(touch)
    }

    /// Removes a state that is still no JSON, under the lock.
    fn discard(&self) -> Result<()> {
        let _locked = Lock::open(&self.file)?
            .acquire(&LockOptions { wait: Wait::For(LOCK_WAIT), ..LockOptions::default() })?;
        let document = Document::open(&self.file)?;
        match document.read() {
            Err(error) if error.kind() == ErrorKind::Damaged => {
                let removed = std::fs::remove_file(&self.file);
                removed.map_err(|err| Error::io("remove", &self.file, err))
            }
            _ => Ok(()),
        }
    }

    /// Removes the states of sessions that ended long ago. On an error they stay for the next one.
    fn prune(&self) {
        let max_age = Duration::from_millis(2 * TIMEOUT_MS);
        let Ok(states) = Collection::open(&self.dir, CollectionKind::Documents) else { return };
        let Ok(keys) = states.keys() else { return };
        let keep = keys.into_iter().filter(|key| !key.starts_with("state-")).collect();
        let prune = Prune { max_age: Some(max_age), keep, ..Prune::default() };
        let _ = states.prune(&prune, &WriteOptions { wait: Wait::No, ..options() });
        // Names that tenure does not use for keys (capital letters), and temporary files of ECC.
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let rest = name.strip_prefix("state-").and_then(|rest| rest.split_once(".json"));
            let is_state = rest.is_some_and(|(_, end)| end.is_empty() || end.starts_with(".tmp."));
            let age = entry.metadata().and_then(|found| found.modified()).ok();
            let is_old = age.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > max_age);
            if is_state && is_old && entry.path() != self.file {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Marks the file under the lock, unless it is marked; notes that the session lives.
fn mark(document: &Document, file: &str, now: u64) -> Result<Touch> {
    let mut touch = Touch::Again;
    update_text(document, &options(), |text| {
        let found = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let mut state = current(&found, now);
        if is_marked(&state, file) {
            touch = Touch::Again;
        } else {
            let denials = state["fact_force_denials"].as_u64().unwrap_or(0).saturating_add(1);
            touch = Touch::First { denials };
            state["fact_force_denials"] = json!(denials);
            if let Some(marks) = state["checked"].as_array_mut() {
                marks.push(json!(file));
                bound(marks);
            }
        }
        state["last_active"] = json!(now.max(last_active(&state)));
        Ok(serde_json::to_string_pretty(&state).ok())
    })?;
    Ok(touch)
}

/// The state, as far as it is one and has not ended.
fn current(found: &Value, now: u64) -> Value {
    let idle = now.abs_diff(last_active(found));
    if !found.is_object() || idle > TIMEOUT_MS {
        return json!({ "checked": [], "last_active": 0 });
    }
    let mut state = found.clone();
    match state["checked"].as_array_mut() {
        Some(marks) => marks.retain(Value::is_string),
        None => state["checked"] = json!([]),
    }
    state
}

fn last_active(state: &Value) -> u64 {
    let last = state.get("last_active");
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time of another program: what does not fit is as good as none"
    )]
    last.and_then(|last| last.as_u64().or_else(|| last.as_f64().map(|ms| ms as u64))).unwrap_or(0)
}

fn is_marked(state: &Value, file: &str) -> bool {
    let marks = state["checked"].as_array().map(Vec::as_slice).unwrap_or_default();
    marks.iter().any(|mark| mark.as_str() == Some(file))
}

/// Keeps the pinned mark, the newest marks of the session, and the newest files.
fn bound(marks: &mut Vec<Value>) {
    if marks.len() <= MARKS_MAX {
        return;
    }
    let text = |mark: &Value| mark.as_str().unwrap_or_default().to_owned();
    let all = std::mem::take(marks);
    let (session, files): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|mark| text(mark).starts_with("__"));
    let (pinned, session): (Vec<_>, Vec<_>) =
        session.into_iter().partition(|mark| text(mark) == PINNED);
    marks.extend(pinned.into_iter().take(1));
    marks.extend(newest(session, SESSION_MARKS_MAX - marks.len()));
    marks.extend(newest(files, MARKS_MAX - marks.len()));
}

/// The last `count` of them.
fn newest(marks: Vec<Value>, count: usize) -> impl Iterator<Item = Value> {
    let skipped = marks.len().saturating_sub(count);
    marks.into_iter().skip(skipped)
}

fn options() -> WriteOptions {
    let (durability, wait) = (Durability::NoSync, Wait::For(LOCK_WAIT));
    WriteOptions { durability, wait, ..WriteOptions::default() }
}

fn now_ms() -> u64 {
    clock::now_us() / 1000
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    fn write(file: &Path, text: &str) {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        File::create(file).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn read(file: &Path) -> Value {
        serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
    }

    #[test]
    fn a_file_is_denied_once_and_denials_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(&dir.path().join("new"), "s");
        assert_eq!(state.touch("a").unwrap(), Touch::First { denials: 1 });
        assert_eq!(state.touch("a").unwrap(), Touch::Again);
        assert_eq!(state.touch("b").unwrap(), Touch::First { denials: 2 });
        let text = std::fs::read_to_string(&state.file).unwrap();
        assert!(text.starts_with("{\n  \"checked\": [\n") && !text.ends_with('\n'), "{text}");
    }

    #[test]
    fn an_idle_session_begins_anew_and_fields_of_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path(), "s");
        let old = now_ms() - TIMEOUT_MS - 1;
        write(&state.file, &json!({ "checked": ["a"], "last_active": old }).to_string());
        assert_eq!(state.touch("a").unwrap(), Touch::First { denials: 1 });
        write(
            &state.file,
            &json!({ "checked": ["a", 7], "last_active": now_ms(), "evidence": [1] }).to_string(),
        );
        assert_eq!(state.touch("b").unwrap(), Touch::First { denials: 1 });
        let now = read(&state.file);
        assert_eq!((&now["checked"], &now["evidence"]), (&json!(["a", "b"]), &json!([1])));
        // The clock was set back by a day meanwhile.
        write(
            &state.file,
            &json!({ "checked": ["a"], "last_active": now_ms() + 86_400_000 }).to_string(),
        );
        assert_eq!(state.touch("a").unwrap(), Touch::First { denials: 1 });
        assert!(last_active(&read(&state.file)) <= now_ms());
    }

    #[test]
    fn a_read_writes_at_most_once_a_minute() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path(), "s");
        let recent =
            json!({ "checked": ["a"], "last_active": now_ms() - HEARTBEAT_MS / 2 }).to_string();
        write(&state.file, &recent);
        assert_eq!(state.touch("a").unwrap(), Touch::Again);
        assert_eq!(std::fs::read_to_string(&state.file).unwrap(), recent);
        let quiet = now_ms() - HEARTBEAT_MS - 1;
        write(&state.file, &json!({ "checked": ["a"], "last_active": quiet }).to_string());
        assert_eq!(state.touch("a").unwrap(), Touch::Again);
        assert!(last_active(&read(&state.file)) > quiet);
    }

    #[test]
    fn a_state_that_is_no_json_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path(), "s");
        for wrong in ["", "{\"checked\":", "nonsense", "[1]", "7"] {
            write(&state.file, wrong);
            assert_eq!(state.touch("a").unwrap(), Touch::First { denials: 1 }, "{wrong}");
            assert_eq!(state.touch("a").unwrap(), Touch::Again, "{wrong}");
        }
    }

    #[test]
    fn marks_are_bounded_and_the_pinned_one_stays() {
        let mut marks = vec![json!(PINNED)];
        marks.extend((0..100).map(|n| json!(format!("__destructive__{n}"))));
        marks.extend((0..600).map(|n| json!(format!("file{n}"))));
        bound(&mut marks);
        assert_eq!(marks.len(), MARKS_MAX);
        assert_eq!(marks[0], PINNED);
        assert_eq!(
            (&marks[1], &marks[49]),
            (&json!("__destructive__51"), &json!("__destructive__99"))
        );
        assert_eq!((&marks[50], &marks[499]), (&json!("file150"), &json!("file599")));
    }

    #[test]
    fn states_of_dead_sessions_are_removed_when_a_session_begins() {
        let dir = tempfile::tempdir().unwrap();
        let hours_ago = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let old = ["state-old.json", "state-OLD.json", "state-x.json.tmp.7.abcd"];
        for name in old.iter().chain(&["other.json", "state-fresh.json"]) {
            write(&dir.path().join(name), "{}");
            if !name.contains("fresh") {
                let file = File::options().write(true).open(dir.path().join(name)).unwrap();
                file.set_modified(hours_ago).unwrap();
            }
        }
        State::open(dir.path(), "new").touch("a").unwrap();
        for name in old {
            assert!(!dir.path().join(name).exists(), "{name}");
        }
        assert!(
            dir.path().join("other.json").exists() && dir.path().join("state-fresh.json").exists()
        );
    }
}
