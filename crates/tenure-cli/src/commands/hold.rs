//! `tenure lease hold`: a command under a lease that is renewed while it runs.
//!
//! # Invariants
//!
//! 1. In a store the command is ended when the time to live is over since the last renewal that succeeded was sent, also
//!    while a renewal waits for the server. The clock counts the sleep of the machine.
//! 2. On local files only the answer of a renewal decides: it waits for no network.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use tenure::embed;
use tenure::outcome::Leased;
use tenure::store::boot_time;
use tenure::{Error, ErrorKind, Lease, json};

use super::parents;
use super::run::{end, ended, not_run, reap, said, say_ending};
use crate::args::HoldArgs;
use crate::child::{self, Running};
use crate::environment;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Output};
use crate::place::here;
use crate::waiting::Notice;

/// Renewals per time to live: two may fail before the lease is lost.
const RENEWALS: u32 = 3;
/// A renewal that failed is repeated after this part of the time to live.
const REPEATS: u32 = 20;
/// How often an answer is looked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

#[expect(clippy::unnecessary_wraps, reason = "every command has this shape")]
pub(super) fn run(args: &HoldArgs, out: &Output) -> Result<ExitCode> {
    match under_lease(args, out) {
        Ok(exit) => Ok(exit),
        Err(failure) => Ok(not_run(&failure, args.busy_code, out)),
    }
}

fn under_lease(args: &HoldArgs, out: &Output) -> Result<ExitCode> {
    let lease = here().lease(&args.target)?;
    let there = embed::lease_has_directory(&lease);
    parents::require("lease", lease.path(), there, args.grant.parents)?;
    // Below another hold of the same lease: that one ends it.
    let nested = match environment::fence_of(lease.path())? {
        Some(_) => environment::token_for(lease.path()),
        None => None,
    };
    super::lease::refuse_other_owner(&args.grant, &lease)?;
    let options = super::lease::options(&args.grant, nested.clone())?;
    let leased = {
        let _notice = Notice::start(lease.path(), options.wait, out.is_json());
        lease.acquire(&options)?
    };
    super::store::warn_of_dangers(out);
    let result = with_command(args, &lease, &leased, out);
    let is_over = nested.is_some() || matches!(result, Ok((_, true)));
    let released = if is_over { Ok(()) } else { lease.release(&leased.token) };
    let (exit, _) = result?;
    if let Err(error) = released {
        out.warn(&said(&error));
        if error.kind() == ErrorKind::LeaseLost {
            return Ok(ExitCode::Lost);
        }
    }
    Ok(exit)
}

/// Runs the command; also returns whether the lease was lost meanwhile.
fn with_command(
    args: &HoldArgs,
    lease: &Lease,
    leased: &Leased,
    out: &Output,
) -> Result<(ExitCode, bool)> {
    let path: &Path = lease.path();
    let variables = environment::below(&[(path, leased.fence, Some(&leased.token))])?;
    let running = child::start(&args.command, variables, Vec::new())?;
    let lost = std::thread::scope(|scope| {
        let (done, until_done) = channel::<()>();
        let (command, json) = (&running, out.is_json());
        let is_done =
            move |time: Duration| until_done.recv_timeout(time) != Err(RecvTimeoutError::Timeout);
        let renew = move || keep(lease, leased, command, args.grace, is_done, json);
        let renewer = std::thread::Builder::new().name("renew".into()).spawn_scoped(scope, renew);
        let Ok(renewer) = renewer else {
            // No thread is to be had (`ulimit -u`): this one renews, and looks for the end in between.
            let lost =
                keep(lease, leased, command, args.grace, |time| command.ends_within(time), json);
            let _ = running.wait();
            return lost;
        };
        let _ = running.wait();
        drop(done);
        renewer.join().unwrap_or(true)
    });
    let how = reap(running)?;
    if lost {
        if out.is_json() {
            let exit = ExitCode::Lost.number();
            output::say_object(
                &json!({ "outcome": "lease_lost", "code": "lease_lost", "exit": exit }),
            );
        }
        return Ok((ExitCode::Lost, true));
    }
    ended(how, &[(path.to_path_buf(), leased.fence)], out);
    Ok((how.exit(), false))
}

/// Renews until the command is done. True if the lease was lost; the command has been ended then.
fn keep(
    lease: &Lease,
    leased: &Leased,
    command: &Running,
    grace: Duration,
    is_done: impl Fn(Duration) -> bool,
    json: bool,
) -> bool {
    let ttl = leased.ttl;
    let mut renewed = boot_time();
    let mut next = renewed + ttl / RENEWALS;
    let mut renewal: Option<(Duration, Receiver<_>)> = None;
    loop {
        let pause = match renewal {
            Some(_) => LOOK_INTERVAL,
            None => next.saturating_sub(boot_time()),
        };
        if is_done(pause) {
            return false;
        }
        let (asked, answer) =
            renewal.get_or_insert_with(|| (boot_time(), ask(lease, &leased.token, ttl)));
        let (asked, answer) = (*asked, answer.try_recv().ok());
        let is_over = boot_time() >= renewed + ttl;
        match answer {
            Some(Ok(_)) => {
                (renewed, next, renewal) = (asked, asked + ttl / RENEWALS, None);
                continue;
            }
            Some(Err(error)) if is_over || error.kind() == ErrorKind::LeaseLost => {
                say_ending(&error, json);
            }
            Some(Err(_)) => {
                (next, renewal) = (boot_time() + ttl / REPEATS, None);
                continue;
            }
            None if is_over => say_ending(&not_renewed(lease, ttl), json),
            None => continue,
        }
        end(command, grace, is_done);
        return true;
    }
}

/// Asks for a renewal, in a store on a thread of its own. One that is not waited for ends with this process.
fn ask(lease: &Lease, token: &str, ttl: Duration) -> Receiver<tenure::Result<Leased>> {
    let (told, answer) = channel();
    let renew = {
        let (told, lease, token) = (told.clone(), lease.clone(), token.to_owned());
        move || drop(told.send(lease.renew(&token, Some(ttl))))
    };
    let is_asked = here().name().is_some()
        && std::thread::Builder::new().name("renewal".into()).spawn(renew).is_ok();
    if !is_asked {
        let _ = told.send(lease.renew(token, Some(ttl)));
    }
    answer
}

fn not_renewed(lease: &Lease, ttl: Duration) -> Error {
    let detail = format!("the store did not answer for its time to live ({ttl:?})");
    Error::new(ErrorKind::LeaseLost, "renew the lease", detail)
        .at(lease.path())
        .hint("check the network and the server")
}
