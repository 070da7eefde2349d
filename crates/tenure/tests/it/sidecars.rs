//! Arbitrary files in place of a sidecar: an error or a recovery, never a hang, a panic, a second
//! lock or a write through a link.

use std::fs::Permissions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tenure::{Document, ErrorKind, Lease, Wait, WriteOptions, json};

use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::scratch::{LONG, Scratch, count, kind, lock_for, terms, write};

/// The sidecars that a lock, a document or a lease opens.
const SUFFIXES: [&str; 6] = ["hold", "commit", "sync0", "sync1", "good", "events"];

/// A description, and how to create the thing at a path.
type Intruder = (&'static str, fn(&Path));

/// What is there instead of the sidecar.
const INTRUDERS: [Intruder; 8] = [
    ("nothing", |path| std::fs::write(path, "").unwrap()),
    ("a text", |path| std::fs::write(path, "pid 4711").unwrap()),
    ("random bytes", |path| {
        let mut dice = 88_172_645_463_325_252_u64;
        let noise = std::iter::repeat_with(|| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice.to_le_bytes()[3]
        });
        std::fs::write(path, noise.take(20_000).collect::<Vec<_>>()).unwrap();
    }),
    ("ones", |path| std::fs::write(path, vec![0xff; 20_000]).unwrap()),
    ("a huge hole", |path| {
        std::fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
    }),
    ("a FIFO", |path| {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }),
    ("a directory", |path| std::fs::create_dir(path).unwrap()),
    ("a symlink", |path| {
        let precious = path.parent().unwrap().parent().unwrap().join("precious");
        std::fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(precious, path).unwrap();
    }),
];

/// Everything that uses sidecars, once; the results.
fn use_everything(path: &Path) -> Vec<Option<ErrorKind>> {
    let leases = Lease::open(path).unwrap();
    let durable =
        WriteOptions { wait: Wait::For(Duration::from_secs(1)), ..WriteOptions::default() };
    vec![
        kind(lock_for(path, Wait::No)),
        kind(crate::scratch::add_one(path, &durable)),
        kind(write(path, None)),
        kind(leases.acquire(&terms("me", Duration::from_micros(1), Wait::No))),
        kind(leases.take_over(&terms("me", Duration::from_micros(1), Wait::No), "x")),
        kind(leases.show()),
        kind(Document::open(path).unwrap().read()),
    ]
}

/// A malformed lock file was stolen at once (codegraph), blocked for 30 minutes (OpenClaw) or for
/// ever (ECC). We ignore the content of a lock file. Anything that is not a regular file is an
/// error, and is not followed, kept open or replaced.
#[test]
fn race_11_g10_g13_garbage_in_place_of_a_sidecar_is_harmless_or_an_error() {
    for (what, intrude) in INTRUDERS {
        for suffix in SUFFIXES {
            let scratch = Scratch::new();
            let path = scratch.target();
            std::fs::write(&path, "{\"n\":5}").unwrap();
            lock_for(&path, Wait::No).unwrap().release().unwrap();
            let _ = std::fs::remove_file(scratch.sidecar(suffix));
            intrude(&scratch.sidecar(suffix));
            let started = Instant::now();
            let results = use_everything(&path);
            assert!(started.elapsed() < Duration::from_secs(8), "{what} as {suffix} hangs");
            let harmless = [None; 7];
            let is_file = std::fs::metadata(scratch.sidecar(suffix)).is_ok_and(|it| it.is_file());
            if is_file && what != "a symlink" {
                assert_eq!(results, harmless, "{what} as {suffix}");
            }
            if !is_file && ["hold", "commit"].contains(&suffix) {
                let refused = results[..5].iter().all(Option::is_some);
                assert!(refused, "{what} as {suffix} was used: {results:?}");
            }
            let allowed = |kind: &Option<ErrorKind>| {
                matches!(
                    kind,
                    None | Some(ErrorKind::Invalid | ErrorKind::Io | ErrorKind::NotDurable)
                )
            };
            assert!(results.iter().all(allowed), "{what} as {suffix}: {results:?}");
            assert!((5..=7).contains(&count_plainly(&path)), "{what} as {suffix}");
            if what == "a symlink" {
                let precious = std::fs::read(scratch.path("precious")).unwrap();
                assert_eq!(precious, b"precious", "written through the link {suffix}");
            }
        }
    }
}

fn count_plainly(path: &Path) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    let value: tenure::Value = serde_json::from_slice(&bytes).unwrap();
    value["n"].as_u64().unwrap()
}

