//! Races 50 to 54: tools that clean up, sidecars that were copied, mounts, nesting, and syncs that fail.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use serde_json::json;
use tenure::fs::{Access, Fs, Handle};
use tenure::{
    AppendOptions, Document, Durability, ErrorKind, Journal, WriteOptions, status, try_lock,
};
use tenure_proof::puppet::{Child, Puppet};
use tenure_proof::tenure as command;
use tenure_shipped::locks::{MtimeLock, SessionLock, lock_file};
use tenure_shipped::logs::{self, NotedLength};
use tenure_shipped::{Lock, Log, state};
use tenure_testkit::{Fault, SimFs, Times};

use crate::scene::{Scene, add, at_once, below_shell, count, holder, kind, told};

/// `doctor --fix` that removes live locks: by age, or by a wrong process title. Ours: never a lock file;
/// and a holder whose file somebody removed all the same is told (`compromised`, G1).
#[test]
fn race_50_a_clean_up_removes_live_locks() {
    let mut scene = Scene::new("race_50");
    let directory = scene.theirs();
    SessionLock::open(&directory).unwrap().enter().unwrap();
    // `find -name '*.lock' -mmin ... -delete`, or a button called "repair".
    fs::remove_file(lock_file(&directory)).unwrap();
    SessionLock::open(&directory).unwrap().enter().expect("both are inside");
    scene.broke("OpenClaw: a clean-up removes a live lock");

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

/// `cp -r`, a restored backup, `git clean -fdx`: the bookkeeping is older or newer than the data. Ours: the
/// data wins, nothing is truncated or replayed over it, and the fence rises (G4).
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
    let sidecars = scene.ours(".tenure");
    let saved = scene.ours("saved");
    copy(&sidecars, &saved);
    for _ in 0..3 {
        add(&path, &at_once(None)).unwrap();
        append("more");
    }
    let newest = try_lock(&path).unwrap().fence();
    // Restored: older bookkeeping beside newer data. Then none at all.
    for restored in [true, false] {
        fs::remove_dir_all(&sidecars).unwrap();
        if restored {
            copy(&saved, &sidecars);
        }
        let before = (count(&path), fs::read(&log).unwrap());
        assert!(try_lock(&path).unwrap().fence() > newest, "restored: {restored}");
        assert_eq!((count(&path), fs::read(&log).unwrap()), before);
        add(&path, &at_once(None)).unwrap();
        append("after");
        let content = fs::read(&log).unwrap();
        assert!(content.starts_with(&before.1), "only appended");
        assert_eq!(count(&path), before.0 + 1);
        scene.tally.tried(1, "sidecars of another time");
    }
    assert!(Journal::open(&log).unwrap().verify().unwrap().is_sound());
}

/// Theirs: a length beside the log, which a backup brings back.
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

/// Theirs: fences from a counter in a file, which a backup brings back.
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

/// `docker -v state.json:/data/state.json`: the file is a mount, its directory another one, and so is the
/// lock beside it: silently no exclusion. Ours: refused (G12).
#[test]
fn race_52_a_single_file_is_mounted() {
    let mut scene = Scene::new("race_52");
    let data = scene.ours("data");
    fs::create_dir(&data).unwrap();
    let mounted = data.join("state.json");
    fs::write(&mounted, "").unwrap(); // What is mounted over must be there.
    let directory = scene.theirs();
    MtimeLock::open(&directory).enter().unwrap();
    // In the container the lock is free. The file is the one that the lock is for, and cannot be replaced.
    let script =
        "mkdir \"$2.lock\" && echo '{\"checked\":[\"both\"]}' > \"$2\" && ! mv \"$2.lock\" \"$2\"";
    let output = below_mount(script, &state::path(&directory), &mounted);
    if !output.status.success() {
        return scene.has_no_namespaces(&format!("a bind mount: {}", told(&output)));
    }
    assert_eq!(scene.their_keys(), ["both"], "written under two locks");
    scene.broke("proper-lockfile: a lock beside a mounted file excludes nobody");

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

/// A command below the lock updates the locked file and waits for itself until the deadline. Ours: the hold
/// is proven by its fence, which the command finds in its environment.
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
    assert!(!status(&path).unwrap().state.is_held());
    scene.tally.tried(3, "nested commands");
}

/// Theirs: whoever finds its line below the mark believes that it is on the disk.
struct GroupCommit {
    file: Arc<dyn Handle>,
    written: u64,
    synced: u64,
}

impl GroupCommit {
    fn open(fs: &SimFs) -> Self {
        fs.add_dir("/d");
        fs.add_file("/d/their.log", "");
        let file = fs.open(Path::new("/d/their.log"), Access::Append).unwrap();
        Self { file, written: 0, synced: 0 }
    }

    fn write(&mut self, line: &str) -> u64 {
        self.written += self.file.append(line.as_bytes()).unwrap() as u64;
        self.written
    }

