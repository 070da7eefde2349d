//! P9: verifying a journal, and reading all of it.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use tenure::Journal;
use xxhash_rust::xxh3::Xxh3;

use super::p05_append::{LOG, fill};
use crate::row::{Contender, Form, Goal, Length, Measure, Part, Race, Row};

pub(crate) const ROW: Row = Row { name: "P9", title: "verify a journal, read all of it", races };

/// Large enough to be fast, small enough for the cache of a processor.
const CHUNK: usize = 256 * 1024;

fn races(form: Form) -> Vec<Race> {
    let (bytes, words) = form.pick((64 << 20, "64 MB"), (1 << 30, "1 GB"));
    let race = |name, contenders: Vec<Contender>, goal| Race {
        name,
        measure: Measure::Median,
        length: Length::Turns(form.pick(3, 5)),
        rounds: form.pick(5, 9),
        contenders: contenders
            .into_iter()
            .map(|one| one.prepare(|ground| fill(ground, ground.size)).size(bytes, words))
            .collect(),
        goals: vec![goal],
    };
    let name = |name: &str| format!("{name}, {words}");
    vec![
        race(
            "verify",
            vec![
                Contender::ours("tenure", |seat| {
                    let journal = Journal::open(seat.path(LOG))?;
                    Ok(Part::timed(move || {
                        let report = journal.verify()?;
                        if report.is_sound() { Ok(()) } else { Err("damaged".into()) }
                    }))
                })
                .settings("Journal::verify"),
                Contender::floor("checksum of the bytes", |seat| {
                    let path = seat.path(LOG);
                    Ok(Part::timed(move || {
                        let (mut file, mut sum) = (File::open(&path)?, Xxh3::new());
                        let mut chunk = vec![0; CHUNK];
                        loop {
                            match file.read(&mut chunk)? {
                                0 => break,
                                length => sum.update(&chunk[..length]),
                            }
                        }
                        std::hint::black_box(sum.digest());
                        Ok(())
                    }))
                })
                .settings(
                    "open, read by 256 KiB, XXH3 of it, close; the file is in the page cache",
                ),
            ],
            Goal::speed_at_least(0.7, &name("tenure"), &name("checksum of the bytes")),
        ),
        race(
            "read all entries",
            vec![
                Contender::ours("tenure", |seat| {
                    let journal = Journal::open(seat.path(LOG))?;
                    Ok(Part::timed(move || {
                        let mut bytes = 0;
                        for entry in journal.read(0, None)? {
                            bytes += entry?.line.len();
                        }
                        std::hint::black_box(bytes);
                        Ok(())
                    }))
                })
                .settings("Journal::read from the first entry, every entry as a line of its own"),
                Contender::peer("cat", |seat| {
                    let path = seat.path(LOG);
                    Ok(Part::timed(move || {
                        let status =
                            Command::new("cat").arg(&path).stdout(Stdio::null()).status()?;
                        if status.success() { Ok(()) } else { Err("cat failed".into()) }
                    }))
                })
                .settings("cat FILE >/dev/null, its start included; the file is in the page cache"),
            ],
            Goal::speed_at_least(0.5, &name("tenure"), &name("cat")),
        ),
    ]
}
