//! Races 33 to 37: what a document is, and how a change is detected.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use tenure::disk;
use tenure::fs::{Access, Fs, Mode};
use tenure::options::{CollectionKind, Durability};
use tenure::{AppendOptions, Collection, Document, Journal, WriteOptions};
use tenure_proof::puppet::{Child, CommandLine, FAR_TOO_LONG, Puppet};
use tenure_shipped::Document as _;
use tenure_shipped::documents::{Fingerprint, RoundTrip, SaveWithoutLock};
use tenure_shipped::state::{self, Content};
use tenure_testkit::SimFs;

use crate::scene::{Scene, add, at_once, below_shell, count, holder, on, paths_in, told};
use crate::steps::{Step, stepping};

/// One index of all sessions: 56 MB are written for one changed key, and all writers wait for each
/// other. Ours: a file and a lock per key.
#[test]
fn race_33_one_big_index_for_everybody() {
    let mut scene = Scene::new("race_33");
    let directory = scene.theirs();
    Content::Project.create(&directory).unwrap();
    let index = state::path(&directory);
    let before = fs::metadata(&index).unwrap();
    SaveWithoutLock::open(&directory).add("s1").unwrap();
    let after = fs::metadata(&index).unwrap();
    assert!(after.ino() != before.ino() && after.len() > 10_000, "all of it was written again");
    scene.broke("OpenClaw: one key more, and the whole index is written");

    let collection = Collection::open(scene.ours("sessions"), CollectionKind::Documents).unwrap();
    fs::create_dir_all(collection.path()).unwrap();
    for number in 0..50 {
        let document = collection.document(&format!("s{number}")).unwrap();
        document.set(&json!({ "n": number }), &at_once(None)).unwrap();
    }
    let times = |key: &str| fs::metadata(collection.path_of(key).unwrap()).unwrap().modified();
    let before = times("s1").unwrap();
    let (_alice, _) = holder(&collection.path_of("s0").unwrap());
    for number in 2..50 {
        add(&collection.path_of(&format!("s{number}")).unwrap(), &at_once(None)).unwrap();
        scene.tally.tried(1, "keys changed beside a held one");
    }
    assert_eq!(times("s1").unwrap(), before, "a change of one is not a change of others");
    assert_eq!(collection.keys().unwrap().len(), 50);
}

/// fsync under the lock: holds of 15 to 66 seconds, during which all others wait. Ours: each call
/// asks for a sync or not; without it nothing waits for the disk, and a lock costs no sync of its
/// own.
#[test]
fn race_34_every_write_waits_for_the_disk() {
    let mut scene = Scene::new("race_34");
    let fs = SimFs::new(1);
    fs.add_dir("/d");
    let other = fs.another_process();
    let may_enter = || {
        let lock = other.open(Path::new("/d/their.lock"), Access::ReadWrite).unwrap();
        lock.try_lock(Mode::Exclusive).unwrap()
    };
    fs.add_file("/d/their.lock", "");
    assert!(may_enter());
    let save = || {
        save_under_the_lock(&fs, || assert!(!may_enter(), "the disk is slow, and all wait"));
        Ok(())
    };
    assert_eq!(syncs(&fs, save), 2, "there is no save without");
    scene.broke("OpenClaw: every save syncs, and holds the lock meanwhile");

    let document = Document::open_on(&fs.shared(), Path::new("/d/state.json")).unwrap();
    let lock = tenure::Lock::open_on(&fs.shared(), Path::new("/d/state.json")).unwrap();
    let durable = WriteOptions { durability: Durability::Durable, ..at_once(None) };
    document.set(&json!({ "n": 0 }), &durable).unwrap();
    document.set(&json!({ "n": 1 }), &at_once(None)).unwrap();
    lock.acquire(&tenure::LockOptions::default()).unwrap().release().unwrap();
    for number in 2..100 {
        let set = || document.set(&json!({ "n": number }), &at_once(None)).map(drop);
        assert_eq!(syncs(&fs, set), 0);
        let hold = || lock.acquire(&tenure::LockOptions::default())?.release();
        assert_eq!(syncs(&fs, hold), 0);
        scene.tally.tried(2, "writes and locks without a sync");
    }
    let set = || document.set(&json!({ "n": 100 }), &durable).map(drop);
    assert!(syncs(&fs, set) > 0, "the counter counts");
    others_meanwhile(&mut scene);
}

/// What another process may do during a sync.
#[derive(Debug, PartialEq, Eq)]
struct Meanwhile {
    step: Step,
    path: PathBuf,
    enters: bool,
    reads: bool,
}

