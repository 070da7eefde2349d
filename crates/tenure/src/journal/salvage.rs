//! What can be kept of a damaged range: a pure function of its bytes.
//!
//! A line can be read if it is text without control characters and, in a journal of JSON, parses.

use std::ops::Range;

use crate::checksum;

use super::checkpoint::Span;
use super::index::Segment;
use super::lines;

/// The range as it shall be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Salvaged {
    /// As long as before; lines that cannot be read are blanks.
    pub(super) bytes: Vec<u8>,
    /// All of it, with the numbers that can be told.
    pub(super) spans: Vec<Span>,
}

/// Whether the journal's lines are JSON: most of those in the damaged range and in a sample are.
pub(super) fn is_json(damaged: &[u8], sample: &[u8]) -> bool {
    let (mut json, mut other) = (0_u64, 0_u64);
    let all = damaged.split(|byte| *byte == b'\n').chain(sample.split(|byte| *byte == b'\n'));
    for line in all.filter(|line| !lines::is_blank(line)) {
        *(if parses(line) { &mut json } else { &mut other }) += 1;
    }
    json > 0 && json >= other
}

fn parses(line: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
}

fn can_be_read(line: &[u8], json: bool) -> bool {
    let text = std::str::from_utf8(line);
    let clean = text.is_ok_and(|text| text.chars().all(|c| !c.is_control() || "\t\r".contains(c)));
    clean && (!json || parses(line))
}

/// One line of the range, its newline included.
#[derive(Debug)]
struct Line {
    at: Range<usize>,
    blank: bool,
    readable: bool,
}

fn lines_of(bytes: &[u8], json: bool) -> Vec<Line> {
    let mut start = 0;
    let whole = bytes.split_inclusive(|byte| *byte == b'\n').map(|line| {
        let at = start..start + line.len();
        start = at.end;
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let blank = lines::is_blank(text);
        Line { at, blank, readable: blank || can_be_read(text, json) }
    });
    whole.collect()
}

/// The numbers of the entries among `lines`. If there are as many as there were, by their position. If
/// not, the damage made one line of two or two of one: from the beginning up to the first line that
/// cannot be read, and from the end down to the last.
fn numbers(lines: &[Line], segment: &Segment) -> Vec<Option<u64>> {
    let entries: Vec<&Line> = lines.iter().filter(|line| !line.blank).collect();
    let (count, had) = (entries.len() as u64, u64::from(segment.lines));
    let bad = |line: &&Line| !line.readable;
    let first_bad = entries.iter().position(bad).map_or(count, |at| at as u64);
    let behind = entries.iter().rev().position(bad).map_or(0, |at| at as u64);
    let told = (0..count).map(|at| {
        let from_end = count - at;
        if count == had || (at < first_bad && at < had) {
            Some(segment.seq + at)
        } else if from_end <= behind && from_end + first_bad < had {
            Some(segment.next_seq() - from_end)
        } else {
            None
        }
    });
    told.collect()
}

/// Keeps what can be kept of `found`, which `segment` describes as it was.
pub(super) fn salvage(found: &[u8], segment: &Segment, json: bool) -> Salvaged {
    let lines = lines_of(found, json);
    let mut numbers = numbers(&lines, segment).into_iter();
    let mut bytes = found.to_vec();
    let mut spans: Vec<Span> = Vec::new();
    let mut next = segment.seq;
    for line in &lines {
        let number = if line.blank { None } else { numbers.next().flatten() };
        let offset = |at: usize| segment.start + at as u64;
        let (start, end) = (offset(line.at.start), offset(line.at.end));
        let empty = Span { start, end: start, seq: Some(next), lines: 0, foreign: 0, sum: 0 };
        if !line.readable {
            let text = &mut bytes[line.at.clone()];
            text.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
            spans.push(Span { end, ..empty });
            continue;
        }
        let lines = u64::from(!line.blank);
        let foreign = if segment.foreign == segment.lines { lines } else { 0 };
        let follows = spans.last_mut().filter(|span| {
            line.blank || (span.lines > 0 && span.seq.map(|seq| seq + span.lines) == number)
        });
        if let Some(span) = follows {
            (span.end, span.lines, span.foreign) =
                (end, span.lines + lines, span.foreign + foreign);
        } else {
            let seq = if line.blank { empty.seq } else { number };
            spans.push(Span { end, seq, lines, foreign, ..empty });
        }
        next = number.map_or(next, |number| number + 1);
    }
    for span in &mut spans {
        let at = |offset: u64| usize::try_from(offset - segment.start).unwrap_or(usize::MAX);
        span.sum = checksum::of(&bytes[at(span.start)..at(span.end)]);
    }
    Salvaged { bytes, spans }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(found: &str, lines: u32) -> Vec<(Option<u64>, u64)> {
        let segment = Segment { end: found.len() as u64, seq: 10, lines, ..Segment::default() };
        let salvaged = salvage(found.as_bytes(), &segment, true);
        assert_eq!(salvaged.bytes.len(), found.len());
        let spans = salvaged.spans.iter().filter(|span| span.lines > 0);
        spans.map(|span| (span.seq, span.lines)).collect()
    }

    #[test]
    fn j4_lines_around_a_damaged_one_keep_their_numbers() {
        assert_eq!(kept("{}\n{x\n{}\n{}\n", 4), [(Some(10), 1), (Some(12), 2)]);
    }

    #[test]
    fn j4_two_lines_that_became_one_leave_the_others_their_numbers() {
        assert_eq!(kept("{}\n{}x{}\n{}\n", 4), [(Some(10), 1), (Some(13), 1)]);
    }

    #[test]
    fn j4_one_line_that_became_two_leaves_the_others_their_numbers() {
        assert_eq!(kept("{}\n{\"a\n\":1}\n{}\n", 3), [(Some(10), 1), (Some(12), 1)]);
    }

    #[test]
    fn j4_a_number_is_never_given_twice() {
        assert_eq!(kept("1\n2\n3\n", 2), [(Some(10), 2), (None, 1)]);
        assert_eq!(kept("1\nx\n3\n4\n5\n", 2), [(Some(10), 1), (None, 3)]);
    }
}
