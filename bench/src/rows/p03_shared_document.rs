//! P3: eight processes change one document of 12 KB, without syncs.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use tenure::options::Durability;
use tenure::{Document, Wait, WriteOptions};
use tenure_shipped::Document as _;
use tenure_shipped::documents::{Session, State};

use crate::document::{self, Change, check, counted, one_more, patched};
use crate::row::{Contender, Form, Goal, Ground, Length, Measure, Part, Race, Result, Row, Seat};
use crate::stores::{lmdb, sqlite};

pub(crate) const ROW: Row = Row {
    name: "P3",
    title: "8 processes, read-modify-write of one 12 KB document, not durable",
    races,
};

/// The size of the document.
pub(super) const BYTES: usize = 12 * 1024;

const PROCESSES: usize = 8;

fn races(form: Form) -> Vec<Race> {
    vec![Race {
        name: "8 processes",
        measure: Measure::PerTurn,
        length: Length::Time(Duration::from_millis(form.pick(250, 1000))),
        rounds: form.pick(4, 9),
        contenders: contenders().into_iter().map(|one| one.processes(PROCESSES)).collect(),
        goals: vec![
            Goal::speed_at_least(3.0, TENURE, RENAME),
            Goal::speed_at_least(0.5, TENURE, SQLITE),
            Goal::speed_at_least(0.5, TENURE, SQLITE_BYTES).told(),
            Goal::at_most(50.0, "x", "p99.9 of tenure's waits: <= 50x their mean", |round| {
                round.heat(TENURE).map(|heat| heat.quantile(0.999) / heat.mean())
            }),
            Goal::at_most(1.0, "x", "tenure's longest wait: <= 1x that of SQLite OFF", |round| {
                Some(round.heat(TENURE)?.longest() / round.heat(SQLITE)?.longest())
            }),
        ],
    }]
}

const TENURE: &str = "tenure";
const RENAME: &str = "write + rename";
const SQLITE: &str = "SQLite OFF";
const SQLITE_BYTES: &str = "SQLite OFF, bytes";

fn contenders() -> Vec<Contender> {
    let parse = "the application parses the JSON, adds one, writes JSON";
    let bytes = "the counter's digits are changed in the bytes, no JSON";
    let stored = |one: Contender, durable: &str| one.settings(&format!("{durable}; {parse}"));
    vec![
        Contender::ours(TENURE, |seat| tenure_changes(seat, Durability::NoSync))
            .settings("Document::update, NoSync; counter in the parsed document")
            .prepare(plain_file)
            .check(check_file),
        Contender::floor(RENAME, |seat| {
            floor(seat, |_, temporary, path| Ok(rename(temporary, path)?))
        })
        .settings(&format!(
            "flock, open, read, close, open(O_CREAT|O_TRUNC), write, close, rename, \
            flock(LOCK_UN); {bytes}"
        ))
        .prepare(plain_file)
        .check(check_file),
        Contender::floor("write + exchange", |seat| floor(seat, exchange))
            .settings(&format!(
                "flock, open, read, close, open(O_CREAT|O_TRUNC), write, close, \
                renameat2(EXCHANGE), unlink, flock(LOCK_UN); {bytes}"
            ))
            .prepare(plain_file)
            .check(check_file),
        stored(
            sqlite_part(SQLITE, |seat| sqlite::changes(seat, sqlite::Sync::Off, counted)),
            &format!("{}, synchronous=OFF", sqlite::SETTINGS),
        ),
        sqlite_part(SQLITE_BYTES, |seat| sqlite::changes(seat, sqlite::Sync::Off, patched))
            .settings(&format!("{}, synchronous=OFF; {bytes}", sqlite::SETTINGS)),
        stored(
            sqlite_part("SQLite NORMAL", |seat| {
                sqlite::changes(seat, sqlite::Sync::Normal, counted)
            }),
            &format!("{}, synchronous=NORMAL", sqlite::SETTINGS),
        ),
        stored(
            lmdb_part("LMDB NOSYNC", |seat| lmdb::changes(seat, false, counted)),
            &format!("{}, MDB_NOSYNC", lmdb::SETTINGS),
        ),
        Contender::peer("GateGuard's state as shipped", |seat| {
            let mut state = State::open(seat.dir(), seat.number as u64 + 1);
            Ok(Part::timed(move || Ok(state.add("key")?)))
        })
        .settings(
            "tenure_shipped::documents::State: load, add a key, merge, write, rename, \
            without a lock (known to lose changes)",
        )
        .prepare(plain_file),
        Contender::peer("CLI-Anything's session as shipped", |seat| {
            let mut session = Session::open(seat.dir());
            // A reader that meets a half-written file fails; its user tries again.
            Ok(Part::timed(move || {
                while session.add("key").is_err() {}
                Ok(())
            }))
        })
        .settings(
            "tenure_shipped::documents::Session: load, lock, empty the file, write it \
            (known to lose changes and to show half a file)",
        )
        .prepare(plain_file),
    ]
}

