//! `tenure lease hold`: a command under a lease that is renewed while it runs.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use tenure::embed;
use tenure::outcome::Leased;
use tenure::{ErrorKind, Lease, json};

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
    let result = with_command(args, &lease, &leased, out);
    let released = if nested.is_none() { lease.release(&leased.token) } else { Ok(()) };
    let (exit, lost) = result?;
    if let Err(error) = released {
        if !lost {
            out.warn(&said(&error));
        }
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
            output::tell(&json!({ "outcome": "lease_lost", "code": "lease_lost", "exit": exit }));
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
    let mut renewed = Instant::now();
    while !is_done(leased.ttl / RENEWALS) {
        let asked = Instant::now();
        match lease.renew(&leased.token, Some(leased.ttl)) {
            Ok(_) => renewed = asked,
            Err(error)
                if error.kind() == ErrorKind::LeaseLost || renewed.elapsed() >= leased.ttl =>
            {
                say_ending(&error, json);
                end(command, grace, is_done);
                return true;
            }
            Err(_) => {} // There is time for another try.
        }
    }
    false
}
