//! Protocols that real tools shipped, under the same storm: one each for the lock, the lease, a
//! document and a journal. The judges must find the faults of each.
//!
//! They are held to what they promise and no more: no fences of a lock, no numbers of lines.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tenure_shipped::documents::SaveWithoutLock;
use tenure_shipped::locks::{MtimeLock, SessionLock};
use tenure_shipped::logs::TwoWrites;
use tenure_shipped::{Lock as _, Log as _};

use super::{Answer, Change, Grant, Guard, Hold, Naive, Read, Refused, Subject};
use crate::torture::clock;

/// Shipped: 10 s. It is the same for all holders, and here as short as some of tenure's leases.
const STALE: Duration = Duration::from_millis(30);

/// Take-over by process number, stale by modification time, load and rename, two writes a line.
#[derive(Debug)]
pub(in super::super) struct Shipped;

fn lease(path: &Path) -> MtimeLock {
    MtimeLock::open(path.parent().unwrap_or(path)).stale_after(STALE)
}

impl Subject for Shipped {
    fn lock(&self, path: &Path, _shared: bool) -> Answer<Hold> {
        let mut lock = SessionLock::open(path.parent().unwrap_or(path))?;
        loop {
            match lock.enter() {
                Ok(()) => return Ok(Hold { fence: None, guard: Guard::Shipped(lock) }),
                // It gives up earlier than torture does.
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Without fences the time of the grant replaces one: later grants have later times.
    fn acquire(&self, path: &Path, _ttl: Duration) -> Answer<Grant> {
        let mut lock = lease(path);
        while let Err(error) = lock.enter() {
            match error.kind() {
                // Held, or another process was faster to take over.
                io::ErrorKind::WouldBlock
                | io::ErrorKind::AlreadyExists
                | io::ErrorKind::NotFound => std::thread::yield_now(),
                _ => return Err(error.into()),
            }
        }
        Ok(Grant { token: String::new(), fence: clock::now(), ttl: STALE })
    }

    /// There is no take-over here: it waits like all others.
    fn take_over(&self, path: &Path, ttl: Duration) -> Answer<Grant> {
        self.acquire(path, ttl)
    }

    fn renew(&self, path: &Path, _grant: &Grant, _ttl: Duration) -> Answer<()> {
        lease(path).refresh().map_err(|_| Refused::Lost)
    }

    fn release(&self, path: &Path, _grant: &Grant) -> Answer<()> {
        lease(path).leave().map_err(|_| Refused::Lost)
    }

    fn update(&self, path: &Path, _durable: bool, change: Change<'_>) -> Answer<()> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(SaveWithoutLock::at(path.to_path_buf()).update("update", change)?)
    }

    fn read(&self, path: &Path) -> Answer<Option<Read>> {
        Naive.read(path)
    }

    fn compare_and_set(&self, path: &Path, version: &str, value: &Value) -> Answer<bool> {
        if Naive.read(path)?.is_none_or(|read| read.version != version) {
            return Ok(false);
        }
        self.update(path, false, &mut |_| value.clone())?;
        Ok(true)
    }

    fn append(
        &self,
        path: &Path,
        lines: &[String],
        _durable: bool,
        _fence: Option<u64>,
    ) -> Answer<Option<u64>> {
        let mut log = TwoWrites::at(path.to_path_buf());
        lines.iter().try_for_each(|line| log.append(line))?;
        Ok(None)
    }

    fn entries(&self, path: &Path, from: u64) -> Answer<Vec<(u64, Vec<u8>)>> {
        Naive.entries(path, from)
    }

    fn rotate(&self, path: &Path) -> Answer<()> {
        Naive.rotate(path)
    }

    fn compact(&self, path: &Path) -> Answer<()> {
        Naive.compact(path)
    }

    fn remove(&self, dir: &Path, key: &str) -> Answer<()> {
        Naive.remove(dir, key)
    }

    fn prune(&self, dir: &Path) -> Answer<()> {
        Naive.prune(dir)
    }
}
