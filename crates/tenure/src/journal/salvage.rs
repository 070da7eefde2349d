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

    fn segment(found: &str, lines: u32, foreign: u32) -> Segment {
        let (start, end) = (100, 100 + found.len() as u64);
        Segment { start, end, seq: 10, lines, foreign, sum: 0 }
    }

    fn kept(found: &str, lines: u32) -> Vec<(Option<u64>, u64)> {
        let salvaged = salvage(found.as_bytes(), &segment(found, lines, 0), true);
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
        // The last of two numbers could be that of a line which is gone.
        assert_eq!(kept("1\nx\ny\n4\n", 2), [(Some(10), 1), (None, 1)]);
        assert_eq!(kept("1\nx\ny\n4\n", 3), [(Some(10), 1), (Some(12), 1)]);
        assert_eq!(kept("x\n2\n3\n", 4), [(Some(12), 2)]);
        assert_eq!(kept("1\n2\nx\n", 4), [(Some(10), 2)]);
    }

    /// What is left of a range, and its spans from byte 100 on: how long, which number, how many lines.
    #[test]
    fn j4_every_byte_of_the_range_is_in_a_span_with_its_checksum() {
        type Case = (&'static str, u32, &'static str, &'static [(u64, Option<u64>, u64)]);
        let cases: [Case; 9] = [
            (
                "{}\n{x\n{}\n{}\n",
                4,
                "{}\n  \n{}\n{}\n",
                &[(3, Some(10), 1), (3, Some(11), 0), (6, Some(12), 2)],
            ),
            ("{}\n\n{}\n", 2, "{}\n\n{}\n", &[(7, Some(10), 2)]),
            ("\n{}\n", 1, "\n{}\n", &[(1, Some(10), 0), (3, Some(10), 1)]),
            ("{x\n\n{}\n", 2, "  \n\n{}\n", &[(4, Some(10), 0), (3, Some(11), 1)]),
            ("{}\n{}", 2, "{}\n{}", &[(5, Some(10), 2)]),
            ("{}\n{x", 2, "{}\n  ", &[(3, Some(10), 1), (2, Some(11), 0)]),
            ("1\n2\n3\n", 2, "1\n2\n3\n", &[(4, Some(10), 2), (2, None, 1)]),
            (
                "1\nx\n3\n\n4\n",
                2,
                "1\n \n3\n\n4\n",
                &[(2, Some(10), 1), (2, Some(11), 0), (5, None, 2)],
            ),
            (
                "1\n2\nx\n4\n",
                5,
                "1\n2\n \n4\n",
                &[(4, Some(10), 2), (2, Some(12), 0), (2, Some(14), 1)],
            ),
        ];
        for (found, lines, left, spans) in cases {
            for foreign in [0, lines - 1, lines] {
                let all_foreign = foreign == lines;
                let salvaged = salvage(found.as_bytes(), &segment(found, lines, foreign), true);
                assert_eq!(salvaged.bytes, left.as_bytes(), "{found:?}");
                let mut start = 100;
                let expected = spans.iter().map(|(len, seq, lines)| {
                    let end = start + len;
                    let at = |offset: u64| usize::try_from(offset - 100).unwrap_or(0);
                    let sum = checksum::of(&left.as_bytes()[at(start)..at(end)]);
                    // They are of others only if all were.
                    let foreign = if all_foreign { *lines } else { 0 };
                    let span = Span { start, end, seq: *seq, lines: *lines, foreign, sum };
                    start = end;
                    span
                });
                assert_eq!(salvaged.spans, expected.collect::<Vec<_>>(), "{found:?} {foreign}");
            }
        }
    }

    #[test]
    fn j4_lines_are_taken_for_json_if_most_of_them_are() {
        for (damaged, sample, json) in [
            ("", "", false),
            ("x\n", "", false),
            ("{}\n", "", true),
            ("{}\nx\n", "", true),
            ("{}\nx\n", "y\n", false),
            ("x\n", "{}\n", true),
            ("x\ny\n", "{}\n", false),
            ("\n \t\n", "\n\0\n", false),
            ("x\n\n\n\n", "1\n\n", true),
        ] {
            assert_eq!(
                is_json(damaged.as_bytes(), sample.as_bytes()),
                json,
                "{damaged:?} {sample:?}"
            );
        }
    }

    #[test]
    fn j4_a_line_can_be_read_if_it_is_text_without_control_characters() {
        let cases: [(&[u8], bool, bool); 8] = [
            (b"text", true, false),
            (b"{\"a\":1}", true, true),
            (b"\t{}\r", true, true),
            (b"a\tb\r", true, false),
            (b"a\x01b", false, false),
            (b"\"a\x7fb\"", false, false),
            (b"\"\xff\"", false, false),
            ("\"\u{e9}\"".as_bytes(), true, true),
        ];
        for (line, as_text, as_json) in cases {
            assert_eq!(can_be_read(line, false), as_text, "{line:?}");
            assert_eq!(can_be_read(line, true), as_json, "{line:?}");
        }
    }
}
