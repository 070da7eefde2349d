//! Waiting, locks and leases.

use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use tenure::file::FileOptions;
use tenure::options::{MaxHold, Mode};
use tenure::outcome::{LeaseInfo, Leased};
use tenure::status::{HoldKind, Holder};
use tenure::store::{self, Held};
use tenure::{Cancel, Error, ErrorKind, Fence, LeaseOptions, LockOptions, Result, Wait, json};

use super::engine::{Hold, Record, State, this_process};
use super::target::MemoryTarget;
use super::{Client, Wrong};

/// A cancelled wait is noticed so soon: a token wakes no one outside of tenure.
const CANCEL_CHECK: Duration = Duration::from_millis(10);
/// A wait looks again so often, whatever happens.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a caller waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience<'a> {
    may_wait: bool,
    until: Option<Instant>,
    cancel: Option<&'a Cancel>,
    /// A wait of this thread for a lock of its own would never end.
    thread: Option<ThreadId>,
}

impl<'a> Patience<'a> {
    pub(super) fn new(wait: Wait, cancel: Option<&'a Cancel>, on_behalf: Option<ThreadId>) -> Self {
        let (may_wait, until) = match wait {
            Wait::No => (false, None),
            Wait::For(time) => (!time.is_zero(), Instant::now().checked_add(time)),
            Wait::Forever => (true, None),
        };
        let thread = on_behalf.is_none().then(|| thread::current().id());
        Self { may_wait, until, cancel, thread }
    }

    fn is_over(&self) -> bool {
        !self.may_wait || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

impl Client {
    /// Waits until no other caller has any of these targets, first come first. An expired lease blocks no caller.
    pub(super) fn wait_for<'e>(
        &'e self,
        names: &[&Path],
        patience: &Patience<'_>,
    ) -> Result<MutexGuard<'e, State>> {
        let mut state = self.engine.lock();
        let ticket = state.next();
        for name in names {
            let record = state.record(name);
            if let Hold::Locked { thread, .. } = &record.hold {
                if patience.may_wait && patience.thread == Some(*thread) {
                    let detail = "the calling thread has this lock already";
                    return Err(Error::new(ErrorKind::Deadlock, "lock", detail).at(name));
                }
            }
        }
        for name in names {
            state.record(name).queue.push_back(ticket);
        }
        let waited = loop {
            let blocked = names.iter().find(|name| {
                let record = state.records.get(**name);
                record.is_some_and(|record| {
                    record.holder().is_some() || record.queue.front() != Some(&ticket)
                })
            });
            let Some(name) = blocked else { break Ok(()) };
            let holder = state.record(name).holder().cloned();
            if patience.cancel.is_some_and(Cancel::is_cancelled) {
                let detail = "the wait was cancelled";
                break Err(Error::new(ErrorKind::Cancelled, "wait for", detail).at(name));
            }
            if patience.is_over() {
                break Err(busy(name, holder));
            }
            let mut sleep = if patience.cancel.is_some() { CANCEL_CHECK } else { LOOK_EVERY };
            if let Some(until) = patience.until {
                sleep = sleep.min(until.saturating_duration_since(Instant::now()));
            }
            if let Some(left) = state.record(name).lease_left() {
                sleep = sleep.min(left);
            }
            let woken = self.engine.changed.wait_timeout(state, sleep);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        };
        for name in names {
            state.record(name).queue.retain(|other| *other != ticket);
        }
        self.engine.changed.notify_all(); // The next in the queue is another one now.
        waited.map(|()| state)
    }

    /// Draws the next fence of a target.
    fn draw(&self, state: &mut State, name: &Path) -> Fence {
        let fence = if self.wrong == Some(Wrong::FenceFromMemory) {
            self.fences.fetch_add(1, Ordering::SeqCst) + 1
        } else {
            state.next()
        };
        state.record(name).fence = fence;
        fence
    }
}

fn busy(name: &Path, holder: Option<Holder>) -> Error {
    Error::new(ErrorKind::Busy, "lock", "")
        .at(name)
        .held_by(Some(holder.unwrap_or_default()))
        .hint("wait longer")
}

fn lost(name: &Path) -> Error {
    Error::new(
        ErrorKind::LeaseLost,
        "use the lease of",
        "it was lost: this token no longer holds it",
    )
    .at(name)
    .hint("stop writing; acquire it again if you still need it")
}

/// 128 bits from the seeds of the standard library's hash maps: enough for tests.
fn new_token() -> String {
    (0..2).fold(String::new(), |mut token, _| {
        let _ = write!(token, "{:016x}", RandomState::new().build_hasher().finish());
        token
    })
}

