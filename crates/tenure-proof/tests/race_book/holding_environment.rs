//! Races 50 to 53: tools that clean up, sidecars that were copied, mounts and nesting.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::json;
use tenure::{AppendOptions, ErrorKind, Journal, status, try_lock};
use tenure_proof::puppet::{Child, Puppet};
use tenure_proof::tenure as command;
use tenure_shipped::locks::{MtimeLock, SessionLock, lock_file};
use tenure_shipped::logs::{self, NotedLength};
use tenure_shipped::{Lock, Log, state};

use crate::scene::{Scene, add, at_once, below_shell, count, holder, kind, told};

/// `doctor --fix` that removes live locks: by age, or by a wrong process title. Ours: never a lock
/// file; and a holder whose file was still removed gets an error (`compromised`, G1).
#[test]
fn race_50_a_clean_up_removes_live_locks() {
    let mut scene = Scene::new("race_50");
    let directory = scene.theirs();
    let lock = lock_file(&directory);
    let alice = scene.their_holder(&["env"]).unwrap();
    // The doctor finds a live process whose title it does not know.
    let doctor = "pid=$(tr -dc 0-9 < \"$1\"); kill -0 $pid || exit 1; \
                  [ \"$(cat /proc/$pid/comm)\" = openclaw ] || rm \"$1\"";
    let output = below_shell(doctor, &[&lock]);
    assert!(output.status.success(), "{}", told(&output));
    SessionLock::open(&directory).unwrap().enter().expect("both are inside");
    assert!(alice.end().is_done(), "she lived, and did not know");
    scene.broke("OpenClaw: a doctor removes the lock of a process with another title");

    let path = scene.state();
    let (mut alice, fence) = holder(&path);
    let output = below_shell("exec \"$0\" doctor --fix \"$1\"", &[path.parent().unwrap()]);
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(kind(try_lock(&path)), Some(ErrorKind::Busy));
    alice.does(&json!({ "op": "verify" }));
    alice.does(&json!({ "op": "add", "path": path, "fence": fence }));
    scene.tally.tried(1, "clean-ups beside a holder");

    fs::remove_dir_all(path.parent().unwrap().join(".tenure")).unwrap();
    assert_eq!(alice.is_refused(&json!({ "op": "verify" })), "compromised");
    let late = json!({ "op": "add", "path": path, "fence": fence });
    assert!(["compromised", "fenced"].contains(&alice.is_refused(&late).as_str()));
    assert_eq!(count(&path), 1);
    scene.tally.tried(1, "lock files removed during a hold");
}

/// `cp -r`, a restored backup, `git clean -fdx`: the sidecars are older or newer than the data.
/// Ours: the data wins, nothing is truncated or replayed over it, the fence rises, and it is
/// reported (G4).
#[test]
fn race_51_sidecars_of_another_time() {
    let mut scene = Scene::new("race_51");
    restored_note(&mut scene);
    restored_counter(&mut scene);

    let (path, log) = (scene.state(), scene.log());
    let append = |line: &str| {
        let options = AppendOptions { write: at_once(None), ..AppendOptions::default() };
        Journal::open(&log).unwrap().append(&[line], &options).unwrap().last
    };
    add(&path, &at_once(None)).unwrap();
    append("one");
    let backup = Backup::of(&scene);
    let mut last = 0;
    for _ in 0..3 {
        add(&path, &at_once(None)).unwrap();
        last = append("more");
    }
    let mut newest = try_lock(&path).unwrap().publish_fence();
    for part in [Part::Sidecars, Part::Nothing, Part::Data, Part::DataAsNewFiles] {
        backup.restore(part);
        let told = adoptions(&log);
        let before = (count(&path), fs::read(&log).unwrap());
        let is_old = matches!(part, Part::Data | Part::DataAsNewFiles);
        assert_eq!(is_old, before.0 == 1, "{part:?}: the data is what was put there");
        let fence = try_lock(&path).unwrap().publish_fence();
        assert!(fence > newest, "{part:?}: {fence} after {newest}");
        newest = fence;
        assert_eq!((count(&path), fs::read(&log).unwrap()), before, "{part:?}");
        add(&path, &at_once(None)).unwrap();
        let number = append("after");
        // Old sidecars cannot know which numbers were given out.
        assert!(number > last || !is_old, "{part:?}: number {number} after {last}");
        last = number;
        let grown = [&before.1[..], b"after\n"].concat();
        assert_eq!(fs::read(&log).unwrap(), grown, "{part:?}: nothing cut off, nothing replayed");
        assert_eq!(count(&path), before.0 + 1, "{part:?}: built upon what is there");
        assert!(adoptions(&log) > told, "{part:?}: and it is reported");
        scene.tally.tried(1, "data and sidecars of two times");
    }
    assert!(Journal::open(&log).unwrap().verify().unwrap().is_sound());
}

