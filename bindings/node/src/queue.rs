//! Queues of tasks. A task crosses as JSON text.

use napi::Env;
use napi::bindgen_prelude::{FnArgs, Function, PromiseRaw};
use napi_derive::napi;
use tenure::queue::{AddOptions, ClaimOptions, FailOptions};
use tenure::{Result, Value, json};
use tenure_remote::Place;

use crate::call::{Answer, Call, Caller, answer};
use crate::document::check_length;
use crate::failure::to_js;
use crate::lease::Leased;
use crate::options::{Name, WriteOptions, duration, milliseconds, number, path, wait, whole};
use crate::store::{Store, place};
use crate::update::{Ask, Reply, asking, asking_later};

/// A task that was added.
#[derive(Debug)]
#[napi(object, object_from_js = false)]
pub struct Added {
    /// Its id.
    pub id: String,
    /// False if there was a task with this id.
    pub new: bool,
}

/// How a task is claimed.
#[derive(Debug)]
#[napi(object, object_to_js = false)]
pub struct ClaimOption {
    /// Who wants it.
    pub owner: String,
    /// How long the claim lasts without a renewal.
    pub ttl_ms: f64,
    /// How long to wait for a task; Infinity is for ever.
    pub wait_ms: f64,
}

impl ClaimOption {
    fn read(self, caller: Caller) -> Result<ClaimOptions> {
        Ok(ClaimOptions {
            owner: self.owner,
            ttl: duration(self.ttl_ms)?,
            wait: wait(self.wait_ms)?,
            cancel: caller.cancel,
        })
    }
}

/// Claims the oldest open task that `ask` accepts.
fn next_of(
    queue: &tenure::queue::Queue,
    options: &ClaimOptions,
    ask: Ask<'_>,
) -> Result<Option<Claimed>> {
    let accepts = |_: &str, task: &Value| {
        let task = task.to_string();
        check_length(&task)?;
        Ok(ask(Some(task))? == "true")
    };
    queue.next(options, accepts)?.map(Claimed::new).transpose()
}

/// What becomes of a task whose attempt failed.
#[derive(Debug)]
#[napi(object, object_to_js = false)]
pub struct FailOption {
    /// It is not given out before this time has passed.
    pub delay_ms: f64,
    /// Set it aside after so many attempts.
    pub max_attempts: Option<f64>,
    /// Why.
    pub reason: Option<String>,
}

/// A task that the caller has claimed.
#[derive(Debug)]
#[napi(object, object_from_js = false)]
pub struct Claimed {
    /// Its id.
    pub id: String,
    /// What was added, as JSON.
    pub task: String,
    /// Its document, for guards.
    pub target: String,
    /// Names the claim.
    pub token: String,
    /// Proves the claim to guarded writes.
    pub fence: f64,
    /// Which attempt it is.
    pub attempt: f64,
    /// How long the claim lasts without a renewal.
    pub ttl_ms: f64,
}

impl Claimed {
    fn new(claimed: tenure::queue::Claimed) -> Result<Self> {
        let task = claimed.task.to_string();
        check_length(&task)?;
        Ok(Self {
            task,
            target: claimed.target.to_string_lossy().into_owned(),
            fence: number(claimed.fence)?,
            attempt: number(claimed.attempt)?,
            ttl_ms: milliseconds(claimed.ttl),
            id: claimed.id,
            token: claimed.token,
        })
    }
}

/// A task as it is now.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "as it is named in the queue")]
#[napi(object, object_from_js = false)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// What was added, as JSON.
    pub task: String,
    /// Where it is.
    pub state: String,
    /// How often it was claimed.
    pub attempts: f64,
    /// When it was added.
    pub added_us: f64,
    /// The last worker that claimed it.
    pub owner: Option<String>,
    /// What is left of its claim, or of its delay.
    pub left_ms: Option<f64>,
    /// Why it failed last.
    pub reason: Option<String>,
}

impl Task {
    fn new(task: tenure::queue::Task) -> Result<Self> {
        Ok(Self {
            task: task.task.to_string(),
            state: task.state.name().to_owned(),
            attempts: number(task.attempts)?,
            added_us: number(task.added_us)?,
            left_ms: task.left.map(milliseconds),
            id: task.id,
            owner: task.owner,
            reason: task.reason,
        })
    }
}

/// Tasks for many workers.
#[derive(Debug)]
#[napi]
pub struct Queue {
    inner: tenure::queue::Queue,
    place: Place,
}

#[napi]
impl Queue {
    /// The queue in a directory, whether or not it is there yet.
    #[napi(constructor, catch_unwind)]
    pub fn new(name: Name, store: Option<&Store>) -> napi::Result<Self> {
        let open = |name| tenure::queue::Queue::on(&place(store).store(), path(name)?);
        Ok(Self { inner: open(name).map_err(to_js)?, place: place(store).clone() })
    }