/// A link to another user's directory, a file, or a FIFO in place of `.tenure` itself: nothing is
/// created anywhere, and the document is still readable.
#[test]
fn race_11_g13_something_else_in_place_of_our_directory_is_refused() {
    let elsewhere = Scratch::new();
    let link = |path: &Path| std::os::unix::fs::symlink(elsewhere.path("."), path).unwrap();
    let file: fn(&Path) = |path| std::fs::write(path, "").unwrap();
    let intruders: [&dyn Fn(&Path); 3] = [&link, &file, &INTRUDERS[5].1];
    for intrude in intruders {
        let scratch = Scratch::new();
        std::fs::write(scratch.target(), "{\"n\":5}").unwrap();
        intrude(&scratch.path(".tenure"));
        let refused = use_everything(&scratch.target());
        let changes = &refused[..5];
        assert_eq!(changes, [Some(ErrorKind::Invalid); 5]);
        assert_eq!(count_plainly(&scratch.target()), 5);
        assert_eq!(elsewhere.names("."), [""; 0], "created through the link");
    }
}

/// codegraph read an empty lock file as "pid 0, dead" and stole it from its living owner. Whatever
/// is written into ours during a hold, the kernel's lock decides.
#[test]
fn race_03_g1_nothing_written_into_a_lock_file_ends_a_hold() {
    let scratch = Scratch::new();
    let guard = lock_for(&scratch.target(), Wait::No).unwrap();
    for content in [&b""[..], b"0", &[0xff; 9000]] {
        std::fs::write(scratch.sidecar("hold"), content).unwrap();
        std::fs::write(scratch.sidecar("commit"), content).unwrap();
        let path: PathBuf = scratch.target();
        let other = std::thread::spawn(move || kind(lock_for(&path, Wait::No)));
        assert_eq!(other.join().unwrap(), Some(ErrorKind::Busy));
        guard.verify().unwrap();
    }
    guard.release().unwrap();
    lock_for(&scratch.target(), Wait::No).unwrap().release().unwrap();
}

/// A newer tenure wrote the record. An older one must neither use nor rewrite it.
#[test]
fn a_record_of_a_newer_version_is_refused_and_left_alone() {
    let scratch = Scratch::new();
    let path = scratch.target();
    std::fs::write(&path, "{\"n\":5}").unwrap();
    drop(lock_for(&path, Wait::No).unwrap());
    let mut record = std::fs::read(scratch.sidecar("commit")).unwrap();
    for slot in [4096, 8192] {
        record[slot..slot + 6].copy_from_slice(b"tenure");
        record[slot + 6..slot + 8].copy_from_slice(&3_u16.to_le_bytes());
        let sum = xxhash_rust::xxh3::xxh3_64(&record[slot..slot + 1016]);
        record[slot + 1016..slot + 1024].copy_from_slice(&sum.to_le_bytes());
    }
    std::fs::write(scratch.sidecar("commit"), &record).unwrap();
    let results = use_everything(&path);
    assert_eq!(results[..6], [Some(ErrorKind::NewerFormat); 6]);
    assert_eq!(std::fs::read(scratch.sidecar("commit")).unwrap(), record);
    assert_eq!(count_plainly(&path), 5);
}

/// Reading creates nothing: not where `.tenure/` is missing, and not where its record is garbage.
#[test]
fn reading_leaves_no_trace() {
    let scratch = Scratch::new();
    let path = scratch.target();
    std::fs::write(&path, "{\"n\":5}").unwrap();
    let look = || {
        assert_eq!(count(&path), 5);
        Lease::open(&path).unwrap().show().unwrap();
    };
    look();
    assert_eq!(scratch.names("."), ["state.json"]);
    drop(lock_for(&path, Wait::No).unwrap());
    std::fs::write(scratch.sidecar("commit"), [0xff; 9000]).unwrap();
    let before = scratch.names(".tenure");
    look();
    assert_eq!(scratch.names(".tenure"), before);
    let document = Document::open(&path).unwrap();
    document.set(&json!({ "n": 6 }), &WriteOptions::default()).unwrap();
    let events = Lease::open(&path).unwrap().events().unwrap();
    assert!(events.iter().any(|event| event["event"] == "record_unreadable"), "{events:?}");
    assert!(Lease::open(&path).unwrap().acquire(&terms("me", LONG, Wait::No)).is_ok());
}

/// The process that recorded an event may have died in the middle of it.
#[test]
fn an_event_behind_a_torn_line_has_a_line_of_its_own() {
    let scratch = Scratch::new();
    let lease = Lease::open(scratch.target()).unwrap();
    for reason in ["first", "second", "third"] {
        lease.take_over(&terms("me", LONG, Wait::No), reason).unwrap();
        let path = scratch.sidecar("events");
        let whole = std::fs::read(&path).unwrap();
        if reason == "second" {
            std::fs::write(&path, &whole[..whole.len() - 5]).unwrap();
        }
    }
    let reasons: Vec<_> =
        lease.events().unwrap().iter().map(|event| event["detail"]["reason"].clone()).collect();
    assert_eq!(reasons, ["first", "third"]);
}

/// A new target is not one whose record was lost: nothing is reported.
#[test]
fn a_new_target_reports_nothing() {
    let scratch = Scratch::new();
    let path = scratch.target();
    for _ in 0..3 {
        drop(lock_for(&path, Wait::No).unwrap());
        write(&path, None).unwrap();
    }
    assert_eq!(Lease::open(&path).unwrap().events().unwrap(), Vec::<tenure::Value>::new());
}

