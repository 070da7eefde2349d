//! Linux and macOS: descriptors that survive `exec`, and signals passed on.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::{FdFlags, dup, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};
use tenure::LockGuard;
use tenure::embed;

use super::{Captured, Ended};

/// Signals that are meant for the command.
const FORWARDED: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// Inherited descriptors have numbers from here on: those with one digit are for the redirections of scripts,
/// which would take the lock away with `exec 3<file`.
const FIRST: i32 = 10;

/// So much of a command's output is read at a time.
const OUTPUT_CHUNK: usize = 64 * 1024;

/// Copies of the lock's descriptors that the next command inherits.
#[derive(Debug)]
pub struct Inherited {
    /// Closed when the command has started.
    _descriptors: Vec<OwnedFd>,
}

impl Inherited {
    /// The lock of `guard`; `None` if it is not ours to give (a nested hold).
    pub fn of(guard: &LockGuard) -> io::Result<Option<Self>> {
        let mut ours = Vec::new();
        for raw in embed::descriptors(guard) {
            #[expect(unsafe_code, reason = "the core hands out a raw descriptor")]
            // SAFETY: the guard owns the descriptor and outlives this borrow.
            let borrowed = unsafe { BorrowedFd::borrow_raw(raw) };
            ours.push(borrowed);
        }
        if ours.is_empty() { Ok(None) } else { Self::copy(&ours).map(Some) }
    }

    /// Copies of these. A duplicate shares the lock and, unlike the original, is not closed by `exec`.
    /// No other thread starts processes meanwhile.
    pub fn copy(descriptors: &[BorrowedFd<'_>]) -> io::Result<Self> {
        let copies: Result<_, _> = descriptors.iter().copied().map(copy_of).collect();
        Ok(Self { _descriptors: copies? })
    }
}

fn copy_of(descriptor: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    // Few descriptors may be allowed.
    let Ok(copy) = fcntl_dupfd_cloexec(descriptor, FIRST) else { return dup(descriptor) };
    fcntl_setfd(&copy, FdFlags::empty())?;
    Ok(copy)
}

/// A command that was started.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    receiver: Arc<Receiver>,
    signals: Handle,
    forwarder: Option<JoinHandle<()>>,
}

/// The process that signals go to, while it exists.
#[derive(Debug)]
struct Receiver {
    /// `None` once it is about to be reaped: its number may be reused then.
    pid: Mutex<Option<Pid>>,
}

impl Receiver {
    fn send(&self, signal: Signal) {
        let pid = self.pid.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pid) = *pid {
            let _ = rustix::process::kill_process(pid, signal); // It may have ended just now.
        }
    }

    /// The terminal sends its signals to the whole foreground group; the command has got it already.
    fn was_signalled_by_terminal(&self, signal: i32) -> bool {
        if !matches!(signal, SIGINT | SIGQUIT) {
            return false;
        }
        let Ok(terminal) = std::fs::File::open("/dev/tty") else { return false };
        let pid = self.pid.lock().unwrap_or_else(PoisonError::into_inner);
        let own = rustix::process::getpgrp();
        rustix::termios::tcgetpgrp(&terminal) == Ok(own)
            && rustix::process::getpgid(*pid) == Ok(own)
    }
}

impl Running {
    pub(super) fn start(command: &mut Command, inherited: Vec<Inherited>) -> io::Result<Self> {
        // Before the command starts, so that none is lost; what comes meanwhile waits in the pipe.
        let ignored = ignored_signals();
        let wanted = FORWARDED.into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
        let mut signals = Signals::new(wanted)?;
        let handle = signals.handle();
        let child = command.spawn()?;
        drop(inherited);
        let receiver = Arc::new(Receiver { pid: Mutex::new(Some(Pid::from_child(&child))) });
        let to = receiver.clone();
        let forward = move || {
            for number in signals.forever() {
                if let Some(signal) = Signal::from_named_raw(number)
                    && !to.was_signalled_by_terminal(number)
                {
                    to.send(signal);
                }
            }
        };
        let forwarder = std::thread::Builder::new().name("signals".into()).spawn(forward).ok();
        Ok(Self { child, receiver, signals: handle, forwarder })
    }

    /// Its standard input, if that is a pipe.
    pub(crate) fn take_input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its standard output, if that is a pipe.
    pub(crate) fn take_output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Asks the command to end.
    pub(crate) fn terminate(&self) {
        self.receiver.send(Signal::TERM);
    }

    /// Ends the command.
    pub(crate) fn kill(&self) {
        self.receiver.send(Signal::KILL);
    }

    /// Blocks until the command has ended; it can still be named afterwards.
    pub(crate) fn wait(&self) -> io::Result<()> {
        let pid = Pid::from_child(&self.child);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::Pid(pid), options))?;
        Ok(())
    }

    /// Whether the command ends within this time: looked at now and then, for a process that may start no
    /// thread.
    pub(crate) fn ends_within(&self, time: Duration) -> bool {
        const LOOK_EVERY: Duration = Duration::from_millis(20);
        let pid = Pid::from_child(&self.child);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let (_never, news) = std::sync::mpsc::channel::<()>();
        let begun = Instant::now();
        loop {
            if !matches!(rustix::process::waitid(WaitId::Pid(pid), options), Ok(None)) {
                return true;
            }
            let left = time.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return false;
            }
            let _ = news.recv_timeout(left.min(LOOK_EVERY));
        }
    }

    /// How it ended. Signals end tenure again afterwards.
    pub(crate) fn reap(mut self) -> io::Result<Ended> {
        self.wait()?;
        *self.receiver.pid.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let status = self.child.wait()?;
        self.signals.close();
        if let Some(forwarder) = self.forwarder.take() {
            let _ = forwarder.join();
        }
        Ok(match (status.code(), status.signal()) {
            (Some(code), _) => Ended::Exited(code),
            (None, signal) => Ended::Signaled(signal.unwrap_or(0)),
        })
    }
}

impl Captured {
    /// Reads the output until the command has ended. What it started in the background may keep the pipe open;
    /// its output is not waited for.
    pub(crate) fn until_end(mut self, running: &Running, mut take: impl FnMut(&[u8])) {
        let Ok((ended, waits)) = UnixStream::pair() else { return };
        std::thread::scope(|scope| {
            let wait = move || {
                let _ = running.wait();
                drop(waits);
            };
            let waiter = std::thread::Builder::new().name("wait".into()).spawn_scoped(scope, wait);
            let mut bytes = vec![0; OUTPUT_CHUNK];
            let mut has_ended = waiter.is_err(); // Then the end of the output is the end.
            loop {
                if !has_ended {
                    let mut events = [
                        PollFd::new(&self.output, PollFlags::IN),
                        PollFd::new(&ended, PollFlags::IN),
                    ];
                    let _ = rustix::io::retry_on_intr(|| rustix::event::poll(&mut events, None));
                    if events[0].revents().is_empty() {
                        has_ended = true;
                        let _ = rustix::io::ioctl_fionbio(&self.output, true);
                    }
                }
                match self.output.read(&mut bytes) {
                    Ok(0) => break,
                    Ok(count) => take(&bytes[..count]),
                    Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        });
    }
}

/// Makes this process run `program` instead. It returns only if that cannot be started.
pub(crate) fn become_program(program: &Path, arguments: &[OsString]) -> io::Result<Ended> {
    Err(Command::new(program).args(arguments).exec())
}

/// Signals that tenure ignores because of `nohup` and the like are ignored by the command as well.
/// One bit for each signal.
pub fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
