//! The proof of being alone: a second lock, taken inside the critical section and nowhere else.
//!
//! # Invariants
//!
//! 1. The lock of the claim file is a kernel lock, taken without waiting, and freed by death.
//! 2. While a claim lasts, the file holds the number of its process. Otherwise it is empty, or holds the
//!    number of one that was killed inside.
//!
//! The number is there because a dying process does not give back all its locks in one moment. If the
//! lock under test goes first, the next holder meets the claim of a dead one, and that is no double
//! holder. The parent knows whom it has killed and does not count those.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tenure_shipped::open_alone;

/// The claim of a process that was told it is alone, until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    /// Ours, unless somebody else is inside.
    file: Option<File>,
    other: Option<u32>,
}

impl Claim {
    /// Claims to be alone in `directory`.
    pub(super) fn stake(directory: &Path) -> io::Result<Self> {
        let path = path(directory);
        let Some(mut file) = open_alone(&path)? else {
            // No number: that one came or went at this very moment. In doubt nobody is accused.
            let other = fs::read_to_string(&path).ok().and_then(|pid| pid.trim().parse().ok());
            return Ok(Self { file: None, other });
        };
        // One write of one length, so that nothing of a predecessor killed inside stays.
        file.write_all(format!("{:<20}\n", std::process::id()).as_bytes())?;
        Ok(Self { file: Some(file), other: None })
    }

    /// The process that is inside too.
    pub(super) fn other(&self) -> Option<u32> {
        self.other
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // Emptied before the close unlocks it: whoever is outside is never accused.
            let _ = file.set_len(0);
        }
    }
}

fn path(directory: &Path) -> PathBuf {
    directory.join("inside")
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::Claim;

    #[test]
    fn the_second_one_inside_learns_who_the_first_is() {
        let directory = Scratch::new().expect("a scratch directory");
        let first = Claim::stake(directory.path()).expect("a claim");
        assert_eq!(first.other(), None);
        let second = Claim::stake(directory.path()).expect("an answer");
        assert_eq!(second.other(), Some(std::process::id()));
        drop(first);
        let third = Claim::stake(directory.path()).expect("a claim");
        assert_eq!(third.other(), None);
    }
}
