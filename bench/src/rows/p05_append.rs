//! P5: one line of 300 bytes appended to a log: by 1 and 8 processes without syncs, by 1, 8 and 32 with.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tenure::options::Durability;
use tenure::{AppendOptions, Journal, Wait, WriteOptions};
use tenure_shipped::Log as _;
use tenure_shipped::logs::PlainAppend;

use super::p04_durable_document::{BARE_SYNC, bare_sync};
use crate::row::{
    Contender, Form, Goal, Ground, Length, Measure, Part, Race, Result, Row, Seat, titled,
};
use crate::stores::{lmdb, redb, sqlite};

pub(crate) const ROW: Row = Row { name: "P5", title: "append of 300 bytes", races };

/// A line with its newline.
const LINE: usize = 300;

/// What a log has to note beside the line: where it ends, and a checksum.
const NOTE: usize = 1024;

/// How the contenders of the race with several numbers of processes are named.
const ONE: &str = "1 process";
const EIGHT: &str = "8 processes";

/// Lines at a time, where a journal is only made to be measured later.
const BATCH: usize = 1000;

fn races(form: Form) -> Vec<Race> {
    let durable = [
        ("durable, 1 process", 1, 0.8),
        ("durable, 8 processes", 8, 4.0),
        ("durable, 32 processes", 32, 8.0),
    ];
    let durable = durable.map(|(name, processes, goal)| durable_race(form, name, processes, goal));
    [not_durable(form)].into_iter().chain(durable).collect()
}

fn not_durable(form: Form) -> Race {
    let mut contenders = Vec::new();
    for (processes, words) in [(1, ONE), (8, EIGHT)] {
        let many = without_sync().into_iter();
        contenders.extend(many.map(|one| one.processes(processes).titled(words)));
    }
    contenders.push(
        redb_part("redb None", |seat| redb::appends(seat, ::redb::Durability::None, line()))
            .settings(&format!("{}, Durability::None", redb::SETTINGS))
            .titled(ONE),
    );
    let (one, eight) = (|name| titled(name, ONE), |name| titled(name, EIGHT));
    Race {
        name: "not durable",
        measure: Measure::PerTurn,
        length: Length::Time(Duration::from_millis(form.pick(80, 500))),
        rounds: form.pick(5, 9),
        contenders,
        goals: vec![
            Goal::cost_at_most(1.3, &one("tenure"), &one("floor")),
            Goal::cost_at_most(1.3, &eight("tenure"), &eight("floor")),
            Goal::speed_at_least(0.7, &eight("tenure"), &one("tenure")),
            Goal::speed_at_least(0.7, &eight("floor"), &one("floor")).told(),
            Goal::speed_at_least(1.0, &one("tenure"), &one("SQLite OFF")).told(),
            Goal::speed_at_least(1.0, &eight("tenure"), &eight("SQLite OFF")).told(),
        ],
    }
}

fn durable_race(form: Form, name: &'static str, processes: usize, goal: f64) -> Race {
    let mut contenders: Vec<Contender> =
        with_sync().into_iter().map(|one| one.processes(processes)).collect();
    if processes == 1 {
        contenders.push(
            redb_part("redb", |seat| redb::appends(seat, ::redb::Durability::Immediate, line()))
                .settings(&format!("{}, Durability::Immediate", redb::SETTINGS)),
        );
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
            Goal::speed_at_least(goal, "tenure", "floor").told(),
            Goal::at_most(0.0, "ms", BARE_SYNC, |round| Some(round.cost(BARE_SYNC)? / 1e6)).told(),
        ],
    }
}

fn without_sync() -> Vec<Contender> {
    vec![
        Contender::ours("tenure", |seat| tenure_appends(seat, Durability::NoSync))
            .settings("Journal::append of one line, NoSync")
            .check(check_file),
        Contender::floor("floor", |seat| floor(seat, false))
            .settings("flock, fstat, stat, pwrite 1 KiB beside, write, flock(LOCK_UN)")
            .prepare(floor_files)
            .check(check_file),
        Contender::floor("bare append", |seat| {
            let (mut file, line) = (to_append(&seat.ground)?, line());
            Ok(Part::timed(move || Ok(file.write_all(&line)?)))
        })
        .settings("write with O_APPEND: no lock, no note")
        .check(check_file),
        sqlite_part("SQLite OFF", |seat| sqlite::appends(seat, sqlite::Sync::Off, line()))
            .settings(&format!("{}, synchronous=OFF", sqlite::SETTINGS)),
        sqlite_part("SQLite NORMAL", |seat| sqlite::appends(seat, sqlite::Sync::Normal, line()))
            .settings(&format!("{}, synchronous=NORMAL", sqlite::SETTINGS)),
        lmdb_part("LMDB NOSYNC", |seat| lmdb::appends(seat, false, line()))
            .settings(&format!("{}, MDB_NOSYNC, MDB_APPEND", lmdb::SETTINGS)),
        Contender::peer("a transcript as shipped", |seat| {
            let mut log = PlainAppend::open(seat.dir());
            let line = String::from_utf8(line())?.trim_end().to_owned();
            Ok(Part::timed(move || Ok(log.append(&line)?)))
        })
        .settings(
            "tenure_shipped::logs::PlainAppend: open, one write, close (known to glue a \
            line to a torn one)",
        )
        .check(check_file),
    ]
}

