//! Removing locks that are provably unused: two small files for each name that was ever locked.
//!
//! A pair of `hold` and `commit` is unused if
//!
//! - the target does not exist, and the pair is all that is left of it: a copy, a log or an event is kept;
//! - the record names no document, no journal, and no hold or lease that did not end properly.
//!   Those stay for a day: the next holder is informed of them, and the token of a lease renews it;
//! - both files can be locked exclusively without waiting. So no process holds them or writes under them,
//!   and one that waits finds its lock file unlinked and starts over (docs/FORMAT.md, L1).
//!
//! # Steps, and what a crash of the process or of the power after each leaves
//!
//! 1. The records are read without a lock. Nothing.
//! 2. The floor of the directory is raised above all of their fences, durably, once for the whole sweep: a
//!    higher floor. A record that drew beyond it meanwhile is in use, and is left alone.
//! 3. For each pair: both locks taken, the record read again. Nothing.
//! 4. `commit` unlinked. A hold without a record: the next record starts above the floor (G4).
//! 5. `hold` unlinked. No unlink is synced. If a power loss brings a record back, it is of another boot: its
//!    next fence is above its own ceiling, the floor and the clock.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Result;
use crate::file::floor;
use crate::file::gate::{self, Turn};
use crate::file::hold::check_named;
use crate::file::record::State;
use crate::file::resolve::{is_checksum, stem_of};
use crate::file::seen::Seen;
use crate::file::status::look;
use crate::file::target::{Target, split_sidecar};
use crate::fs::{Fs, Mode, is_side_dir};
use crate::options::Fence;
use crate::results::Status;
use crate::sys::disk;
use crate::sys::{self, Locks};
use crate::wait::{Request, Wait};

/// One new lock in this many triggers a sweep. Where fewer than `FEW` names have a lock, it removes
/// nothing; otherwise it examines at most `EXAMINED` of them. So eight are examined for each new
/// one, and the number of unused locks stays below a few hundred.
const LOOKS_ONE_IN: u64 = 32;
const FEW: usize = 64;
const EXAMINED: usize = 256;
/// How long a hold that did not end properly, or a lease that is over, is remembered.
const REMEMBERED_US: u64 = 24 * 3600 * 1_000_000;

/// Occasionally removes unused locks beside a target whose lock was just made. On an error they
/// stay.
pub(crate) fn now_and_then(made: &Target) {
    let now_us = sys::wall_time_us();
    if now_us % LOOKS_ONE_IN != 0 {
        return;
    }
    let Ok(names) = made.fs.list(made.side()) else { return };
    let mut stems = only_locked(&names);
    if stems.len() < FEW {
        return;
    }
    // Another part each time.
    let from = usize::try_from(now_us / LOOKS_ONE_IN).unwrap_or(0) % stems.len();
    stems.rotate_left(from);
    stems.truncate(EXAMINED);
    stems.retain(|stem| stem != made.stem());
    let _ = Sweep { fs: &made.fs, dir: made.dir(), side: made.side() }.run(&stems, true);
}

/// The targets directly in `dir` whose locks are unused; with `remove` these are removed.
pub fn sweep(dir: impl AsRef<Path>, remove: bool) -> Result<Vec<PathBuf>> {
    sweep_on(&disk(), dir.as_ref(), remove)
}

/// The same, on another file system.
pub fn sweep_on(fs: &Arc<dyn Fs>, dir: &Path, remove: bool) -> Result<Vec<PathBuf>> {
    let failed = Target::failed;
    let dir = fs.resolve(dir).map_err(failed("resolve", dir))?;
    let mut unused = Vec::new();
    for name in fs.list(&dir).map_err(failed("list", &dir))?.iter().filter(|name| is_side_dir(name))
    {
        let side = dir.join(name);
        let names = fs.list(&side).map_err(failed("list", &side))?;
        unused.extend(Sweep { fs, dir: &dir, side: &side }.run(&only_locked(&names), remove)?);
    }
    unused.sort();
    Ok(unused)
}

/// The stems that have a hold or a record, and no other sidecar.
fn only_locked(names: &[OsString]) -> Vec<String> {
    let mut stems: BTreeMap<&str, bool> = BTreeMap::new();
    for (stem, suffix) in names.iter().filter_map(|name| split_sidecar(name.to_str()?)) {
        *stems.entry(stem).or_insert(true) &= ["hold", "commit"].contains(&suffix);
    }
    stems.into_iter().filter(|(_, only)| *only).map(|(stem, _)| stem.to_owned()).collect()
}

