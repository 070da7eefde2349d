//! P7: what a read costs beside a writer at full speed.

use std::time::Duration;

use tenure::Document;
use tenure::options::Durability;

use super::p03_shared_document::{plain_file, sqlite_part, tenure_changes};
use crate::document::counted;
use crate::row::{Contender, Form, Goal, Length, Measure, Part, Race, Result, Row, Seat};
use crate::stores::sqlite;

pub(crate) const ROW: Row =
    Row { name: "P7", title: "reading a 12 KB document beside a writer at full speed", races };

fn races(form: Form) -> Vec<Race> {
    vec![Race {
        name: "one reader",
        measure: Measure::CpuPerTurn,
        length: Length::Time(Duration::from_millis(form.pick(150, 500))),
        rounds: form.pick(5, 11),
        contenders: contenders(),
        goals: vec![
            Goal::cost_at_most(1.1, BESIDE, ALONE),
            Goal::cost_at_most(1.1, "SQLite beside a writer", "SQLite alone").told(),
            Goal::cost_at_most(1.0, ALONE, "read and parse").told(),
        ],
    }]
}

const ALONE: &str = "tenure alone";
const BESIDE: &str = "tenure beside a writer";

fn contenders() -> Vec<Contender> {
    let parsed = "rusqlite, WAL, one select, JSON parsed";
    vec![
        Contender::ours(ALONE, reads).settings("Document::read").prepare(plain_file),
        Contender::ours(BESIDE, |seat| match seat.number {
            0 => reads(seat),
            _ => Ok(in_background(tenure_changes(seat, Durability::NoSync)?)),
        })
        .settings("Document::read; the other process: Document::update, NoSync, without a pause")
        .prepare(plain_file)
        .processes(2),
        Contender::floor("read and parse", |seat| {
            let path = seat.path("state.json");
            Ok(Part::timed(move || parse(&std::fs::read(&path)?)))
        })
        .settings("open, fstat, read, close, serde_json: no writer")
        .prepare(plain_file),
        sqlite_part("SQLite alone", sqlite_reads).check(|_, _| Ok(())).settings(parsed),
        sqlite_part("SQLite beside a writer", |seat| match seat.number {
            0 => sqlite_reads(seat),
            _ => Ok(in_background(sqlite::changes(seat, sqlite::Sync::Off, counted)?)),
        })
        .check(|_, _| Ok(()))
        .settings(&format!("{parsed}; the other process: synchronous=OFF, without a pause"))
        .processes(2),
    ]
}

fn in_background(part: Part) -> Part {
    Part { counts: false, ..part }
}

fn reads(seat: &Seat) -> Result<Part> {
    let document = Document::open(seat.path("state.json"))?;
    Ok(Part::timed(move || {
        let snapshot = document.read()?.ok_or("no document")?;
        std::hint::black_box(snapshot.value);
        Ok(())
    }))
}

fn sqlite_reads(seat: &Seat) -> Result<Part> {
    let store = sqlite::look(&seat.ground)?;
    Ok(Part::timed(move || parse(&store.document()?)))
}

fn parse(text: &[u8]) -> Result<()> {
    let value: serde_json::Value = serde_json::from_slice(text)?;
    std::hint::black_box(value);
    Ok(())
}
