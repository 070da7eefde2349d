//! The header line: stamped in one step with a batch, by writing the file anew.

use crate::checksum;
use crate::error::{Error, ErrorKind, Result};

use super::batch::Batch;
use super::checkpoint::Span;
use super::head::Operation;
use super::index::{Header, Index, Record};
use super::lines::{self, CHUNK_BYTES};
use super::options::{AppendOptions, Appended};
use super::publish::Publication;
use super::session::Session;

impl Session {
    /// Appends the batch together with a header that differs from the one there is. `None` if there
    /// is nothing to stamp.
    pub(super) fn stamp(
        &mut self,
        batch: &Batch,
        options: &AppendOptions,
    ) -> Result<Option<Appended>> {
        let Some(header) = &options.header else { return Ok(None) };
        if memchr::memchr(b'\n', header).is_some() || lines::is_blank(header) {
            let detail = "the header is blank or contains a newline";
            return Err(Error::new(ErrorKind::Invalid, "append", detail).at(self.target.path()));
        }
        self.apply_pending()?;
        self.adopt_tail()?;
        if self.header()?.split_last().is_some_and(|(_, line)| line == header.as_slice()) {
            return Ok(None);
        }
        self.close_tail()?;
        self.adopt_late()?;
        self.checkpoint(true)?;
        let old_len = self.header()?.len() as u64;
        let mut new = self.new_journal()?;
        let failed = |err| Error::io("write", self.target.path(), err).committed(false);
        let line = [header.as_slice(), b"\n"].concat();
        let header = Header::of(&line);
        new.write(&line).map_err(failed)?;
        self.copy_body(&mut new, old_len)?;
        let seq = self.head.next_seq;
        let span = Span {
            start: new.end,
            end: new.end + batch.text().len() as u64,
            seq: Some(seq),
            lines: batch.lines(),
            foreign: 0,
            sum: checksum::of(batch.text()),
        };
        new.write(batch.text()).map_err(failed)?;
        let mut records = self.shifted_records(old_len, header.len)?;
        if batch.lines() > 0 {
            records.push(span.record(self.head.epoch));
        }
        let first_seq = self.matching_index()?.map_or(1, |index| index.title.first_seq);
        let operation = Operation { id: batch.operation, first: seq, lines: batch.lines() };
        let next_seq = seq + batch.lines();
        let what = Publication { records, header, archive: 0, first_seq, next_seq, operation };
        self.publish(new, &what)?;
        let mut appended = Appended::new(seq, batch.lines());
        appended.tell(&self.news);
        Ok(Some(appended))
    }

    fn copy_body(&self, new: &mut super::publish::NewJournal, mut at: u64) -> Result<()> {
        let failed = |err| Error::io("copy", self.target.path(), err).committed(false);
        while at < self.head.journal_end {
            let until = self.head.journal_end.min(at + CHUNK_BYTES as u64);
            let bytes = self.journal.read_range(at, until).map_err(failed)?;
            if bytes.is_empty() {
                return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
            }
            new.write(&bytes).map_err(failed)?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// The records of the index for a body that starts elsewhere.
    fn shifted_records(&self, old_header: u64, new_header: u64) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        let Some(index) = self.matching_index()? else { return Ok(records) };
        while (records.len() as u64) < self.head.index_len {
            let at = records.len() as u64;
            let batch = index.records(at, self.head.index_len - at);
            let batch = batch.map_err(|err| self.index_failed(err))?;
            if batch.is_empty() {
                return Err(Index::damaged(at).at(self.target.path()));
            }
            for record in batch {
                let Some(mut record) = record else {
                    return Err(Index::damaged(at).at(self.target.path()));
                };
                for edge in [&mut record.segment.start, &mut record.segment.end] {
                    let Some(body) = edge.checked_sub(old_header) else {
                        return Err(Index::damaged(at).at(self.target.path()));
                    };
                    *edge = new_header + body;
                }
                (record.reach, record.number) = (0, 0);
                records.push(record);
            }
        }
        Ok(records)
    }
}
