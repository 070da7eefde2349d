//! Races 26 to 32: what is on the disk in the middle of a write.

use std::cell::RefCell;
use std::fs::{self, File, FileTimes};
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tenure::fs::{Access, Fs, Handle, Stat};
use tenure::options::{CollectionKind, Prune};
use tenure::{Collection, Document, ErrorKind, WriteOptions};
use tenure_proof::Form;
use tenure_proof::live::Live;
use tenure_proof::puppet::{Child, Heard, Puppet};
use tenure_proof::victim::{Layer, lay};
use tenure_shipped::Document as _;
use tenure_shipped::documents::{Expiring, FixedTemporary, ResetWhenCorrupt, Session, State};
use tenure_shipped::state::{self, Content};
use tenure_testkit::SimFs;

use crate::scene::{Scene, add, at_once, count, holder, kill_a_writer, kind, paths_in};

/// CLI-Anything truncates and writes in place: readers see an empty or half a file, and a kill
/// leaves it. Ours: every reader, including a plain one, sees the old document or the new one (G5).
#[test]
fn race_26_a_truncated_file_is_seen_and_stays() {
    let mut scene = Scene::new("race_26");
    let directory = scene.theirs();
    let seen = Rc::new(RefCell::new(None));
    let mut writer = Session::open(&directory);
    let (look, at) = (seen.clone(), state::path(&directory));
    writer.truncated.is(move || {
        *look.borrow_mut() = Some(state::read(&at).is_ok());
        panic!("killed");
    });
    catch_unwind(AssertUnwindSafe(|| writer.add("a"))).expect_err("it died");
    assert_eq!(*seen.borrow(), Some(false), "the reader sees no document");
    state::read(&state::path(&directory)).expect_err("and there is none, for good");
    scene.broke("CLI-Anything: truncate, write in place");

    let path = scene.state();
    add(&path, &at_once(None)).unwrap();
    let mut writer = Child::rust();
    let times = Form::asked().pick(300, 5000);
    writer.tell(&json!({ "op": "add", "path": path, "times": times }));
    let mut reads = 0;
    loop {
        let plain: Value = serde_json::from_slice(&fs::read(&path).unwrap()).expect("whole");
        assert!(plain["n"].as_u64().is_some());
        reads += 1;
        if writer.hear_within(Duration::ZERO) != Heard::Silence {
            break;
        }
    }
    assert_eq!(count(&path), times + 1);
    for _ in 0..Form::asked().pick(10, 200) {
        kill_a_writer(&path);
        serde_json::from_slice::<Value>(&fs::read(&path).unwrap()).expect("whole");
        scene.tally.tried(1, "writers killed");
    }
    scene.tally.tried(reads, "plain reads during writes");
}

/// claude-code: a file that could not be parsed was reset to nothing; most were fine a moment
/// later. Ours: damage is an error, the bytes stay as they are, and the last good version can be
/// restored (G5).
#[test]
fn race_27_a_file_that_seems_corrupt_is_reset() {
    let mut scene = Scene::new("race_27");
    let directory = scene.theirs();
    let path = state::path(&directory);
    fs::write(&path, "").unwrap(); // A writer is in the middle of its work ...
    let mut reader = ResetWhenCorrupt::open(&directory);
    let at = path.clone();
    reader.meanwhile.is(move || fs::write(&at, "{\"checked\":[\"a\"]}").unwrap()); // ... and done.
    reader.load().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"{}", "good data is gone");
    scene.broke("claude-code: reset what cannot be parsed");

    let path = scene.state();
    add(&path, &WriteOptions::default()).unwrap();
    add(&path, &WriteOptions::default()).unwrap();
    let document = Document::open(&path).unwrap();
    for damage in ["", "{\"n\":", "\0\0\0", "{} {}"] {
        fs::write(&path, damage).unwrap();
        assert_eq!(kind(document.read()), Some(ErrorKind::Damaged), "{damage:?}");
        assert_eq!(kind(add(&path, &at_once(None))), Some(ErrorKind::Damaged), "{damage:?}");
        assert_eq!(fs::read(&path).unwrap(), damage.as_bytes(), "not touched");
        scene.tally.tried(1, "damaged documents");
    }
    document.restore(&at_once(None)).unwrap();
    assert_eq!(count(&path), 1, "the newest version that was not written over");
}

/// Windows refuses to rename over an open file, and the workaround (write in place, or unlink
/// first) is what corrupts. Here: a reader with the file open keeps its version, and the name is
/// never missing.
#[test]
fn race_28_a_reader_has_the_file_open() {
    let mut scene = Scene::new("race_28");
    let directory = scene.theirs();
    Content::Project.create(&directory).unwrap();
    let mut open = File::open(state::path(&directory)).unwrap();
    let mut seen = vec![0; 4096];
    open.read_exact(&mut seen).unwrap();
    Session::open(&directory).add("everything moves").unwrap(); // The workaround: in place.
    open.read_to_end(&mut seen).unwrap();
    serde_json::from_slice::<Value>(&seen).expect_err("the beginning of one, the end of another");
    scene.broke("CLI-Anything: a reader with the file open reads a mixture");

    let path = scene.state();
    add(&path, &at_once(None)).unwrap();
    let mut open = File::open(&path).unwrap();
    let mut writer = Child::rust();
    writer.tell(&json!({ "op": "add", "path": path, "times": 300 }));
    while writer.hear_within(Duration::ZERO) == Heard::Silence {
        fs::metadata(&path).expect("the name is always there");
        scene.tally.tried(1, "looks for the name");
    }
    let mut old = String::new();
    open.read_to_string(&mut old).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&old).unwrap()["n"], 1, "its version, whole");
    assert_eq!(count(&path), 301);
}