impl MemoryTarget {
    pub(super) fn take_lock(&self, options: &LockOptions) -> Result<Box<dyn Held>> {
        self.refuse_files(&options.file)?;
        if options.mode == Mode::Shared {
            let detail = "this store has no shared locks";
            return Err(Error::new(ErrorKind::Unsupported, "lock", detail).at(&self.name));
        }
        let client = &self.client;
        if let Some(fence) = options.fence {
            client.engine.lock().record(&self.name).check_fence(&self.name, fence)?;
            return Ok(Box::new(self.held(fence, true)));
        }
        if options.reentrant {
            if options.owner.is_empty() {
                let detail = "a re-entrant lock needs an owner";
                return Err(Error::new(ErrorKind::Invalid, "lock", detail).at(&self.name));
            }
            let mut state = client.engine.lock();
            let record = state.record(&self.name);
            if let Hold::Locked { holder, reentrant: true, count, .. } = &mut record.hold {
                if holder.owner == options.owner {
                    *count += 1;
                    return Ok(Box::new(self.held(record.fence, false)));
                }
            }
        }
        let patience = Patience::new(options.wait, options.cancel.as_ref(), options.thread);
        let mut state = client.wait_for(&[&self.name], &patience)?;
        let fence = client.draw(&mut state, &self.name);
        state.record(&self.name).hold = Hold::Locked {
            holder: this_process(&options.label, &options.owner, fence, HoldKind::Lock),
            thread: options.thread.unwrap_or_else(|| thread::current().id()),
            published: false,
            reentrant: options.reentrant,
            count: 1,
        };
        drop(state);
        let held = self.held(fence, false);
        if let Some(limit) = &options.max_hold {
            held.limit(limit);
        }
        Ok(Box::new(held))
    }

    fn held(&self, fence: Fence, nested: bool) -> MemoryHeld {
        let (client, name) = (self.client.clone(), self.name.clone());
        let (ended, overlong) = (AtomicBool::new(false), Arc::default());
        MemoryHeld { client, name, fence, nested, ended, overlong }
    }

    pub(super) fn take_lease(&self, options: &LeaseOptions) -> Result<Leased> {
        self.refuse_files(&options.file)?;
        if let Some(token) = &options.token {
            match self.renew_lease(token, Some(options.ttl)) {
                Err(error) if error.kind() == ErrorKind::LeaseLost => {}
                renewed => return renewed,
            }
        }
        let patience = Patience::new(options.wait, options.cancel.as_ref(), None);
        let state = self.client.wait_for(&[&self.name], &patience)?;
        Ok(self.grant(state, options))
    }

    pub(super) fn take_lease_over(&self, options: &LeaseOptions, reason: &str) -> Result<Leased> {
        self.refuse_files(&options.file)?;
        let patience = Patience::new(options.wait, options.cancel.as_ref(), None);
        let mut state = self.client.engine.lock();
        if matches!(state.record(&self.name).hold, Hold::Locked { .. }) {
            // A lock is never taken: its holder may be at work.
            drop(state);
            state = self.client.wait_for(&[&self.name], &patience)?;
        }
        let record = state.record(&self.name);
        let from = match &record.hold {
            Hold::Leased { holder, .. } => Some(holder.to_json()),
            _ => None,
        };
        let detail = json!({ "reason": reason, "by": options.owner, "from": from });
        record.events.push(json!({ "event": "take_over", "detail": detail }));
        Ok(self.grant(state, options))
    }

    fn grant(&self, mut state: MutexGuard<'_, State>, options: &LeaseOptions) -> Leased {
        let fence = self.client.draw(&mut state, &self.name);
        let token = options.token.clone().unwrap_or_else(new_token);
        let (owner, ttl) = (options.owner.clone(), options.ttl);
        state.record(&self.name).hold = Hold::Leased {
            holder: this_process(&options.label, &owner, fence, HoldKind::Lease),
            token: token.clone(),
            ttl,
            expires: Instant::now() + ttl,
        };
        self.client.engine.changed.notify_all();
        Leased { token, fence, owner, ttl, expires_in: ttl }
    }

    pub(super) fn renew_lease(&self, given: &str, longer: Option<Duration>) -> Result<Leased> {
        let mut state = self.client.engine.lock();
        let record = state.record(&self.name);
        match &mut record.hold {
            Hold::Leased { holder, token, ttl, expires } if token == given => {
                *ttl = longer.unwrap_or(*ttl);
                *expires = Instant::now() + *ttl;
                let (token, owner, fence) = (token.clone(), holder.owner.clone(), record.fence);
                Ok(Leased { token, fence, owner, ttl: *ttl, expires_in: *ttl })
            }
            _ => Err(lost(&self.name)),
        }
    }

