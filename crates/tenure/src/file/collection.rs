//! Removing keys: by age, by count, and nothing that is held.
//!
//! A crash at any point leaves either the key as it was, or left-over sidecars of a key without a
//! file, which the next prune removes the same way.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::file::commit::Commit;
use crate::file::target::Target;
use crate::fs::{Fs, Kind, Stat, if_found, is_side_dir};
use crate::options::{Durability, Prune, WriteOptions};
use crate::results::Pruned;
use crate::store;
use crate::sys;
use crate::wait::Wait;

/// The suffix of journals, which may have archives.
const JOURNALS: &str = ".jsonl";

/// The names in a collection's directories, sorted: listed once for all keys, since a listing per key
/// would take hours for a hundred thousand of them.
#[derive(Debug, Default)]
struct Names {
    data: Vec<OsString>,
    /// By directory of sidecars; there is one, unless users share the directory.
    sides: BTreeMap<PathBuf, Vec<OsString>>,
}

fn starting_with<'a>(
    names: &'a [OsString],
    prefix: &'a OsStr,
) -> impl Iterator<Item = &'a OsString> {
    let from = names.partition_point(|name| name.as_os_str() < prefix);
    let fits = |name: &&OsString| name.as_encoded_bytes().starts_with(prefix.as_encoded_bytes());
    names[from..].iter().take_while(fits)
}

/// A directory with a document or a journal per key.
#[derive(Debug)]
pub(crate) struct Directory<'a> {
    pub(crate) fs: &'a Arc<dyn Fs>,
    pub(crate) dir: &'a Path,
    pub(crate) suffix: &'a str,
}

