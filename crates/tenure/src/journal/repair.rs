//! Repair: what crashes have left is finished, and damage is set aside.
//!
//! # Invariants
//!
//! 1. Damaged bytes as they were found are in `NAME.damaged`, synced, before the journal is changed
//!    there. That file only grows.
//! 2. A batch that the log still holds is written back. Of other damage, lines that cannot be read are
//!    blanked, and the rest stays: nothing moves, and every range has a checksum again.
//!    The index knows which lines stay before a line is blanked, so that a repair that dies can be done
//!    again.
//! 3. Lines in front of the damage and behind it keep their numbers, as far as the damage lets them be
//!    counted; a line whose number cannot be told gets a new one.

use std::path::PathBuf;

use serde_json::json;

use crate::error::Result;
use crate::events;
use crate::options::WriteOptions;
use crate::random;
use crate::target::Target;

use super::Journal;
use super::checkpoint::Span;
use super::head::ENTRIES_AT;
use super::index::{Index, Record, Segment};
use super::salvage::{self, Salvaged};
use super::session::Session;
use super::verify::{self, Damage, Report};
use super::wal::Reach;

/// As much of the file tells whether its lines are JSON.
const SAMPLE_BYTES: u64 = 64 * 1024;

/// What was set aside.
#[derive(Debug, Default)]
struct Quarantine {
    path: Option<PathBuf>,
    ranges: Vec<Damage>,
}

impl Journal {
    pub(super) fn repair_all(&self, options: &WriteOptions) -> Result<Report> {
        let mut session = self.settled(options)?;
        session.adopt_late()?;
        let mut quarantine = Quarantine::default();
        session.write_back(&mut quarantine)?;
        session.checkpoint(true)?;
        session.accept_the_rest(&mut quarantine)?;
        let rolled_forward = session.news.rolled_forward;
        drop(session);
        let Quarantine { path, ranges } = quarantine;
        let report = verify::verify(&self.target)?;
        Ok(Report { rolled_forward, set_aside: ranges, quarantine: path, ..report })
    }
}

impl Session {
    /// Writes batches back that the log still holds.
    fn write_back(&mut self, quarantine: &mut Quarantine) -> Result<()> {
        let chain = self.wal.chain(&self.head, ENTRIES_AT, self.head.first_number, Reach::Counted);
        let chain = chain.map_err(|err| self.wal_failed("read", err))?;
        let mut start = self.head.base;
        // An entry behind those may be of somebody who died before the journal had it.
        let applied = usize::try_from(self.head.applied).unwrap_or(usize::MAX);
        for logged in chain.iter().take(applied) {
            let end = start + logged.entry.span();
            if !logged.entry.is_foreign() {
                let found = self.journal.read_range(start, end);
                let found = found.map_err(|err| self.journal_failed("read", err))?;
                if found != logged.payload {
                    self.set_aside(quarantine, start, &found, "it differed from what was logged")?;
                    self.rewrite(&logged.payload, start)?;
                }
            }
            start = end;
        }
        Ok(())
    }

    /// Takes what is left of damaged ranges of the index, and writes the index anew.
    fn accept_the_rest(&mut self, quarantine: &mut Quarantine) -> Result<()> {
        let Some(index) = self.matching_index()? else { return Ok(()) };
        let (mut spans, mut damaged, mut unknown) = (Vec::new(), Vec::new(), false);
        for record in self.all_records(&index)? {
            let Some(Record { segment, .. }) = record else {
                unknown = true;
                continue;
            };
            let sum = verify::sum(self.journal.as_ref(), segment.start, segment.end);
            if sum.map_err(|err| self.journal_failed("read", err))? == Some(segment.sum) {
                spans.push(Span::of(&segment));
                continue;
            }
            let found = self.journal.read_range(segment.start, segment.end);
            let found = found.map_err(|err| self.journal_failed("read", err))?;
            self.set_aside(quarantine, segment.start, &found, "the checksum differed")?;
            let json = salvage::is_json(&found, &self.sample(segment.start, segment.end)?);
            spans.extend(salvage::salvage(&found, &segment, json).spans);
            damaged.push((segment, json));
        }
        if unknown {
            // What the lost records said is gone with them: the data wins, and is numbered anew.
            let why = "a record of the index was damaged, so all lines have new numbers";
            quarantine.ranges.push(Damage { start: 0, end: self.size, why: why.to_owned() });
            self.blank_unreadable(&damaged)?;
            return self.adopt(false, self.head.journal, self.head.file);
        }
        if !damaged.is_empty() {
            self.number_foreign(&mut spans);
            self.sync_journal()?;
            self.head.generation = random::number()?;
            self.rebuild_index(index.title, &mut spans)?;
            self.begin_epoch(self.head.journal_end)?;
            // A crash before this leaves lines that cannot be read and are not counted. The other way
            // around, blanks would hide how many lines there were, and the next repair would give
            // those behind them other numbers.
            self.blank_unreadable(&damaged)?;
        }
        // A repair that died may have left blanks, too, that are neither durable nor in the head.
        self.sync_repaired()?;
        if self.tail_sum(self.head.base)? == self.head.tail_sum {
            return Ok(());
        }
        self.begin_epoch(self.head.journal_end)
    }

    /// Blanks what cannot be read in these ranges.
    fn blank_unreadable(&self, damaged: &[(Segment, bool)]) -> Result<()> {
        for (segment, json) in damaged {
            let found = self.journal.read_range(segment.start, segment.end);
            let found = found.map_err(|err| self.journal_failed("read", err))?;
            let Salvaged { bytes, .. } = salvage::salvage(&found, segment, *json);
            if bytes != found {
                self.rewrite(&bytes, segment.start)?;
            }
        }
        Ok(())
    }

    /// Bytes from the file's beginning and from behind a damaged range.
    fn sample(&self, start: u64, end: u64) -> Result<Vec<u8>> {
        let read = |from: u64, to: u64| {
            let bytes = self.journal.read_range(from, to.min(from + SAMPLE_BYTES));
            bytes.map_err(|err| self.journal_failed("read", err))
        };
        let mut bytes = read(0, start)?;
        bytes.extend(read(end, self.size)?);
        Ok(bytes)
    }

    fn all_records(&self, index: &Index) -> Result<Vec<Option<Record>>> {
        let mut records = Vec::new();
        while (records.len() as u64) < self.head.index_len {
            let at = records.len() as u64;
            let more = index.records(at, self.head.index_len - at);
            let more = more.map_err(|err| self.index_failed(err))?;
            if more.is_empty() {
                records.push(None); // The file ends too early.
                break;
            }
            records.extend(more);
        }
        Ok(records)
    }

    fn set_aside(&self, kept: &mut Quarantine, start: u64, found: &[u8], why: &str) -> Result<()> {
        self.section.verify()?;
        let path = self.target.sidecar("damaged");
        let failed = Target::failed;
        let file = self.target.open_sidecar(&path)?;
        let at = file.stat().map_err(failed("look at", &path))?.size;
        file.write_all_at(found, at).map_err(failed("write", &path))?;
        file.sync().map_err(failed("sync", &path))?;
        let side = self.target.side();
        self.target.fs.sync_dir(side).map_err(failed("sync directory", side))?;
        let end = start + found.len() as u64;
        let detail = json!({ "start": start, "end": end, "kept_at": at, "why": why });
        let _ = events::record(&self.target, "damage_set_aside", &detail);
        kept.ranges.push(Damage { start, end, why: why.to_owned() });
        kept.path = Some(path);
        Ok(())
    }
}
