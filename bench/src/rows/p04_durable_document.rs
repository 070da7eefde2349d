//! P4: a durable change of one document of 12 KB, by 1, 8 and 32 processes.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use atomic_write_file::AtomicWriteFile;
use rustix::fs::{FlockOperation, flock};
use tenure::options::Durability;

use super::p03_shared_document::{
    BYTES, check_file, lmdb_part, plain_file, sqlite_part, tenure_changes,
};
use crate::document::{self, check, counted, patched};
use crate::row::{Contender, Form, Goal, Length, Measure, Part, Race, Result, Row, Seat};
use crate::stores::{lmdb, redb, sqlite};

pub(crate) const ROW: Row =
    Row { name: "P4", title: "durable read-modify-write of one 12 KB document", races };

fn races(form: Form) -> Vec<Race> {
    let goals = [("1 process", 1, 0.8), ("8 processes", 8, 3.0), ("32 processes", 32, 6.0)];
    goals.into_iter().map(|(name, processes, goal)| race(form, name, processes, goal)).collect()
}

fn race(form: Form, name: &'static str, processes: usize, goal: f64) -> Race {
    let mut contenders: Vec<Contender> =
        shared().into_iter().map(|one| one.processes(processes)).collect();
    if processes == 1 {
        contenders.push(redb_part());
    }
    contenders.push(bare_sync());
    Race {
        name,
        measure: Measure::PerTurn,
        length: Length::Time(Duration::from_millis(form.pick(300, 1000))),
        rounds: form.pick(3, 7),
        contenders,
        goals: vec![
            Goal::speed_at_least(goal, "tenure", "SQLite FULL"),
            Goal::speed_at_least(goal, "tenure", "write + sync + rename + sync").told(),
            Goal::at_most(0.0, "ms", BARE_SYNC, |round| Some(round.cost(BARE_SYNC)? / 1e6)).told(),
        ],
    }
}

fn shared() -> Vec<Contender> {
    let parse = "the application parses the JSON, adds one, writes JSON";
    vec![
        Contender::ours("tenure", |seat| tenure_changes(seat, Durability::Durable))
            .settings("Document::update with default options; counter in the parsed document")
            .prepare(plain_file)
            .check(check_file),
        Contender::floor("write + sync + rename + sync", floor)
            .settings(
                "flock, open, read, close, open(O_CREAT|O_TRUNC), write, fdatasync, \
                close, rename, fsync of the directory, flock(LOCK_UN); the counter's \
                digits are changed in the bytes, no JSON",
            )
            .prepare(plain_file)
            .check(check_file),
        sqlite_part("SQLite FULL", |seat| sqlite::changes(seat, sqlite::Sync::Full, counted))
            .settings(&format!("{}, synchronous=FULL; {parse}", sqlite::SETTINGS)),
        lmdb_part("LMDB", |seat| lmdb::changes(seat, true, counted))
            .settings(&format!("{}; every commit syncs; {parse}", lmdb::SETTINGS)),
        Contender::peer("atomic-write-file under fs4", atomic_write)
            .settings(&format!(
                "fs4::FileExt::lock on a lock file, read, AtomicWriteFile::open, write, \
                commit (syncs file and directory), unlock; {parse}"
            ))
            .prepare(plain_file)
            .check(check_file),
    ]
}

fn redb_part() -> Contender {
    Contender::peer("redb", |seat| redb::changes(seat, ::redb::Durability::Immediate, counted))
        .settings(&format!(
            "{}, Durability::Immediate; the application parses the JSON, adds one, writes JSON",
            redb::SETTINGS
        ))
        .prepare(|ground| redb::create(ground, &document::text(BYTES)))
        .check(|ground, turns| check(&redb::document(ground)?, turns))
}

/// The latency of the disk, measured in the same rounds.
pub(super) const BARE_SYNC: &str = "one bare sync";

pub(super) fn bare_sync() -> Contender {
    Contender::floor(BARE_SYNC, |seat| {
        let file = File::create(seat.path("sync"))?;
        file.write_all_at(&[0; 4096], 0)?;
        file.sync_all()?;
        Ok(Part::timed(move || {
            file.write_all_at(&[1; 4096], 0)?;
            Ok(file.sync_data()?)
        }))
    })
    .settings("pwrite of 4 KiB in place, fdatasync; one process")
}

#[expect(clippy::disallowed_methods, reason = "the floor is the bare calls")]
fn floor(seat: &Seat) -> Result<Part> {
    let lock = OpenOptions::new().write(true).open(seat.path("lock"))?;
    let dir = File::open(seat.dir())?;
    let (path, temporary) = (seat.path("state.json"), seat.path("temporary"));
    Ok(Part::timed(move || {
        flock(&lock, FlockOperation::LockExclusive)?;
        let new = patched(&std::fs::read(&path)?)?;
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&temporary)?;
        file.write_all_at(&new, 0)?;
        file.sync_data()?;
        drop(file);
        std::fs::rename(&temporary, &path)?;
        dir.sync_all()?;
        Ok(flock(&lock, FlockOperation::Unlock)?)
    }))
}

fn atomic_write(seat: &Seat) -> Result<Part> {
    let lock = OpenOptions::new().write(true).open(seat.path("lock"))?;
    let path = seat.path("state.json");
    Ok(Part::timed(move || {
        fs4::FileExt::lock(&lock)?;
        let new = counted(&std::fs::read(&path)?)?;
        let mut file = AtomicWriteFile::open(&path)?;
        file.write_all(&new)?;
        file.commit()?;
        Ok(fs4::FileExt::unlock(&lock)?)
    }))
}