impl Directory<'_> {
    fn path_of(&self, key: &str) -> Result<PathBuf> {
        let name = store::name_of(key, self.suffix).map_err(|error| error.at(self.dir))?;
        Ok(self.dir.join(name))
    }

    /// The keys that have a file, in no order. Files that do not belong to a key are skipped.
    pub(crate) fn keys(&self) -> Result<Vec<String>> {
        let names = if_found(self.fs.list(self.dir));
        let names = names.map_err(Target::failed("list collection", self.dir))?;
        let key = |name: &OsString| store::key_of(name.to_str()?, self.suffix);
        Ok(names.iter().flatten().filter_map(key).collect())
    }

    /// Removes what is due, each key under its own lock; a key that is held is skipped.
    pub(crate) fn prune(&self, prune: &Prune, options: &WriteOptions) -> Result<Pruned> {
        let mut known = Vec::new();
        for key in self.keys()? {
            // A file that went away meanwhile needs no prune.
            if let Some(stat) = self.look(&key)? {
                known.push((stat.modified_ns, key, stat));
            }
        }
        known.sort_by(|one, other| (other.0, &other.1).cmp(&(one.0, &one.1)));
        let total = known.len();
        let oldest_ns = prune.max_age.map(|age| {
            let now_ns = i128::from(sys::wall_time_us()) * 1000;
            now_ns - i128::try_from(age.as_nanos()).unwrap_or(i128::MAX)
        });
        // Listed after the files were checked: what is added to a key later changes its file.
        let names = if prune.dry_run { Names::default() } else { self.names() };
        let kept: HashSet<&str> = prune.keep.iter().map(String::as_str).collect();
        let mut pruned = Pruned::default();
        for (rank, (modified_ns, key, stat)) in known.into_iter().enumerate() {
            let too_old = oldest_ns.is_some_and(|oldest| modified_ns < oldest);
            let too_many = prune.max_count.is_some_and(|count| rank >= count);
            if !(too_old || too_many) || kept.contains(key.as_str()) {
                continue;
            }
            if prune.dry_run || self.remove_if(&key, Some(&stat), &names, options)? {
                pruned.removed.push(key);
            } else {
                pruned.skipped.push(key);
            }
        }
        pruned.remaining = total - pruned.removed.len();
        if !prune.dry_run {
            self.remove_left_overs(options)?;
            self.sync(options)?;
        }
        Ok(pruned)
    }

    /// Removes one key with everything that belongs to it, waiting for its holder. `false` if there
    /// was none.
    pub(crate) fn remove(&self, key: &str, options: &WriteOptions) -> Result<bool> {
        match self.look(key)?.map(|found| found.kind) {
            None => {
                // The process that removed it may have died before it synced the directory.
                self.sync(options)?;
                return Ok(false);
            }
            Some(Kind::File) => {}
            // A key does not lead out of its directory (G13).
            Some(_) => {
                let detail = "it is not a regular file";
                let error = Error::new(ErrorKind::Invalid, "remove key", detail);
                return Err(error.at(&self.path_of(key)?).hint("remove it by hand"));
            }
        }
        let target = Target::resolve(self.fs, &self.path_of(key)?)?;
        let commit = target.at_home(|target| Commit::begin(target, options))?;
        self.remove_held(&commit, &self.names())?;
        drop(commit);
        self.sync(options)?;
        Ok(true)
    }

    /// The file of a key; `None` if there is none. A file whose metadata cannot be read is an
    /// error.
    fn look(&self, key: &str) -> Result<Option<Stat>> {
        let path = self.path_of(key)?;
        if_found(self.fs.stat(&path)).map_err(Target::failed("look at key", &path))
    }

    /// Removes a key unless it is held, or has changed since `stat` was taken.
    fn remove_if(
        &self,
        key: &str,
        stat: Option<&Stat>,
        names: &Names,
        options: &WriteOptions,
    ) -> Result<bool> {
        let path = self.path_of(key)?;
        let target = Target::resolve(self.fs, &path)?;
        let at_once = WriteOptions { wait: Wait::No, ..options.clone() };
        let commit = match target.at_home(|target| Commit::begin(target, &at_once)) {
            Err(error) if error.kind() == ErrorKind::Busy => return Ok(false),
            begun => begun?,
        };
        let now = self.look(key)?;
        let same = |now: &Stat, then: &Stat| {
            (now.id, now.size, now.modified_ns) == (then.id, then.size, then.modified_ns)
        };
        let unchanged = match (&now, stat) {
            (Some(now), Some(then)) => same(now, then) && now.kind == Kind::File,
            (None, None) => true,
            _ => false,
        };
        if unchanged {
            self.remove_held(&commit, names)?;
        }
        Ok(unchanged)
    }

    /// Removes data first and lock files last, all while both locks are held.
    fn remove_held(&self, commit: &Commit, names: &Names) -> Result<()> {
        let target = &commit.target;
        commit.raise_floor()?;
        commit.verify()?;
        if self.suffix == JOURNALS {
            let own = target.path().file_name().unwrap_or_default();
            for name in starting_with(&names.data, own).filter(|name| target.is_archive(name)) {
                self.unlink(&self.dir.join(name))?;
            }
        }
        self.unlink(target.path())?;
        let locks = [target.commit_file(), target.hold_file()];
        let listed = names.sides.get(target.side()).map_or(&[][..], Vec::as_slice);
        let listed = starting_with(listed, OsStr::new(target.stem()));
        let listed = listed.filter(|name| target.owns(name)).map(|name| target.side().join(name));
        let mut sidecars: Vec<PathBuf> = target.sidecars().chain(listed).collect();
        sidecars.retain(|path| !locks.contains(&path.as_path()));
        sidecars.iter().try_for_each(|path| self.unlink(path))?;
        if !commit.holds(locks[1]) {
            // The hold is only proven: another process has that lock and keeps it.
            return Ok(());
        }
        locks.iter().try_for_each(|path| self.unlink(path))
    }

    fn names(&self) -> Names {
        let sorted = |dir: &Path| {
            let mut names = self.fs.list(dir).unwrap_or_default();
            names.sort();
            names
        };
        let data = sorted(self.dir);
        let sides = data.iter().filter(|name| is_side_dir(name)).map(|name| self.dir.join(name));
        let sides = sides.map(|side| (side.clone(), sorted(&side))).collect();
        Names { data, sides }
    }

    fn unlink(&self, path: &Path) -> Result<()> {
        if_found(self.fs.remove(path)).map(drop).map_err(Target::failed("remove", path))
    }

    /// Sidecars of keys without a file: of a prune that died, or of keys that were only locked.
    fn remove_left_overs(&self, options: &WriteOptions) -> Result<()> {
        let mut orphans = BTreeSet::new();
        let names = self.names();
        for name in names.sides.values().flatten().filter_map(|name| name.to_str()) {
            let Some(end) = name.rfind(self.suffix) else { continue };
            let suffix_end = end + self.suffix.len();
            if !name[suffix_end..].starts_with('.') {
                continue;
            }
            if let Some(key) = store::key_of(&name[..suffix_end], self.suffix) {
                // Only what is known to be gone is removed: the data of a key goes with it.
                if self.look(&key)?.is_none() {
                    orphans.insert(key);
                }
            }
        }
        orphans.iter().try_for_each(|key| self.remove_if(key, None, &names, options).map(drop))
    }

    fn sync(&self, options: &WriteOptions) -> Result<()> {
        if options.durability == Durability::NoSync || self.fs.stat(self.dir).is_err() {
            return Ok(());
        }
        self.fs.sync_dir(self.dir).map_err(Target::failed("sync collection", self.dir))
    }
}
