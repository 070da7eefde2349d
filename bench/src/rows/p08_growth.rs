//! P8: what grows with keys, documents, journals and waiters, and what must not.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with, statfs, statvfs};
use tenure::options::{CollectionKind, Durability};
use tenure::{Collection, Document, Journal, Wait, WriteOptions, json};

use super::p03_shared_document::tenure_changes;
use super::p05_append::{LOG, fill, tenure_appends};
use super::p06_hand_off::{bare_lock, hands_off, lock_file, tenure_lock};
use crate::document::{check, counted as changed, one_more, text};
use crate::round::Round;
use crate::row::{
    Contender, Form, Goal, Ground, Length, Measure, NotHere, Part, Race, Result, Row, Seat, titled,
};

pub(crate) const ROW: Row = Row { name: "P8", title: "growth", races };

fn races(form: Form) -> Vec<Race> {
    vec![
        keys(form),
        documents(form),
        journals(form, "append to a journal", "append", |seat| {
            tenure_appends(seat, Durability::NoSync)
        }),
        journals(
            form,
            "open a journal and read 10 entries from the middle",
            "open and read",
            |seat| {
                let (path, middle) = (seat.path(LOG), seat.ground.size / 300 / 2);
                Ok(Part::timed(move || {
                    let entries = Journal::open(&path)?.read(middle, Some(10))?;
                    let lines = entries.collect::<tenure::Result<Vec<_>>>()?;
                    if lines.len() == 10 { Ok(()) } else { Err("not ten entries".into()) }
                }))
            },
        ),
        waiters(form, "waiting processes", Contender::processes),
        waiters(form, "waiting threads of one process", Contender::threads),
    ]
}

/// A size, and how people say it.
type Size = (u64, &'static str);

/// A race whose contenders are one job at several sizes.
fn race(form: Form, name: &'static str, contenders: Vec<Contender>, goals: Vec<Goal>) -> Race {
    let length = Length::Time(Duration::from_millis(form.pick(80, 300)));
    Race { name, measure: Measure::Median, length, rounds: form.pick(5, 9), contenders, goals }
}

/// Every size costs at most 1.2 times what the smallest costs.
fn flat(job: &str, sizes: &[Size]) -> Vec<Goal> {
    let name = |words: &str| format!("{job}, {words}");
    let (smallest, larger) = (name(sizes[0].1), &sizes[1..]);
    larger.iter().map(|(_, words)| Goal::cost_at_most(1.2, &name(words), &smallest)).collect()
}

/// Keys that are used, spread over all.
const USED: u64 = 8;

fn keys(form: Form) -> Race {
    let quick: &[Size] = &[(10, "10 keys"), (1_000, "1,000 keys")];
    let full: &[Size] = &[(10, "10 keys"), (1_000, "1,000 keys"), (100_000, "100,000 keys")];
    let sizes = form.pick(quick, full);
    let one = Contender::ours("change of a key", |seat| {
        let keys = Collection::open(seat.dir(), CollectionKind::Documents)?;
        let options = not_durable();
        let (size, mut turn) = (seat.ground.size, 0);
        Ok(Part::timed(move || {
            turn += 1;
            let document = keys.document(&key(turn % USED * (size / USED)))?;
            document.update(&options, |current| Ok(one_more(current)))?;
            Ok(())
        }))
    });
    let one = one
        .settings(
            "Collection::document and Document::update, NoSync, of eight keys in turn, 1 \
            KB each; every key was written by tenure",
        )
        .prepare(write_keys);
    let contenders = sizes.iter().map(|(size, words)| one.clone().size(*size, words)).collect();
    race(form, "keys in a collection", contenders, flat("change of a key", sizes))
}

/// Writes every key. The first version of a document is always synced, and threads share the syncs.
fn write_keys(ground: &Ground) -> Result<()> {
    const THREADS: u64 = 16;
    let (options, start) = (not_durable(), json::parse(&text(1024))?);
    let write = &|first: u64| -> Result<()> {
        let keys = Collection::open(&ground.dir, CollectionKind::Documents)?;
        for number in (first..ground.size).step_by(usize::try_from(THREADS)?) {
            keys.document(&key(number))?.set(&start, &options)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS).map(|first| scope.spawn(move || write(first))).collect();
        writers.into_iter().try_for_each(|one| one.join().map_err(|_| "a writer panicked")?)
    })
}

fn key(number: u64) -> String {
    format!("key-{number:06}")
}

fn not_durable() -> WriteOptions {
    WriteOptions { durability: Durability::NoSync, ..WriteOptions::default() }
}

fn documents(form: Form) -> Race {
    let quick: &[Size] = &[(1 << 10, "1 KB"), (100 << 10, "100 KB"), (1 << 20, "1 MB")];
    let full: &[Size] =
        &[(1 << 10, "1 KB"), (100 << 10, "100 KB"), (1 << 20, "1 MB"), (10 << 20, "10 MB")];
    let (mut contenders, mut goals) = (Vec::new(), Vec::new());
    for (size, words) in form.pick(quick, full) {
        let tenure = Contender::ours("tenure", |seat| tenure_changes(seat, Durability::NoSync))
            .settings("Document::update, NoSync; counter in the parsed document");
        let floor = Contender::floor("parse + write", |seat| Ok(parse_and_write(seat))).settings(
            "open, read, close, serde_json, open(O_CREAT|O_EXCL), pwrite, close, \
                renameat2(EXCHANGE), unlink: no lock, no record",
        );
        for one in [tenure, floor] {
            contenders.push(one.prepare(plain_file).check(check_file).size(*size, words));
        }
        let [tenure, floor] = ["tenure", "parse + write"].map(|name| format!("{name}, {words}"));
        goals.push(Goal::cost_at_most(1.3, &tenure, &floor));
    }
    race(form, "size of a document", contenders, goals)
}

