//! The record of a target as it applies now: whether it is still valid, which fence may write, and
//! which comes next.
//!
//! # Invariants
//!
//! 1. A record of another boot, another file or a restored copy names no running lock or lease.
//! 2. Fences are drawn only up to what was reserved durably (docs/FORMAT.md, F1-F3).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::file::record::{Record, State};
use crate::file::target::{Opened, Target};
use crate::file::{events, floor, gate};
use crate::fs::{Access, Handle, if_found};
use crate::holder::Holder;
use crate::json;
use crate::options::Fence;
use crate::sys;

/// How many fences one sync reserves.
const FENCES_PER_SYNC: u64 = 1024;
/// How often a record file that lost its name is opened anew.
const OPEN_ATTEMPTS: u32 = 100;
/// If the file changed this long after the record was written, an older record was restored in it. Being
/// wrong (a slow write, a changed mode) costs one sync.
const ROLLBACK_AFTER_US: u64 = 500_000;

/// The record as it was read, and whether it belongs to this boot and this very file.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) record: Record,
    /// False after a reboot, a restore or a copy: no lock or lease in it is running, and the next
    /// fence is raised above everything known.
    pub(crate) bound: bool,
    /// It belongs to this very file, but to an earlier boot.
    pub(crate) rebooted: bool,
    /// No slot could be read. The next writer notes it; a reader creates nothing.
    unreadable: bool,
    /// When the file was born.
    born_us: u64,
    /// If the file changed after this, an older record was restored; `None` once that was checked.
    rollback_us: Option<u64>,
}

impl Seen {
    /// Opens the commit file of `target`, or takes it out, and reads the record in it.
    pub(crate) fn open(target: &Target) -> Result<(Opened, Self)> {
        let path = target.commit_file();
        for _ in 0..OPEN_ATTEMPTS {
            let opened = target.take_out(path)?;
            let id = opened.handle.id().map_err(Target::failed("look at record", path))?;
            if let Some(found) = gate::named(target, path)?.filter(|found| found.id == id) {
                let seen = Self::read_at(target, opened.handle.as_ref(), found.born_us)?;
                return Ok((opened, seen));
            }
        }
        let detail = "its record file is being replaced all the time";
        Err(Error::new(ErrorKind::Busy, "lock", detail).at(target.path()))
    }

