//! One name of the store: what the nouns ask of it, in terms of the engine.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenure::options::Mode;
use tenure::outcome::{Appended, LeaseInfo, Leased, Snapshot, Written};
use tenure::status::{HoldState, Holder, Process, Status};
use tenure::store::{self, Compute, EntryReader, Held, Target, Watcher};
use tenure::{
    AppendOptions, Error, ErrorKind, LeaseOptions, LockOptions, Result, Value, Version,
    WriteOptions, json,
};

use crate::client::{Client, about};
use crate::commit::{Done, Spec, refuse_file_options};
use crate::engine::{Hold, Kind, Removal, Watched};
use crate::entries::Pages;
use crate::holds::Proof;
use crate::name;
use crate::patience::Patience;

/// One name.
#[derive(Debug)]
pub(crate) struct RemoteTarget {
    client: Arc<Client>,
    name: String,
    path: PathBuf,
    /// Its document is any bytes, which are not parsed.
    raw: bool,
}

impl RemoteTarget {
    pub(crate) fn new(client: Arc<Client>, name: String) -> Self {
        let path = PathBuf::from(&name);
        Self { client, name, path, raw: false }
    }

    fn ask<T>(&self, answer: Result<T>) -> Result<T> {
        answer.map_err(|error| about(error, &self.name))
    }

    fn refuse_lines(&self, lines: &[&[u8]], options: &AppendOptions) -> Result<()> {
        if options.header.is_some() {
            return Err(store::unsupported(&self.path, "set a header line of"));
        }
        let longest = lines.iter().map(|line| line.len()).max().unwrap_or(0);
        self.client.refuse_long(&self.name, "append", longest)
    }

    /// A commit without its receipt: a mistake of the engine.
    fn broken(&self) -> Error {
        let detail = "the server confirmed it without its numbers";
        self.client.error(ErrorKind::Damaged, "write", &self.name, detail).committed(true)
    }

    fn written(done: &Done) -> Written {
        // A document that never was has a version that no document gets.
        let none = || Version::new("0");
        let version = done.receipt.version.clone().unwrap_or_else(none);
        Written { version, changed: done.changed, replayed: done.replayed }
    }

    fn appended(&self, done: &Done) -> Result<Appended> {
        let (first, last) = done.receipt.lines.ok_or_else(|| self.broken())?;
        Ok(Appended { first, last, replayed: done.replayed, ..Appended::default() })
    }

    /// Removes the document and the journal; if `changes` is given, only if nothing changed since.
    pub(crate) fn remove(&self, options: &WriteOptions, changes: Option<u64>) -> Result<bool> {
        let mut spec = Spec::new(&self.client, &[(&self.name, options.fence)], options)?;
        spec.removal = Some(Removal { name: &self.name, changes });
        Ok(self.client.transact(&spec, None)?.is_some())
    }

    /// The kind of a ticket for a lease, its token, and who asks.
    fn lease_terms(&self, options: &LeaseOptions) -> Result<(Kind, String, Holder)> {
        refuse_file_options(&self.client, &self.name, &options.file)?;
        let token = options.token.clone().map_or_else(store::new_token, Ok)?;
        let kind = Kind::Lease { ttl: options.ttl, token_sum: LeaseInfo::sum_of(&token) };
        Ok((kind, token, Holder::this_process(&options.label, &options.owner)))
    }
}

fn leased(token: String, fence: u64, options: &LeaseOptions) -> Leased {
    let (owner, ttl) = (options.owner.clone(), options.ttl);
    Leased { token, fence, owner, ttl, expires_in: ttl }
}

/// The state of a target, for people.
pub(crate) fn status_of(name: &str, hold: Hold) -> Status {
    let (expires_in, ttl) = match &hold.lease {
        Some(lease) => (lease.expires_in, Some(lease.ttl)),
        None => (None, None),
    };
    let state = match (&hold.holder, &hold.lease) {
        (None, _) => HoldState::Free,
        (Some(_), Some(_)) if expires_in.is_some() => HoldState::Lease,
        (Some(_), Some(_)) => HoldState::Expired,
        (Some(_), None) if hold.abandoned => HoldState::Abandoned,
        (Some(_), None) => HoldState::Lock,
    };
    let waiter = |holder: Holder| Process {
        pid: holder.pid,
        command: format!("{} (on {})", holder.command, holder.host),
    };
    Status {
        path: PathBuf::from(name),
        sidecars: PathBuf::new(),
        state,
        holder: hold.holder,
        fence: hold.fence,
        expires_in,
        ttl,
        processes: Vec::new(),
        waiters: hold.waiters.into_iter().map(waiter).collect(),
        compromised: false,
    }
}

