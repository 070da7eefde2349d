//! One change: everything that it depends on is compared in the transaction that makes it.
//!
//! Most commits succeed at once, so the first attempt asks for no reasons: the server would parse them for nothing. It only
//! reads the head of the journal, which others may have moved. If a compare of a later attempt fails, the same
//! transaction reads what was compared, and the answer is made of that, in the order in which the checks are promised.
//! Nothing is looked up later.
//!
//! # Invariants
//!
//! 1. A commit that is done has left its receipt `r/ID` in the same transaction. So a repeated one is found, whatever
//!    happened to the target since. The next commit of the process deletes it; the last one goes with its lease.
//! 2. A commit whose outcome is not known to the caller keeps its receipt until the lease of receipts ends.
//! 3. An append that another one overtook is numbered anew. All other answers are final.

use std::thread;
use std::time::Duration;

use tenure::{Error, ErrorKind, Result};

use super::client::Failure;
use super::hold::{Found, finding};
use super::journal::{Seen, next_number, seen_head};
use super::keys::Keys;
use super::record::{Did, Head, Owner, touch};
use super::txn::{Done, Kv, Txn, then, when};
use super::world::World;
use super::{Answered, EtcdEngine};
use crate::engine::{Commit, Committed, Receipt, Removal};
use crate::session::locked;

/// An append that is overtaken gives up after so many attempts.
const ATTEMPTS: u32 = 200;
/// So many operations of a target are remembered.
const OPERATIONS_KEPT: usize = 4096;
/// So many receipts are deleted by a commit.
const RECEIPTS_DELETED: usize = 8;
/// So many receipts wait to be deleted. More of them are left to their lease.
const RECEIPTS_MAX: usize = 1024;

/// A commit with the keys of its targets.
struct Plan<'a> {
    commit: &'a Commit<'a>,
    /// The id that an attempt is forbidden by.
    nonce: Vec<u8>,
    receipt: Vec<u8>,
    meta: Vec<u8>,
    proofs: Vec<Keys>,
    free: Vec<Keys>,
    document: Option<Keys>,
    journal: Option<Keys>,
    removed: Option<Keys>,
}

/// What a failed attempt says.
enum Verdict {
    Final(Committed),
    /// The head of the journal, or the epoch, is another one.
    Again,
}

impl EtcdEngine {
    pub(super) fn commit_change(&self, commit: &Commit<'_>) -> Result<Committed> {
        let step = "commit";
        let nonce = tenure::store::new_token()?;
        let plan = Plan::new(self, commit, &nonce);
        let appends = commit.journal.map(|(name, _)| self.here().heads.of(name));
        let _turn = appends.as_ref().map(|appends| appends.turn());
        let mut seen: Seen = appends.as_ref().and_then(|appends| *locked(&appends.seen));
        let note = |seen: Seen| appends.iter().for_each(|appends| *locked(&appends.seen) = seen);
        let mut lost = false;
        for attempt in 1..=ATTEMPTS {
            let wanted = plan.journal.as_ref().filter(|_| seen.is_none());
            let (world, read) = self.settled_world_and(wanted.map(|keys| keys.head.as_slice()))?;
            if let (Some(read), true) = (read, wanted.is_some()) {
                seen = Some(seen_head(read.key(1).as_ref()));
            }
            let head = match (&plan.journal, seen) {
                (None, _) => Default::default(),
                (Some(_), Some(head)) => head,
                (Some(keys), None) => self.read_head(step, keys)?,
            };
            let with_reasons = attempt > 1;
            let attempted = self.attempt(step, &plan, &world, head, with_reasons);
            let answered = attempted.inspect_err(|error| {
                if error.is_committed().is_none() {
                    self.keep_receipt(commit.id);
                }
            })?;
            lost |= answered.lost;
            let done = answered.done;
            if done.succeeded {
                let did = plan.did(head.0, &world);
                note(Some((plan.next_head(head.0, &world), done.revision)));
                self.settle(commit, &nonce, lost);
                return Ok(Committed::Done(plan.receipt_of(did, done.revision, &world)));
            }
            seen = plan.head_in(&done);
            note(seen);
            if !with_reasons {
                continue;
            }
            if let Verdict::Final(answer) = self.judge(&plan, &done, &world) {
                if lost && !matches!(answer, Committed::Done(_)) {
                    return self.forbidden(step, &plan, &nonce, &world, answer);
                }
                return Ok(answer);
            }
            pause(attempt, &nonce);
        }
        let detail = "others keep appending to the journal";
        Err(Error::new(ErrorKind::Busy, step, detail).committed(false).hint("try again"))
    }