/// SQLite with the document of this row.
pub(super) fn sqlite_part(name: &str, part: fn(&Seat) -> Result<Part>) -> Contender {
    Contender::peer(name, part)
        .prepare(|ground| sqlite::create(ground, &document::text(BYTES)))
        .check(|ground, turns| check(&sqlite::look(ground)?.document()?, turns))
}

/// LMDB with the document of this row.
pub(super) fn lmdb_part(name: &str, part: fn(&Seat) -> Result<Part>) -> Contender {
    Contender::peer(name, part)
        .prepare(|ground| lmdb::create(ground, Some(&document::text(BYTES))))
        .check(|ground, turns| lmdb::look(ground, |store| check(&store.document()?, turns)))
}

/// tenure's way to change a document.
pub(super) fn tenure_changes(seat: &Seat, durability: Durability) -> Result<Part> {
    let document = Document::open(seat.path("state.json"))?;
    let wait = Wait::For(Duration::from_mins(1));
    let options = WriteOptions { durability, wait, ..WriteOptions::default() };
    Ok(Part::timed(move || {
        document.update(&options, |current| Ok(one_more(current)))?;
        Ok(())
    }))
}

/// The document as a plain file, and a lock file for the floors.
#[expect(clippy::disallowed_methods, reason = "no other process is there yet")]
pub(super) fn plain_file(ground: &Ground) -> Result<()> {
    File::create_new(ground.path("lock"))?;
    std::fs::write(ground.path("state.json"), document::text(BYTES))?;
    Ok(())
}

pub(super) fn check_file(ground: &Ground, turns: u64) -> Result<()> {
    check(&std::fs::read(ground.path("state.json"))?, turns)
}

/// Publishes the temporary file.
type Publish = fn(&File, &Path, &Path) -> Result<()>;

fn floor(seat: &Seat, publish: Publish) -> Result<Part> {
    let lock = OpenOptions::new().write(true).open(seat.path("lock"))?;
    // One name for all: only the holder of the lock uses it.
    let (path, temporary) = (seat.path("state.json"), seat.path("temporary"));
    let change: Change = patched;
    Ok(Part::timed(move || {
        flock(&lock, FlockOperation::LockExclusive)?;
        let new = change(&std::fs::read(&path)?)?;
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&temporary)?;
        file.write_all_at(&new, 0)?;
        publish(&file, &temporary, &path)?;
        drop(file);
        Ok(flock(&lock, FlockOperation::Unlock)?)
    }))
}

#[expect(clippy::disallowed_methods, reason = "the floor is the bare call")]
fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::rename(from, to)
}

fn exchange(_: &File, temporary: &Path, path: &Path) -> Result<()> {
    renameat_with(CWD, temporary, CWD, path, RenameFlags::EXCHANGE)?;
    // Emptied and written again, ext4 would start writing it out at once.
    Ok(std::fs::remove_file(temporary)?)
}
