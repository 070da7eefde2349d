//! `tenure lease`, but for `hold`.

use std::time::Duration;

use tenure::{
    AcquireOptions, Error, ErrorKind, FileOptions, Holder, Lease, LeaseInfo, Leased, Value, json,
};

use super::{hold, parents, token};
use crate::args::{
    AcquireArgs, CheckArgs, GrantFlags, LeaseCommand, ReleaseArgs, RenewArgs, ShowArgs,
    TakeOverArgs,
};
use crate::clock;
use crate::environment;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::{self, Output};
use crate::shell;
use crate::waiting::Notice;

pub(super) fn run(command: &LeaseCommand, out: &mut Output) -> Result<ExitCode> {
    match command {
        LeaseCommand::Acquire(args) => acquire(args, out)?,
        LeaseCommand::Renew(args) => renew(args, out)?,
        LeaseCommand::Release(args) => release(args, out)?,
        LeaseCommand::Show(args) => return show(args, out),
        LeaseCommand::Check(args) => return check(args),
        LeaseCommand::TakeOver(args) => take_over(args, out)?,
        LeaseCommand::Hold(args) => return hold::run(args, out),
    }
    Ok(ExitCode::Done)
}

/// What the core wants to know about a lease that somebody wants.
pub(super) fn options(grant: &GrantFlags, token: Option<String>) -> Result<AcquireOptions> {
    Ok(AcquireOptions {
        owner: grant.owner.clone().unwrap_or_else(environment::user),
        ttl: grant.ttl,
        wait: grant.wait.get()?,
        token,
        label: grant.label.clone(),
        file: FileOptions { allow_network: grant.allow_network, ..FileOptions::default() },
        ..AcquireOptions::default()
    })
}

/// Below a hold of the lease it is renewed, and stays that of its owner: another one is not silently
/// ignored.
pub(super) fn refuse_other_owner(grant: &GrantFlags, lease: &Lease) -> Result<()> {
    let Some(owner) = &grant.owner else { return Ok(()) };
    let inherited = environment::inherited();
    let (Some(fence), Some(_)) =
        (inherited.fence_of(lease.path())?, inherited.token_for(lease.path()))
    else {
        return Ok(());
    };
    let owner = as_recorded(owner);
    match lease.show()?.map(|info| info.holder) {
        Some(holder) if holder.fence == fence && holder.owner != owner => {
            let detail = format!("it belongs to `{}`, and is only renewed here", holder.owner);
            Err(Failure::usage("acquire", detail).at(lease.path()).hint(
                "leave --owner out, or unset TENURE_TARGET, TENURE_FENCE and TENURE_TOKEN first",
            ))
        }
        _ => Ok(()),
    }
}

/// A label as a record keeps it: shortened.
fn as_recorded(owner: &str) -> String {
    Holder::this_process("", owner).owner
}

fn acquire(args: &AcquireArgs, out: &mut Output) -> Result<()> {
    let lease = Lease::open(&args.target)?;
    parents::require("lease", lease.path(), lease.has_directory(), args.grant.parents)?;
    let known = token::given(&args.token, lease.path())?;
    if known.is_none() && args.token.token_file.is_none() {
        require_output("acquire")?;
    }
    refuse_other_owner(&args.grant, &lease)?;
    let options = options(&args.grant, known.clone())?;
    let leased = {
        let _notice = Notice::start(lease.path(), options.wait, out.is_json());
        lease.acquire(&options)?
    };
    if let (Some(file), None) = (&args.token.token_file, &known)
        && let Err(failure) = token::keep(file, &leased.token)
    {
        let _ = lease.release(&leased.token); // Nobody could ever renew or end it.
        return Err(failure);
    }
    if known.is_some() || args.token.token_file.is_some() {
        if args.grant.owner.as_ref().is_some_and(|owner| as_recorded(owner) != leased.owner) {
            let owner = &leased.owner;
            out.warn(&format!("it was renewed for `{owner}`; --owner is for a new lease"));
        }
        out.committed();
        return print(&lease, &leased, out);
    }
    hand_over(&lease, &leased, out)
}

fn renew(args: &RenewArgs, out: &mut Output) -> Result<()> {
    let lease = Lease::open(&args.target)?;
    parents::require_lease("renew", lease.path(), lease.has_directory())?;
    let token = token::required(&args.token, lease.path())?;
    let leased = lease.renew(&token, args.ttl)?;
    out.committed();
    out.result(|| fields(&leased), String::new)
}

fn release(args: &ReleaseArgs, out: &mut Output) -> Result<()> {
    let lease = Lease::open(&args.target)?;
    parents::require_lease("release", lease.path(), lease.has_directory())?;
    let token = token::required(&args.token, lease.path())?;
    lease.release(&token).map_err(|error| not_released(&lease, error))?;
    out.committed();
    out.result(|| json!({ "released": true }), String::new)
}

/// Whoever releases does not want to hear how to write.
fn not_released(lease: &Lease, error: Error) -> Error {
    if error.kind() != ErrorKind::LeaseLost {
        return error;
    }
    let detail = match error.holder() {
        Some(_) => "this token has no lease there; another one has",
        None => "this token has no lease there; it was released, or has ended",
    };
    Error::new(ErrorKind::LeaseLost, "release", detail)
        .at(lease.path())
        .held_by(error.holder().cloned())
        .hint(format!(
            "nothing was changed; `tenure lease show {}` shows who has it",
            shell::word(lease.path().as_os_str()).to_string_lossy()
        ))
}