/// How often a mismatch between a journal and its sidecars was reported.
fn adoptions(log: &Path) -> usize {
    let events = status::events(log).unwrap();
    events.iter().filter(|event| event["event"] == "journal_adopted").count()
}

/// What is restored from a backup.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// The sidecars, which are then older than the data.
    Sidecars,
    /// The sidecars are removed.
    Nothing,
    /// The data, which is then older than the sidecars; written over the existing file.
    Data,
    /// The same, renamed over the existing file.
    DataAsNewFiles,
}

/// A copy of our document, our journal and their sidecars.
struct Backup {
    from: PathBuf,
    to: PathBuf,
}

impl Backup {
    fn of(scene: &Scene) -> Self {
        let (from, to) = (scene.ours("."), scene.theirs().join("backup"));
        copy(&from, &to);
        Self { from, to }
    }

    fn restore(&self, part: Part) {
        let sidecars = self.from.join(".tenure");
        match part {
            Part::Sidecars | Part::Nothing => fs::remove_dir_all(&sidecars).unwrap(),
            Part::Data | Part::DataAsNewFiles => {}
        }
        let put = |name: &str| copy(&self.to.join(name), &self.from.join(name));
        match part {
            Part::Sidecars => put(".tenure"),
            Part::Nothing => {}
            Part::Data => ["state.json", "log.jsonl"].into_iter().for_each(put),
            Part::DataAsNewFiles => {
                for name in ["state.json", "log.jsonl"] {
                    copy(&self.to.join(name), &self.from.join("new"));
                    fs::rename(self.from.join("new"), self.from.join(name)).unwrap();
                }
            }
        }
    }
}

/// Theirs: a length beside the log, which a backup restores.
fn restored_note(scene: &mut Scene) {
    let directory = scene.theirs();
    let mut log = NotedLength::open(&directory);
    log.append("one").unwrap();
    let saved = directory.join("saved");
    copy(log.note(), &saved);
    log.append("two").unwrap();
    copy(&saved, log.note());
    log.append("three").unwrap();
    let left = fs::read_to_string(logs::path(&directory)).unwrap();
    assert_eq!(left, "one\nthree\n", "an acknowledged line is cut off");
    scene.broke("a noted length that is older than the log");
}

/// Theirs: fences from a counter in a file, which a backup restores.
fn restored_counter(scene: &mut Scene) {
    let counter = scene.theirs().join("fence");
    let draw = || {
        let last = fs::read_to_string(&counter).map_or(0, |last| last.parse::<u64>().unwrap());
        fs::write(&counter, (last + 1).to_string()).unwrap();
        last + 1
    };
    draw();
    let saved = scene.theirs().join("saved");
    copy(&counter, &saved);
    let alice = draw();
    copy(&saved, &counter);
    assert_eq!(draw(), alice, "the next one has her fence, so her late writes pass");
    scene.broke("fences from a counter that is older than the writes");
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
}