/// ECC: an expired state is removed by name, after another process has saved a fresh one. Ours:
/// pruning takes the lock of each key, and checks it under the lock.
#[test]
fn race_29_an_expired_file_is_removed_after_it_was_renewed() {
    let mut scene = Scene::new("race_29");
    let directory = scene.theirs();
    let mut reader = Expiring::open(&directory);
    let path = state::path(&directory);
    let fresh = path.clone();
    let an_hour = 3_600_000;
    reader.meanwhile.is(move || {
        fs::write(&fresh, json!({ "checked": ["fresh"], "last_active": an_hour }).to_string())
            .unwrap();
    });
    reader.load(an_hour).unwrap();
    assert!(!path.exists(), "the fresh state is gone");
    scene.broke("ECC: an expired file is removed by name");

    let collection = Collection::open(scene.ours("sessions"), CollectionKind::Documents).unwrap();
    fs::create_dir_all(collection.path()).unwrap();
    let long_ago = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1));
    for key in ["held", "idle"] {
        let document = collection.document(key).unwrap();
        document.set(&json!({ "n": 1 }), &at_once(None)).unwrap();
        File::options().write(true).open(document.path()).unwrap().set_times(long_ago).unwrap();
    }
    let held = collection.path_of("held").unwrap();
    let (mut alice, fence) = holder(&held);
    let prune = Prune { max_age: Some(Duration::from_secs(60)), ..Prune::default() };
    let pruned = collection.prune(&prune, &at_once(None)).unwrap();
    assert_eq!((pruned.removed, pruned.skipped), (vec!["idle".into()], vec!["held".into()]));
    alice.does(&json!({ "op": "add", "path": held, "fence": fence }));
    alice.does(&json!({ "op": "release" }));
    let pruned = collection.prune(&prune, &at_once(None)).unwrap();
    assert_eq!(pruned.removed, Vec::<String>::new(), "fresh by now");
    assert_eq!(count(&held), 2);
    scene.tally.tried(2, "prunes beside a writer");
    let steps = (1..1000).take_while(|nth| a_save_at_step(*nth, &prune)).count();
    assert!(steps > 5, "only {steps} steps");
    scene.tally.tried(steps as u64, "steps of a prune with a save at that moment");
}

/// Another process saves at the `nth` step of a prune: either the lock refuses it, or the saved
/// document stays. Returns whether there were that many steps.
fn a_save_at_step(nth: usize, prune: &Prune) -> bool {
    let fs = SimFs::new(1); // Where it is 2023: what is there has expired.
    fs.add_dir("/d");
    let _tell = fs.tell_on_panic();
    let path = Path::new("/d/s.json");
    Document::open_on(&fs.shared(), path).unwrap().set(&json!(1), &at_once(None)).unwrap();
    let saved = Arc::new(OnceLock::new());
    let (other, told, clock) = (fs.another_process().shared(), saved.clone(), fs.clone());
    let save = move || {
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        clock.advance_clock(began.elapsed().unwrap()); // It is fresh.
        let document = Document::open_on(&other, path).unwrap();
        told.set(kind(document.set(&json!(2), &at_once(None)))).unwrap();
    };
    let layer = AtStep { nth, steps: AtomicUsize::new(0), what: Box::new(save) };
    let watched = lay(Arc::new(layer), &fs.shared());
    let collection =
        Collection::open_on(&watched, Path::new("/d"), CollectionKind::Documents).unwrap();
    collection.prune(prune, &at_once(None)).unwrap();
    match saved.get() {
        Some(None) => assert_eq!(fs.peek(path).as_deref(), Some(&b"2\n"[..]), "it was saved"),
        other => assert_eq!((fs.peek(path), other), (None, other)),
    }
    saved.get().is_some()
}

/// Runs a function at the `nth` step on a file system.
struct AtStep {
    nth: usize,
    steps: AtomicUsize,
    what: Box<dyn Fn() + Send + Sync>,
}

impl AtStep {
    fn step(&self) {
        if self.steps.fetch_add(1, Ordering::SeqCst) + 1 == self.nth {
            (self.what)();
        }
    }
}