    /// Sends the transaction. The lease of receipts is granted by the first that finds it missing.
    fn attempt(
        &self,
        step: &'static str,
        plan: &Plan<'_>,
        world: &World,
        head: (Head, u64),
        with_reasons: bool,
    ) -> Result<Answered> {
        let lease = self.receipts_lease();
        let mut txn = plan.txn(world, head, lease);
        if !with_reasons {
            txn.otherwise.drain(..txn.otherwise.len() - usize::from(plan.journal.is_some()));
        }
        let mut deleted: Vec<String> = Vec::new();
        if plan.writes() {
            let mut settled = locked(&self.here().settled);
            settled.retain(|id| id != plan.commit.id); // It is asked for again.
            let from = settled.len().saturating_sub(RECEIPTS_DELETED);
            deleted = settled.split_off(from);
        }
        txn.then.extend(deleted.iter().map(|id| then::delete(&self.layout.receipt(id))));
        let mut answered = self.try_transact(step, &txn);
        if matches!(answered, Err(Failure::LeaseNotFound)) {
            self.grant_receipts_lease(lease)?;
            answered = self.try_transact(step, &txn);
            if let Ok(answered) = &mut answered {
                answered.lost = true; // An attempt before may be under way, and has its lease now.
            }
        }
        if !answered.as_ref().is_ok_and(|answered| answered.done.succeeded) {
            locked(&self.here().settled).append(&mut deleted);
        }
        answered.map_err(|failure| failure.error(step))
    }

    /// A reply was lost before this answer: the attempt must not take effect any more. If it has, that is the answer.
    fn forbidden(
        &self,
        step: &'static str,
        plan: &Plan<'_>,
        nonce: &str,
        world: &World,
        answer: Committed,
    ) -> Result<Committed> {
        self.forbid(step, nonce)?;
        let txn = Txn::reading(vec![then::get(&plan.receipt)]);
        let found = self.transact(step, &txn)?.done.key(0);
        Ok(plan.done_before(found.as_ref(), world).unwrap_or(answer))
    }

    fn settle(&self, commit: &Commit<'_>, nonce: &str, lost: bool) {
        let is_unclear = locked(&self.here().unclear).remove(commit.id);
        let mut settled = locked(&self.here().settled);
        if !lost && !is_unclear && settled.len() < RECEIPTS_MAX {
            settled.push(commit.id.to_owned());
        }
        drop(settled);
        // One commit in 64 looks whether operations have to go.
        let is_due = commit.operation.is_some() && nonce.starts_with(['0', '4', '8', 'c']);
        if is_due && nonce.as_bytes().get(1) == Some(&b'0') {
            let targets = commit.document.iter().map(|put| put.name);
            for name in targets.chain(commit.journal.map(|(name, _)| name)) {
                self.trim(&self.layout.of(name).operations, OPERATIONS_KEPT);
            }
        }
    }

    /// The receipt of this commit is not deleted: an attempt may still be under way.
    fn keep_receipt(&self, id: &str) {
        let mut unclear = locked(&self.here().unclear);
        if unclear.len() < RECEIPTS_MAX {
            unclear.insert(id.to_owned());
        }
    }