/// A sweep of one directory of sidecars.
struct Sweep<'a> {
    fs: &'a Arc<dyn Fs>,
    dir: &'a Path,
    side: &'a Path,
}

impl Sweep<'_> {
    /// Which of these are unused; with `remove`, which of them were removed.
    fn run(&self, stems: &[String], remove: bool) -> Result<Vec<PathBuf>> {
        let mut unused = Vec::new();
        let mut newest = 0;
        for target in self.targets(stems)? {
            // A record that cannot be read is not known to be unused.
            if let Ok(Some(fence)) = unused_up_to(&target, None) {
                newest = newest.max(fence);
                unused.push(target);
            }
        }
        let Some(first) = unused.first() else { return Ok(Vec::new()) };
        if remove {
            let floor = floor::raise(first, newest, Request::after(Wait::No))?;
            unused.retain(|target| remove_pair(target, floor).unwrap_or(false));
        } else {
            // As far as can be seen without taking the locks.
            let locks = Locks::now();
            let is_held = |status: Status| status.state.is_held();
            unused.retain(|target| !look(target, &locks).is_ok_and(is_held));
        }
        Ok(unused.iter().map(|target| target.path().to_path_buf()).collect())
    }

    /// The targets of these stems that have no file.
    fn targets(&self, stems: &[String]) -> Result<Vec<Target>> {
        let mut targets: Vec<_> =
            stems.iter().map(|stem| Target::of_stem(self.fs, self.dir, self.side, stem)).collect();
        targets.retain(|target| is_missing(self.fs.stat(target.path()).map(drop)));
        // A name too odd for a stem is known by its checksum only.
        if targets.iter().any(|target| is_checksum(target.stem())) {
            let names = self.fs.list(self.dir).map_err(Target::failed("list", self.dir))?;
            let taken: HashSet<String> = names.iter().map(|name| stem_of(name)).collect();
            targets.retain(|target| !taken.contains(target.stem()));
        }
        Ok(targets)
    }
}

/// The largest fence that a record may have given out, if nothing of it has to be kept. `record` is its
/// file, if that is open.
fn unused_up_to(target: &Target, record: Option<&Turn>) -> Result<Option<Fence>> {
    let found = match record {
        Some(turn) => Some((turn.handle().clone(), Seen::read(target, turn.handle().as_ref())?)),
        None => Seen::peek(target)?,
    };
    let Some((file, seen)) = found else { return Ok(Some(0)) };
    let record = &seen.record;
    let remembered_us =
        record.written_us.saturating_add(record.lease.ttl_us).saturating_add(REMEMBERED_US);
    let is_over = record.state == State::Free || remembered_us < sys::wall_time_us();
    let has_data = record.journal || record.published.generation > 0;
    if has_data || !is_over || seen.running_lease().is_some() {
        return Ok(None);
    }
    seen.highest_fence(target, file.as_ref()).map(Some)
}

/// Steps 3 to 5; `false` if the pair is in use after all.
fn remove_pair(target: &Target, floor: Fence) -> Result<bool> {
    let take = |path| gate::take(target, path, Mode::Exclusive, Request::after(Wait::No));
    let hold = take(target.hold_file())?;
    let has_record = target.fs.stat(target.commit_file()).is_ok();
    let commit = || take(target.commit_file());
    let commit = has_record.then(commit).transpose()?;
    let newest =
        commit.as_ref().map_or(Ok(Some(0)), |commit| unused_up_to(target, Some(commit)))?;
    let is_gone = is_missing(target.fs.stat(target.path()).map(drop));
    if !is_gone || newest.is_none_or(|newest| newest > floor) {
        return Ok(false);
    }
    for (path, turn) in [(target.commit_file(), commit.as_ref()), (target.hold_file(), Some(&hold))]
    {
        if let Some(turn) = turn {
            check_named(target, path, turn)?;
            target.fs.remove(path).map_err(Target::failed("remove", path))?;
        }
    }
    Ok(true)
}

fn is_missing(found: io::Result<()>) -> bool {
    found.is_err_and(|err| err.kind() == io::ErrorKind::NotFound)
}
