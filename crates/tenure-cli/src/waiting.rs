//! Telling a person at the terminal what a command waits for, once.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tenure::Wait;

use crate::output;

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
        let (done, wait_for_end) = channel();
        let tell = move || {
            if wait_for_end.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                output::say(&message(&path));
            }
        };
        let thread = std::thread::Builder::new().name("notice".into()).spawn(tell);
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

fn message(path: &Path) -> String {
    let status = tenure::status(path).ok().filter(|status| status.state.is_held());
    let by = status.and_then(|status| {
        let left = status.expires_in.map(|left| format!(", {:.1} s left", left.as_secs_f64()));
        status.holder.map(|holder| format!(", {holder}{}", left.unwrap_or_default()))
    });
    let path = path.display().to_string();
    format!("tenure: waiting for `{}`{}", path.escape_debug(), by.unwrap_or_default())
}
