//! Race 54: a sync that fails, and all writers that relied on it.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure::disk;
use tenure::fs::{Access, Fs, Handle};
use tenure::options::Durability;
use tenure::{AppendOptions, Document, ErrorKind, Journal, WriteOptions};
use tenure_proof::puppet::{Child, FAR_TOO_LONG, Puppet};
use tenure_testkit::{Fault, SimFs, Times};

use crate::scene::{Scene, at_once, kind};
use crate::steps::{Step, stepping};

/// Theirs: a writer that finds its line below the mark assumes that it is on the disk.
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
        (_, self.written) = self.file.append(line.as_bytes()).unwrap();
        self.written
    }

    /// The leader syncs for all, and then the mark moves: these lines count as done.
    fn lead(&mut self) -> io::Result<()> {
        let done = self.file.sync();
        self.synced = self.written;
        done
    }

    fn wait(&mut self, end: u64) -> io::Result<()> {
        if self.synced < end { self.lead() } else { Ok(()) }
    }
}

/// Whether a line that their group commit has acknowledged is lost after a power loss. A failed
/// sync may still have written it, depending on the seed, so several seeds are tried.
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
        group.wait(leader).expect_err("the leader gets the error");
        group.wait(follower).expect("and the follower believes that it is durable");
    }));
    scene.broke("group commit: the followers of a failed sync report success");
    assert!(is_lost(|fs, group| {
        group.write("line\n");
        fs.inject(1, Fault::SyncFailure, Times::Once);
        group.lead().expect_err("so it tries again");
        group.lead().expect("fixed, it seems");
    }));
    scene.broke("PostgreSQL until 2018: a failed sync is tried again, and then succeeds");
}

/// Group commit: the leader's sync fails, and the others believe that they are durable. Ours: every
/// writer that relied on that sync gets the error, and no later sync hides it (G8).
///
/// The limit: a sync of names that fails once and then succeeds is relied on. ext4, xfs and btrfs
/// never do that, since their log is aborted for good (docs/PLATFORM.md, "What cannot be
/// promised").
#[test]
fn race_54_a_sync_that_failed_is_forgotten() {
    let mut scene = Scene::new("race_54");
    their_group_commit(&mut scene);
    followers(&mut scene);
    // The syncs during the creation of the files fail for good, or once; later ones fail once,
    // which is worse. Of those that fail once at the beginning, only those of content are judged:
    // the names are the limit above.
    for (times, written) in [(Times::Forever, 0), (Times::Once, 0), (Times::Once, 1)] {
        let with_luck = |nth| {
            let tried = (0..5).map(|luck| a_sync_fails(nth, times, written, luck));
            tried.collect::<Option<Vec<_>>>()
        };
        let judged = (1..1000).map_while(with_luck).flatten().filter(|judged| *judged).count();
        assert!(judged > 50, "only {judged} syncs");
        scene.tally.tried(judged as u64, "syncs that failed, then a power loss");
    }
}

/// A follower waits this long for its leader, and then syncs on its own.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many failed syncs with a follower there have to be, of each kind.
const FOLLOWED: usize = 3;
/// A busy machine may delay a leader for longer than a follower waits.
const TRIES: usize = 20;

/// Two durable writes at once: by the leader here, and by a follower in another process.
struct Pair<'a> {
    path: &'a Path,
    lead: fn(&Arc<dyn Fs>, &Path, usize) -> tenure::Result<()>,
    follow: fn(&Path, usize) -> Value,
}

fn durably() -> WriteOptions {
    WriteOptions { durability: Durability::Durable, ..at_once(None) }
}

fn followers(scene: &mut Scene) {
    let (log, state) = (scene.log(), scene.state());
    let journal = Pair {
        path: &log,
        lead: |fs, path, round| {
            let options = AppendOptions { write: durably(), ..AppendOptions::default() };
            let line = format!("leader {round}");
            Journal::open_on(fs, path)?.append(&[line], &options).map(drop)
        },
        follow: |path, round| {
            let lines = [format!("follower {round}")];
            json!({ "op": "append", "path": path, "lines": lines, "sync": true, "wait": "forever" })
        },
    };
    let document = Pair {
        path: &state,
        lead: |fs, path, round| {
            let value = json!({ "leader": round });
            Document::open_on(fs, path)?.set(&value, &durably()).map(drop)
        },
        follow: |path, round| {
            let value = json!({ "follower": round });
            json!({ "op": "set", "path": path, "value": value, "sync": true, "wait": "forever" })
        },
    };
    for (pair, what) in [(journal, "log"), (document, "directory")] {
        (pair.lead)(&disk(), pair.path, 0).unwrap();
        let mut follower = Child::rust();
        follower.does(&(pair.follow)(pair.path, 0));
        let rounds = (1..=TRIES).filter_map(|round| pair.told(&mut follower, round));
        let told: Vec<_> = rounds.take(FOLLOWED).collect();
        let both = (Some(ErrorKind::NotDurable), "not_durable".to_owned());
        assert_eq!(told, vec![both; FOLLOWED], "all that relied on the sync of the {what}");
        (pair.lead)(&disk(), pair.path, 0).expect("the next one relies on another sync");
        scene.tally.tried(told.len() as u64, "followers of a sync that failed");
    }
}