impl Layer for AtStep {
    fn open(&self, below: &dyn Fs, path: &Path, access: Access) -> io::Result<Arc<dyn Handle>> {
        self.step();
        below.open(path, access)
    }
    fn stat(&self, below: &dyn Fs, path: &Path) -> io::Result<Stat> {
        self.step();
        below.stat(path)
    }
    fn rename(&self, below: &dyn Fs, from: &Path, to: &Path) -> io::Result<()> {
        self.step();
        below.rename(from, to)
    }
    fn remove(&self, below: &dyn Fs, path: &Path) -> io::Result<()> {
        self.step();
        below.remove(path)
    }
}

/// One temporary name for all writers: what the first renames into place is what the second still
/// writes. And names that match the data's own pattern become phantom sessions. Ours: neither is
/// ever in the directory.
#[test]
fn race_30_temporary_files_collide() {
    let mut scene = Scene::new("race_30");
    let directory = scene.theirs();
    let mut alice = FixedTemporary::open(&directory);
    let at = directory.clone();
    let long = "bob ".repeat(20);
    alice.meanwhile.is(move || FixedTemporary::open(&at).add(&long).unwrap());
    alice.add("alice").expect_err("her file was renamed away");
    state::read(&state::path(&directory)).expect_err("and his document is a mixture of both");
    scene.broke("sbox: one temporary name for all writers");

    let path = scene.state();
    let mut writers = [Child::rust(), Child::rust(), Child::rust()];
    let order = json!({ "op": "add", "path": path, "times": 100, "wait": "forever" });
    for writer in &mut writers {
        writer.tell(&order);
    }
    let directory = path.parent().unwrap().to_path_buf();
    for writer in &mut writers {
        while writer.hear_within(Duration::from_millis(1)) == Heard::Silence {
            let names = paths_in(&directory);
            let strange = names.iter().find(|name| !name.ends_with(".tenure") && **name != path);
            assert_eq!(strange, None, "something else among the data");
            scene.tally.tried(1, "looks at the directory");
        }
    }
    assert_eq!(count(&path), 300);
}

/// 8,662 temporary files of killed writers, 51 GB. Ours: the next write removes the leftovers of
/// dead writers.
#[test]
fn race_31_temporary_files_of_the_dead_pile_up() {
    let mut scene = Scene::new("race_31");
    let directory = scene.theirs();
    for seed in 0..5 {
        let mut writer = State::open(&directory, seed);
        writer.meanwhile.is(|| panic!("killed"));
        catch_unwind(AssertUnwindSafe(|| writer.add("a"))).expect_err("it died");
    }
    State::open(&directory, 9).add("b").unwrap();
    assert_eq!(paths_in(&directory).len(), 6, "a temporary file for each who died");
    scene.broke("ECC: temporary files of killed writers stay");

    let path = scene.state();
    for _ in 0..Form::asked().pick(20, 300) {
        kill_a_writer(&path);
        scene.tally.tried(1, "writers killed");
    }
    add(&path, &at_once(None)).unwrap();
    let quiet = scene.ours("quiet.json");
    add(&quiet, &at_once(None)).unwrap();
    add(&quiet, &at_once(None)).unwrap();
    let kinds = |name: &str| {
        let all = paths_in(&path.parent().unwrap().join(".tenure"));
        let names = all.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        names.filter_map(|file| file.strip_prefix(name).map(str::to_owned)).collect::<Vec<_>>()
    };
    let (killed, never) = (kinds("state.json."), kinds("quiet.json."));
    let more: Vec<_> = killed.iter().filter(|kind| !never.contains(kind)).collect();
    assert!(more.is_empty(), "left behind: {more:?}");
}

/// `existsSync`, then `readFileSync`: in between the file is removed, and the tool crashes. Ours:
/// one call, and no document is a valid answer.
#[test]
fn race_32_a_file_that_was_there_a_moment_ago() {
    let mut scene = Scene::new("race_32");
    let directory = scene.theirs();
    let mut reader = Command::new("sh");
    reader.args(["-c", "[ -e \"$0\" ] && echo there && read -r go && exec cat \"$0\""]);
    reader.arg(state::path(&directory));
    let mut reader = Live::start(reader);
    assert_eq!(reader.line().as_deref(), Some("there"));
    Expiring::open(&directory).load(3_600_000).unwrap(); // Another process expires it.
    reader.say("go");
    let crashed = reader.end();
    assert!(!crashed.is_done() && crashed.stderr.contains("No such file"), "{crashed:?}");
    scene.broke("exists, then read");

    let path = scene.state();
    let document = Document::open(&path).unwrap();
    std::thread::scope(|scope| {
        let churn = scope.spawn(|| {
            for _ in 0..500 {
                fs::write(&path, "{\"n\":1}").unwrap();
                fs::remove_file(&path).unwrap();
            }
        });
        while !churn.is_finished() {
            match document.read() {
                Ok(Some(found)) => assert_eq!(found.value["n"], 1),
                Ok(None) => {}
                // The plain writer took longer than a reader waits.
                Err(error) => assert_eq!(error.kind(), ErrorKind::Damaged, "{error}"),
            }
            scene.tally.tried(1, "reads of a file that comes and goes");
        }
    });
    assert!(document.read().unwrap().is_none());
}
