//! Compaction: the entries that are wanted, in a new file, with the numbers they have.

use crate::checksum;
use crate::error::{Error, ErrorKind, Result};

use super::checkpoint::{SEGMENT_BYTES, Span};
use super::index::Header;
use super::options::Compacted;
use super::publish::Publication;
use super::read::{Entries, Entry};
use super::session::Session;
use super::verify;
use super::view::View;

impl Session {
    /// Compacts a settled journal.
    pub(super) fn compact(mut self, mut keep: impl FnMut(&Entry) -> bool) -> Result<Compacted> {
        self.adopt_late()?;
        self.checkpoint(true)?;
        self.refuse_damage()?;
        let header = self.header()?;
        let mut new = self.new_journal()?;
        new.write(&header).map_err(|err| self.journal_failed("write", err))?;
        let mut done = Compacted { bytes_before: self.head.journal_end, ..Compacted::default() };
        let mut runs = Runs::default();
        let first_seq = self.matching_index()?.map_or(1, |index| index.title.first_seq);
        let view = View::of(&self.target)?;
        let file = view.journal.as_ref().and_then(|file| file.id().ok());
        if view.log.is_none() && file == Some(self.head.journal) {
            return Err(self.was_cut()); // One that somebody put in its place is adopted instead.
        }
        for entry in Entries::new(&view, first_seq, None)? {
            let entry = entry?;
            if entry.seq >= self.head.next_seq {
                break; // Appended by somebody else just now: a late line of the old file.
            }
            if !keep(&entry) {
                done.dropped += 1;
                continue;
            }
            done.kept += 1;
            runs.add(&entry, new.end);
            new.write(&entry.line).map_err(|err| self.journal_failed("write", err))?;
            new.write(b"\n").map_err(|err| self.journal_failed("write", err))?;
        }
        done.bytes_after = new.end;
        let epoch = self.head.epoch;
        let what = Publication {
            records: runs.finish().iter().map(|span| span.record(epoch)).collect(),
            header: Header::of(&header),
            first_seq,
            next_seq: self.head.next_seq,
            ..Publication::default()
        };
        self.publish(new, &what)?;
        Ok(done)
    }
}

impl Session {
    /// A new file gets new checksums, under which damage would pass for sound.
    fn refuse_damage(&self) -> Result<()> {
        let report = verify::verify(&self.target)?;
        let Some(first) = report.damaged.first() else { return Ok(()) };
        let detail = format!("bytes {} to {}: {}", first.start, first.end, first.why);
        Err(Error::new(ErrorKind::Damaged, "compact", detail)
            .at(self.target.path())
            .committed(false)
            .hint("repair the journal first"))
    }
}

/// One span per run of consecutive numbers.
#[derive(Default)]
struct Runs {
    done: Vec<Span>,
    current: Option<Span>,
    sum: checksum::Running,
}

impl Runs {
    fn add(&mut self, entry: &Entry, start: u64) {
        let follows = self.current.filter(|span| {
            span.seq.map(|seq| seq + span.lines) == Some(entry.seq)
                && span.end - span.start < SEGMENT_BYTES
        });
        let mut span = follows.unwrap_or_else(|| {
            self.done.extend(self.current.take());
            self.sum = checksum::Running::default();
            Span { start, end: start, seq: Some(entry.seq), lines: 0, foreign: 0, sum: 0 }
        });
        self.sum.update(&entry.line);
        self.sum.update(b"\n");
        span.end += entry.line.len() as u64 + 1;
        span.lines += 1;
        span.sum = self.sum.finish();
        self.current = Some(span);
    }

    fn finish(mut self) -> Vec<Span> {
        self.done.extend(self.current.take());
        self.done
    }
}