    /// Reads the record without a lock, for display, and its file; `None` if there is none. A
    /// record that the caller may not read is an error, since it may name a holder.
    pub(crate) fn peek(target: &Target) -> Result<Option<(Arc<dyn Handle>, Self)>> {
        let path = target.commit_file();
        let file = match if_found(target.open(path, Access::Read)) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(None),
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied => {
                let owner = target.fs.stat(path).map(|found| format!(" of user {}", found.uid));
                let owner = owner.unwrap_or_default();
                let detail = format!("permission denied: its record{owner} is closed to you");
                let error = Error::new(ErrorKind::Unsupported, "look at", detail);
                return Err(error.at(target.path()).hint("ask that user, or look as root"));
            }
            Err(err) => return Err(Error::io("open record", path, err)),
        };
        let seen = Self::read(target, file.as_ref())?;
        Ok(Some((file, seen)))
    }

    /// Reads the record of `target` from its commit file.
    pub(crate) fn read(target: &Target, file: &dyn Handle) -> Result<Self> {
        Self::read_at(target, file, file.times().born_us)
    }

    /// The same, for a caller that knows when the file was born.
    pub(crate) fn read_at(target: &Target, file: &dyn Handle, born_us: u64) -> Result<Self> {
        let path = target.commit_file();
        let (mut record, unreadable) = Record::load(file, path)?;
        let id = file.id().map_err(|err| Error::io("look at record", path, err))?;
        // Where the birth is not known, the inode number must do.
        let same_birth = record.file_born_us == born_us || record.file_born_us == 0 || born_us == 0;
        let same_boot = record.boot == target.fs.boot_id();
        let same_file = record.file == id && same_birth;
        let (bound, rebooted) = (same_file && same_boot, same_file && !same_boot);
        let rollback_us = Some(record.written_us.saturating_add(ROLLBACK_AFTER_US));
        if !bound {
            record.confirmed = 0;
            // It was on another clock; writing it back under ours must not make it run again.
            record.lease.expires_us = 0;
            // Of this boot or not, publications later than it knows of may have been made.
            record.published.doubt();
        }
        Ok(Self { record, bound, rebooted, unreadable, born_us, rollback_us })
    }

    /// Detects an older record that was restored in place: fences above it may have been given out,
    /// and versions published, so the next ones start above the clock. Only a caller that draws a
    /// fence or writes the record has to know, before it changes the record or the file: asking for
    /// the time of a change makes the next write more expensive.
    pub(crate) fn detect_rollback(&mut self, file: &dyn Handle) {
        let Some(rollback_us) = self.rollback_us.take() else { return };
        // The file cannot have changed later than now, so usually no call is needed.
        if sys::wall_time_us() > rollback_us && file.times().changed_us > rollback_us {
            self.record.confirmed = 0;
            self.record.published.doubt();
        }
    }

    /// Writes the record back, bound to this boot and file.
    pub(crate) fn write(&mut self, target: &Target, file: &dyn Handle) -> Result<()> {
        let path = target.commit_file();
        self.detect_rollback(file);
        self.record.boot = target.fs.boot_id();
        self.record.file = file.id().map_err(Target::failed("look at record", path))?;
        self.record.file_born_us = self.born_us;
        self.record.written_us = sys::wall_time_us();
        (self.bound, self.rebooted) = (true, false);
        if std::mem::take(&mut self.unreadable) {
            let _ = events::record(target, "record_unreadable", &json!({}));
        }
        if self.record.seq == 0 {
            Record::reserve_room(file).map_err(Target::failed("reserve record", path))?;
        }
        self.record.store(file).map_err(Target::failed("write record", path))
    }

    /// The lease that is running now, as its holder and what is left of it.
    pub(crate) fn running_lease(&self) -> Option<(Holder, Duration)> {
        if self.record.state != State::Leased || !self.bound {
            return None;
        }
        let left =
            self.record.lease.expires_us.checked_sub(sys::boot_time_us()).filter(|l| *l > 0)?;
        Some((self.record.holder(), Duration::from_micros(left)))
    }

    /// Whether `fence` is the hold that may write now.
    pub(crate) fn check_fence(&self, target: &Target, fence: Fence) -> Result<()> {
        let current = self.record.fence;
        let refuse = |kind, detail: String, hint: &str| {
            Err(Error::new(kind, "write", detail).at(target.path()).hint(hint))
        };
        if fence > current {
            let newest = match current {
                0 => "it was never held".to_owned(),
                _ => format!(
                    "no hold with fence {fence} was ever given out (the newest is {current})"
                ),
            };
            let hint = "check its name, and the fence that acquire, run or hold returned";
            return refuse(ErrorKind::Fenced, newest, hint);
        }
        if fence < current {
            let error = refuse(
                ErrorKind::Fenced,
                format!("fence {fence} is not current, a newer hold has {current}"),
                "stop: another holder has taken over",
            );
            let holder = (self.record.state != State::Free).then(|| self.record.holder());
            return error.map_err(|error: Error| error.held_by(holder));
        }
        match self.record.state {
            State::Held if self.bound && self.record.fence_published => Ok(()),
            State::Leased if self.running_lease().is_some() => Ok(()),
            State::Leased => refuse(
                ErrorKind::LeaseLost,
                format!("the lease with fence {fence} has expired"),
                "renew it with its token, or acquire it again",
            ),
            State::Held if self.bound => refuse(
                ErrorKind::Fenced,
                format!("the holder has not published fence {fence}"),
                "pass the fence that acquire, run or hold returned",
            ),
            State::Free | State::Held => refuse(
                ErrorKind::Fenced,
                format!("the hold with fence {fence} has ended"),
                "acquire it again",
            ),
        }
    }

    /// No fence above this was ever given out, according to the record and its reservations. A
    /// power loss can take the record, not both.
    pub(crate) fn highest_fence(&self, target: &Target, file: &dyn Handle) -> Result<Fence> {
        let reserved = Record::reserved(file);
        let reserved = reserved.map_err(Target::failed("read record", target.commit_file()))?;
        Ok(reserved.max(self.record.fence).max(self.record.ceiling))
    }

    /// Draws the next fence (G4). The caller may write the record.
    ///
    /// Fences up to `confirmed` were reserved durably. A crash before the sync leaves the old
    /// `confirmed`, so the next one reserves again; a crash after it only skips numbers.
    pub(crate) fn draw(&mut self, target: &Target, file: &dyn Handle) -> Result<Fence> {
        self.detect_rollback(file);
        let mut newest = self.record.fence;
        if self.record.confirmed == 0 {
            let known = self.highest_fence(target, file)?.max(floor::read(target)?);
            newest = known.max(sys::wall_time_us());
        }
        let fence = newest + 1;
        let record = &mut self.record;
        if fence > record.confirmed {
            let first = record.confirmed == 0;
            record.ceiling = fence + FENCES_PER_SYNC;
            record.confirmed = 0;
            if !self.bound && record.state == State::Held {
                record.state = State::Free; // Its holder died with its boot; a crash here keeps it so.
            }
            self.write(target, file)?;
            let path = target.commit_file();
            self.record.reserve(file).map_err(Target::failed("write", path))?;
            file.sync().map_err(Target::failed("sync fences in", path))?;
            for dir in [target.side(), target.dir()].into_iter().filter(|_| first) {
                // Existing names need not be durable: the process that made them may have died. The
                // caller that confirmed an earlier block has synced them.
                target.fs.sync_dir(dir).map_err(Target::failed("sync directory", dir))?;
            }
            self.record.confirmed = self.record.ceiling;
        }
        self.record.fence = fence;
        self.record.fence_published = false;
        Ok(fence)
    }
}