    /// The resolved directory.
    #[napi(getter, catch_unwind)]
    pub fn path(&self) -> String {
        self.inner.path().to_string_lossy().into_owned()
    }

    /// Adds a task.
    #[napi(catch_unwind)]
    pub fn add<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        task: String,
        id: Option<String>,
        max_attempts: Option<f64>,
        options: WriteOptions,
    ) -> napi::Result<Answer<'env, Added>> {
        let (queue, write) = (self.inner.clone(), self.options(options)?);
        answer(env, call, move |caller| {
            let (max_attempts, write) = (max_attempts.map(whole).transpose()?, caller.write(write));
            let task = json::parse(task.as_bytes())?;
            let added = queue.add(&task, &AddOptions { id, max_attempts, write })?;
            Ok(Added { id: added.id, new: added.new })
        })
    }

    /// Claims the oldest open task; null if there is none before the wait is over.
    #[napi(catch_unwind)]
    pub fn next<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        options: ClaimOption,
    ) -> napi::Result<Answer<'env, Option<Claimed>>> {
        let queue = self.inner.clone();
        answer(env, call, move |caller| {
            let options = options.read(caller)?;
            queue.next(&options, |_, _| Ok(true))?.map(Claimed::new).transpose()
        })
    }

    /// The same of the tasks that the function accepts, on this thread. It is given a task, and answers `true` or `false`.
    #[napi(catch_unwind)]
    pub fn next_of_sync(
        &self,
        options: ClaimOption,
        accepts: Function<'_, FnArgs<(Option<String>,)>, Option<String>>,
    ) -> napi::Result<Option<Claimed>> {
        asking(accepts, |ask| next_of(&self.inner, &options.read(Caller::default())?, ask))
    }

    /// The same on a thread of the crew. No lock is held while the function is asked.
    #[napi(catch_unwind)]
    pub fn next_of<'env>(
        &self,
        env: &'env Env,
        call: &Call,
        options: ClaimOption,
        accepts: Function<'_, FnArgs<(Option<String>, Reply)>, ()>,
    ) -> napi::Result<PromiseRaw<'env, Option<Claimed>>> {
        let queue = self.inner.clone();
        asking_later(env, call, self.inner.path(), None, accepts, move |caller, ask| {
            next_of(&queue, &options.read(caller)?, ask)
        })
    }

    /// Completes a task; false if this claim had completed it before.
    #[napi(catch_unwind)]
    pub fn done<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        id: String,
        token: String,
    ) -> napi::Result<Answer<'env, bool>> {
        let queue = self.inner.clone();
        answer(env, call, move |_| queue.done(&id, &token))
    }

    /// Returns a task to the queue, or sets it aside; the name of its state.
    #[napi(catch_unwind)]
    pub fn fail<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        id: String,
        token: String,
        options: FailOption,
    ) -> napi::Result<Answer<'env, String>> {
        let queue = self.inner.clone();
        answer(env, call, move |_| {
            let options = FailOptions {
                delay: duration(options.delay_ms)?,
                max_attempts: options.max_attempts.map(whole).transpose()?,
                reason: options.reason,
            };
            Ok(queue.fail(&id, &token, &options)?.name().to_owned())
        })
    }

    /// Extends a claim.
    #[napi(catch_unwind)]
    pub fn renew<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        id: String,
        token: String,
        ttl_ms: Option<f64>,
    ) -> napi::Result<Answer<'env, Leased>> {
        let queue = self.inner.clone();
        answer(env, call, move |_| {
            Leased::new(queue.renew(&id, &token, ttl_ms.map(duration).transpose()?)?)
        })
    }

    /// Every task, the oldest first.
    #[napi(catch_unwind)]
    pub fn list<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
    ) -> napi::Result<Answer<'env, Vec<Task>>> {
        let queue = self.inner.clone();
        answer(env, call, move |_| queue.list()?.into_iter().map(Task::new).collect())
    }

    /// Removes tasks that are over; their ids.
    #[napi(catch_unwind)]
    pub fn prune<'env>(
        &self,
        env: &'env Env,
        call: Option<&Call>,
        max_age_ms: f64,
        options: WriteOptions,
    ) -> napi::Result<Answer<'env, Vec<String>>> {
        let (queue, write) = (self.inner.clone(), self.options(options)?);
        answer(env, call, move |caller| queue.prune(duration(max_age_ms)?, &caller.write(write)))
    }

    /// A hold on the queue is no proof for the documents in it.
    fn options(&self, options: WriteOptions) -> napi::Result<tenure::WriteOptions> {
        let write = options.read(&self.place.address(self.inner.path()))?;
        Ok(tenure::WriteOptions { fence: None, ..write })
    }
}
