//! Proof of exclusive access: a second lock, taken only inside the critical section.
//!
//! # Invariants
//!
//! 1. The lock of the claim file is a kernel lock, taken without waiting, and released by death.
//! 2. While a claim lasts, the file holds the number of its process. Otherwise it is empty, or
//!    holds the number of a process that was killed inside.
//!
//! The number is needed because a dying process does not release all its locks in one moment. If
//! the lock under test is released first, the next holder finds the claim of a dead process, and
//! that is no double holder. The parent knows which processes it killed and does not count those.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tenure_shipped::open_alone;

/// The claim of a process that holds the lock, until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    /// Ours, unless another process is inside.
    file: Option<File>,
    other: Option<u32>,
}

impl Claim {
    /// Claims exclusive access in `directory`.
    pub(super) fn stake(directory: &Path) -> io::Result<Self> {
        let path = path(directory);
        let Some(mut file) = open_alone(&path)? else {
            // No number: that process entered or left at this moment. In doubt nothing is counted.
            let other = fs::read_to_string(&path).ok().and_then(|pid| pid.trim().parse().ok());
            return Ok(Self { file: None, other });
        };
        // One write of fixed length, so that nothing of a killed predecessor stays.
        file.write_all(format!("{:<20}\n", std::process::id()).as_bytes())?;
        Ok(Self { file: Some(file), other: None })
    }

    /// Whether another process was inside before.
    pub(super) fn is_second(&self) -> bool {
        self.file.is_none()
    }

    /// The process that is inside too.
    pub(super) fn other(&self) -> Option<u32> {
        self.other
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // Emptied before the close unlocks it: a process outside is never counted.
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
