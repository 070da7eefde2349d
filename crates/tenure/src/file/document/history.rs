//! Earlier versions: what undo brings back, and how many are kept.
//!
//! The version before the last durable change is `.good`, for every document. A document that asks for more
//! ([`Document::keep_versions`]) has the number in its record. Before a change overwrites `.good` of such a
//! document, that version gets a second name, `.history.K`; K grows. Other documents do nothing of this.
//!
//! Invariants
//! 1. A version under `.history.K` was synced before it was published, like every `.good`.
//! 2. Histories are for people: a change never fails because one could not be kept.
//!
//! Crash: the second name is made before `.good` is overwritten. After it `.good` and the newest
//! `.history.K` are one file, which counts once; the next change makes no third name.

use super::change::Document;
use super::read::{self, Content};
use super::versions::{forget_older, kept};
use crate::error::{Error, ErrorKind, Result};
use crate::file::commit::Commit;
use crate::options::WriteOptions;
use crate::printable::to_create;
use crate::results::Earlier;

/// More would make every change list them for long.
const VERSIONS_MAX: u16 = 1000;

impl Document {
    /// Earlier versions, the newest first: the one before the last durable change, then those that
    /// [`Self::keep_versions`] has kept. What cannot be parsed is left out.
    pub(crate) fn earlier(&self) -> Result<Vec<Earlier>> {
        let target = self.target().current()?;
        let mut versions = Vec::new();
        let mut last = None;
        let kept = kept(&target).into_iter().rev().map(|(_, path)| path);
        for path in std::iter::once(target.sidecar("good")).chain(kept) {
            let Some(content) = Content::read(&target, &path)? else { continue };
            if last.replace(content.stat.id) == Some(content.stat.id) {
                continue; // A second name of the one before.
            }
            let Ok(value) = content.parse(&target) else { continue };
            let written_us = u64::try_from(content.stat.modified_ns / 1000).unwrap_or(0);
            versions.push(Earlier { value, bytes: content.bytes, written_us });
        }
        Ok(versions)
    }

    /// Keeps so many earlier versions from now on; 1 is what every document has.
    pub(crate) fn keep_versions(&self, count: u16, options: &WriteOptions) -> Result<()> {
        if !(1..=VERSIONS_MAX).contains(&count) {
            let detail = format!("the number of kept versions is 1 to {VERSIONS_MAX}");
            return Err(
                Error::new(ErrorKind::Invalid, "keep versions of", detail).at(self.target().path())
            );
        }
        if self.read()?.is_none() {
            let detail = "there is no document";
            return Err(Error::new(ErrorKind::NotFound, "keep versions of", detail)
                .at(self.target().path())
                .hint(format!(
                    "check the name, or create it: {}",
                    to_create(self.target().path())
                )));
        }
        self.target().at_home(|target| {
            let mut commit = Commit::begin(target, options)?;
            commit.seen.record.history = u64::from(count - 1);
            commit.write_record()?;
            // A power loss must not take back what the caller was promised. A crash before leaves the old
            // number.
            commit.sync_record()?;
            forget_older(target, &kept(target), u64::from(count - 1));
            Ok(())
        })
    }

    /// How many earlier versions are kept.
    pub(crate) fn kept_versions(&self) -> Result<u16> {
        let history = read::history(&*self.target().current()?)?;
        Ok(u16::try_from(history).unwrap_or(VERSIONS_MAX).saturating_add(1))
    }
}
