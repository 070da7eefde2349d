//! P9: verifying a journal, and reading all of it.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use tenure::Journal;
use xxhash_rust::xxh3::xxh3_64;

use super::p05_append::{LOG, fill};
use crate::row::{Contender, Form, Goal, Length, Measure, Part, Race, Row, titled};

pub(crate) const ROW: Row = Row { name: "P9", title: "verify a journal, read all of it", races };

/// As `cat` reads: large enough to be fast, small enough for the cache of a processor.
const CHUNK: usize = 128 * 1024;

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
    let [tenure, bytes, cat] = ["tenure", BYTES, "cat"].map(|name| titled(name, words));
    vec![
        race("verify", verify(), Goal::speed_at_least(0.7, &tenure, &bytes)),
        race("read all entries", read(), Goal::speed_at_least(0.5, &tenure, &cat)),
    ]
}

const BYTES: &str = "checksum of the bytes";

fn verify() -> Vec<Contender> {
    let ours = Contender::ours("tenure", |seat| {
        let journal = Journal::open(seat.path(LOG))?;
        Ok(Part::timed(move || {
            let report = journal.verify()?;
            if report.is_sound() { Ok(()) } else { Err("damaged".into()) }
        }))
    });
    let floor = Contender::floor(BYTES, |seat| {
        let path = seat.path(LOG);
        Ok(Part::timed(move || {
            let (mut file, mut sum) = (File::open(&path)?, 0);
            let mut chunk = vec![0; CHUNK];
            loop {
                match file.read(&mut chunk)? {
                    0 => break,
                    // Chunk by chunk: faster than one running checksum.
                    length => sum ^= xxh3_64(&chunk[..length]),
                }
            }
            std::hint::black_box(sum);
            Ok(())
        }))
    });
    vec![
        ours.settings("Journal::verify"),
        floor.settings(
            "open, read by 128 KiB, XXH3 of each piece, close; the file is in the page cache",
        ),
    ]
}

fn read() -> Vec<Contender> {
    let ours = Contender::ours("tenure", |seat| {
        let journal = Journal::open(seat.path(LOG))?;
        Ok(Part::timed(move || {
            let (mut entries, mut bytes) = (journal.read(0, None)?, 0);
            while let Some((_, line)) = entries.next_line()? {
                bytes += line.len();
            }
            std::hint::black_box(bytes);
            Ok(())
        }))
    });
    let cat = Contender::peer("cat", |seat| {
        let path = seat.path(LOG);
        Ok(Part::timed(move || {
            let status = Command::new("cat").arg(&path).stdout(Stdio::null()).status()?;
            if status.success() { Ok(()) } else { Err("cat failed".into()) }
        }))
    });
    vec![
        ours.settings("Journal::read from the first entry, Entries::next_line: every entry on its own, none copied"),
        cat.settings("cat FILE >/dev/null, its start included; the file is in the page cache"),
    ]
}
