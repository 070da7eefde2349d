//! Every write: read, compute, and commit in one transaction of the server.
//!
//! A write without a proof commits on the condition that no caller holds its targets or waits for them. If one does, or
//! if others keep overtaking it, it takes the locks of its targets like any other caller, in the same queue, and commits
//! under their fences.
//!
//! # Invariants
//!
//! 1. Fences, guards, the operation, free targets and the version are checked in the transaction that commits.
//! 2. The caller's function never runs inside a transaction, and may run again.
//! 3. Locks of several targets are taken in the order of their names, so that two writes never wait for each other.
//! 4. A guard of a target that is written proves the hold of that target.
//!
//! Crash: the transaction was done or not. A lock that was taken for the write ends with the session.

use std::sync::Arc;
use std::time::Duration;

use tenure::file::FileOptions;
use tenure::json::parse as parse_json;
use tenure::status::Holder;
use tenure::store::{self, Compute, New};
use tenure::{ErrorKind, Fence, Result, Version, WriteOptions};

use crate::client::{Client, about};
use crate::engine::{Commit, Committed, Hold, Kind, Put, Receipt, Removal};
use crate::name;
use crate::patience::Patience;
use crate::queue::Granted;

/// A write that may wait takes the locks of its targets after it was overtaken so often.
const OVERTAKEN_MAX: u32 = 4;
/// A write that may not wait gives up then: each time another write has succeeded.
const ATTEMPTS_MAX: u32 = 200;
/// Writers under one proven hold cannot queue for it. One that was overtaken pauses a random part of this, longer each
/// time.
const PAUSE: Duration = Duration::from_millis(2);

/// What a write depends on, and what it does.
#[derive(Debug)]
pub(crate) struct Spec<'a> {
    /// The targets that it changes, each with the proof of a hold if there is one.
    targets: Vec<(&'a str, Option<Fence>)>,
    guards: Vec<(String, Fence)>,
    options: &'a WriteOptions,
    pub(crate) document: Option<&'a str>,
    /// The document is any bytes, which are not parsed.
    pub(crate) raw: bool,
    pub(crate) journal: Option<(&'a str, &'a [&'a [u8]])>,
    pub(crate) removal: Option<Removal<'a>>,
}

/// What a write did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) receipt: Receipt,
    pub(crate) changed: bool,
    pub(crate) replayed: bool,
}

/// The document as a change was computed from it, and the change.
#[derive(Debug, Default)]
struct Computed {
    base: Option<Version>,
    new: Option<New>,
}

/// Locks that were taken for a write. Dropping them gives them back.
#[derive(Debug)]
struct Locks<'a> {
    client: &'a Client,
    granted: Vec<(&'a str, Granted)>,
}

impl Drop for Locks<'_> {
    fn drop(&mut self) {
        for (name, Granted { ticket, fence, used, .. }) in self.granted.drain(..).rev() {
            if self.client.engine.release(name, &ticket, fence).is_err() {
                used.session().owe(name, &ticket);
            }
        }
    }
}

