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
}

impl fmt::Display for Ack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Document(n) => write!(f, "ACK document {n}"),
            Self::Batch { writer, batch, first } => {
                write!(f, "ACK batch {writer} {batch} {first}")
            }
            Self::Both { number, writer, step } => {
                write!(f, "ACK both {number} {writer} {step}")
            }
            Self::Lock(fence) => write!(f, "ACK lock {fence}"),
            Self::Lease(fence) => write!(f, "ACK lease {fence}"),
        }
    }
}

impl FromStr for Ack {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |word: &str| word.parse().map_err(|_| format!("`{word}` is no number"));
        match words[..] {
            ["ACK", "document", n] => Ok(Self::Document(number(n)?)),
            ["ACK", "batch", writer, batch, first] => Ok(Self::Batch {
                writer: number(writer)?,
                batch: number(batch)?,
                first: number(first)?,
            }),
            ["ACK", "both", n, writer, step] => {
                Ok(Self::Both { number: number(n)?, writer: number(writer)?, step: number(step)? })
            }
            ["ACK", "lock", fence] => Ok(Self::Lock(number(fence)?)),
            ["ACK", "lease", fence] => Ok(Self::Lease(number(fence)?)),
            _ => Err(format!("`{line}` is no acknowledgement")),
        }
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
        ];
        assert_eq!(acks_in(&lines_of(&all)), all);
        assert_eq!(acks_in("ACK lock 1\nACK lock 12"), [Ack::Lock(1)], "the last line is cut");
    }
}
