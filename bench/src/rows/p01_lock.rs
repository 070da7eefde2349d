//! P1: lock and unlock without contention, in one process.
//!
//! *Cold*: everything is opened for one hold, as by a program that locks once. *Kept*: the handle stays.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use fs4::FileExt as FileExt4;
use rustix::fs::{FlockOperation, flock};
use tenure::{Lock, LockOptions};
use tenure_shipped::locks::{GuardedLock, JournalLock, MtimeLock, SessionLock, Unstamped};
use tenure_shipped::state::Content;

use crate::row::{Contender, Form, Goal, Ground, Length, Measure, Part, Race, Result, Row, Seat};

pub(crate) const ROW: Row = Row { name: "P1", title: "lock and unlock, uncontended", races };

/// The size of the record that says who holds a lock.
const RECORD: usize = 1024;

fn races(form: Form) -> Vec<Race> {
    let (rounds, length) =
        (form.pick(5, 11), Length::Time(Duration::from_millis(form.pick(60, 250))));
    let race = |name, contenders, goals| Race {
        name,
        measure: Measure::Median,
        length,
        rounds,
        contenders,
        goals,
    };
    let mut races = vec![
        race(
            "cold handle",
            cold().into_iter().chain(as_shipped()).collect(),
            vec![
                Goal::cost_at_most(1.3, "tenure", "floor"),
                Goal::cost_at_most(1.3, "tenure", "floor that also frees the record").told(),
            ],
        ),
        race(
            "kept handle",
            kept(),
            vec![
                Goal::cost_at_most(1.3, "tenure", "floor"),
                Goal::cost_at_most(1.3, "tenure", "floor that also frees the record").told(),
            ],
        ),
    ];
    races.extend(super::p01_languages::races(form));
    races
}

fn cold() -> Vec<Contender> {
    vec![
        Contender::ours("tenure", |seat| {
            let path = seat.path("target");
            Ok(Part::timed(move || Ok(tenure::lock(&path)?.release()?)))
        })
        .settings("tenure::lock(path), LockGuard::release"),
        Contender::floor("floor", |seat| {
            let path = seat.path("floor");
            Ok(Part::timed(move || floor_hold(&open(&path)?, &path, Exit::Close)))
        })
        .settings("open, flock, fstat, stat, pread 1 KiB, pwrite 1 KiB, close")
        .prepare(lock_file),
        Contender::floor("floor that also frees the record", |seat| {
            let path = seat.path("floor");
            Ok(Part::timed(move || floor_hold(&open(&path)?, &path, Exit::FreeAndClose)))
        })
        .settings("open, flock, fstat, stat, pread 1 KiB, pwrite 1 KiB; pwrite 1 KiB, close")
        .prepare(lock_file),
        Contender::floor("bare flock", |seat| {
            let path = seat.path("floor");
            Ok(Part::timed(move || Ok(flock(open(&path)?, FlockOperation::LockExclusive)?)))
        })
        .settings("open, flock, close: no re-check, no record")
        .prepare(lock_file),
        Contender::peer("fs4", |seat| {
            let path = seat.path("floor");
            Ok(Part::timed(move || {
                let file = open(&path)?;
                FileExt4::lock(&file)?;
                Ok(FileExt4::unlock(&file)?)
            }))
        })
        .settings("open, FileExt::lock, FileExt::unlock, close: no re-check, no record")
        .prepare(lock_file),
        Contender::peer("fd-lock", |seat| {
            let path = seat.path("floor");
            Ok(Part::timed(move || {
                drop(fd_lock::RwLock::new(open(&path)?).write()?);
                Ok(())
            }))
        })
        .settings("open, RwLock::write, drop: no re-check, no record")
        .prepare(lock_file),
    ]
}

/// The protocols of real tools, all of which take and free a lock file by its name.
fn as_shipped() -> Vec<Contender> {
    vec![
        shipped("OpenClaw's session lock as shipped", |seat| {
            Ok(enters(SessionLock::open(seat.dir())?))
        })
        .settings(
            "tenure_shipped::locks::SessionLock: a lock file by name, that of a dead \
                process is removed (known to be wrong)",
        ),
        shipped("codegraph's journal lock as shipped", |seat| {
            Ok(enters(JournalLock::open(seat.dir(), 1, Unstamped::IsDead)?))
        })
        .settings(
            "tenure_shipped::locks::JournalLock: a lock file by name, that of a dead \
            process is renamed over (known to be wrong)",
        ),
        shipped("fs-safe's lock as shipped", |seat| Ok(enters(GuardedLock::open(seat.dir())?)))
            .settings(
                "tenure_shipped::locks::GuardedLock: a lock file by name and a second \
                one to guard its removal (known to be wrong)",
            ),
        shipped("proper-lockfile's protocol", |seat| Ok(enters(MtimeLock::open(seat.dir()))))
            .settings(
                "tenure_shipped::locks::MtimeLock: a directory by name, stale by its \
                age; in Rust, so without Node's own cost (known to be wrong)",
            ),
    ]
}