    pub(super) fn release_lease(&self, given: &str) -> Result<()> {
        let mut state = self.client.engine.lock();
        let record = state.record(&self.name);
        match &record.hold {
            Hold::Leased { token, .. } if token == given => record.hold = Hold::Free,
            _ => return Err(lost(&self.name)),
        }
        self.client.engine.changed.notify_all();
        Ok(())
    }

    pub(super) fn lease_info(&self) -> Option<LeaseInfo> {
        let mut state = self.client.engine.lock();
        let record = state.record(&self.name);
        let Hold::Leased { holder, token, ttl, .. } = &record.hold else { return None };
        let (holder, ttl, token_sum) = (holder.clone(), *ttl, LeaseInfo::sum_of(token));
        Some(LeaseInfo { holder, ttl, expires_in: record.lease_left(), token_sum })
    }

    pub(super) fn refuse_files(&self, options: &FileOptions) -> Result<()> {
        if *options == FileOptions::default() {
            return Ok(());
        }
        Err(store::unsupported(&self.name, "use options of files on"))
    }
}

/// A lock that is held, or a proof of one.
#[derive(Debug)]
struct MemoryHeld {
    client: Arc<Client>,
    name: PathBuf,
    fence: Fence,
    nested: bool,
    /// This guard was released.
    ended: AtomicBool,
    /// Its limit has ended the hold.
    overlong: Arc<AtomicBool>,
}

/// The record, if it still has the hold with this fence.
fn held_under<'s>(state: &'s mut State, name: &Path, fence: Fence) -> Option<&'s mut Record> {
    let record = state.record(name);
    let ours = record.fence == fence && matches!(record.hold, Hold::Locked { .. });
    ours.then_some(record)
}

impl MemoryHeld {
    /// Does something with the record, if it still has our hold.
    fn with<T>(&self, act: impl FnOnce(&mut Record) -> T) -> Option<T> {
        held_under(&mut self.client.engine.lock(), &self.name, self.fence).map(act)
    }

    fn check_not_overlong(&self) -> Result<()> {
        if !self.overlong.load(Ordering::SeqCst) {
            return Ok(());
        }
        let detail = "it lasted longer than its max_hold and was ended";
        Err(Error::new(ErrorKind::Fenced, "hold", detail).at(&self.name))
    }

    /// Reports, or ends, the hold if it lasts too long. The thread ends with the hold.
    fn limit(&self, limit: &MaxHold) {
        let (engine, name, fence) = (self.client.engine.clone(), self.name.clone(), self.fence);
        let (limit, overlong) = (limit.clone(), self.overlong.clone());
        thread::spawn(move || {
            let until = Instant::now() + limit.after;
            let mut state = engine.lock();
            while let Some(record) = held_under(&mut state, &name, fence) {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    if limit.end {
                        record.hold = Hold::Free;
                        overlong.store(true, Ordering::SeqCst);
                        engine.changed.notify_all();
                    }
                    drop(state);
                    return (limit.report)(&name);
                }
                let woken = engine.changed.wait_timeout(state, left);
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
        });
    }
}

impl Held for MemoryHeld {
    fn publish_fence(&self) -> Fence {
        self.with(|record| {
            if let Hold::Locked { published, .. } = &mut record.hold {
                *published = true;
            }
        });
        self.fence
    }

    fn unpublished_fence(&self) -> Fence {
        self.fence
    }

    fn recovered_from(&self) -> Option<&Holder> {
        None // Nothing here outlives the process.
    }

    fn is_nested(&self) -> bool {
        self.nested
    }

    fn verify(&self) -> Result<()> {
        self.check_not_overlong()?;
        if self.nested {
            return self
                .client
                .engine
                .lock()
                .record(&self.name)
                .check_fence(&self.name, self.fence);
        }
        let gone = || Error::new(ErrorKind::Fenced, "hold", "it is over").at(&self.name);
        self.with(|_| ()).ok_or_else(gone)
    }

    fn release(self: Box<Self>) -> Result<()> {
        self.end()
    }

    fn end(&self) -> Result<()> {
        self.check_not_overlong()?;
        if self.ended.swap(true, Ordering::SeqCst) || self.nested {
            return Ok(());
        }
        self.with(|record| {
            if let Hold::Locked { count, .. } = &mut record.hold {
                *count -= 1;
                if *count == 0 {
                    record.hold = Hold::Free;
                }
            }
        });
        self.client.engine.changed.notify_all();
        Ok(())
    }
}

impl Drop for MemoryHeld {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
