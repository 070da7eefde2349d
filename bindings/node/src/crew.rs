//! Threads for calls that may wait or sync.
//!
//! Any number of calls may wait at once, so there is no limit that could starve the one that would
//! wake them: a call gets an idle thread, or a new one. An idle thread ends after a moment.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Room to parse a document of the deepest nesting. Only what is touched is ever allocated.
const STACK_BYTES: usize = 512 * 1024;
/// Longer than the pause between the calls of a busy program.
const IDLE: Duration = Duration::from_secs(2);

/// What a thread is asked to do. It must not panic.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The idle threads; the last one is the warmest.
static RESTING: Mutex<Vec<Worker>> = Mutex::new(Vec::new());

/// A thread that waits for its next job.
#[derive(Debug)]
pub(crate) struct Worker {
    id: std::thread::ThreadId,
    jobs: Sender<Job>,
}

impl Worker {
    /// An idle thread, or a new one.
    pub(crate) fn hire() -> io::Result<Self> {
        if let Some(worker) = resting().pop() {
            return Ok(worker);
        }
        let (jobs, asked) = mpsc::channel::<Job>();
        let own = jobs.clone();
        let work = move || {
            let id = std::thread::current().id();
            loop {
                match asked.recv_timeout(IDLE) {
                    Ok(job) => {
                        job();
                        resting().push(Self { id, jobs: own.clone() });
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        let mut resting = resting();
                        let before = resting.len();
                        resting.retain(|worker| worker.id != id);
                        if resting.len() < before {
                            return;
                        }
                        // A caller has just hired it: the job is on its way.
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("tenure-call".into());
        let handle = thread.stack_size(STACK_BYTES).spawn(work)?;
        Ok(Self { id: handle.thread().id(), jobs })
    }

    /// Does the job and rests.
    pub(crate) fn work(self, job: Job) {
        let _ = self.jobs.send(job); // It cannot have ended: it was hired.
    }
}

fn resting() -> MutexGuard<'static, Vec<Worker>> {
    RESTING.lock().unwrap_or_else(PoisonError::into_inner)
}
