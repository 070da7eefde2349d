//! What a journal must return: every acknowledged line once, whole, and under its acknowledged
//! number.
//!
//! # Invariants
//!
//! 1. A line shows by itself whether it is whole and who wrote it. No code of tenure decides that.
//! 2. Numbers are final: readers that get the same number get the same line, whenever they read.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

use crate::torture::content::{Line, shortened};
use crate::torture::finding::Fault;
use crate::torture::judge::plain_lines;

/// Who wrote a line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Id {
    /// Appended through tenure: which batch of whom, and which part of it.
    Ours { slot: usize, batch: u64, part: u64 },
    /// Appended by another tool: whose, and which of theirs.
    Foreign { writer: u64, number: u64 },
    /// Neither as a whole.
    Torn(String),
}

impl Id {
    /// Reads a line of a journal.
    pub(super) fn of(bytes: &[u8]) -> Self {
        if let Ok(Line { slot, batch, part, .. }) = Line::parse(bytes) {
            return Self::Ours { slot, batch, part };
        }
        let text = String::from_utf8_lossy(bytes);
        let numbers = text.strip_prefix("[\"foreign\",").and_then(|rest| {
            let mut numbers = rest.split(',');
            Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
        });
        match numbers {
            Some((writer, number)) if foreign_line(writer, number) == text => {
                Self::Foreign { writer, number }
            }
            _ => Self::Torn(format!("{} bytes, {}", bytes.len(), shortened(&text))),
        }
    }

    /// As [`fmt::Display`] writes it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(' ')?;
        let mut numbers = rest.split(' ').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        Some(match kind {
            "ours" => {
                let slot = usize::try_from(next()?).ok()?;
                Self::Ours { slot, batch: next()?, part: next()? }
            }
            "foreign" => Self::Foreign { writer: next()?, number: next()? },
            "torn" => Self::Torn(rest.to_owned()),
            _ => return None,
        })
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours { slot, batch, part } => write!(f, "ours {slot} {batch} {part}"),
            Self::Foreign { writer, number } => write!(f, "foreign {writer} {number}"),
            Self::Torn(what) => write!(f, "torn {what}"),
        }
    }
}

/// A line as another tool writes it: longer than half a page, and never as long as the one before,
/// so that lines cross page boundaries at every offset.
pub(super) fn foreign_line(writer: u64, number: u64) -> String {
    let length = 2600 + (writer * 131 + number * 277) % 900;
    let padding = "~".repeat(usize::try_from(length).unwrap_or(0));
    format!("[\"foreign\",{writer},{number},\"{padding}\",{number}]")
}

/// What was promised about a journal.
#[derive(Debug, Default)]
pub(super) struct Promised {
    /// The number of the first line and the count of lines of each acknowledged batch.
    pub(super) batches: HashMap<(usize, u64), (u64, u64)>,
    /// The lines of other tools that are complete.
    pub(super) foreign: Vec<(u64, u64)>,
}

/// The entries that a reader got, in this order.
pub(super) type Given = Vec<(u64, Id)>;

impl Promised {
    /// Compares what one reader got, from entry 1 on, with the promises.
    pub(super) fn judge(&self, reader: &str, given: &Given) -> Vec<(Fault, String)> {
        let mut faults = Vec::new();
        let mut expected = 1;
        let mut times: HashMap<&Id, u64> = HashMap::new();
        for (number, id) in given {
            if *number > expected {
                let last = number - 1;
                let detail = format!("{reader}: entries {expected} to {last} were skipped");
                faults.push((Fault::Lost, detail));
            }
            if *number < expected {
                faults.push((Fault::Twice, format!("{reader}: entry {number} ({id}) came again")));
            }
            expected = (*number).max(expected - 1) + 1;
            if let Id::Torn(what) = id {
                faults.push((Fault::Torn, format!("{reader}: entry {number}: {what}")));
            }
            *times.entry(id).or_default() += 1;
            if let Id::Ours { slot, batch, part } = id
                && let Some((first, _)) = self.batches.get(&(*slot, *batch))
                && first + part - 1 != *number
            {
                let told = first + part - 1;
                let detail = format!("{reader}: {id} is entry {number}; its writer got {told}");
                faults.push((Fault::Renumbered, detail));
            }
        }
        let once = |id: Id| match times.get(&id).copied().unwrap_or(0) {
            0 => Some((Fault::Lost, format!("{reader} was never given {id}"))),
            1 => None,
            many => Some((Fault::Twice, format!("{reader} was given {id} {many} times"))),
        };
        faults.extend(self.lines().into_iter().filter_map(once));
        faults
    }

    /// Compares the plain files with the promises: the journal and its archives, as `cat` shows
    /// them.
    pub(super) fn judge_plain(&self, journal: &Path) -> Vec<(Fault, String)> {
        let lines = match plain_lines(journal) {
            Ok(lines) => lines,
            Err(why) => return vec![(Fault::Corrupt, why)],
        };
        let mut times: HashMap<Id, u64> = HashMap::new();
        for line in lines.iter().filter(|line| !line.is_empty()) {
            *times.entry(Id::of(line)).or_default() += 1;
        }
        let torn = times.keys().filter_map(|id| match id {
            Id::Torn(what) if !what.contains("header") => {
                Some((Fault::Corrupt, format!("the plain files have a line of {what}")))
            }
            _ => None,
        });
        let mut faults: Vec<_> = torn.collect();
        faults.extend(self.lines().into_iter().filter_map(|id| match times.get(&id) {
            None => Some((Fault::Lost, format!("{id} is not in the plain files"))),
            Some(1) => None,
            Some(many) => Some((Fault::Twice, format!("{id} is in the plain files {many} times"))),
        }));
        faults
    }