fn with_sync() -> Vec<Contender> {
    vec![
        Contender::ours("tenure", |seat| tenure_appends(seat, Durability::Durable))
            .settings("Journal::append of one line with default options")
            .check(check_file),
        Contender::floor("floor", |seat| floor(seat, true))
            .settings(
                "flock, fstat, stat, pwrite 1 KiB beside, write, fdatasync, \
                flock(LOCK_UN): no sharing of syncs",
            )
            .prepare(floor_files)
            .check(check_file),
        sqlite_part("SQLite FULL", |seat| sqlite::appends(seat, sqlite::Sync::Full, line()))
            .settings(&format!("{}, synchronous=FULL", sqlite::SETTINGS)),
        lmdb_part("LMDB", |seat| lmdb::appends(seat, true, line()))
            .settings(&format!("{}; every commit syncs, MDB_APPEND", lmdb::SETTINGS)),
    ]
}

fn sqlite_part(name: &str, part: fn(&Seat) -> Result<Part>) -> Contender {
    Contender::peer(name, part)
        .prepare(|ground| sqlite::create(ground, b""))
        .check(|ground, turns| check_count(sqlite::look(ground)?.lines()?, turns))
}

fn lmdb_part(name: &str, part: fn(&Seat) -> Result<Part>) -> Contender {
    Contender::peer(name, part)
        .prepare(|ground| lmdb::create(ground, None))
        .check(|ground, turns| check_count(lmdb::look(ground, lmdb::Store::lines)?, turns))
}

fn redb_part(name: &str, part: fn(&Seat) -> Result<Part>) -> Contender {
    Contender::peer(name, part)
        .prepare(|ground| redb::create(ground, b""))
        .check(|ground, turns| check_count(redb::lines(ground)?, turns))
}

pub(super) fn tenure_appends(seat: &Seat, durability: Durability) -> Result<Part> {
    let journal = Journal::open(seat.path(LOG))?;
    let wait = Wait::For(Duration::from_mins(1));
    let write = WriteOptions { durability, wait, ..WriteOptions::default() };
    let options = AppendOptions { write, ..AppendOptions::default() };
    let line = line();
    let batch = [line.trim_ascii_end().to_vec()];
    Ok(Part::timed(move || {
        journal.append(&batch, &options)?;
        Ok(())
    }))
}

/// The shipped log has this name, too.
pub(super) const LOG: &str = "log.jsonl";

/// Makes a journal of this many bytes.
pub(super) fn fill(ground: &Ground, bytes: u64) -> Result<()> {
    let journal = Journal::open(ground.path(LOG))?;
    let durability = Durability::NoSync;
    let write = WriteOptions { durability, ..WriteOptions::default() };
    let options = AppendOptions { write, ..AppendOptions::default() };
    let batch = vec![line().trim_ascii_end().to_vec(); BATCH];
    let mut left = bytes / LINE as u64;
    while left > 0 {
        let lines = BATCH.min(usize::try_from(left)?);
        journal.append(&batch[..lines], &options)?;
        left -= lines as u64;
    }
    Ok(())
}

fn line() -> Vec<u8> {
    let mut line = br#"{"type":"message","text":""#.to_vec();
    line.resize(LINE - 3, b'x');
    line.extend(b"\"}\n");
    line
}

fn to_append(ground: &Ground) -> Result<File> {
    Ok(OpenOptions::new().append(true).create(true).open(ground.path(LOG))?)
}

fn floor_files(ground: &Ground) -> Result<()> {
    to_append(ground)?;
    Ok(File::create_new(ground.path("note"))?.write_all_at(&[0; NOTE], 0)?)
}

fn floor(seat: &Seat, durable: bool) -> Result<Part> {
    let note_path = seat.path("note");
    let note = OpenOptions::new().write(true).open(&note_path)?;
    let (mut log, line) = (to_append(&seat.ground)?, line());
    let mut end = [0_u8; NOTE];
    Ok(Part::timed(move || {
        flock(&note, FlockOperation::LockExclusive)?;
        let (own, named) = (note.metadata()?, note_path.metadata()?);
        if (own.dev(), own.ino()) != (named.dev(), named.ino()) {
            return Err("the lock file was replaced".into());
        }
        end[0] = end[0].wrapping_add(1);
        note.write_all_at(&end, 0)?;
        log.write_all(&line)?;
        if durable {
            log.sync_data()?;
        }
        Ok(flock(&note, FlockOperation::Unlock)?)
    }))
}

fn check_file(ground: &Ground, turns: u64) -> Result<()> {
    // A journal's file may lag behind its log; a reader of the journal corrects that.
    if ground.path(".tenure").is_dir() {
        let report = Journal::open(ground.path(LOG))?.verify()?;
        if !report.is_sound() {
            return Err(format!("damaged: {:?}", report.damaged).into());
        }
        return check_count(report.entries + report.pending, turns);
    }
    check_count(ground.path(LOG).metadata()?.len() / LINE as u64, turns)
}

fn check_count(count: u64, turns: u64) -> Result<()> {
    if count == turns {
        return Ok(());
    }
    Err(format!("{turns} lines were appended, {count} are there").into())
}