/// Who has a lease, as far as this caller can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Possession {
    Mine,
    Anothers,
    Expired,
    Free,
}

impl Possession {
    fn of(info: Option<&LeaseInfo>, token: Option<&str>) -> Self {
        match info {
            None => Self::Free,
            Some(info) if info.expires_in.is_none() => Self::Expired,
            Some(info) if token.is_some_and(|token| info.is_of(token)) => Self::Mine,
            Some(_) => Self::Anothers,
        }
    }

    fn exit(self) -> ExitCode {
        match self {
            Self::Mine => ExitCode::Done,
            Self::Anothers => ExitCode::Busy,
            Self::Expired => ExitCode::Lost,
            Self::Free => ExitCode::NotMet,
        }
    }
}

fn check(args: &CheckArgs) -> Result<ExitCode> {
    let lease = Lease::open(&args.target)?;
    let token = token::given(&args.token, lease.path())?;
    if let Some(file) = args.token.token_file.as_ref().filter(|_| token.is_none()) {
        return Err(Failure::usage("read token file", "there is no such file").at(file));
    }
    Ok(Possession::of(lease.show()?.as_ref(), token.as_deref()).exit())
}

fn show(args: &ShowArgs, out: &mut Output) -> Result<ExitCode> {
    clock::use_local_time();
    let lease = Lease::open(&args.target)?;
    let token = token::given(&args.token, lease.path())?;
    let info = lease.show()?;
    let possession = Possession::of(info.as_ref(), token.as_deref());
    let expired = info.as_ref().is_some_and(|info| info.expires_in.is_none());
    let object = || match &info {
        None => json!({ "leased": false, "expired": false, "mine": false }),
        Some(info) => json!({
            "leased": !expired,
            "expired": expired,
            "mine": possession == Possession::Mine,
            "owner": info.holder.owner,
            "fence": info.holder.fence,
            "ttl_ms": milliseconds(info.ttl),
            "expires_in_ms": info.expires_in.map_or(0, milliseconds),
            "holder": info.holder.to_json(),
        }),
    };
    let text = || match &info {
        None => "free".to_owned(),
        Some(info) => match info.expires_in {
            Some(left) => {
                let mine = if possession == Possession::Mine { "yours; " } else { "" };
                format!("{mine}{}, {:.1} s left", info.holder, left.as_secs_f64())
            }
            None => format!("expired; was {}", info.holder),
        },
    };
    out.result(object, text)?;
    Ok(if args.exit_status { possession.exit() } else { ExitCode::Done })
}

fn take_over(args: &TakeOverArgs, out: &mut Output) -> Result<()> {
    require_output("take over")?;
    let lease = Lease::open(&args.target)?;
    parents::require("lease", lease.path(), lease.has_directory(), args.grant.parents)?;
    let options = options(&args.grant, None)?;
    let leased = {
        let _notice = Notice::start(lease.path(), options.wait, out.is_json());
        lease.take_over(&options, &args.reason)?
    };
    out.committed();
    let printed = print(&lease, &leased, out).and_then(|()| out.flush());
    printed.map_err(|failure| {
        failure.of_a_token(
            true,
            "the lease was taken over, but nobody has its token: it ends at its expiry",
        )
    })
}

/// A token that goes nowhere would leave a lease that no caller can renew or end.
fn require_output(action: &'static str) -> Result<()> {
    if !output::stdout_was_closed() {
        return Ok(());
    }
    let detail = "standard output is closed, and the token could not be printed";
    Err(Failure::new(ExitCode::Failed, "io", action, detail)
        .hint("nothing was changed; open it, or keep the token with `acquire --token-file`"))
}

/// Prints a lease whose token is nowhere else. If nobody gets it, nobody could ever renew or end the
/// lease, so it ends here.
fn hand_over(lease: &Lease, leased: &Leased, out: &mut Output) -> Result<()> {
    let printed = print(lease, leased, out).and_then(|()| out.flush());
    printed.map_err(|failure| match lease.release(&leased.token) {
        Ok(()) => failure
            .of_a_token(false, "nobody could be given its token, so the lease was released again"),
        Err(_) => failure.of_a_token(
            true,
            "nobody could be given its token, and it could not be released: it ends at its expiry",
        ),
    })
}

/// For `eval`: the commands that follow find the lease, and writes to its target pass. Leases that the
/// shell has already go on around this one.
fn print(lease: &Lease, leased: &Leased, out: &mut Output) -> Result<()> {
    if out.is_json() {
        return out.result(|| fields(leased), String::new);
    }
    let inherited = environment::inherited();
    // A shell with variables that cannot be read gets new ones.
    let variables =
        inherited.below(lease.path(), leased.fence, Some(&leased.token)).or_else(|_| {
            tenure::Inherited::default().below(lease.path(), leased.fence, Some(&leased.token))
        })?;
    let mut line = b"export".to_vec();
    for (name, value) in variables {
        // The path is any bytes: the shell must see one word.
        let Some(value) = value else { continue };
        line.extend_from_slice(format!(" {name}=").as_bytes());
        line.extend_from_slice(shell::word(&value).as_encoded_bytes());
    }
    line.push(b'\n');
    out.raw(&line)
}

fn fields(leased: &Leased) -> Value {
    json!({
        "token": leased.token,
        "fence": leased.fence,
        "owner": leased.owner,
        "ttl_ms": milliseconds(leased.ttl),
        "expires_in_ms": milliseconds(leased.expires_in),
    })
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
