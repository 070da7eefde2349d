//! `tenure hook`: a payload on standard input, an answer on standard output.
//!
//! # Invariants
//!
//! 1. Whatever goes wrong, the agent goes on: exit 0, or another code that agents do not take as a denial.
//!    Only `--strict` ends with 2, which blocks.

use std::io::{IsTerminal, Read};
use std::path::Path;

use tenure::{Error, ErrorKind, Value, json};
use tenure_agents::answer::{Answer, Trouble};
use tenure_agents::hook::edit::{self, EditOptions};
use tenure_agents::hook::gate::{self, GateOptions};
use tenure_agents::hook::session::{self, Until};
use tenure_agents::hook::{log, mcp};
use tenure_agents::payload::Payload;
use tenure_agents::place::Place;
use tenure_agents::reservations::{Held, Reservations, What};

use crate::args::{HookCommand, HookGateArgs, HookWhoArgs, UntilArg};
use crate::clock;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// Agents block the tool if a hook ends with it.
const BLOCKED: ExitCode = ExitCode::Other(2);
/// A longer payload is not read; the contents of two large files fit.
const PAYLOAD_BYTES_MAX: u64 = 256 << 20;

pub(super) fn run(command: &HookCommand, out: &mut Output) -> Result<ExitCode> {
    match command {
        HookCommand::Edit(args) => answer(out, args.strict.strict, |payload| {
            edit::run(payload, &EditOptions { ttl: args.ttl })
        }),
        HookCommand::Gate(args) => answer(out, args.strict.strict, |payload| {
            gate::run(payload, &GateOptions { template: template(args)? })
        }),
        HookCommand::Session(args) => answer(out, args.strict.strict, |payload| {
            let until = match args.until {
                UntilArg::Turn => Until::Turn,
                UntilArg::Session => Until::Session,
            };
            session::run(payload, until)
        }),
        HookCommand::Log(args) => {
            answer(out, args.strict.strict, |payload| log::run(payload, args.file.clone()))
        }
        HookCommand::Mcp(args) => {
            answer(out, args.strict.strict, |payload| mcp::run(payload, &args.server, args.allow))
        }
        HookCommand::Who(args) => who(args, out),
    }
}

/// Reads the payload, and prints what `hook` answers.
fn answer(
    out: &mut Output,
    strict: bool,
    hook: impl FnOnce(&Payload<'_>) -> Result<Answer, Trouble>,
) -> Result<ExitCode> {
    let bytes = read()?;
    let answered =
        Payload::parse(&bytes).map_err(Trouble::Input).and_then(|payload| hook(&payload));
    let trouble = match answered {
        Ok(answer) => {
            if let Some(text) = answer.text() {
                out.line(&text)?;
            }
            return Ok(ExitCode::Done);
        }
        Err(trouble) => trouble,
    };
    if strict {
        out.warn(&format!("the tool is blocked (--strict): {trouble}"));
        return Ok(BLOCKED);
    }
    out.warn(&format!("the hook did nothing: {trouble}"));
    if let Some(message) = trouble.message() {
        out.line(&message)?;
    }
    Ok(ExitCode::Done)
}

fn read() -> Result<Vec<u8>> {
    let stdin = std::io::stdin().lock();
    if stdin.is_terminal() {
        let detail = "an agent passes the payload on standard input";
        return Err(Failure::usage("run the hook", detail)
            .hint("see tenure init, or try: tenure hook edit < payload.json"));
    }
    let mut bytes = Vec::new();
    let read = stdin.take(PAYLOAD_BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(|err| Failure::io("read", Path::new("standard input"), err))?;
    Ok(bytes)
}

fn template(args: &HookGateArgs) -> Result<Option<String>, Trouble> {
    let read = |file: &Path| {
        // A pipe would be waited for.
        if std::fs::metadata(file).is_ok_and(|found| !found.is_file()) {
            let error = Error::new(ErrorKind::Invalid, "read template", "it is not a regular file");
            return Err(error.at(file));
        }
        std::fs::read_to_string(file).map_err(|err| Error::io("read template", file, err))
    };
    Ok(args.template.as_deref().map(read).transpose()?)
}

fn who(args: &HookWhoArgs, out: &mut Output) -> Result<ExitCode> {
    let place = Place::of_directory(Path::new("."))?;
    let reservations = Reservations::open(&place)?;
    let over = match &args.name {
        Some(name) => What::parse(name, &place, Path::new("."))?,
        None => Vec::new(),
    };
    let held = reservations.who(&over)?;
    let objects = || json!({ "reservations": held.iter().map(object).collect::<Value>() });
    out.result(objects, || held.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    Ok(ExitCode::Done)
}

fn object(held: &Held) -> Value {
    let kind = if matches!(held.what, What::Path(_)) { "path" } else { "pattern" };
    json!({
        kind: held.what.text(),
        "agent": held.agent,
        "for": held.purpose,
        "since_us": held.since_us,
        "expires_in_ms": u64::try_from(held.expires_in.as_millis()).unwrap_or(u64::MAX),
        "ends_with_turn": held.ends_with_turn,
        "fence": held.fence,
        "guard": held.guard.to_string_lossy(),
    })
}

fn line(held: &Held) -> String {
    let text = format!(
        "{}  {}  {}  since {}, {} s left",
        held.what.text(),
        held.agent,
        held.purpose,
        clock::time(held.since_us),
        held.expires_in.as_secs(),
    );
    tenure::embed::printable(&text)
}