impl Target for RemoteTarget {
    fn name(&self) -> &Path {
        &self.path
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn beside(&self, name: &Path) -> Result<Arc<dyn Target>> {
        Ok(Arc::new(Self::new(self.client.clone(), name::resolved(name)?)))
    }

    fn as_bytes(&self) -> Result<Arc<dyn Target>> {
        Ok(Arc::new(Self { raw: true, ..Self::new(self.client.clone(), self.name.clone()) }))
    }

    fn lock(&self, options: &LockOptions) -> Result<Box<dyn Held>> {
        refuse_file_options(&self.client, &self.name, &options.file)?;
        if options.mode == Mode::Shared {
            let detail = "this store has no shared locks";
            let error = self.client.error(ErrorKind::Unsupported, "lock", &self.name, detail);
            return Err(error.hint("take an exclusive one"));
        }
        if let Some(fence) = options.fence {
            self.client.check_fence(&self.name, fence)?;
            let (client, name) = (self.client.clone(), self.name.clone());
            return Ok(Box::new(Proof { client, name, fence }));
        }
        Ok(Box::new(self.client.lock(&self.name, options)?))
    }

    fn acquire(&self, options: &LeaseOptions) -> Result<Leased> {
        let (kind, token, holder) = self.lease_terms(options)?;
        if options.token.is_some() {
            match self.renew(&token, Some(options.ttl)) {
                Err(error) if error.kind() == ErrorKind::LeaseLost => {}
                renewed => return renewed,
            }
        }
        let patience = Patience::new(options.wait, options.cancel.as_ref(), None);
        let fence = self.client.take_lease(&self.name, kind, &holder, &patience)?;
        Ok(leased(token, fence, options))
    }

    fn renew(&self, token: &str, ttl: Option<Duration>) -> Result<Leased> {
        let sum = LeaseInfo::sum_of(token);
        let hold = self.ask(self.client.engine.renew_lease(&self.name, sum, ttl))?;
        let Some(Hold { holder: Some(holder), lease: Some(lease), fence, .. }) = hold else {
            return Err(self.client.lease_lost(&self.name));
        };
        let expires_in = lease.expires_in.unwrap_or_default();
        Ok(Leased {
            token: token.to_owned(),
            fence,
            owner: holder.owner,
            ttl: lease.ttl,
            expires_in,
        })
    }

    fn release(&self, token: &str) -> Result<()> {
        let sum = LeaseInfo::sum_of(token);
        if self.ask(self.client.engine.end_lease(&self.name, sum))? {
            return Ok(());
        }
        Err(self.client.lease_lost(&self.name))
    }

    fn take_over(&self, options: &LeaseOptions, reason: &str) -> Result<Leased> {
        let (kind, token, holder) = self.lease_terms(options)?;
        let patience = Patience::new(options.wait, options.cancel.as_ref(), None);
        let detail = json!({ "reason": reason, "by": options.owner, "from": null });
        let event =
            json!({ "at_us": store::wall_time_us(), "event": "take_over", "detail": detail });
        let fence = self.client.take_lease_over(&self.name, kind, &holder, &event, &patience)?;
        Ok(leased(token, fence, options))
    }

    fn lease(&self) -> Result<Option<LeaseInfo>> {
        let hold = self.ask(self.client.engine.hold(&self.name))?;
        Ok(hold.holder.zip(hold.lease).map(|(holder, lease)| LeaseInfo {
            holder,
            ttl: lease.ttl,
            expires_in: lease.expires_in,
            token_sum: lease.token_sum,
        }))
    }

    fn status(&self) -> Result<Status> {
        Ok(status_of(&self.name, self.ask(self.client.engine.hold(&self.name))?))
    }

    fn events(&self) -> Result<Vec<Value>> {
        self.ask(self.client.engine.events(&self.name))
    }

    fn read(&self) -> Result<Option<Snapshot>> {
        let read = self.ask(self.client.engine.read(&self.name, None))?;
        let Some((bytes, version)) = read.document else { return Ok(None) };
        let value = if self.raw { Value::Null } else { self.client.parse(&self.name, &bytes)? };
        Ok(Some(Snapshot { value, bytes, version, repaired: false }))
    }

    fn change(&self, options: &WriteOptions, compute: &mut Compute<'_>) -> Result<Written> {
        let mut spec = Spec::new(&self.client, &[(&self.name, options.fence)], options)?;
        spec.document = Some(&self.name);
        spec.raw = self.raw;
        let done = self.client.transact(&spec, Some(compute))?.ok_or_else(|| self.broken())?;
        Ok(Self::written(&done))
    }

    fn append(&self, lines: &[&[u8]], options: &AppendOptions) -> Result<Appended> {
        self.refuse_lines(lines, options)?;
        let own = [(self.name.as_str(), options.write.fence)];
        let mut spec = Spec::new(&self.client, &own, &options.write)?;
        spec.journal = Some((&self.name, lines));
        let done = self.client.transact(&spec, None)?.ok_or_else(|| self.broken())?;
        self.appended(&done)
    }

    fn change_and_append(
        &self,
        journal: &dyn Target,
        lines: &[&[u8]],
        options: &AppendOptions,
        compute: &mut Compute<'_>,
    ) -> Result<(Written, Appended)> {
        let other = journal.as_any().downcast_ref::<Self>();
        let is_ours = |other: &&Self| other.client.engine.name() == self.client.engine.name();
        let Some(other) = other.filter(is_ours) else {
            let detail = "the document and the journal are in different stores";
            let error =
                self.client.error(ErrorKind::Invalid, "update and append", &self.name, detail);
            return Err(error.hint("keep both in one store").committed(false));
        };
        other.refuse_lines(lines, options)?;
        let targets = [(self.name.as_str(), options.write.fence), (other.name.as_str(), None)];
        let mut spec = Spec::new(&self.client, &targets, &options.write)?;
        spec.document = Some(&self.name);
        spec.journal = Some((&other.name, lines));
        let done = self.client.transact(&spec, Some(compute))?.ok_or_else(|| self.broken())?;
        Ok((Self::written(&done), other.appended(&done)?))
    }

    fn entries(&self, from: u64, limit: Option<u64>) -> Result<Box<dyn EntryReader>> {
        Ok(Box::new(Pages::new(self.client.clone(), self.name.clone(), from, limit)))
    }

    fn watch(&self) -> Result<Box<dyn Watcher>> {
        self.ask(self.client.engine.watch(&self.name, Watched::Content))
    }
}
