//! `tenure run`: a command under the lock of a target, or of several.
//!
//! # Invariants
//!
//! 1. On local files the command inherits the locks: they last as long as the command. In a store they last as long as
//!    this process renews them; a loss is noticed without asking the server, and said while the command still runs.
//! 2. A lost lock is exit 4, whatever the command itself returned.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use tenure::embed;
use tenure::file::FileOptions;
use tenure::options::Mode;
use tenure::{ErrorKind, Lock, LockGuard, LockOptions, json};

use super::parents;
use crate::args::RunArgs;
use crate::child::{self, Ended, Inherited, Running};
use crate::clock;
use crate::environment;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result, in_store};
use crate::output::{self, Output};
use crate::place::here;
use crate::waiting::Notice;

/// How often the lock file is looked at while the command runs.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The same for a hold whose loss this process notices itself.
const STORE_LOOK_INTERVAL: Duration = Duration::from_millis(50);

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
    output::say_object(&object);
    exit
}

/// A target that was held for a command, and its fence.
pub(super) type HeldTarget = (PathBuf, u64);

/// Says how the command ended, to programs. The target that was named first comes first.
pub(super) fn ended(how: Ended, held: &[HeldTarget], out: &Output) {
    if !out.is_json() {
        return;
    }
    let object =
        |(path, fence): &HeldTarget| json!({ "target": path.to_string_lossy(), "fence": fence });
    let first = held.first().map(object);
    let first = |field: &str| first.as_ref().map(|first| first[field].clone());
    output::say_object(&json!({
        "outcome": match how { Ended::Exited(_) => "exited", Ended::Signaled(_) => "signaled" },
        "code": match how { Ended::Exited(code) => Some(code), Ended::Signaled(_) => None },
        "signal": match how { Ended::Exited(_) => None, Ended::Signaled(signal) => Some(signal) },
        "exit": how.exit().number(),
        "target": first("target"),
        "fence": first("fence"),
        "targets": held.iter().map(object).collect::<Vec<_>>(),
    }));
}

fn under_lock(args: &RunArgs, out: &Output) -> Result<ExitCode> {
    let mut locks = Vec::new();
    for target in &args.targets {
        let lock = here().lock(target)?;
        parents::require("lock", lock.path(), embed::lock_has_directory(&lock), args.parents)?;
        locks.push(lock);
    }
    let guards = acquire(&locks, args, out)?;
    super::store::warn_of_dangers(out);
    for guard in &guards {
        if let Some(holder) = guard.recovered_from() {
            out.warn(&format!(
                "the previous holder (pid {} on {}) died holding `{}`; what it protects may be half done",
                holder.pid,
                holder.host,
                guard.path().display().to_string().escape_debug(),
            ));
        }
    }
    let held: Vec<_> =
        guards.iter().map(|guard| (guard.path().to_path_buf(), guard.publish_fence())).collect();
    // Of a shared hold there is nothing to prove, and the holds above stay what they are.
    let proven = held.iter().filter(|(_, fence)| *fence > 0);
    let proven: Vec<_> = proven.map(|(path, fence)| (path.as_path(), *fence, None)).collect();
    let inherited = if args.close { Vec::new() } else { inherit(&guards)? };
    let running = child::start(&args.command, environment::below(&proven)?, inherited)?;
    let mut lost = wait(&running, &guards, args, out.is_json());
    let how = reap(running)?;
    for guard in guards {
        let end = if args.close { guard.release() } else { embed::leave_to_children(guard) };
        // The command did its work; the lock is free in any case.
        if let Err(error) = end {
            if lost.is_none() {
                out.warn(&said(&error));
            }
            lost = lost.or(Some(error.kind()).filter(|kind| is_loss(*kind)));
        }
    }
    if let Some(lost) = lost {
        if out.is_json() {
            let exit = ExitCode::Lost.number();
            output::say_object(
                &json!({ "outcome": lost.code(), "code": lost.code(), "exit": exit }),
            );
        }
        return Ok(ExitCode::Lost);
    }
    ended(how, &held, out);
    Ok(how.exit())
}