    /// Every line that must be there.
    fn lines(&self) -> Vec<Id> {
        let ours = self.batches.iter().flat_map(|((slot, batch), (_, lines))| {
            (1..=*lines).map(|part| Id::Ours { slot: *slot, batch: *batch, part })
        });
        let foreign = self.foreign.iter();
        let foreign =
            foreign.map(|(writer, number)| Id::Foreign { writer: *writer, number: *number });
        let mut lines: Vec<_> = ours.chain(foreign).collect();
        lines.sort_unstable();
        lines
    }
}

/// Two readers must have got the same lines under the same numbers.
pub(super) fn agree(one: (&str, &Given), other: (&str, &Given)) -> Vec<(Fault, String)> {
    let known: BTreeMap<_, _> = one.1.iter().map(|(number, id)| (*number, id)).collect();
    let differ = other.1.iter().filter_map(|(number, id)| {
        let before = known.get(number).filter(|before| **before != id)?;
        let (first, second) = (one.0, other.0);
        Some((
            Fault::Renumbered,
            format!("entry {number} is {before} to {first} and {id} to {second}"),
        ))
    });
    differ.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(batch: u64, part: u64) -> Id {
        Id::Ours { slot: 0, batch, part }
    }

    fn foreign(number: u64) -> Id {
        Id::Foreign { writer: 1, number }
    }

    fn faults(given: &[(u64, Id)]) -> Vec<Fault> {
        let batches = HashMap::from([((0, 7), (1, 2))]);
        let promised = Promised { batches, foreign: vec![(1, 0), (1, 1)] };
        let faults = promised.judge("it", &given.to_vec());
        faults.into_iter().map(|(fault, _)| fault).collect()
    }

    #[test]
    fn lines_are_known_and_halves_are_torn() {
        for number in 0..30 {
            let text = foreign_line(1, number);
            assert_eq!(Id::of(text.as_bytes()), foreign(number));
            assert!((2600..4096).contains(&text.len()), "{}", text.len());
            for cut in [1, 40, 1000, text.len() - 1] {
                assert!(matches!(Id::of(&text.as_bytes()[..cut]), Id::Torn(_)), "{cut}");
                assert!(matches!(Id::of(&text.as_bytes()[cut..]), Id::Torn(_)), "{cut}");
            }
        }
        for id in [ours(3, 1), foreign(4), Id::Torn("so `x y`".to_owned())] {
            assert_eq!(Id::parse(&id.to_string()), Some(id));
        }
    }

    #[test]
    fn a_reader_is_held_to_every_line_once_and_every_number() {
        let good = [(1, ours(7, 1)), (2, ours(7, 2)), (3, foreign(0)), (4, foreign(1))];
        assert_eq!(faults(&good), []);
        // An append that was not acknowledged may be there.
        assert_eq!(faults(&[&good[..], &[(5, ours(9, 1))]].concat()), []);
        assert_eq!(faults(&good[..3]), [Fault::Lost]);
        assert_eq!(faults(&[&good[..], &[(5, foreign(1))]].concat()), [Fault::Twice]);
        let skipped = [good[0].clone(), good[1].clone(), good[2].clone(), (5, foreign(1))];
        assert_eq!(faults(&skipped), [Fault::Lost]);
        let again = [&good[..], &[(4, ours(9, 1))]].concat();
        assert_eq!(faults(&again), [Fault::Twice]);
        let torn = [&good[..], &[(5, Id::Torn("half".to_owned()))]].concat();
        assert_eq!(faults(&torn), [Fault::Torn]);
        let moved = [(1, foreign(0)), (2, ours(7, 1)), (3, ours(7, 2)), (4, foreign(1))];
        assert_eq!(faults(&moved), [Fault::Renumbered, Fault::Renumbered]);
    }

    #[test]
    fn readers_that_disagree_are_noticed() {
        let one = vec![(1, ours(7, 1)), (2, foreign(0))];
        let other = vec![(2, foreign(1)), (3, foreign(0))];
        assert!(agree(("one", &one), ("other", &one)).is_empty());
        let faults = agree(("one", &one), ("other", &other));
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0].0, Fault::Renumbered);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "plain files for a plain reader")]
    fn the_plain_files_are_held_to_it_as_well() {
        let dir = tempfile::tempdir().expect("a directory");
        let journal = dir.path().join("j");
        let promised = Promised { foreign: vec![(1, 0), (1, 1)], ..Promised::default() };
        let judge = |archive: &str, text: &str| {
            std::fs::write(dir.path().join("j.1"), archive).expect("written");
            std::fs::write(&journal, text).expect("written");
            let faults = promised.judge_plain(&journal);
            faults.into_iter().map(|(fault, _)| fault).collect::<Vec<_>>()
        };
        let line = |number| format!("{}\n", foreign_line(1, number));
        assert_eq!(judge(&line(0), &line(1)), []);
        assert_eq!(judge("", &line(1)), [Fault::Lost]);
        assert_eq!(judge(&line(0), &(line(0) + &line(1))), [Fault::Twice]);
        assert_eq!(judge(&(line(0) + "half\n"), &line(1)), [Fault::Corrupt]);
    }
}