/// Ours, when a sync was requested: the last one, which is shared, comes after the hold, and so
/// does that of a journal's log. Other processes get the lock at once meanwhile. Before that, a new
/// version is written to the disk under the lock, where a file system needs that; readers never
/// wait.
fn others_meanwhile(scene: &mut Scene) {
    let durable = WriteOptions { durability: Durability::Durable, ..at_once(None) };
    let (path, log) = (scene.state(), scene.log());
    let append = AppendOptions { write: durable.clone(), ..AppendOptions::default() };
    Document::open(&path).unwrap().set(&json!({ "n": 0 }), &durable).unwrap();
    Journal::open(&log).unwrap().append(&["0"], &append).unwrap();

    let read = on("read", &path);
    let change = |fs: &Arc<dyn Fs>| {
        Document::open_on(fs, &path)?.set(&json!({ "n": 1 }), &durable).map(drop)
    };
    let seen = at_each_sync(&path, &read, change);
    assert!(seen.iter().all(|at| at.reads), "{seen:?}");
    let last = seen.last().expect("there is a sync");
    assert_eq!((last.step, Some(last.path.as_path())), (Step::SyncNames, path.parent()));
    assert!(last.enters, "the disk is slow, and no process waits: {seen:?}");

    let read = on("entries", &log);
    let change = |fs: &Arc<dyn Fs>| Journal::open_on(fs, &log)?.append(&["1"], &append).map(drop);
    let seen = at_each_sync(&log, &read, change);
    let of_log = |at: &Meanwhile| at.path.extension().is_some_and(|suffix| suffix == "log");
    assert!(seen.iter().any(of_log), "{seen:?}");
    assert!(seen.iter().all(|at| at.reads && at.enters), "{seen:?}");
    scene.tally.tried(seen.len() as u64 + 1, "syncs after the hold");
}

/// Stops `change` before each of its syncs, and has another process lock and read.
fn at_each_sync(
    path: &Path,
    read: &Value,
    change: impl FnOnce(&Arc<dyn Fs>) -> tenure::Result<()> + Send,
) -> Vec<Meanwhile> {
    let mut other = Child::rust();
    let (stops, stopped) = channel();
    let (go, goes) = channel();
    let (ends, goes) = (stops.clone(), Mutex::new(goes));
    let fs = stepping(&disk(), move |step, path| {
        if step != Step::Written {
            stops.send(Some((step, path.to_path_buf()))).unwrap();
            goes.lock().unwrap().recv_timeout(FAR_TOO_LONG).expect("the test says when");
        }
        Ok(())
    });
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let done = change(&fs);
            ends.send(None).unwrap();
            done.unwrap();
        });
        let mut seen = Vec::new();
        while let Some((step, at)) = stopped.recv_timeout(FAR_TOO_LONG).unwrap() {
            let enters = other.say(&on("lock", path))["ok"].is_object();
            if enters {
                other.does(&json!({ "op": "release" }));
            }
            let reads = other.say(read)["ok"].is_object();
            seen.push(Meanwhile { step, path: at, enters, reads });
            go.send(()).unwrap();
        }
        seen
    })
}

/// Theirs: lock, write a temporary file, sync, rename, sync the directory, unlock.
fn save_under_the_lock(fs: &SimFs, while_it_syncs: impl Fn()) {
    let (temporary, target) = (Path::new("/d/their.tmp"), Path::new("/d/their.json"));
    let lock = fs.open(Path::new("/d/their.lock"), Access::ReadWrite).unwrap();
    assert!(lock.try_lock(Mode::Exclusive).unwrap());
    let file = fs.open(temporary, Access::CreateNew(0o600)).unwrap();
    file.write_all_at(b"{}", 0).unwrap();
    while_it_syncs();
    file.sync().unwrap();
    fs.rename(temporary, target).unwrap();
    while_it_syncs();
    fs.sync_dir(Path::new("/d")).unwrap();
    lock.unlock().unwrap();
}

/// How often `work` waits for the disk.
fn syncs(fs: &SimFs, work: impl FnOnce() -> tenure::Result<()>) -> usize {
    let before = fs.operations();
    work().unwrap();
    let done = usize::try_from(fs.operations() - before).unwrap();
    let history = fs.history();
    let steps: Vec<_> =
        history.lines().rev().filter(|step| step.contains('#')).take(done).collect();
    assert_eq!(steps.len(), done, "the history is too short");
    steps.iter().filter(|step| step.to_lowercase().contains("sync")).count()
}

