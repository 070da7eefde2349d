//! `tenure lease`, but for `hold`.

use std::time::Duration;

use serde_json::{Value, json};
use tenure::{AcquireOptions, Lease, Leased};

use super::{hold, token};
use crate::args::{
    AcquireArgs, GrantFlags, LeaseCommand, ReleaseArgs, RenewArgs, ShowArgs, TakeOverArgs,
};
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::Output;
use crate::waiting::Notice;

pub(super) fn run(command: &LeaseCommand, out: &mut Output) -> Result<ExitCode> {
    match command {
        LeaseCommand::Acquire(args) => acquire(args, out)?,
        LeaseCommand::Renew(args) => renew(args, out)?,
        LeaseCommand::Release(args) => release(args, out)?,
        LeaseCommand::Show(args) => show(args, out)?,
        LeaseCommand::TakeOver(args) => take_over(args, out)?,
        LeaseCommand::Hold(args) => return hold::run(args, out),
    }
    Ok(ExitCode::Done)
}

/// What the core wants to know about a lease that somebody wants.
pub(super) fn options(grant: &GrantFlags, token: Option<String>) -> Result<AcquireOptions> {
    let user = || ["LOGNAME", "USER", "USERNAME"].iter().find_map(|name| std::env::var(name).ok());
    Ok(AcquireOptions {
        owner: grant.owner.clone().or_else(user).unwrap_or_else(|| "unknown".to_owned()),
        ttl: grant.ttl,
        wait: grant.wait.get()?,
        token,
        label: grant.label.clone(),
        allow_network: grant.allow_network,
        ..AcquireOptions::default()
    })
}

fn acquire(args: &AcquireArgs, out: &mut Output) -> Result<()> {
    let lease = Lease::open(&args.target)?;
    let known = token::given(&args.token, lease.path())?;
    let options = options(&args.grant, known.clone())?;
    let leased = {
        let _notice = Notice::start(lease.path(), options.wait, out.is_json());
        lease.acquire(&options)?
    };
    if let (Some(file), None) = (&args.token.token_file, known)
        && let Err(failure) = token::keep(file, &leased.token)
    {
        let _ = lease.release(&leased.token); // Nobody could ever renew or end it.
        return Err(failure);
    }
    print(&leased, out)
}

fn renew(args: &RenewArgs, out: &mut Output) -> Result<()> {
    let lease = Lease::open(&args.target)?;
    let token = token::required(&args.token, lease.path())?;
    let leased = lease.renew(&token, args.ttl)?;
    out.result(|| fields(&leased), String::new)
}

fn release(args: &ReleaseArgs, out: &mut Output) -> Result<()> {
    let lease = Lease::open(&args.target)?;
    let token = token::required(&args.token, lease.path())?;
    lease.release(&token)?;
    out.result(|| json!({ "released": true }), String::new)
}

fn show(args: &ShowArgs, out: &mut Output) -> Result<()> {
    let info = Lease::open(&args.target)?.show()?;
    let expired = info.as_ref().is_some_and(|info| info.expires_in.is_none());
    let object = || match &info {
        None => json!({ "leased": false, "expired": false }),
        Some(info) => json!({
            "leased": !expired,
            "expired": expired,
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
            Some(left) => format!("{}, {:.1} s left", info.holder, left.as_secs_f64()),
            None => format!("expired; was {}", info.holder),
        },
    };
    out.result(object, text)
}

fn take_over(args: &TakeOverArgs, out: &mut Output) -> Result<()> {
    let lease = Lease::open(&args.target)?;
    let options = options(&args.grant, None)?;
    let leased = {
        let _notice = Notice::start(lease.path(), options.wait, out.is_json());
        lease.take_over(&options, &args.reason)?
    };
    print(&leased, out)
}

/// For `eval`: both are plain words, and exported for the commands that follow.
fn print(leased: &Leased, out: &mut Output) -> Result<()> {
    let text = || {
        let (token, fence) = (quoted(&leased.token), leased.fence);
        format!("export TENURE_TOKEN={token}\nexport TENURE_FENCE={fence}")
    };
    out.result(|| fields(leased), text)
}

/// A token that the caller chose may contain anything; the shell must see one word.
fn quoted(token: &str) -> String {
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '+' | '=');
    if token.chars().all(plain) {
        token.to_owned()
    } else {
        format!("'{}'", token.replace('\'', "'\\''"))
    }
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
