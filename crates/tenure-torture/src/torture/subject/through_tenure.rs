//! Through tenure, as its users use it.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tenure::options::{CollectionKind, Durability, Mode, Prune};
use tenure::{
    AppendOptions, Collection, Document, ErrorKind, Journal, Lease, LeaseOptions, Lock,
    LockOptions, Wait, WriteOptions,
};

use super::{Answer, Change, Grant, Guard, Hold, Read, Refused, Subject};

/// The real thing.
#[derive(Debug)]
pub(in super::super) struct Tenure;

impl From<tenure::Error> for Refused {
    fn from(error: tenure::Error) -> Self {
        match error.kind() {
            ErrorKind::Fenced | ErrorKind::LeaseLost => Self::Lost,
            ErrorKind::Damaged => Self::Damaged(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

fn options(durable: bool) -> WriteOptions {
    let durability = if durable { Durability::Durable } else { Durability::NoSync };
    WriteOptions { wait: Wait::Forever, durability, ..WriteOptions::default() }
}

fn lease_options(ttl: Duration) -> LeaseOptions {
    LeaseOptions { ttl, wait: Wait::Forever, ..LeaseOptions::default() }
}

impl Subject for Tenure {}

/// The default of every subject.
impl Tenure {
    pub(super) fn lock(path: &Path, shared: bool) -> Answer<Hold> {
        let mode = if shared { Mode::Shared } else { Mode::Exclusive };
        let options = LockOptions { mode, wait: Wait::Forever, ..LockOptions::default() };
        let guard = Lock::open(path)?.acquire(&options)?;
        Ok(Hold { fence: Some(guard.publish_fence()), guard: Guard::Tenure(guard) })
    }

    pub(super) fn acquire(path: &Path, ttl: Duration) -> Answer<Grant> {
        let leased = Lease::open(path)?.acquire(&lease_options(ttl))?;
        Ok(Grant { token: leased.token, fence: leased.fence, ttl })
    }

    pub(super) fn take_over(path: &Path, ttl: Duration) -> Answer<Grant> {
        let leased = Lease::open(path)?.take_over(&lease_options(ttl), "torture")?;
        Ok(Grant { token: leased.token, fence: leased.fence, ttl })
    }

    pub(super) fn renew(path: &Path, grant: &Grant, ttl: Duration) -> Answer<()> {
        let renewed = Lease::open(path)?.renew(&grant.token, Some(ttl))?;
        if renewed.fence == grant.fence {
            return Ok(());
        }
        let detail = format!("a renewal changed the fence {} to {}", grant.fence, renewed.fence);
        Err(Refused::Failed(detail))
    }

    pub(super) fn release(path: &Path, grant: &Grant) -> Answer<()> {
        Ok(Lease::open(path)?.release(&grant.token)?)
    }

    pub(super) fn update(path: &Path, durable: bool, change: Change<'_>) -> Answer<()> {
        let document = Document::open(path)?;
        document.update(&options(durable), |current| {
            let current = current.map(Value::try_from).transpose()?;
            Ok(Some(change(current.as_ref()).into()))
        })?;
        Ok(())
    }

    pub(super) fn read(path: &Path) -> Answer<Option<Read>> {
        let found = Document::open(path)?.read()?;
        let Some(found) = found else { return Ok(None) };
        let value = Value::try_from(&found.value)?;
        Ok(Some(Read { value, version: found.version.to_string() }))
    }

    pub(super) fn compare_and_set(path: &Path, version: &str, value: &Value) -> Answer<bool> {
        let version = version.parse().map_err(|err: tenure::Error| Refused::from(err))?;
        let unchanged = WriteOptions { if_version: Some(version), ..options(false) };
        match Document::open(path)?.set(value, &unchanged) {
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
            set => Ok(set.map(|_| true)?),
        }
    }

    pub(super) fn append(
        path: &Path,
        lines: &[String],
        durable: bool,
        fence: Option<u64>,
    ) -> Answer<Option<u64>> {
        let write = WriteOptions { fence, ..options(durable) };
        let options = AppendOptions { write, ..AppendOptions::default() };
        Ok(Some(Journal::open(path)?.append(lines, &options)?.first))
    }

    pub(super) fn entries(path: &Path, from: u64) -> Answer<Vec<(u64, Vec<u8>)>> {
        let entries = match Journal::open(path)?.read(from, None) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        entries
            .map(|entry| entry.map(|entry| (entry.seq, entry.line)).map_err(Into::into))
            .collect()
    }

    pub(super) fn rotate(path: &Path) -> Answer<()> {
        Journal::open(path)?.rotate(&options(false))?;
        Ok(())
    }

    pub(super) fn compact(path: &Path) -> Answer<()> {
        Journal::open(path)?.compact(&options(false), |_| true)?;
        Ok(())
    }

    pub(super) fn remove(dir: &Path, key: &str) -> Answer<()> {
        let collection = Collection::open(dir, CollectionKind::Documents)?;
        collection.remove(key, &options(false))?;
        Ok(())
    }

    pub(super) fn prune(dir: &Path) -> Answer<()> {
        let collection = Collection::open(dir, CollectionKind::Documents)?;
        collection.prune(&Prune::default(), &options(false))?;
        Ok(())
    }
}
