//! What a worker reports to its parent, one line each. A report is a promise: half a line is none.

use std::fmt;

use super::finding::{Fault, Finding, Thing};
use super::ledger::Span;
use super::presence::Overlap;

/// A report of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// It held the lock under this fence (0: shared, or without fences) and has released it.
    Held { fence: u64 },
    /// It changed the document, whose total is now this.
    Counted { total: u64 },
    /// The same for a key of the collection.
    KeyCounted { key: usize, total: u64 },
    /// The state of a document of its own in the collection, named by a number.
    Own { number: u64, state: Own },
    /// It appended this batch, whose lines are numbered from `first` (0: it got no number).
    Appended { batch: u64, first: u64 },
    /// It was granted the lease, or a renewal, and has it for this time unless it ends it.
    Leased(Span),
    /// It is about to take the lease over; its next lease is the result.
    Taking { at: u64 },
    /// It is about to end the lease, or no longer uses it.
    Ending { fence: u64, at: u64 },
    /// It wrote this batch under the fence of a lease.
    Wrote { fence: u64, batch: u64 },
    /// It read, and the content was correct.
    Read { thing: Thing },
    /// It started a child.
    Child,
    /// It forked inside a hold.
    Forked,
    /// It is inside, and so is another.
    Two(Overlap),
    /// It found something.
    Bad(Finding),
    /// For a history: it calls now.
    Call { object: String, action: String, arguments: Vec<u64>, at: u64 },
    /// For a history: the call returned.
    Return { answer: Vec<u64>, at: u64 },
    /// For a history: the call failed openly, and may have changed something or not.
    Refused { unchanged: bool },
}

/// What is known of a worker's own document in the collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    Made,
    Removing,
    Removed,
}

impl Own {
    fn name(self) -> &'static str {
        match self {
            Self::Made => "made",
            Self::Removing => "removing",
            Self::Removed => "removed",
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { fence } => write!(f, "held {fence}"),
            Self::Counted { total } => write!(f, "counted {total}"),
            Self::KeyCounted { key, total } => write!(f, "key {key} {total}"),
            Self::Own { number, state } => write!(f, "{} {number}", state.name()),
            Self::Appended { batch, first } => write!(f, "appended {batch} {first}"),
            Self::Leased(Span { fence, called, from, until }) => {
                write!(f, "leased {fence} {called} {from} {until}")
            }
            Self::Taking { at } => write!(f, "taking {at}"),
            Self::Ending { fence, at } => write!(f, "ending {fence} {at}"),
            Self::Wrote { fence, batch } => write!(f, "wrote {fence} {batch}"),
            Self::Read { thing } => write!(f, "read {}", thing.name()),
            Self::Child => write!(f, "child"),
            Self::Forked => write!(f, "forked"),
            Self::Two(Overlap { place, flag, at }) => write!(f, "two {place} {flag} {at}"),
            Self::Bad(Finding { thing, fault, detail }) => {
                write!(f, "bad {} {} {}", thing.name(), fault.code(), detail.escape_debug())
            }
            Self::Call { object, action, arguments, at } => {
                write!(f, "call {object} {action} {at}")?;
                arguments.iter().try_for_each(|argument| write!(f, " {argument}"))
            }
            Self::Refused { unchanged } => write!(f, "refused {}", u64::from(*unchanged)),
            Self::Return { answer, at } => {
                write!(f, "return {at}")?;
                answer.iter().try_for_each(|part| write!(f, " {part}"))
            }
        }
    }
}

impl Word {
    /// The meaning of a whole line; `None` for half a line or another program's.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let line = line.strip_suffix('\n')?;
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "bad" => {
                let mut words = rest.splitn(3, ' ');
                let thing = Thing::parse(words.next()?)?;
                let fault = Fault::parse(words.next()?)?;
                return Some(Self::Bad(Finding::new(thing, fault, words.next()?)));
            }
            "call" => return Self::parse_call(rest),
            "read" => return Thing::parse(rest).map(|thing| Self::Read { thing }),
            "child" => return Some(Self::Child),
            "forked" => return Some(Self::Forked),
            _ => {}
        }
        let numbers: Option<Vec<u64>> = rest.split(' ').map(|word| word.parse().ok()).collect();
        let place = |place: u64| usize::try_from(place).ok();
        Some(match (verb, numbers?.as_slice()) {
            ("held", &[fence]) => Self::Held { fence },
            ("counted", &[total]) => Self::Counted { total },
            ("key", &[key, total]) => Self::KeyCounted { key: place(key)?, total },
            ("made", &[number]) => Self::Own { number, state: Own::Made },
            ("removing", &[number]) => Self::Own { number, state: Own::Removing },
            ("removed", &[number]) => Self::Own { number, state: Own::Removed },
            ("appended", &[batch, first]) => Self::Appended { batch, first },
            ("leased", &[fence, called, from, until]) => {
                Self::Leased(Span { fence, called, from, until })
            }
            ("taking", &[at]) => Self::Taking { at },
            ("ending", &[fence, at]) => Self::Ending { fence, at },
            ("wrote", &[fence, batch]) => Self::Wrote { fence, batch },
            ("return", &[at, ref answer @ ..]) => Self::Return { answer: answer.to_vec(), at },
            ("refused", &[unchanged]) => Self::Refused { unchanged: unchanged != 0 },
            ("two", &[at_place, flag, at]) => {
                Self::Two(Overlap { place: place(at_place)?, flag, at })
            }
            _ => return None,
        })
    }

    fn parse_call(rest: &str) -> Option<Self> {
        let mut words = rest.split(' ');
        let (object, action) = (words.next()?.to_owned(), words.next()?.to_owned());
        let at = words.next()?.parse().ok()?;
        let arguments: Option<Vec<_>> = words.map(|word| word.parse().ok()).collect();
        Some(Self::Call { object, action, arguments: arguments?, at })
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, Finding, Overlap, Own, Span, Thing, Word};

    #[test]
    fn words_are_heard_as_they_were_said_and_half_a_line_is_nothing() {
        let said = [
            Word::Held { fence: 7 },
            Word::Counted { total: 8 },
            Word::KeyCounted { key: 1, total: 2 },
            Word::Own { number: 4, state: Own::Removing },
            Word::Appended { batch: 3, first: 9 },
            Word::Leased(Span { fence: 1, called: 2, from: 3, until: 4 }),
            Word::Taking { at: 4 },
            Word::Ending { fence: 1, at: 5 },
            Word::Wrote { fence: 1, batch: 5 },
            Word::Read { thing: Thing::Journal },
            Word::Child,
            Word::Forked,
            Word::Two(Overlap { place: 3, flag: 9, at: 10 }),
            Word::Bad(Finding::new(Thing::Lease, Fault::Lost, "two words")),
            Word::Call { object: "o".into(), action: "cas".into(), arguments: vec![1, 3], at: 2 },
            Word::Return { answer: vec![1, 2], at: 3 },
            Word::Refused { unchanged: true },
        ];
        for word in said {
            let line = format!("{word}\n");
            assert_eq!(Word::parse(&line), Some(word));
            assert_eq!(Word::parse(line.trim_end()), None);
        }
        assert_eq!(Word::parse("nonsense 1\n"), None);
    }
}
