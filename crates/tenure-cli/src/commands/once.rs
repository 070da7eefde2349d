//! `tenure once`: a command that one caller runs for many.

use std::io::Write;

use tenure::file::FileOptions;
use tenure::once::{Asked, OUTPUT_BYTES_MAX, Once, Turn};
use tenure::{LockOptions, embed, json};

use super::parents;
use super::run::{not_run, reap, said};
use crate::args::OnceArgs;
use crate::child::{self, Ended, Inherited};
use crate::environment;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::{self, Output};
use crate::place::here;
use crate::waiting::Notice;

#[expect(clippy::unnecessary_wraps, reason = "every command has this shape")]
pub(super) fn run(args: &OnceArgs, out: &mut Output) -> Result<ExitCode> {
    match ask(args, out) {
        Ok(exit) => Ok(exit),
        Err(failure) => Ok(not_run(&failure, args.busy_code, out)),
    }
}

fn ask(args: &OnceArgs, out: &mut Output) -> Result<ExitCode> {
    let once = Once::on(here().store().as_ref(), &args.target)?;
    let lock = once.lock();
    parents::require("run once for", once.path(), embed::lock_has_directory(lock), args.parents)?;
    let wait = args.wait.get()?;
    let options = LockOptions {
        wait,
        label: args.label.clone(),
        fence: environment::fence_of(lock.path())?,
        file: FileOptions { allow_network: args.allow_network, ..FileOptions::default() },
        ..LockOptions::default()
    };
    let asked = {
        let _notice = Notice::start(lock.path(), wait, out.is_json());
        once.ask(&options)?
    };
    match asked {
        Asked::Fresh(bytes) => {
            out.raw(&bytes)?;
            out.flush()?;
            report(&once, "fresh", Ended::Exited(0), true, out);
            Ok(ExitCode::Done)
        }
        Asked::Failed(code) => {
            let how = Ended::Exited(code);
            out.warn(
                "the command failed in the process that this one waited for; it was not run again",
            );
            report(&once, "failed", how, false, out);
            Ok(how.exit())
        }
        Asked::Turn(turn) => in_turn(args, &once, turn, out),
    }
}

/// Runs the command, and passes its output on as it comes.
fn in_turn(args: &OnceArgs, once: &Once, turn: Turn, out: &Output) -> Result<ExitCode> {
    let inherited = Inherited::of(turn.guard())
        .map_err(|err| Failure::io("pass on the lock of", once.path(), err))?;
    let (running, captured) =
        child::start_captured(&args.command, Vec::new(), inherited.into_iter().collect(), None)?;
    let mut kept = Kept::default();
    captured.until_end(&running, |bytes| kept.take(bytes));
    let how = reap(running)?;
    let ended = match how {
        Ended::Exited(0) => turn.succeed(&kept.bytes, args.ttl).inspect(|stored| {
            if !stored {
                out.warn(&format!(
                    "the output was not stored, since {OUTPUT_BYTES_MAX} bytes are the most (in a store a little less): the next caller runs the command again"
                ));
            }
        }),
        how => turn.fail(i32::from(how.exit().number())).map(|()| false),
    };
    let stored = ended.unwrap_or_else(|error| {
        out.warn(&said(&error)); // The command did its work.
        false
    });
    let outcome = if matches!(how, Ended::Exited(_)) { "exited" } else { "signaled" };
    report(once, outcome, how, stored, out);
    Ok(how.exit())
}

/// The output so far: passed on, and kept up to one byte more than is stored.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
}

impl Kept {
    fn take(&mut self, bytes: &[u8]) {
        let mut stdout = std::io::stdout();
        // A reader that went away does not keep the others from their result.
        let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
        let room = (OUTPUT_BYTES_MAX + 1).saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// Says how it ended, to programs.
fn report(once: &Once, outcome: &str, how: Ended, stored: bool, out: &Output) {
    if !out.is_json() {
        return;
    }
    output::say_object(&json!({
        "outcome": outcome,
        "code": match how { Ended::Exited(code) => Some(code), Ended::Signaled(_) => None },
        "signal": match how { Ended::Exited(_) => None, Ended::Signaled(signal) => Some(signal) },
        "exit": how.exit().number(),
        "target": once.path().to_string_lossy(),
        "stored": stored,
    }));
}