impl<'a> Spec<'a> {
    pub(crate) fn new(
        client: &Client,
        targets: &[(&'a str, Option<Fence>)],
        options: &'a WriteOptions,
    ) -> Result<Self> {
        let mut targets = targets.to_vec();
        refuse_file_options(client, targets[0].0, &options.file)?;
        let mut guards: Vec<(String, Fence)> = Vec::new();
        for guard in &options.guards {
            let own = store::name_in(Some(client.engine.name()), &guard.target);
            let name = name::resolved(own.map_err(|error| about(error, targets[0].0))?)?;
            let own = targets.iter_mut().find(|(target, _)| *target == name);
            let known = match &own {
                Some((_, fence)) => *fence,
                None => guards.iter().find(|(known, _)| *known == name).map(|(_, fence)| *fence),
            };
            match (own, known) {
                (_, Some(fence)) if fence != guard.fence => {
                    let detail = format!("fences {fence} and {} are not both current", guard.fence);
                    let error = client.error(ErrorKind::Fenced, "write", &name, &detail);
                    return Err(error.hint("pass the fence of the hold you have").committed(false));
                }
                (_, Some(_)) => {}
                (Some((_, fence)), None) => *fence = Some(guard.fence),
                (None, None) => guards.push((name, guard.fence)),
            }
        }
        Ok(Self {
            targets,
            guards,
            options,
            document: None,
            raw: false,
            journal: None,
            removal: None,
        })
    }

    /// The targets whose hold is not proven, in the order of their names.
    fn unproven(&self) -> Vec<&'a str> {
        let unproven = self.targets.iter().filter(|(_, fence)| fence.is_none());
        let mut names: Vec<_> = unproven.map(|(name, _)| *name).collect();
        names.sort_unstable();
        names
    }

    /// The holds that the caller proves.
    fn proofs(&self) -> Vec<(&str, Fence)> {
        let own = self.targets.iter().filter_map(|(name, fence)| Some((*name, (*fence)?)));
        own.chain(self.guards.iter().map(|(name, fence)| (name.as_str(), *fence))).collect()
    }
}

impl Client {
    /// Does what the spec says, in one commit. `None` if what it removes is not there, or was changed.
    pub(crate) fn transact(
        self: &Arc<Self>,
        spec: &Spec<'_>,
        mut compute: Option<&mut Compute<'_>>,
    ) -> Result<Option<Done>> {
        let options = spec.options;
        let first = spec.targets[0].0;
        let patience = Patience::new(options.wait, options.cancel.as_ref(), options.thread);
        let unproven = spec.unproven();
        self.refuse_deadlock(&unproven, &patience)?;
        let mut locks = Locks { client: self, granted: Vec::new() };
        let mut attempts = 0;
        while attempts < ATTEMPTS_MAX || patience.may_wait {
            attempts += 1;
            if patience.is_cancelled() {
                return Err(self.cancelled(first));
            }
            let computed = self.compute(spec, compute.as_deref_mut())?;
            let id = store::new_token()?;
            let committed = self.engine.commit(&commit_of(spec, &id, &computed, &locks));
            let needs_locks = match committed.map_err(|error| about(error, first))? {
                Committed::Done(receipt) => {
                    let changed = computed.new.is_some();
                    return Ok(Some(Done { receipt, changed, replayed: false }));
                }
                Committed::Replayed(receipt) => {
                    return Ok(Some(Done { receipt, changed: false, replayed: true }));
                }
                Committed::Overtaken if spec.removal.is_some() => return Ok(None),
                Committed::Overtaken if attempts > 1 && patience.may_wait && patience.is_over() => {
                    break;
                }
                Committed::Overtaken if patience.may_wait && unproven.is_empty() => {
                    patience.pause(pause_after(attempts, &id));
                    false
                }
                Committed::Overtaken => attempts >= OVERTAKEN_MAX && patience.may_wait,
                Committed::Busy { name, .. } if self.is_gone(spec, &name)? => return Ok(None),
                Committed::Busy { name, holder } if patience.is_over() => {
                    return Err(self.busy(&name, holder));
                }
                Committed::Busy { .. } => true,
                Committed::Refused { name, expired, newest, holder } => {
                    if locks.granted.iter().any(|(locked, _)| *locked == name) {
                        // The session was lost, and the lock with it.
                        locks = Locks { client: self, granted: Vec::new() };
                        continue;
                    }
                    let fence =
                        spec.proofs().iter().find(|proof| proof.0 == name).map(|proof| proof.1);
                    let hold = Hold { holder, fence: newest, ..Hold::default() };
                    return Err(self.refused(&name, fence.unwrap_or_default(), &hold, expired));
                }
            };
            if needs_locks && locks.granted.is_empty() {
                let holder = Holder::this_process(&options.label, "");
                for name in &unproven {
                    let granted = self.take(name, Kind::Lock, &holder, &patience)?;
                    locks.granted.push((name, granted));
                }
            }
        }
        let error = self.error(ErrorKind::Busy, "write", first, "other writers keep changing it");
        Err(error.hint("wait longer, or take its lock first").committed(false))
    }

