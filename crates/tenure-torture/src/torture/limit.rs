//! When a run ends: after its time, after this many operations, or by a signal.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::groups;
use super::scratch::Scratch;
use tenure_cli::{ExitCode, TortureArgs, ignored_signals};

/// Signals that follow another this soon are the same one: `timeout` signals both us and our group.
const ECHO: Duration = Duration::from_millis(200);

/// When a run ends.
#[derive(Debug)]
pub(super) struct Limit {
    pub(super) start: Instant,
    pub(super) time: Duration,
    pub(super) operations: u64,
    interrupted: Arc<AtomicBool>,
    /// A signal was received. The next one ends the run at once, unless the final check begins
    /// before.
    asked: Arc<AtomicBool>,
    /// When that was, if the final check has not begun since.
    heard: Arc<Mutex<Option<Instant>>>,
    /// The exit code for the signal that ended it, 0 for none.
    code: Arc<AtomicUsize>,
}

impl Limit {
    /// The limits of the command line, from now on, of a run that works in `scratch`.
    pub(super) fn new(args: &TortureArgs, scratch: &Path) -> io::Result<Self> {
        let (interrupted, code) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let asked = Arc::new(AtomicBool::new(false));
        let ignored = ignored_signals();
        // Signals that `nohup` made us ignore stay ignored.
        let signals =
            [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|s| ignored & (1 << (s - 1)) == 0);
        let mut signals = Signals::new(signals)?;
        let heard = Arc::new(Mutex::new(None));
        let (is_interrupted, is_asked, last) = (interrupted.clone(), asked.clone(), heard.clone());
        let (said, scratch) = (code.clone(), scratch.to_path_buf());
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                let before = lock(&last).replace(Instant::now());
                if before.is_some_and(|before| before.elapsed() < ECHO) {
                    continue;
                }
                let number = 128 + signal;
                said.store(number.unsigned_abs() as usize, Ordering::Relaxed);
                is_interrupted.store(true, Ordering::Relaxed);
                // The second signal ends it at once, except SIGHUP: a terminal that is closed may
                // send it twice.
                if signal != SIGHUP && is_asked.swap(true, Ordering::Relaxed) {
                    groups::end_all();
                    Scratch::remove(&scratch);
                    std::process::exit(number);
                }
            }
        })?;
        let operations = args.operations.unwrap_or(u64::MAX);
        let (start, time) = (Instant::now(), args.minutes);
        Ok(Self { start, time, operations, interrupted, asked, heard, code })
    }

    pub(super) fn is_over(&self, operations: u64) -> bool {
        self.is_interrupted() || self.start.elapsed() >= self.time || operations >= self.operations
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Begins the final check, which also follows an interruption. The result is a function that
    /// returns whether that was interrupted, too: a closed terminal sends its signal only once.
    pub(super) fn last_look(&self) -> impl Fn() -> bool + Sync {
        let before = self.is_interrupted();
        self.asked.store(false, Ordering::Relaxed);
        *lock(&self.heard) = None;
        move || self.asked.load(Ordering::Relaxed) || (!before && self.is_interrupted())
    }

    /// The exit code of a run without a finding: as in a shell, if a signal ended it early.
    pub(super) fn exit_code(&self) -> ExitCode {
        match u8::try_from(self.code.load(Ordering::Relaxed)) {
            Ok(code @ 1..) => ExitCode::Other(code),
            _ => ExitCode::Done,
        }
    }

    /// The progress, from 0 to 1.
    pub(super) fn part(&self, operations: u64) -> f64 {
        let time = self.start.elapsed().as_secs_f64() / self.time.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a part of a narrow bar")]
        let work = operations as f64 / self.operations as f64;
        time.max(work)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
