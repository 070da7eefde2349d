//! Running a command: its output passes through at once, and test summaries are counted on the way.
//!
//! # Invariants
//!
//! 1. Nothing is swallowed: every byte of standard output is passed on as it comes; standard error
//!    is the caller's own.
//! 2. It ends. A process that a test left behind keeps the pipe open for ever; that is an error
//!    a few seconds after the command itself has ended.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::tally::Tally;

/// How long the output may stay open after the command has ended.
const LEFT_OPEN_MAX: Duration = Duration::from_secs(5);
/// How often a silent command is checked for its end.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Runs `command` to its end. The error says how it failed.
pub(crate) fn run(command: &mut Command, tally: &mut Tally) -> Result<(), String> {
    run_into(&mut std::io::stdout(), command, tally, LEFT_OPEN_MAX)
}

fn run_into(
    out: &mut impl Write,
    command: &mut Command,
    tally: &mut Tally,
    left_open: Duration,
) -> Result<(), String> {
    let program = Path::new(command.get_program()).file_stem().unwrap_or_default();
    let program = program.to_string_lossy().into_owned();
    let cannot = |err: std::io::Error| format!("failed to run `{program}`: {err}");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(cannot)?;
    let output = child.stdout.take().ok_or("the command has no standard output")?;
    let (sender, pieces) = channel();
    std::thread::spawn(move || forward(output, &sender));

    let mut ended: Option<Instant> = None;
    while let Some(piece) = next_piece(&pieces) {
        tally.feed(&piece);
        out.write_all(&piece).and_then(|()| out.flush()).map_err(cannot)?;
        if ended.is_none() && child.try_wait().map_err(cannot)?.is_some() {
            ended = Some(Instant::now());
        }
        if ended.is_some_and(|at| at.elapsed() >= left_open) {
            return Err(format!("`{program}` ended, but a process it started still runs"));
        }
    }
    let status = child.wait().map_err(cannot)?;
    if status.success() { Ok(()) } else { Err(format!("`{program}` failed: {status}")) }
}

/// The next piece of output, an empty one for silence, `None` at the end.
fn next_piece(pieces: &Receiver<Vec<u8>>) -> Option<Vec<u8>> {
    match pieces.recv_timeout(LOOK_EVERY) {
        Ok(piece) => Some(piece),
        Err(RecvTimeoutError::Timeout) => Some(Vec::new()),
        Err(RecvTimeoutError::Disconnected) => None,
    }
}

fn forward(mut output: impl Read, pieces: &Sender<Vec<u8>>) {
    let mut buffer = [0; 8192];
    loop {
        match output.read(&mut buffer) {
            Err(err) if err.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(length) => {
                if pieces.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::{LEFT_OPEN_MAX, run_into};
    use crate::tally::Tally;

    /// Runs a shell script; what it printed, or the problem.
    fn shell(script: &str, tally: &mut Tally, left_open: Duration) -> Result<String, String> {
        let mut out = Vec::new();
        run_into(&mut out, Command::new("sh").args(["-c", script]), tally, left_open)?;
        String::from_utf8(out).map_err(|err| err.to_string())
    }

    #[test]
    fn counts_what_passes_through() {
        let mut tally = Tally::default();
        let line = "test result: ok. 5 passed; 1 failed; 0 ignored";
        let printed =
            shell(&format!("echo before; echo '{line}'"), &mut tally, LEFT_OPEN_MAX).unwrap();
        assert_eq!(printed, format!("before\n{line}\n"));
        assert_eq!((tally.passed, tally.failed), (5, 1));
    }

    #[test]
    fn a_failing_or_missing_command_is_an_error() {
        let mut tally = Tally::default();
        assert!(shell("exit 3", &mut tally, LEFT_OPEN_MAX).unwrap_err().contains('3'));
        let missing = &mut Command::new("/no/such/program");
        assert!(run_into(&mut Vec::new(), missing, &mut tally, LEFT_OPEN_MAX).is_err());
    }

    #[test]
    fn a_process_left_behind_is_an_error_and_not_a_hang() {
        let silent = "sleep 10 2>/dev/null &";
        let chatty = "timeout 10 yes 2>/dev/null &";
        let left_open = Duration::from_millis(300);
        for script in [silent, chatty] {
            let problem = shell(script, &mut Tally::default(), left_open).unwrap_err();
            assert!(problem.contains("still runs"), "{problem}");
        }
    }
}
