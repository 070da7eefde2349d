//! `tenure lease`, but for `hold`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure::embed::{self, Inherited};
use tenure::file::FileOptions;
use tenure::outcome::{LeaseInfo, Leased};
use tenure::status::Holder;
use tenure::{Error, ErrorKind, Lease, LeaseOptions, Value, json};

use super::{hold, parents, token};
use crate::args::{
    AcquireArgs, CheckArgs, GrantFlags, LeaseCommand, ReleaseArgs, RenewArgs, ShowArgs,
    TakeOverArgs, TokenFlags,
};
use crate::clock;
use crate::environment;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::{self, Output};
use crate::place::here;
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

/// What the core needs to know to acquire a lease.
pub(super) fn options(grant: &GrantFlags, token: Option<String>) -> Result<LeaseOptions> {
    Ok(LeaseOptions {
        owner: grant.owner.clone().unwrap_or_else(environment::user),
        ttl: grant.ttl,
        wait: grant.wait.get()?,
        token,
        label: grant.label.clone(),
        file: FileOptions { allow_network: grant.allow_network, ..FileOptions::default() },
        ..LeaseOptions::default()
    })
}

/// Below a hold of the lease it is renewed, and stays that of its owner: another one is not silently
/// ignored.
pub(super) fn refuse_other_owner(grant: &GrantFlags, lease: &Lease) -> Result<()> {
    let Some(owner) = &grant.owner else { return Ok(()) };
    let (Some(fence), Some(_)) =
        (environment::fence_of(lease.path())?, environment::token_for(lease.path()))
    else {
        return Ok(());
    };
    let owner = as_recorded(owner);
    match lease.show()?.map(|info| info.holder) {
        Some(holder) if holder.fence == fence && holder.owner != owner => {
            let detail =
                format!("it belongs to `{}`, and this call could only renew it", holder.owner);
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

/// The leases that were named, each once and in that order.
fn open_all(targets: &[PathBuf]) -> Result<Vec<Lease>> {
    let mut leases: Vec<Lease> = Vec::new();
    for target in targets {
        let lease = here().lease(target)?;
        if leases.iter().all(|known| known.path() != lease.path()) {
            leases.push(lease);
        }
    }
    Ok(leases)
}

/// The token for all of these.
fn token_of(flags: &TokenFlags, leases: &[Lease]) -> Result<Option<String>> {
    let mut found = None;
    for lease in leases {
        let token = token::given(flags, lease.path())?;
        if found.is_some() && token.is_some() && token != found {
            let detail = "the environment has different tokens for these targets";
            return Err(Failure::usage("use the lease of", detail)
                .at(lease.path())
                .hint("name one target at a time, or give the token"));
        }
        found = found.or(token);
    }
    Ok(found)
}

fn acquire(args: &AcquireArgs, out: &mut Output) -> Result<()> {
    let leases = open_all(&args.targets)?;
    for lease in &leases {
        parents::require(
            "lease",
            lease.path(),
            embed::lease_has_directory(lease),
            args.grant.parents,
        )?;
        refuse_other_owner(&args.grant, lease)?;
    }
    let known = match &args.token.token_file {
        Some(file) => Some(token::obtain(file)?),
        None => token_of(&args.token, &leases)?,
    };
    if known.is_none() {
        require_output("acquire")?;
    }
    let options = options(&args.grant, known.clone())?;
    let taken = {
        let first = leases.first().map_or(Path::new(""), Lease::path);
        let _notice = Notice::start(first, options.wait, out.is_json());
        Lease::acquire_all(&leases, &options)?
    };
    let taken = Taken::in_order_of(&leases, taken);
    if known.is_some() {
        for leased in taken.all.iter().map(|(_, leased)| leased) {
            if args.grant.owner.as_ref().is_some_and(|owner| as_recorded(owner) != leased.owner) {
                let owner = &leased.owner;
                out.warn(&format!("it was renewed for `{owner}`; --owner is for a new lease"));
            }
        }
        out.committed();
        return print(&taken, out);
    }
    hand_over(&taken, out)
}

fn renew(args: &RenewArgs, out: &mut Output) -> Result<()> {
    let leases = open_all(&args.targets)?;
    let mut renewed = Vec::new();
    for lease in &leases {
        parents::require_lease("renew", lease.path(), embed::lease_has_directory(lease))?;
        let token = token::required(&args.token, lease.path())?;
        renewed.push((lease.clone(), lease.renew(&token, args.ttl)?));
    }
    out.committed();
    let renewed = Taken::in_order_of(&leases, renewed);
    out.result(|| renewed.fields(), String::new)
}

/// Ends all of them, and reports the first that could not be ended.
fn release(args: &ReleaseArgs, out: &mut Output) -> Result<()> {
    let mut ended = Ok(());
    for lease in open_all(&args.targets)? {
        parents::require_lease("release", lease.path(), embed::lease_has_directory(&lease))?;
        let token = token::required(&args.token, lease.path())?;
        let released = lease.release(&token).map_err(|error| not_released(&lease, error));
        ended = ended.and(released);
    }
    ended?;
    out.committed();
    out.result(|| json!({ "released": true }), String::new)
}

/// A caller that releases needs no hint about writing.
fn not_released(lease: &Lease, error: Error) -> Error {
    if error.kind() != ErrorKind::LeaseLost {
        return error;
    }
    let detail = match error.holder() {
        Some(_) => "this token does not hold the lease; another one does",
        None => "this token does not hold the lease; it was released, or has ended",
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
    let lease = here().lease(&args.target)?;
    let token = token::given(&args.token, lease.path())?;
    if let Some(file) = args.token.token_file.as_ref().filter(|_| token.is_none()) {
        return Err(Failure::usage("read token file", "there is no such file").at(file));
    }
    Ok(Possession::of(lease.show()?.as_ref(), token.as_deref()).exit())
}

fn show(args: &ShowArgs, out: &mut Output) -> Result<ExitCode> {
    clock::use_local_time();
    let lease = here().lease(&args.target)?;
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
    let lease = here().lease(&args.target)?;
    let there = embed::lease_has_directory(&lease);
    parents::require("lease", lease.path(), there, args.grant.parents)?;
    let options = options(&args.grant, None)?;
    let leased = {
        let _notice = Notice::start(lease.path(), options.wait, out.is_json());
        lease.take_over(&options, &args.reason)?
    };
    out.committed();
    let taken = Taken { all: vec![(lease, leased)] };
    let printed = print(&taken, out).and_then(|()| out.flush());
    printed.map_err(|failure| {
        failure.of_a_token(
            true,
            "the lease was taken over, but its token could not be printed: it ends at its expiry",
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

/// Leases that the caller has now, all with one token.
struct Taken {
    all: Vec<(Lease, Leased)>,
}

impl Taken {
    /// In the order in which they were named.
    fn in_order_of(named: &[Lease], mut all: Vec<(Lease, Leased)>) -> Self {
        all.sort_by_key(|(lease, _)| named.iter().position(|name| name.path() == lease.path()));
        Self { all }
    }

    fn token(&self) -> &str {
        self.all.first().map_or("", |(_, leased)| leased.token.as_str())
    }

    fn release(&self) -> tenure::Result<()> {
        self.all.iter().try_for_each(|(lease, leased)| lease.release(&leased.token))
    }

    /// Of several leases, the first one's, and a list.
    fn fields(&self) -> Value {
        let target = |lease: &Lease| lease.path().to_string_lossy().into_owned();
        let fields = |(lease, leased): &(Lease, Leased)| {
            json!({
                "token": leased.token,
                "target": target(lease),
                "fence": leased.fence,
                "owner": leased.owner,
                "ttl_ms": milliseconds(leased.ttl),
                "expires_in_ms": milliseconds(leased.expires_in),
            })
        };
        let mut object = self.all.first().map_or(Value::Null, fields);
        let held = |(lease, leased): &(Lease, Leased)| json!({ "target": target(lease), "fence": leased.fence });
        object["targets"] = self.all.iter().map(held).collect();
        object
    }
}

/// Prints leases whose token is nowhere else. If no caller gets it, none could ever renew or end them,
/// so they end here.
fn hand_over(taken: &Taken, out: &mut Output) -> Result<()> {
    let printed = print(taken, out).and_then(|()| out.flush());
    printed.map_err(|failure| match taken.release() {
        Ok(()) => failure
            .of_a_token(false, "its token could not be printed, so the lease was released again"),
        Err(_) => failure.of_a_token(
            true,
            "its token could not be printed, and it could not be released: it ends at its expiry",
        ),
    })
}

/// For `eval`: the commands that follow find the leases, and writes to their targets pass. Leases that the
/// shell has already go on around these.
fn print(taken: &Taken, out: &mut Output) -> Result<()> {
    if out.is_json() {
        return out.result(|| taken.fields(), String::new);
    }
    // The store is not among them: its URL may have a password.
    let hold = |(lease, leased): &'_ (Lease, Leased)| (lease.path().to_path_buf(), leased.fence);
    let held: Vec<_> = taken.all.iter().map(hold).collect();
    let token = Some(taken.token());
    let holds: Vec<_> = held.iter().map(|(path, fence)| (path.as_path(), *fence, token)).collect();
    // A shell with variables that cannot be read gets new ones.
    let variables = environment::below_around(environment::inherited(), &holds)
        .or_else(|_| environment::below_around(Inherited::default(), &holds))?;
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

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