/// The guards of all targets, in the order in which the targets were named.
fn acquire(locks: &[Lock], args: &RunArgs, out: &Output) -> Result<Vec<LockGuard>> {
    let wait = args.wait.get()?;
    let options = LockOptions {
        mode: if args.shared { Mode::Shared } else { Mode::Exclusive },
        slots: args.slots,
        wait,
        label: args.label.clone(),
        file: FileOptions {
            lock_file: args.lock_file.clone(),
            allow_network: args.allow_network,
            ..FileOptions::default()
        },
        ..LockOptions::default()
    };
    if let (true, Some(lock)) = (args.fence.is_some() || args.lock_file.is_some(), locks.get(1)) {
        let detail = "--fence and --lock-file are for one target, and several were named";
        let failure = Failure::usage("lock", detail).at(lock.path());
        return Err(failure.hint("name one target, or nest one `tenure run` in another"));
    }
    let (mut guards, mut free): (Vec<LockGuard>, Vec<Lock>) = Default::default();
    for lock in locks {
        let fence = match args.fence {
            Some(fence) => Some(fence),
            None => environment::fence_of(lock.path())?,
        };
        match fence {
            // A hold above this command: proven, not taken.
            Some(_) => guards.push(lock.acquire(&LockOptions { fence, ..options.clone() })?),
            None => free.push(lock.clone()),
        }
    }
    if let Some(first) = free.first() {
        let _notice = Notice::start(first.path(), wait, out.is_json());
        guards.extend(Lock::acquire_all(&free, &options)?);
    }
    guards.sort_by_key(|guard| locks.iter().position(|lock| lock.path() == guard.path()));
    guards.dedup_by(|one, other| one.path() == other.path());
    Ok(guards)
}

fn inherit(guards: &[LockGuard]) -> Result<Vec<Inherited>> {
    let copy = |guard: &LockGuard| {
        Inherited::of(guard).map_err(|err| Failure::io("pass on the lock of", guard.path(), err))
    };
    guards.iter().filter_map(|guard| copy(guard).transpose()).collect()
}

/// An error as a line for people.
pub(super) fn said(error: &tenure::Error) -> String {
    clock::use_local_time();
    in_store(error.to_string())
}

/// How a command ended that [`wait`] has waited for.
pub(super) fn reap(running: Running) -> Result<Ended> {
    running.reap().map_err(|err| Failure::io("wait for", Path::new("the command"), err))
}

/// Waits for the command, with an eye on the locks. Says so if one is lost meanwhile, and returns how.
fn wait(running: &Running, guards: &[LockGuard], args: &RunArgs, json: bool) -> Option<ErrorKind> {
    std::thread::scope(|scope| {
        let (done, until_done) = channel();
        let look = move || look_after(running, guards, args, &until_done, json);
        let thread = std::thread::Builder::new().name("hold".into());
        let looker = thread.spawn_scoped(scope, look); // Without it the end is still checked.
        let _ = running.wait();
        drop(done);
        looker.ok().and_then(|looker| looker.join().ok().flatten())
    })
}

fn look_after(
    running: &Running,
    guards: &[LockGuard],
    args: &RunArgs,
    until_done: &Receiver<()>,
    json: bool,
) -> Option<ErrorKind> {
    let is_done = |time| until_done.recv_timeout(time) != Err(RecvTimeoutError::Timeout);
    let losses: Vec<_> = guards.iter().filter_map(LockGuard::loss).collect();
    let interval = if losses.is_empty() { LOOK_INTERVAL } else { STORE_LOOK_INTERVAL };
    while !is_done(interval) {
        if !losses.is_empty() && !losses.iter().any(|loss| loss.wait(Duration::ZERO)) {
            continue;
        }
        let Err(error) = guards.iter().try_for_each(LockGuard::verify) else { continue };
        if here().name().is_some() && !is_loss(error.kind()) {
            continue; // The server did not answer. It is asked again.
        }
        if args.end_on_loss {
            say_ending(&error, json);
            end(running, args.grace, is_done);
        } else {
            output::warn(json, &said(&error));
        }
        return Some(error.kind());
    }
    None
}

fn is_loss(kind: ErrorKind) -> bool {
    ExitCode::from(kind) == ExitCode::Lost
}

/// Says that a hold was lost, and what follows.
pub(super) fn say_ending(error: &tenure::Error, json: bool) {
    output::warn(json, &format!("{}; the command is being ended", said(error)));
}

/// Ends a command whose hold was lost: politely, then for good.
pub(super) fn end(command: &Running, grace: Duration, is_done: impl Fn(Duration) -> bool) {
    command.terminate();
    if !is_done(grace) {
        command.kill();
    }
}
