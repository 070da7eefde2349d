//! A notice at the terminal about what a command waits for, printed once.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tenure::Wait;
use tenure::embed::printable;

use crate::clock;
use crate::output;
use crate::place::here;

/// A wait shorter than this is not worth a line.
const PATIENCE: Duration = Duration::from_millis(500);

/// Dropped when the wait is over.
#[derive(Debug)]
pub(crate) struct Notice {
    done: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Notice {
    /// Prints what the command waits for, if that takes longer than half a second and stderr is a
    /// terminal.
    pub(crate) fn start(path: &Path, wait: Wait, json: bool) -> Self {
        if json || wait == Wait::No || !output::stderr_is_terminal() {
            return Self { done: None };
        }
        let path = path.to_path_buf();
        let begun_us = clock::now_us();
        let (done, wait_for_end) = channel();
        let notify = move || {
            if wait_for_end.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                output::say(&message(&path, wait, begun_us));
            }
        };
        let thread = std::thread::Builder::new().name("notice".into()).spawn(notify);
        Self { done: thread.ok().map(|thread| (done, thread)) }
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        if let Some((done, thread)) = self.done.take() {
            drop(done);
            let _ = thread.join(); // A line that is being written is finished before the next one.
        }
    }
}

/// What is waited for, who has it, and when the wait ends.
fn message(path: &Path, wait: Wait, begun_us: u64) -> String {
    clock::use_local_time();
    let status = here()
        .target(path)
        .and_then(|target| target.status())
        .ok()
        .filter(|status| status.state.is_held());
    let by = status.and_then(|status| {
        let left = status.expires_in.map(|left| format!(", {:.1} s left", left.as_secs_f64()));
        status.holder.map(|holder| format!(", {holder}{}", left.unwrap_or_default()))
    });
    let end = match wait {
        Wait::For(time) => {
            let end_us =
                begun_us.saturating_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
            format!("gives up after {} at {} (--wait)", clock::short(time), clock::time(end_us))
        }
        _ => "waits without a limit (--wait)".to_owned(),
    };
    let path = path.display().to_string();
    let message = format!("waiting for `{path}`{}; {end}", by.unwrap_or_default());
    format!("tenure: {}", printable(&message))
}