    /// Why an attempt failed: what it compared, as it was then.
    fn judge(&self, plan: &Plan<'_>, done: &Done, world: &World) -> Verdict {
        let commit = plan.commit;
        let mut reads = Reads { done, place: 0 };
        if let Some(answer) = plan.done_before(reads.key().as_ref(), world) {
            return Verdict::Final(answer);
        }
        if reads.key().map_or(0, |meta| meta.written) != world.written {
            self.forget_world();
            return Verdict::Again;
        }
        let mut refused = None;
        for (name, fence) in &commit.proofs {
            let found = reads.found();
            let is_newest = world.revision(*fence) == Some(found.fence) && found.fence > 0;
            if !(is_newest && found.is_alive()) {
                refused = refused.or_else(|| {
                    Some(Committed::Refused {
                        name: (*name).to_owned(),
                        expired: is_newest && found.is_expired(),
                        newest: world.number(found.fence),
                        holder: found.holder(world),
                    })
                });
            }
        }
        let mut operation: Option<Did> = None;
        for _ in plan.operation_keys() {
            if let Some(found) = reads.key() {
                let did = Did::read(&found.value).unwrap_or_default();
                operation =
                    Some(Did { lines: did.lines.or(operation.and_then(|did| did.lines)), ..did });
            }
        }
        let mut busy = None;
        for name in &commit.free {
            let found = reads.found();
            let first = reads.key();
            if found.is_alive() || first.is_some() {
                let waiter = first.map(|first| Owner::read(&first.value).holder);
                let holder = found.holder(world).or(waiter);
                busy = busy.or_else(|| Some(Committed::Busy { name: (*name).to_owned(), holder }));
            }
        }
        let version = plan.document.as_ref().and_then(|_| reads.key()).map(|kv| kv.written);
        if let Some(refused) = refused {
            return Verdict::Final(refused);
        }
        if let Some(did) = operation {
            let version = version.map(|revision| world.version(revision));
            return Verdict::Final(Committed::Replayed(Receipt { version, lines: did.lines }));
        }
        if let Some(busy) = busy {
            return Verdict::Final(busy);
        }
        if plan.document.is_some() && version.unwrap_or(0) != plan.base(world).unwrap_or(u64::MAX) {
            return Verdict::Final(Committed::Overtaken);
        }
        if plan.removed.is_some() {
            return Verdict::Final(Committed::Overtaken);
        }
        Verdict::Again
    }
}

/// The reads of a failed attempt, one after the other.
struct Reads<'a> {
    done: &'a Done,
    place: usize,
}

impl Reads<'_> {
    fn key(&mut self) -> Option<Kv> {
        self.place += 1;
        self.done.key(self.place - 1)
    }

    fn found(&mut self) -> Found {
        let (fence, owner, alive) = (self.key(), self.key(), self.key());
        Found::new(fence.as_ref(), owner.as_ref(), alive)
    }
}

impl<'a> Plan<'a> {
    fn new(engine: &EtcdEngine, commit: &'a Commit<'a>, nonce: &str) -> Self {
        let layout = &engine.layout;
        Self {
            commit,
            nonce: layout.receipt(nonce),
            receipt: layout.receipt(commit.id),
            meta: layout.meta(),
            proofs: commit.proofs.iter().map(|(name, _)| layout.of(name)).collect(),
            free: commit.free.iter().map(|name| layout.of(name)).collect(),
            document: commit.document.as_ref().map(|put| layout.of(put.name)),
            journal: commit.journal.map(|(name, _)| layout.of(name)),
            removed: commit.remove.as_ref().map(|removal| layout.of(removal.name)),
        }
    }

    /// Whether it changes anything.
    fn writes(&self) -> bool {
        let puts = self.commit.document.as_ref().is_some_and(|put| put.bytes.is_some());
        puts || self.journal.is_some() || self.removed.is_some() || self.commit.operation.is_some()
    }

    /// The revision that the document must have, 0 for none; `None` if it cannot have it.
    fn base(&self, world: &World) -> Option<u64> {
        match self.commit.document.as_ref()?.base {
            None => Some(0),
            Some(version) => world.revision_of(version),
        }
    }

    fn operation_keys(&self) -> Vec<Vec<u8>> {
        let Some(operation) = self.commit.operation else { return Vec::new() };
        let targets = self.document.iter().chain(&self.journal);
        targets.map(|keys| keys.operation(operation)).collect()
    }

    /// The transaction.
    fn txn(&self, world: &World, head: (Head, u64), lease: u64) -> Txn {
        let mut txn = Txn {
            compare: vec![
                when::absent(&self.nonce),
                when::absent(&self.receipt),
                when::written(&self.meta, world.written),
            ],
            then: Vec::new(),
            otherwise: vec![then::get(&self.receipt), then::look(&self.meta)],
        };
        for (keys, (_, fence)) in self.proofs.iter().zip(&self.commit.proofs) {
            let revision = world.revision(*fence).filter(|revision| *revision > 0);
            let never = i64::MAX.unsigned_abs();
            txn.compare.push(when::written(&keys.fence, revision.unwrap_or(never)));
            txn.compare.push(when::present(&keys.alive));
            txn.otherwise.extend(finding(keys));
        }
        let did = self.did(head.0, world).to_bytes();
        for key in self.operation_keys() {
            txn.compare.push(when::absent(&key));
            txn.then.push(then::put(&key, &did));
            txn.otherwise.push(then::get(&key));
        }
        for keys in &self.free {
            txn.compare.push(when::absent(&keys.alive));
            txn.compare.push(when::empty(&keys.queue));
            if self.writes() {
                txn.then.push(then::delete(&keys.owner)); // An expired lease ends.
            }
            txn.otherwise.extend(finding(keys));
            txn.otherwise.push(then::oldest(&keys.queue, 1));
        }
        self.add_document(&mut txn, world);
        self.add_batch(&mut txn, world, head);
        self.add_removal(&mut txn, world);
        if self.writes() {
            txn.then.push(then::lend(&self.receipt, &did, lease));
        }
        txn
    }