/// Runs a script in which the file `$1` is mounted over `$2`, as in a container; `$0` is our command.
fn below_mount(script: &str, file: &Path, over: &Path) -> Output {
    let script = format!("mount --bind \"$1\" \"$2\" || exit 99; {script}");
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
    unshare.arg(command()).args([file, over]).output().unwrap()
}

/// `docker -v state.json:/data/state.json`: the file is a mount, its directory another one, and so
/// is the lock beside it: silently no exclusion. Ours: refused (G12).
#[test]
fn race_52_a_single_file_is_mounted() {
    let mut scene = Scene::new("race_52");
    let data = scene.ours("data");
    fs::create_dir(&data).unwrap();
    let mounted = data.join("state.json");
    fs::write(&mounted, "").unwrap(); // The mount point must exist.
    let directory = scene.theirs();
    MtimeLock::open(&directory).enter().unwrap();
    // In the container the lock is free. The file is the locked one, and cannot be replaced.
    let script =
        "mkdir \"$2.lock\" && echo '{\"checked\":[\"both\"]}' > \"$2\" && ! mv \"$2.lock\" \"$2\"";
    let output = below_mount(script, &state::path(&directory), &mounted);
    if !output.status.success() {
        return scene.has_no_namespaces(&format!("a bind mount: {}", told(&output)));
    }
    assert_eq!(scene.their_keys(), ["both"], "written under two locks");
    scene.broke("proper-lockfile: a lock beside a mounted file excludes no one");

    let path = scene.state();
    add(&path, &at_once(None)).unwrap();
    let (_alice, fence) = holder(&path);
    for verb in ["doc update \"$2\" '.n += 1'", "run \"$2\" -- true", "journal append \"$2\" x"] {
        let output = below_mount(&format!("exec \"$0\" --json {verb}"), &path, &mounted);
        assert_eq!(output.status.code(), Some(6), "{}", told(&output));
        assert!(told(&output).contains("unsupported"), "{}", told(&output));
        scene.tally.tried(1, "verbs on a single file that is mounted");
    }
    assert_eq!(count(&path), 1);
    add(&path, &at_once(Some(fence))).unwrap();
}

/// A command below the lock updates the locked file and waits for itself until the deadline. Ours:
/// the fence, which the command has in its environment, proves the hold.
#[test]
fn race_53_a_command_below_the_lock_waits_for_it() {
    let mut scene = Scene::new("race_53");
    let lock = lock_file(&scene.theirs());
    let nested = "exec flock \"$1\" flock --wait 0.1 --conflict-exit-code 75 \"$1\" true";
    let output = below_shell(nested, &[&lock]);
    assert_eq!(output.status.code(), Some(75), "{}", told(&output));
    scene.broke("flock(1): a command below the lock waits for it");

    let path = scene.state();
    let nested = "exec \"$0\" run \"$1\" -- \"$0\" run \"$1\" -- \
                  \"$0\" doc update \"$1\" '.n += 1' --init '{\"n\":0}' --wait 0";
    let output = below_shell(nested, &[&path]);
    assert!(output.status.success(), "{}", told(&output));
    // Without the proof it would have waited.
    let proofless = "exec \"$0\" run \"$1\" -- env -u TENURE_FENCE -u TENURE_TARGET -u TENURE_OUTER \
                     \"$0\" doc update \"$1\" '.n += 1' --wait 0";
    let output = below_shell(proofless, &[&path]);
    assert_eq!(output.status.code(), Some(75), "{}", told(&output));
    assert_eq!(count(&path), 1);
    // A fence that is over proves nothing.
    let (mut alice, fence) = holder(&path);
    alice.does(&json!({ "op": "release" }));
    let late = json!({ "op": "add", "path": path, "fence": fence });
    assert_eq!(Child::rust().is_refused(&late), "fenced");
    assert!(!status::of(&path).unwrap().state.is_held());
    scene.tally.tried(3, "nested commands");
}
