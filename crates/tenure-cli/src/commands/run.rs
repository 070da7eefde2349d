//! `tenure run`: a command under the lock of a target.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use tenure::{FileOptions, Lock, LockGuard, LockOptions, Mode, json};

use super::parents;
use crate::args::RunArgs;
use crate::child::{self, Ended, Inherited, Running};
use crate::clock;
use crate::environment;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::{self, Output};
use crate::waiting::Notice;

/// How often the hold is looked at while the command runs.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

#[expect(clippy::unnecessary_wraps, reason = "every command has this shape")]
pub(super) fn run(args: &RunArgs, out: &Output) -> Result<ExitCode> {
    match under_lock(args, out) {
        Ok(exit) => Ok(exit),
        Err(failure) => Ok(not_run(&failure, args.busy_code, out)),
    }
}

/// Says why the command did not run (or was not waited for), and with which exit code.
pub(super) fn not_run(failure: &Failure, busy_code: u8, out: &Output) -> ExitCode {
    let exit = match failure.exit() {
        ExitCode::Busy => ExitCode::Other(busy_code),
        exit => exit,
    };
    if !out.is_json() {
        return output::report(false, failure, exit);
    }
    let mut object = failure.to_json(exit);
    object["outcome"] = object["code"].clone();
    output::tell(&object);
    exit
}

/// Says how the command ended, to programs.
pub(super) fn ended(how: Ended, path: &Path, fence: u64, out: &Output) {
    let object = json!({
        "outcome": match how { Ended::Exited(_) => "exited", Ended::Signaled(_) => "signaled" },
        "code": match how { Ended::Exited(code) => Some(code), Ended::Signaled(_) => None },
        "signal": match how { Ended::Exited(_) => None, Ended::Signaled(signal) => Some(signal) },
        "exit": how.exit().number(),
        "target": path.to_string_lossy(),
        "fence": fence,
    });
    if out.is_json() {
        output::tell(&object);
    }
}

fn under_lock(args: &RunArgs, out: &Output) -> Result<ExitCode> {
    let lock = Lock::open(&args.target)?;
    parents::require("lock", lock.path(), lock.has_directory(), args.parents)?;
    let guard = acquire(&lock, args, out)?;
    if let Some(holder) = guard.recovered_from() {
        out.warn(&format!(
            "the previous holder (pid {} on {}) died holding `{}`; what it protects may be half done",
            holder.pid,
            holder.host,
            args.target.display().to_string().escape_debug(),
        ));
    }
    let variables = match guard.publish_fence() {
        0 => Vec::new(), // Shared: nothing to prove, and the holds above stay what they are.
        fence => environment::inherited().below(guard.path(), fence, None)?,
    };
    let inherited = if args.close { None } else { inherit(&guard)? };
    let running = child::start(&args.command, variables, inherited)?;
    let compromised = wait(&running, &guard, out.is_json());
    let how = reap(running)?;
    let (path, fence) = (guard.path().to_path_buf(), guard.publish_fence());
    let end = if args.close { guard.release() } else { guard.leave_to_children() };
    let lost = match end {
        Ok(()) => compromised,
        Err(error) if ExitCode::from(error.kind()) == ExitCode::Lost => {
            if !compromised {
                out.warn(&said(&error));
            }
            true
        }
        Err(error) => {
            out.warn(&said(&error)); // The command did its work; the lock is free all the same.
            compromised
        }
    };
    if lost {
        if out.is_json() {
            let exit = ExitCode::Lost.number();
            output::tell(&json!({ "outcome": "compromised", "code": "compromised", "exit": exit }));
        }
        return Ok(ExitCode::Lost);
    }
    ended(how, &path, fence, out);
    Ok(how.exit())
}

fn acquire(lock: &Lock, args: &RunArgs, out: &Output) -> Result<LockGuard> {
    let fence = match args.fence {
        Some(fence) => Some(fence),
        None => environment::inherited().fence_of(lock.path())?,
    };
    let wait = args.wait.get()?;
    let _notice = Notice::start(lock.path(), wait, out.is_json());
    Ok(lock.acquire(&LockOptions {
        mode: if args.shared { Mode::Shared } else { Mode::Exclusive },
        wait,
        label: args.label.clone(),
        fence,
        file: FileOptions {
            lock_file: args.lock_file.clone(),
            allow_network: args.allow_network,
            ..FileOptions::default()
        },
        ..LockOptions::default()
    })?)
}

fn inherit(guard: &LockGuard) -> Result<Option<Inherited>> {
    Inherited::of(guard).map_err(|err| Failure::io("pass on the lock of", guard.path(), err))
}

/// An error as a line for people.
pub(super) fn said(error: &tenure::Error) -> String {
    clock::use_local_time();
    error.to_string()
}

/// How a command ended that [`wait`] has waited for.
pub(super) fn reap(running: Running) -> Result<Ended> {
    running.reap().map_err(|err| Failure::io("wait for", Path::new("the command"), err))
}

/// Waits for the command, with an eye on the lock file. True if the hold was compromised meanwhile;
/// that has been said then.
fn wait(running: &Running, guard: &LockGuard, json: bool) -> bool {
    std::thread::scope(|scope| {
        let (done, until_done) = channel();
        let look = move || look_after(guard, &until_done, json);
        let thread = std::thread::Builder::new().name("hold".into());
        let looker = thread.spawn_scoped(scope, look); // Without it the end is still checked.
        let _ = running.wait();
        drop(done);
        looker.is_ok_and(|looker| looker.join().unwrap_or(false))
    })
}

fn look_after(guard: &LockGuard, until_done: &Receiver<()>, json: bool) -> bool {
    while until_done.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        if let Err(error) = guard.verify() {
            output::warn(json, &said(&error));
            return true;
        }
    }
    false
}