    /// Reads the document and computes the change, unless the operation was done before.
    fn compute(&self, spec: &Spec<'_>, compute: Option<&mut Compute<'_>>) -> Result<Computed> {
        let (Some(name), Some(compute)) = (spec.document, compute) else {
            return Ok(Computed::default());
        };
        let read = self.engine.read(name, spec.options.operation.as_deref());
        let read = read.map_err(|error| about(error, name))?;
        let base = read.document.as_ref().map(|(_, version)| version.clone());
        if read.is_done {
            return Ok(Computed { base, new: None });
        }
        if let Some(wanted) = &spec.options.if_version {
            if base.as_ref() != Some(wanted) {
                return Err(self.conflict(spec, name, wanted)?);
            }
        }
        let parse = |bytes: &[u8]| {
            if spec.raw { Ok(tenure::Value::Null) } else { self.parse(name, bytes) }
        };
        let value = read.document.as_ref().map(|(bytes, _)| parse(bytes)).transpose()?;
        let current = read.document.as_ref().zip(value.as_ref());
        let new = compute(current.map(|((bytes, _), value)| (bytes.as_slice(), value)))?;
        if let Some(new) = &new {
            self.refuse_long(name, "write document", new.bytes.len())?;
        }
        Ok(Computed { base, new })
    }

    /// The error of a version that is not the current one. A former holder learns first that it is one.
    fn conflict(&self, spec: &Spec<'_>, name: &str, wanted: &Version) -> Result<tenure::Error> {
        for (name, fence) in spec.proofs() {
            self.check_fence(name, fence)?;
        }
        let detail = format!("it does not have version {wanted}");
        let error = self.error(ErrorKind::Conflict, "write document", name, &detail);
        Ok(error.hint("read it again, then repeat the change").committed(false))
    }

    /// A document as its value.
    pub(crate) fn parse(&self, name: &str, bytes: &[u8]) -> Result<tenure::Value> {
        parse_json(bytes).map_err(|error| {
            let detail = format!("the stored content is not JSON: {error}");
            self.error(ErrorKind::Damaged, "read document", name, &detail)
        })
    }

    /// Whether this is to be removed and is not there, so that its holder does not matter.
    fn is_gone(&self, spec: &Spec<'_>, name: &str) -> Result<bool> {
        if spec.removal.is_none() {
            return Ok(false);
        }
        let read = self.engine.read(name, None).map_err(|error| about(error, name))?;
        let page = self.engine.entries(name, 0, 1).map_err(|error| about(error, name))?;
        Ok(read.document.is_none() && page.entries.is_empty())
    }

    /// Refuses what is longer than the engine keeps.
    pub(crate) fn refuse_long(&self, name: &str, action: &'static str, bytes: usize) -> Result<()> {
        let most = self.engine.bytes_max();
        if bytes as u64 <= most {
            return Ok(());
        }
        let detail = format!("{bytes} bytes are more than {most}");
        let error = self.error(ErrorKind::Invalid, action, name, &detail);
        Err(error.hint("split it, or keep it in a file").committed(false))
    }
}

/// A random pause: the id of a commit begins with random digits.
fn pause_after(attempts: u32, id: &str) -> Duration {
    let random = id.get(..2).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0);
    PAUSE * attempts.min(16) * random / 256
}

fn commit_of<'a>(
    spec: &'a Spec<'_>,
    id: &'a str,
    computed: &'a Computed,
    locks: &'a Locks<'_>,
) -> Commit<'a> {
    let mut proofs = spec.proofs();
    proofs.extend(locks.granted.iter().map(|(name, granted)| (*name, granted.fence)));
    let document = spec.document.map(|name| Put {
        name,
        base: computed.base.as_ref(),
        bytes: computed.new.as_ref().map(|new| new.bytes.as_slice()),
    });
    Commit {
        id,
        free: if locks.granted.is_empty() { spec.unproven() } else { Vec::new() },
        proofs,
        document,
        journal: spec.journal,
        remove: spec.removal.clone(),
        operation: spec.options.operation.as_deref().filter(|_| spec.removal.is_none()),
    }
}

/// Refuses what only a store on files can do.
pub(crate) fn refuse_file_options(
    client: &Client,
    name: &str,
    options: &FileOptions,
) -> Result<()> {
    if *options == FileOptions::default() {
        return Ok(());
    }
    let detail = "the store keeps no plain files";
    let error = client.error(ErrorKind::Unsupported, "use options of files on", name, detail);
    Err(error.hint("use them on a target that is a file").committed(false))
}