    fn add_document(&self, txn: &mut Txn, world: &World) {
        let (Some(keys), Some(put)) = (&self.document, &self.commit.document) else { return };
        let never = i64::MAX.unsigned_abs();
        txn.compare.push(when::written(&keys.document, self.base(world).unwrap_or(never)));
        txn.otherwise.push(then::look(&keys.document));
        if let Some(bytes) = put.bytes {
            txn.then.push(then::put(&keys.document, bytes));
            txn.then.push(then::put(&keys.document_touched, &touch()));
        }
    }

    fn add_batch(&self, txn: &mut Txn, world: &World, head: (Head, u64)) {
        let (Some(keys), Some((_, lines))) = (&self.journal, self.commit.journal) else { return };
        txn.compare.push(when::written(&keys.head, head.1));
        txn.otherwise.push(then::get(&keys.head));
        let first = next_number(head.0, world);
        txn.then.push(then::put(&keys.batch(first), &lines.join(&b'\n')));
        txn.then.push(then::put(&keys.head, &self.next_head(head.0, world).to_bytes()));
    }

    fn add_removal(&self, txn: &mut Txn, world: &World) {
        let (Some(keys), Some(removal)) = (&self.removed, &self.commit.remove) else { return };
        txn.compare.push(when::any(&keys.touched));
        if let Removal { changes: Some(changes), .. } = removal {
            let revision = world.revision(*changes).unwrap_or(0);
            txn.compare.push(when::none_written_after(&keys.touched, revision));
        }
        txn.then.push(then::delete(&keys.document));
        let spans = [&keys.touched, &keys.entries, &keys.operations, &keys.events];
        txn.then.extend(spans.map(then::delete_all));
        if self.commit.free.contains(&removal.name) {
            txn.then.push(then::delete(&keys.fence));
        }
    }

    /// What it does, if it is done now.
    fn did(&self, head: Head, world: &World) -> Did {
        let wrote = self.commit.document.as_ref().is_some_and(|put| put.bytes.is_some());
        let lines = self.commit.journal.map(|(_, lines)| {
            let first = next_number(head, world);
            (first, first + lines.len() as u64 - 1)
        });
        Did { wrote, lines }
    }

    fn next_head(&self, head: Head, world: &World) -> Head {
        let count = self.commit.journal.map_or(0, |(_, lines)| lines.len() as u64);
        Head { next: next_number(head, world) + count, epoch: world.epoch }
    }

    fn receipt_of(&self, did: Did, revision: u64, world: &World) -> Receipt {
        let base = self.commit.document.as_ref().and_then(|put| put.base.cloned());
        let version = if did.wrote { Some(world.version(revision)) } else { base };
        Receipt { version, lines: did.lines }
    }

    /// The answer, if this receipt says that it was done before.
    fn done_before(&self, receipt: Option<&Kv>, world: &World) -> Option<Committed> {
        let receipt = receipt?;
        let did = Did::read(&receipt.value)?;
        Some(Committed::Done(self.receipt_of(did, receipt.created, world)))
    }

    /// The head that a failed attempt has read: it is the last read.
    fn head_in(&self, done: &Done) -> Option<(Head, u64)> {
        self.journal.as_ref().map(|_| seen_head(done.key(done.len() - 1).as_ref()))
    }
}

/// Waits a little before an append is numbered anew: longer after each attempt, and not as long as the others wait.
fn pause(attempt: u32, nonce: &str) {
    let mixed = nonce
        .bytes()
        .fold(attempt, |mixed, byte| mixed.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let most = 500 * attempt.min(20);
    thread::park_timeout(Duration::from_micros(u64::from(mixed % most)));
}
