//! P8: what grows with keys, documents, journals and waiters, and what must not.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with, statvfs};
use tenure::{Collection, CollectionKind, Document, Durability, Journal, WriteOptions};

use super::p03_shared_document::tenure_changes;
use super::p05_append::{LOG, fill, tenure_appends};
use super::p06_hand_off::{bare_lock, lock_file, tenure_lock};
use crate::document::{add_one, check, counted as changed, text};
use crate::round::Round;
use crate::row::{
    Contender, Form, Goal, Ground, Length, Measure, NotHere, Part, Race, Result, Row, Seat, counted,
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
        waiters(form, "waiting processes", "process", Contender::processes),
        waiters(form, "waiting threads of one process", "thread", Contender::threads),
    ]
}

/// A size, and how people say it.
type Size = (u64, &'static str);

/// A race whose contenders are one job at several sizes.
fn race(form: Form, name: &'static str, contenders: Vec<Contender>, goals: Vec<Goal>) -> Race {
    let length = Length::Time(Duration::from_millis(form.pick(80, 500)));
    Race { name, measure: Measure::Median, length, rounds: form.pick(5, 15), contenders, goals }
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
    let quick: &[Size] = &[(10, "10 keys"), (2_000, "2,000 keys")];
    let full: &[Size] = &[(10, "10 keys"), (1_000, "1,000 keys"), (100_000, "100,000 keys")];
    let sizes = form.pick(quick, full);
    let one = Contender::ours("change of a key", |seat| {
        let keys = Collection::open(seat.dir(), CollectionKind::Documents)?;
        let options = not_durable();
        let (size, mut turn) = (seat.ground.size, 0);
        Ok(Part::timed(move || {
            turn += 1;
            let document = keys.document(&key(turn % USED * (size / USED)))?;
            document.update(&options, |current| {
                let mut next = current.cloned().unwrap_or_default();
                Ok(add_one(&mut next).is_ok().then_some(next))
            })?;
            Ok(())
        }))
    });
    let one = one
        .settings("Collection::document and Document::update, NoSync, of eight keys in turn, 1 KB each; every key was written by tenure")
        .prepare(|ground| {
            let keys = Collection::open(&ground.dir, CollectionKind::Documents)?;
            let (options, start) = (not_durable(), serde_json::from_slice(&text(1024))?);
            for number in 0..ground.size {
                keys.document(&key(number))?.set(&start, &options)?;
            }
            Ok(())
        });
    let contenders = sizes.iter().map(|(size, words)| one.clone().size(*size, words)).collect();
    race(form, "keys in a collection", contenders, flat("change of a key", sizes))
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
        let floor = Contender::floor("parse + write", parse_and_write)
            .settings("open, read, close, serde_json, open(O_CREAT|O_EXCL), pwrite, close, renameat2(EXCHANGE), unlink: no lock, no record");
        for one in [tenure, floor] {
            contenders.push(one.prepare(plain_file).check(check_file).size(*size, words));
        }
        let [tenure, floor] = ["tenure", "parse + write"].map(|name| format!("{name}, {words}"));
        goals.push(Goal::cost_at_most(1.3, &tenure, &floor));
    }
    race(form, "size of a document", contenders, goals)
}

#[expect(clippy::disallowed_methods, reason = "nobody else is there yet")]
fn plain_file(ground: &Ground) -> Result<()> {
    let path = ground.path("state.json");
    std::fs::write(&path, text(usize::try_from(ground.size)?))?;
    File::open(&path)?.sync_all()?;
    Ok(())
}

fn check_file(ground: &Ground, turns: u64) -> Result<()> {
    check(&Document::open(ground.path("state.json"))?.read()?.ok_or("no document")?.bytes, turns)
}

fn parse_and_write(seat: &Seat) -> Result<Part> {
    let (path, temporary) = (seat.path("state.json"), seat.path("temporary"));
    Ok(Part::timed(move || {
        let new = changed(&std::fs::read(&path)?)?;
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        file.write_all_at(&new, 0)?;
        drop(file);
        renameat_with(CWD, &temporary, CWD, &path, RenameFlags::EXCHANGE)?;
        Ok(std::fs::remove_file(&temporary)?)
    }))
}

fn journals(form: Form, name: &'static str, job: &str, part: fn(&Seat) -> Result<Part>) -> Race {
    let quick: &[Size] = &[(1 << 20, "1 MB"), (100 << 20, "100 MB")];
    let full: &[Size] = &[(1 << 20, "1 MB"), (100 << 20, "100 MB"), (10 << 30, "10 GB")];
    let sizes = form.pick(quick, full);
    let one = Contender::ours(job, part)
        .settings("entries of 300 bytes, NoSync, kept handle where nothing is opened by name")
        .prepare(|ground| {
            let disk = statvfs(&ground.dir)?;
            // As much again for the log, and some for everybody else.
            if disk.f_bavail.saturating_mul(disk.f_frsize) < ground.size * 2 + (4 << 30) {
                return Err(NotHere("not enough room on the disk".into()).into());
            }
            fill(ground, ground.size)
        });
    let contenders = sizes.iter().map(|(size, words)| one.clone().size(*size, words)).collect();
    race(form, name, contenders, flat(job, sizes))
}

/// Everybody takes the lock as often as possible: all but one are waiting.
fn waiters(
    form: Form,
    name: &'static str,
    noun: &'static str,
    times: fn(Contender, usize) -> Contender,
) -> Race {
    const FEWEST: usize = 2;
    let counts: &[usize] = form.pick(&[FEWEST, 10, 100], &[FEWEST, 10, 100, 1000]);
    let (mut contenders, mut goals) = (Vec::new(), Vec::new());
    for count in counts {
        let tenure = Contender::ours("tenure", |seat| locks(tenure_lock(seat)?))
            .settings("Lock::acquire (a handle per waiter, kept), LockGuard::release at once");
        let floor = Contender::floor("flock", |seat| locks(bare_lock(seat)?))
            .settings("flock, flock(LOCK_UN) on a descriptor per waiter")
            .prepare(lock_file);
        contenders.extend([tenure, floor].map(|one| times(one, *count)));
        if *count > FEWEST {
            goals.push(growth(FEWEST, *count, noun));
        }
    }
    let length = Length::Time(Duration::from_millis(form.pick(150, 1000)));
    let rounds = form.pick(3, 9);
    Race { name, measure: Measure::PerTurn, length, rounds, contenders, goals }
}

fn locks(mut hold: super::p06_hand_off::Hold) -> Result<Part> {
    Ok(Part::timed(move || hold(&mut || ())))
}

/// By how much more tenure's cost grows than that of flock.
fn growth(few: usize, many: usize, noun: &'static str) -> Goal {
    let grows = move |round: &Round, name: &str| {
        let cost = |count| round.cost(&counted(name, count, noun));
        Some(cost(many)? / cost(few)?)
    };
    let words =
        format!("from {few} to {many}: tenure's cost grows <= 1.5x as much as that of flock");
    Goal::at_most(1.5, "x", &words, move |round| {
        Some(grows(round, "tenure")? / grows(round, "flock")?)
    })
}