impl Pair<'_> {
    /// The leader is stopped when its note is visible, and continues when the follower waits for
    /// it; then its sync fails. Returns what both got, unless the follower's wait was over before.
    fn told(&self, follower: &mut Child, round: usize) -> Option<(Option<ErrorKind>, String)> {
        let (leads, leading) = channel();
        let (go, goes) = channel();
        let fs = fails_when_followed(leads, goes);
        std::thread::scope(|scope| {
            let leader = scope.spawn(move || kind((self.lead)(&fs, self.path, round)));
            leading.recv_timeout(FAR_TOO_LONG).expect("it leads");
            let since = Instant::now();
            follower.tell(&(self.follow)(self.path, round));
            while !self.is_followed_by(follower.pid()) && since.elapsed() < PATIENCE {
                std::thread::yield_now();
            }
            go.send(()).unwrap();
            let told = leader.join().unwrap();
            let in_time = since.elapsed() < PATIENCE;
            let answer = follower.hear();
            let code = answer["error"]["code"].as_str().unwrap_or("it is durable").to_owned();
            in_time.then_some((told, code))
        })
    }

    /// Whether that process waits for the leader: the kernel lists it as a waiter of one of the two
    /// locks.
    fn is_followed_by(&self, pid: u32) -> bool {
        let name = self.path.file_name().unwrap().to_str().unwrap();
        let locks = ["sync0", "sync1"].map(|suffix| {
            let lock = self.path.with_file_name(".tenure").join(format!("{name}.{suffix}"));
            std::fs::metadata(lock).map_or(0, |found| found.ino())
        });
        let queues = std::fs::read_to_string("/proc/locks").unwrap();
        queues.lines().any(|line| {
            // `1: -> FLOCK ADVISORY READ PID MAJOR:MINOR:INODE 0 EOF`
            let words: Vec<_> = line.split_whitespace().collect();
            let file = words.get(6).and_then(|file| file.rsplit(':').next()?.parse().ok());
            words[1..].starts_with(&["->", "FLOCK", "ADVISORY", "READ"])
                && words[5] == pid.to_string()
                && file.is_some_and(|inode| locks.contains(&inode))
        })
    }
}

/// The disk of a leader: stopped when it has noted that it leads; its sync after that fails once.
fn fails_when_followed(leads: Sender<()>, goes: Receiver<()>) -> Arc<dyn Fs> {
    let waits = Mutex::new(Some((leads, goes)));
    let fails = AtomicBool::new(false);
    stepping(&disk(), move |step, path| match step {
        Step::Written if path.extension().is_some_and(|suffix| suffix == "sync0") => {
            if let Some((leads, goes)) = waits.lock().unwrap().take() {
                leads.send(()).unwrap();
                goes.recv_timeout(FAR_TOO_LONG).expect("the test says when");
                fails.store(true, Ordering::SeqCst);
            }
            Ok(())
        }
        Step::Sync | Step::SyncNames if fails.swap(false, Ordering::SeqCst) => {
            Err(io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error()))
        }
        _ => Ok(()),
    })
}

/// Two processes write durably in turn, and after this many writes the `nth` sync fails. What was
/// acknowledged survives a power loss, and an error says what happened to the change. Returns
/// whether that was judged, and nothing if there were fewer syncs.
fn a_sync_fails(nth: u64, times: Times, written: u64, luck: u64) -> Option<bool> {
    let fs = SimFs::new(luck);
    fs.add_dir("/d");
    let _tell = fs.tell_on_panic();
    let syncs = Arc::new(Mutex::new(Vec::new()));
    let writers = [fs.clone(), fs.another_process()].map(|process| {
        let noted = syncs.clone();
        let disk = stepping(&process.shared(), move |step, _| {
            if step != Step::Written {
                noted.lock().unwrap().push(step);
            }
            Ok(())
        });
        let document = Document::open_on(&disk, Path::new("/d/state.json")).unwrap();
        (document, Journal::open_on(&disk, Path::new("/d/log.jsonl")).unwrap())
    });
    let n = || {
        let found = writers[0].0.read().unwrap();
        found.map_or(0, |found| found.value["n"].as_u64().unwrap())
    };
    let has = |line: &str| {
        let mut entries = writers[0].1.read(1, None).unwrap();
        entries.any(|entry| entry.unwrap().line == line.as_bytes())
    };
    let write = durably();
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
    fs.clear_faults();
    let first = usize::try_from(nth).unwrap() - 1;
    let of_names = syncs.lock().unwrap().get(first) == Some(&Step::SyncNames);
    if of_names && matches!((times, written), (Times::Once, 0)) {
        return failed.then_some(false); // The limit.
    }
    assert_eq!(told > 0, failed, "all that relied on that sync get an error, and no other");
    fs.crash();
    assert!(n() >= newest, "{} is older than {newest}, which was acknowledged", n());
    for line in &lines {
        assert!(has(line), "{line} was acknowledged");
    }
    failed.then_some(true)
}