    /// The leader syncs for everybody, and then the mark moves: somebody has taken care of these lines.
    fn lead(&mut self) -> io::Result<()> {
        let done = self.file.sync();
        self.synced = self.written;
        done
    }

    fn wait(&mut self, end: u64) -> io::Result<()> {
        if self.synced < end { self.lead() } else { Ok(()) }
    }
}

/// Whether a line that their group commit has acknowledged is gone after a power loss. What a failed sync
/// has written all the same is the luck of the seed, so there are some.
fn is_lost(acknowledged: impl Fn(&SimFs, &mut GroupCommit)) -> bool {
    (0..50).any(|seed| {
        let fs = SimFs::new(seed);
        let mut group = GroupCommit::open(&fs);
        acknowledged(&fs, &mut group);
        fs.crash();
        !fs.peek("/d/their.log").unwrap_or_default().ends_with(b"line\n")
    })
}

fn their_group_commit(scene: &mut Scene) {
    assert!(!is_lost(|_, group| {
        let end = group.write("line\n");
        group.wait(end).expect("and no sync fails");
    }));
    assert!(is_lost(|fs, group| {
        let (leader, follower) = (group.write("first\n"), group.write("line\n"));
        fs.inject(1, Fault::SyncFailure, Times::Forever);
        group.wait(leader).expect_err("the leader is told");
        group.wait(follower).expect("and the follower believes that it is durable");
    }));
    scene.broke("group commit: the followers of a failed sync are told that they are durable");
    assert!(is_lost(|fs, group| {
        group.write("line\n");
        fs.inject(1, Fault::SyncFailure, Times::Once);
        group.lead().expect_err("so it tries again");
        group.lead().expect("mended, it seems");
    }));
    scene.broke("PostgreSQL until 2018: a failed sync is tried again, and then succeeds");
}

/// Group commit: the leader's sync fails, and the others believe that they are durable. Ours: whoever relied
/// on that sync gets the error, and no later sync mends it (G8).
#[test]
fn race_54_a_sync_that_failed_is_forgotten() {
    let mut scene = Scene::new("race_54");
    their_group_commit(&mut scene);
    // A file system whose sync of names has failed once fails every later one: its log is aborted. So the
    // syncs that make the files only ever fail for good. Later, one that fails and then succeeds is worse.
    for (times, written) in [(Times::Forever, 0), (Times::Once, 1)] {
        let fails = |nth| (0..5).all(|luck| a_sync_fails(nth, times, written, luck));
        let failing = (1..1000).take_while(|nth| fails(*nth)).count();
        assert!(failing > 10, "only {failing} syncs");
        scene.tally.tried(5 * failing as u64, "syncs that failed, then a power loss");
    }
}

/// Two processes write durably in turn, and after so many writes the `nth` sync fails. What was acknowledged
/// outlives a power loss, and an error says what became of the change. Returns whether there were so many
/// syncs.
fn a_sync_fails(nth: u64, times: Times, written: u64, luck: u64) -> bool {
    let fs = SimFs::new(luck);
    fs.add_dir("/d");
    let _tell = fs.tell_on_panic();
    let writers = [fs.clone(), fs.another_process()].map(|process| {
        let document = Document::open_on(&process.shared(), Path::new("/d/state.json")).unwrap();
        (document, Journal::open_on(&process.shared(), Path::new("/d/log.jsonl")).unwrap())
    });
    let n = || {
        let found = writers[0].0.read().unwrap();
        found.map_or(0, |found| found.value["n"].as_u64().unwrap())
    };
    let has = |line: &str| {
        let mut entries = writers[0].1.read(1, None).unwrap();
        entries.any(|entry| entry.unwrap().line == line.as_bytes())
    };
    let write = WriteOptions { durability: Durability::Durable, ..at_once(None) };
    let options = AppendOptions { write: write.clone(), ..AppendOptions::default() };
    let (mut newest, mut lines, mut told) = (0, Vec::new(), 0);
    for (number, (document, journal)) in (1..7).zip(writers.iter().cycle()) {
        if number == written + 1 {
            fs.inject(nth, Fault::SyncFailure, times);
        }
        match document.set(&json!({ "n": number }), &write) {
            Ok(_) => newest = number,
            Err(error) => {
                assert_eq!(error.is_committed().unwrap_or(false), n() == number, "{error}");
                told += 1;
            }
        }
        let line = number.to_string();
        match journal.append(&[&line], &options) {
            Ok(_) => lines.push(line),
            Err(error) => {
                // It may be logged, and not visible yet.
                assert!(error.is_committed() == Some(true) || !has(&line), "{error}");
                told += 1;
            }
        }
    }
    let failed = fs.faults_fired() > 0;
    assert_eq!(told > 0, failed, "whoever relied on that sync is told, and nobody else");
    fs.clear_faults();
    fs.crash();
    assert!(n() >= newest, "{} is older than {newest}, which was acknowledged", n());
    for line in &lines {
        assert!(has(line), "{line} was acknowledged");
    }
    failed
}