/// A take-over check by inode, size and time: false alarms after a touch or the process's own save,
/// and no alarm after a change of the same size. Ours: the version depends on the content.
#[test]
fn race_35_a_fingerprint_cries_wolf() {
    let mut scene = Scene::new("race_35");
    let directory = scene.theirs();
    let path = state::path(&directory);
    let seen = Fingerprint::take(&directory).unwrap();
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    let touch = |path: &Path, time| {
        let file = File::options().write(true).open(path).unwrap();
        file.set_times(FileTimes::new().set_modified(time)).unwrap();
    };
    touch(&path, std::time::SystemTime::UNIX_EPOCH);
    assert!(seen.has_changed().unwrap(), "a false alarm");
    let content = fs::read_to_string(&path).unwrap();
    fs::write(&path, content.replace("last_active", "first_activ")).unwrap();
    touch(&path, time);
    assert!(!seen.has_changed().unwrap(), "a change that is not seen");
    scene.broke("OpenClaw: a fingerprint of inode, size and time");

    let path = scene.state();
    add(&path, &at_once(None)).unwrap();
    let document = Document::open(&path).unwrap();
    let version = document.read().unwrap().map(|found| found.version);
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    touch(&path, std::time::SystemTime::UNIX_EPOCH);
    assert_eq!(
        document.read().unwrap().map(|found| found.version),
        version,
        "a touch is no change"
    );
    let content = fs::read_to_string(&path).unwrap();
    fs::write(path.with_extension("copy"), &content).unwrap();
    fs::rename(path.with_extension("copy"), &path).unwrap();
    assert_eq!(
        document.read().unwrap().map(|found| found.version),
        version,
        "the same content is no change"
    );
    fs::write(&path, content.replace('1', "2")).unwrap();
    touch(&path, time);
    assert_ne!(
        document.read().unwrap().map(|found| found.version),
        version,
        "another content is one"
    );
    scene.tally.tried(3, "changes and non-changes of a file");
}

/// State that is keyed by the parent's process number: every call of a hook has another parent, so
/// the state is never found again. Ours: the caller gives a key, which is the same in every process
/// and language.
#[test]
fn race_36_a_state_that_is_never_found_again() {
    let mut scene = Scene::new("race_36");
    let states = scene.theirs().join("states");
    fs::create_dir(&states).unwrap();
    // The last command keeps the shell running: the hook's parent is the shell of this one call.
    let hook = "sh -c 'echo denied >> \"$0/$PPID\"' \"$1\"; exit $?";
    for _ in 0..3 {
        assert!(below_shell(hook, &[&states]).status.success());
    }
    assert_eq!(paths_in(&states).len(), 3, "three calls, three states, and each is the first");
    scene.broke("ECC: state keyed by the parent process");

    let sessions = scene.ours("sessions");
    fs::create_dir_all(&sessions).unwrap();
    let path =
        Collection::open(&sessions, CollectionKind::Documents).unwrap().path_of("turn-7").unwrap();
    Child::rust().does(&on("add", &path));
    CommandLine::start().does(&on("add", &path));
    let output = below_shell("exec \"$0\" collection list \"$1\"", &[&sessions]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("turn-7"), "{}", told(&output));
    assert_eq!(count(&path), 2);
    scene.tally.tried(2, "processes with one key");
}

/// A round trip through JSON that sorts keys, rounds numbers or escapes letters: every save of one
/// tool is a difference for the other. Ours: what a change does not touch keeps every byte.
#[test]
fn race_37_a_round_trip_damages_what_it_does_not_know() {
    let mut scene = Scene::new("race_37");
    let text = "{\n  \"z\": 12345678901234567890.10,\n  \"a\": \"\\u00e9 \u{e9}\",\n  \
                \"big\": 9007199254740993,\n  \"n\": 1,\n  \"unknown\": {\"y\": [], \"x\": null}\n}\n";
    let expected = |n: u32| text.replace("\"n\": 1", &format!("\"n\": {n}"));
    let directory = scene.theirs();
    let path = state::path(&directory);
    fs::write(&path, text).unwrap();
    let one_more = |fields: &mut Map<String, Value>| fields["n"] = json!(2);
    RoundTrip::open(&directory).update(one_more).unwrap();
    let left = fs::read_to_string(&path).unwrap();
    assert!(left.contains("\"n\": 2") && left.find("\"a\"") < left.find("\"z\""), "{left}");
    scene.broke("CLI-Anything: a save sorts the keys of others");
    assert!(left.contains("12345678901234567000") && left.contains("9007199254740992"), "{left}");
    scene.broke("JavaScript: a save rounds the numbers of others");
    assert!(left.contains("\\u00e9 \\u00e9"), "{left}");
    scene.broke("Python: a save escapes the letters of others");

    let path = scene.state();
    fs::write(&path, text).unwrap();
    Child::rust().does(&on("add", &path));
    assert_eq!(fs::read_to_string(&path).unwrap(), expected(2));
    CommandLine::start().does(&on("add", &path));
    assert_eq!(fs::read_to_string(&path).unwrap(), expected(3), "to the byte");
    scene.tally.tried(2, "changes of one field");
}
