//! Contenders that must fail: a benchmark that lets them pass would let a fast and wrong one win.
//!
//! Not one of the rows that are run by themselves; `tests/control.rs` asks for it by its name.

use std::time::Duration;

use super::p03_shared_document::{check_file, plain_file};
use crate::document::patched;
use crate::row::{Contender, Form, Goal, Length, Measure, NotHere, Part, Race, Row};

pub(crate) const ROW: Row = Row { name: "CONTROL", title: "contenders that must fail", races };

#[expect(clippy::disallowed_methods, reason = "it is wrong on purpose")]
fn races(_: Form) -> Vec<Race> {
    let contenders = vec![
        Contender::floor("changes without a lock", |seat| {
            let (path, own) = (seat.path("state.json"), seat.path(&seat.number.to_string()));
            Ok(Part::timed(move || {
                std::fs::write(&own, patched(&std::fs::read(&path)?)?)?;
                Ok(std::fs::rename(&own, &path)?)
            }))
        })
        .settings("read, write, rename")
        .prepare(plain_file)
        .check(check_file)
        .processes(8),
        Contender::floor("fails at the start", |_| Err("no part".into())).settings("an error"),
        Contender::floor("fails in a turn", |_| Ok(Part::timed(|| Err("no turn".into()))))
            .settings("an error")
            .threads(2),
        Contender::floor("dies", |_| Ok(Part::timed(|| std::process::abort()))).settings("abort"),
        Contender::floor("not here", |_| Ok(Part::timed(|| Ok(()))))
            .settings("nothing")
            .prepare(|_| Err(NotHere("no such machine".into()).into())),
        Contender::floor("not here at the start", |_| Err(NotHere("no such part".into()).into()))
            .settings("nothing"),
        Contender::floor("sleeps a millisecond", |_| {
            Ok(Part::timed(|| {
                std::thread::sleep(Duration::from_millis(1));
                Ok(())
            }))
        })
        .settings("clock_nanosleep"),
    ];
    let slept = |round: &crate::round::Round| Some(round.cost("sleeps a millisecond")? / 1e6);
    vec![Race {
        name: "control",
        measure: Measure::Median,
        length: Length::Time(Duration::from_millis(100)),
        rounds: 2,
        contenders,
        goals: vec![
            Goal::at_most(0.5, "ms", "a millisecond: <= 0.5 ms", slept),
            Goal::cost_at_most(1.0, "sleeps a millisecond", "dies"),
        ],
    }]
}
