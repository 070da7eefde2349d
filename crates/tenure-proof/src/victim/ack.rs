//! What a victim has acknowledged: one line each, `ACK KIND NUMBER...`, written in one piece.

use std::fmt;
use std::str::FromStr;

/// Something that must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ack {
    /// `state.json` has this number.
    Document(u64),
    /// A batch in `log.jsonl`: writer, its number, its lines, the number of its first entry.
    Batch {
        /// Who appended it.
        writer: u64,
        /// Which of the writer's batches it is.
        batch: u64,
        /// The sequence number of its first line.
        first: u64,
    },
    /// `both.json` has this number, and `both.jsonl` the line of this writer's step.
    Both {
        /// The document's number.
        number: u64,
        /// Who wrote it.
        writer: u64,
        /// In which of its steps.
        step: u64,
    },
    /// A lock on `turn` drew this fence.
    Lock(u64),
    /// A lease on `session` drew this fence.
    Lease(u64),
    /// The archive of `log.jsonl` with this number is there.
    Archive(u64),
    /// A batch in `stamped.jsonl`, which came with a header of its own.
    Stamp {
        /// Who appended it.
        writer: u64,
        /// Which of the writer's batches it is.
        batch: u64,
        /// The sequence number of its first line.
        first: u64,
    },
    /// The writer's own key has this number.
    Key {
        /// Whose it is.
        writer: u64,
        /// Its number.
        number: u64,
    },
    /// A lock on a key that comes and goes drew this fence.
    KeyFence(u64),
    /// A key was removed.
    Gone {
        /// Who had set it.
        writer: u64,
        /// In which of its steps.
        step: u64,
    },
    /// A key was pruned.
    Pruned {
        /// Who had set it.
        writer: u64,
        /// In which of its steps.
        step: u64,
    },
    /// `loose.json` has this number, durably.
    Loose(u64),
    /// A batch in `loose.jsonl`.
    LooseBatch {
        /// Who appended it.
        writer: u64,
        /// Which of the writer's batches it is.
        batch: u64,
        /// The sequence number of its first line.
        first: u64,
        /// Whether it was synced.
        durable: bool,
    },
}

impl Ack {
    /// Its kind and its numbers.
    fn words(self) -> (&'static str, Vec<u64>) {
        match self {
            Self::Document(n) => ("document", vec![n]),
            Self::Batch { writer, batch, first } => ("batch", vec![writer, batch, first]),
            Self::Both { number, writer, step } => ("both", vec![number, writer, step]),
            Self::Lock(fence) => ("lock", vec![fence]),
            Self::Lease(fence) => ("lease", vec![fence]),
            Self::Archive(number) => ("archive", vec![number]),
            Self::Stamp { writer, batch, first } => ("stamp", vec![writer, batch, first]),
            Self::Key { writer, number } => ("key", vec![writer, number]),
            Self::KeyFence(fence) => ("key-fence", vec![fence]),
            Self::Gone { writer, step } => ("gone", vec![writer, step]),
            Self::Pruned { writer, step } => ("pruned", vec![writer, step]),
            Self::Loose(number) => ("loose", vec![number]),
            Self::LooseBatch { writer, batch, first, durable } => {
                ("loose-batch", vec![writer, batch, first, durable.into()])
            }
        }
    }

    fn from_words(kind: &str, numbers: &[u64]) -> Option<Self> {
        Some(match (kind, numbers) {
            ("document", &[n]) => Self::Document(n),
            ("batch", &[writer, batch, first]) => Self::Batch { writer, batch, first },
            ("both", &[number, writer, step]) => Self::Both { number, writer, step },
            ("lock", &[fence]) => Self::Lock(fence),
            ("lease", &[fence]) => Self::Lease(fence),
            ("archive", &[number]) => Self::Archive(number),
            ("stamp", &[writer, batch, first]) => Self::Stamp { writer, batch, first },
            ("key", &[writer, number]) => Self::Key { writer, number },
            ("key-fence", &[fence]) => Self::KeyFence(fence),
            ("gone", &[writer, step]) => Self::Gone { writer, step },
            ("pruned", &[writer, step]) => Self::Pruned { writer, step },
            ("loose", &[number]) => Self::Loose(number),
            ("loose-batch", &[writer, batch, first, durable]) => {
                Self::LooseBatch { writer, batch, first, durable: durable == 1 }
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Ack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, numbers) = self.words();
        write!(f, "ACK {kind}")?;
        numbers.iter().try_for_each(|number| write!(f, " {number}"))
    }
}

impl FromStr for Ack {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let is_ack = words.next() == Some("ACK");
        let kind = words.next().filter(|_| is_ack);
        let numbers: Option<Vec<u64>> = words.map(|word| word.parse().ok()).collect();
        let found = kind.zip(numbers).and_then(|(kind, found)| Self::from_words(kind, &found));
        found.ok_or_else(|| format!("`{line}` is no acknowledgement"))
    }
}

/// The acknowledgements in `text`; an unfinished last line does not count.
pub fn acks_in(text: &str) -> Vec<Ack> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().filter_map(|line| line.parse().ok()).collect()
}

/// The lines that say `acks`.
pub fn lines_of(acks: &[Ack]) -> String {
    acks.iter().flat_map(|ack| [ack.to_string(), "\n".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::{Ack, acks_in, lines_of};

    #[test]
    fn a_line_says_what_it_was_made_from() {
        let all = [
            Ack::Document(1),
            Ack::Batch { writer: 2, batch: 3, first: 4 },
            Ack::Both { number: 5, writer: 2, step: 3 },
            Ack::Lock(6),
            Ack::Lease(7),
            Ack::Archive(8),
            Ack::Stamp { writer: 2, batch: 3, first: 9 },
            Ack::Key { writer: 2, number: 10 },
            Ack::KeyFence(11),
            Ack::Gone { writer: 2, step: 12 },
            Ack::Pruned { writer: 2, step: 13 },
            Ack::Loose(14),
            Ack::LooseBatch { writer: 2, batch: 3, first: 15, durable: true },
            Ack::LooseBatch { writer: 2, batch: 4, first: 16, durable: false },
        ];
        assert_eq!(acks_in(&lines_of(&all)), all);
        assert_eq!(acks_in("ACK lock 1\nACK lock 12"), [Ack::Lock(1)], "the last line is cut");
    }
}