fn kept() -> Vec<Contender> {
    vec![
        Contender::ours("tenure", |seat| {
            let (lock, options) = (Lock::open(seat.path("target"))?, LockOptions::default());
            Ok(Part::timed(move || Ok(lock.acquire(&options)?.release()?)))
        })
        .settings("Lock::acquire with default options, LockGuard::release"),
        Contender::floor("floor", |seat| kept_floor(seat, Exit::Unlock))
            .settings("flock, fstat, stat, pread 1 KiB, pwrite 1 KiB, flock(LOCK_UN)")
            .prepare(lock_file),
        Contender::floor("floor that also frees the record", |seat| {
            kept_floor(seat, Exit::FreeAndUnlock)
        })
        .settings("flock, fstat, stat, pread 1 KiB, pwrite 1 KiB; pwrite 1 KiB, flock(LOCK_UN)")
        .prepare(lock_file),
        Contender::floor("bare flock", |seat| {
            let file = open(&seat.path("floor"))?;
            Ok(Part::timed(move || {
                flock(&file, FlockOperation::LockExclusive)?;
                Ok(flock(&file, FlockOperation::Unlock)?)
            }))
        })
        .settings("flock, flock(LOCK_UN): no re-check, no record")
        .prepare(lock_file),
        Contender::peer("fs4", |seat| {
            let file = open(&seat.path("floor"))?;
            Ok(Part::timed(move || {
                FileExt4::lock(&file)?;
                Ok(FileExt4::unlock(&file)?)
            }))
        })
        .settings("FileExt::lock, FileExt::unlock: no re-check, no record")
        .prepare(lock_file),
        Contender::peer("fd-lock", |seat| {
            let mut lock = fd_lock::RwLock::new(open(&seat.path("floor"))?);
            Ok(Part::timed(move || {
                drop(lock.write()?);
                Ok(())
            }))
        })
        .settings("RwLock::write, drop: no re-check, no record")
        .prepare(lock_file),
    ]
}

fn shipped(name: &str, part: fn(&Seat) -> Result<Part>) -> Contender {
    // Some look at the document that they protect.
    Contender::peer(name, part).prepare(|ground| Ok(Content::KeysOnly.create(&ground.dir)?))
}

fn enters(mut lock: impl tenure_shipped::Lock + 'static) -> Part {
    Part::timed(move || {
        lock.enter()?;
        Ok(lock.leave()?)
    })
}

fn kept_floor(seat: &Seat, exit: Exit) -> Result<Part> {
    let path = seat.path("floor");
    let file = open(&path)?;
    Ok(Part::timed(move || floor_hold(&file, &path, exit)))
}

/// How the floor releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Close,
    FreeAndClose,
    Unlock,
    FreeAndUnlock,
}

/// One hold, as tenure's contract needs it: the lock, proof that the file still has its name, and the
/// record of the holder for those who wait.
fn floor_hold(file: &File, path: &Path, exit: Exit) -> Result<()> {
    flock(file, FlockOperation::LockExclusive)?;
    let (own, named) = (file.metadata()?, path.metadata()?);
    if (own.dev(), own.ino()) != (named.dev(), named.ino()) {
        return Err("the lock file was replaced".into());
    }
    let mut record = [0; RECORD];
    file.read_exact_at(&mut record, 0)?;
    record[8] = record[8].wrapping_add(1);
    file.write_all_at(&record, 0)?;
    if matches!(exit, Exit::FreeAndClose | Exit::FreeAndUnlock) {
        file.write_all_at(&record, 0)?;
    }
    if matches!(exit, Exit::Unlock | Exit::FreeAndUnlock) {
        flock(file, FlockOperation::Unlock)?;
    }
    Ok(())
}

fn lock_file(ground: &Ground) -> Result<()> {
    Ok(File::create_new(ground.path("floor"))?.write_all_at(&[0; RECORD], 0)?)
}

fn open(path: &Path) -> Result<File> {
    Ok(OpenOptions::new().read(true).write(true).open(path)?)
}