#[expect(clippy::disallowed_methods, reason = "no other process is there yet")]
fn plain_file(ground: &Ground) -> Result<()> {
    let path = ground.path("state.json");
    std::fs::write(&path, text(usize::try_from(ground.size)?))?;
    File::open(&path)?.sync_all()?;
    Ok(())
}

fn check_file(ground: &Ground, turns: u64) -> Result<()> {
    check(&Document::open(ground.path("state.json"))?.read()?.ok_or("no document")?.bytes, turns)
}

fn parse_and_write(seat: &Seat) -> Part {
    let (path, temporary) = (seat.path("state.json"), seat.path("temporary"));
    Part::timed(move || {
        let new = changed(&std::fs::read(&path)?)?;
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        file.write_all_at(&new, 0)?;
        drop(file);
        renameat_with(CWD, &temporary, CWD, &path, RenameFlags::EXCHANGE)?;
        Ok(std::fs::remove_file(&temporary)?)
    })
}

fn journals(form: Form, name: &'static str, job: &str, part: fn(&Seat) -> Result<Part>) -> Race {
    let quick: &[Size] = &[(1 << 20, "1 MB"), (100 << 20, "100 MB")];
    let full: &[Size] = &[(1 << 20, "1 MB"), (100 << 20, "100 MB"), (10 << 30, "10 GB")];
    let sizes = form.pick(quick, full);
    let one = Contender::ours(job, part)
        .settings("entries of 300 bytes, NoSync, kept handle where nothing is opened by name")
        .prepare(|ground| {
            // As much again for the log, and some for other processes.
            if room(ground)? < ground.size * 2 + (4 << 30) {
                return Err(NotHere("not enough room for it".into()).into());
            }
            fill(ground, ground.size)
        });
    let contenders = sizes.iter().map(|(size, words)| one.clone().size(*size, words)).collect();
    race(form, name, contenders, flat(job, sizes))
}

/// The bytes that may still be written: on the disk, or in memory.
fn room(ground: &Ground) -> Result<u64> {
    const TMPFS: u32 = 0x0102_1994;
    let disk = statvfs(&ground.dir)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if u32::try_from(statfs(&ground.dir)?.f_type) != Ok(TMPFS) {
        return Ok(free);
    }
    let memory = std::fs::read_to_string("/proc/meminfo")?;
    let line = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(free.min(kib.unwrap_or(0) * 1024))
}

/// The hand-off from one holder to the next while many wait: see P6.
fn waiters(form: Form, name: &'static str, times: fn(Contender, usize) -> Contender) -> Race {
    let counts: &[usize] = form.pick(&[1, 2, 10, 100], &[1, 2, 10, 100, 1000]);
    let (mut contenders, mut goals) = (Vec::new(), Vec::new());
    for waiting in counts {
        let tenure =
            Contender::ours("tenure", |seat| hands_off(seat, tenure_lock(seat, Wait::Forever)?))
                .settings(
                    "Lock::acquire (a handle per waiter, kept), LockGuard::release; held for \
                0.2 ms, asleep; all but one wait",
                );
        let floor = Contender::floor("flock", |seat| hands_off(seat, bare_lock(seat)?))
            .settings(
                "flock, flock(LOCK_UN) on a descriptor per waiter; held for 0.2 ms, \
                asleep; all but one wait",
            )
            .prepare(lock_file);
        contenders.extend(
            [tenure, floor].map(|one| times(one, waiting + 1).titled(&waiters_title(*waiting))),
        );
        if *waiting > 2 {
            goals.push(growth(2, *waiting));
            goals.push(growth(1, *waiting).told());
        }
    }
    let length = Length::Time(Duration::from_millis(form.pick(150, 1000)));
    let rounds = form.pick(3, 7);
    Race { name, measure: Measure::Median, length, rounds, contenders, goals }
}

fn waiters_title(waiting: usize) -> String {
    format!("{waiting} waiting")
}

/// By how much more tenure's cost grows than that of flock, from few waiters to many. The goal counts
/// from two: with only one, the processor has fallen asleep, and its waking is most of the hand-off.
fn growth(few: usize, many: usize) -> Goal {
    let grows = move |round: &Round, name: &str| {
        let cost = |waiting| round.cost(&titled(name, &waiters_title(waiting)));
        Some(cost(many)? / cost(few)?)
    };
    let words = format!(
        "from {few} to {many} waiting: tenure's cost grows <= 1.5x as much as that of flock"
    );
    let value = move |round: &Round| Some(grows(round, "tenure")? / grows(round, "flock")?);
    Goal::at_most(1.5, "x", &words, value)
}