/// A sidecar has its mode before it has its name: a process that dies while making one locks no
/// user out, and leaves nothing.
#[test]
fn g13_who_dies_while_making_a_sidecar_locks_nobody_out() {
    for nth in 1..40 {
        let scratch = Scratch::new();
        std::fs::set_permissions(scratch.path("."), Permissions::from_mode(0o770)).unwrap();
        let steps = AtomicU64::new(0);
        let dying = FaultyFs::new(move |op, path| {
            let in_side = path.to_string_lossy().contains(".tenure/");
            let step = u64::from(op.changes() && in_side);
            if steps.fetch_add(step, Ordering::Relaxed) + step >= nth && op.changes() {
                return Verdict::Fail(std::io::ErrorKind::PermissionDenied.into());
            }
            Verdict::Go
        });
        let document = Document::open_on(&dying.shared(), &scratch.target()).unwrap();
        let died = document.set(&json!({ "n": 1 }), &WriteOptions::default());
        for name in ["hold", "commit"] {
            let found = std::fs::metadata(scratch.sidecar(name));
            let found = found.map(|found| found.permissions().mode() & 0o777);
            let open = found.as_ref().map_or(true, |found| *found == 0o660);
            assert!(open, "step {nth}: {name} has mode {found:?}");
        }
        drop(document);
        let next = Document::open(scratch.target()).unwrap();
        next.set(&json!({ "n": 2 }), &WriteOptions::default()).unwrap();
        let names = scratch.names(".tenure");
        assert!(names.iter().all(|name| !name.contains(".tmp.")), "step {nth}: {names:?}");
        if died.is_ok() {
            return;
        }
    }
    panic!("it never came to its end");
}

fn wait_for(now: &AtomicU64, step: u64) {
    let until = Instant::now() + Duration::from_secs(5);
    while now.load(Ordering::SeqCst) < step && Instant::now() < until {
        std::thread::yield_now();
    }
}

/// Two threads find the directory missing, and both create it.
#[test]
fn a_directory_that_was_removed_is_made_anew_by_everybody() {
    let scratch = Scratch::new();
    let reached = Arc::new(AtomicU64::new(0));
    let now = reached.clone();
    let fs = FaultyFs::new(move |op, path| {
        let is_second = std::thread::current().name() == Some("second");
        let side = path.ends_with(".tenure");
        if is_second && matches!(op, Op::Open(_)) && path.ends_with("state.json.hold") {
            // It has found the directory, which is removed now; the first is about to create it
            // again.
            if now.compare_exchange(1, 2, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                wait_for(&now, 3);
            }
        } else if !is_second
            && op == Op::CreateDir
            && side
            && now.compare_exchange(2, 3, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        {
            wait_for(&now, 4);
        }
        Verdict::Go
    });
    let document = Document::open_on(&fs.shared(), &scratch.target()).unwrap();
    let options =
        WriteOptions { wait: Wait::For(Duration::from_secs(5)), ..WriteOptions::default() };
    document.set(&json!({ "n": 1 }), &options).unwrap();
    std::fs::remove_dir_all(scratch.path(".tenure")).unwrap();
    reached.store(1, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let second = std::thread::Builder::new().name("second".into()).spawn_scoped(scope, || {
            let done = document.set(&json!({ "n": 2 }), &options);
            reached.store(4, Ordering::SeqCst);
            done
        });
        wait_for(&reached, 2);
        document.set(&json!({ "n": 3 }), &options).unwrap();
        second.unwrap().join().unwrap().unwrap();
    });
}

/// A name that is too long to be looked up does not affect its neighbours.
#[test]
fn one_name_that_cannot_be_looked_at_hides_no_target() {
    let scratch = Scratch::new();
    let root = scratch.target().parent().unwrap().to_path_buf();
    let mut dir = root.clone();
    while dir.as_os_str().len() < 3800 {
        dir = dir.join("d".repeat(100));
    }
    std::fs::create_dir_all(&dir).unwrap();
    let target = dir.join("a.json");
    Document::open(&target).unwrap().set(&json!(1), &WriteOptions::default()).unwrap();
    let open = std::fs::File::open(&dir).unwrap();
    for n in 0..20 {
        let name = format!("/proc/self/fd/{}/{n}{}", open.as_raw_fd(), "x".repeat(240));
        std::fs::write(name, "").unwrap();
    }
    let survey = tenure::status::below(&root).unwrap();
    let seen: Vec<_> = survey.targets.iter().map(|found| found.path.clone()).collect();
    assert_eq!(seen, std::slice::from_ref(&target));
    let unseen: Vec<_> = survey.unseen.iter().map(|unseen| unseen.path.clone()).collect();
    assert_eq!(unseen, [dir], "reported once");
}
