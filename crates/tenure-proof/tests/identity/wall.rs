//! A wall clock for one program, by a function that the dynamic linker loads before the C library's
//! own: a clock that is fixed in another year, or one that is set forward and back while the
//! program runs.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::bench::Bench;

/// Returns a fixed time, or the true time plus the offset in a file.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    if (clock != CLOCK_REALTIME) return syscall(SYS_clock_gettime, clock, time);
    const char *fixed = getenv("CLOCK_SECONDS");
    if (fixed) {
        *time = (struct timespec){ .tv_sec = atoll(fixed) };
        return 0;
    }
    char wrong_by[32] = { 0 };
    int file = open(getenv("CLOCK_WRONG_BY"), O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, wrong_by, sizeof wrong_by - 1) <= 0) abort();
    close(file);
    int done = syscall(SYS_clock_gettime, clock, time);
    time->tv_sec += atoll(wrong_by);
    return done;
}
"#;

/// Years 2001 and 2096.
pub(crate) const YEARS: [i64; 2] = [1_000_000_000, 4_000_000_000];

const DAY: i64 = 24 * 3600;
/// The offsets from the true time, in days, one after the other.
const JUMPS: [i64; 6] = [2, -3, 400, 0, -1, 30];
/// A waiter reads a clock at least this often, if it reads one at all.
const JUMP_EVERY: Duration = Duration::from_millis(25);

/// The library.
pub(crate) struct WallClock {
    bench: Bench,
    wrong_by: File,
}

impl WallClock {
    /// Built for the dynamic linker, in its own directory; correct until it is set.
    pub(crate) fn new() -> Self {
        let bench = Bench::new();
        let (source, built) = (bench.path("clock.c"), bench.path("clock.so"));
        File::create_new(&source).unwrap().write_all(SOURCE.as_bytes()).unwrap();
        let mut compiler = Command::new("cc");
        let done = compiler.args(["-shared", "-fPIC", "-o"]).arg(&built).arg(&source).status();
        assert!(done.unwrap().success(), "cc builds what links every Rust program");
        let wrong_by = File::create_new(Self::file(&bench)).unwrap();
        let clock = Self { bench, wrong_by };
        clock.set(0);
        clock
    }

    fn file(bench: &Bench) -> PathBuf {
        bench.path("wrong-by")
    }

    fn launcher(&self, setting: String) -> Vec<String> {
        let preload = format!("LD_PRELOAD={}", self.bench.path("clock.so").display());
        vec!["env".to_owned(), preload, setting]
    }

    /// The program sees this time, in seconds since 1970.
    pub(crate) fn at(&self, seconds: i64) -> Vec<String> {
        self.launcher(format!("CLOCK_SECONDS={seconds}"))
    }

    /// The program sees a clock that [`Self::jump_during`] sets.
    pub(crate) fn jumping(&self) -> Vec<String> {
        self.launcher(format!("CLOCK_WRONG_BY={}", Self::file(&self.bench).display()))
    }

    /// Always the same length, in one write: a reader sees the old or the new value.
    fn set(&self, days: i64) {
        let text = format!("{:+015}\n", days * DAY);
        self.wrong_by.write_all_at(text.as_bytes(), 0).unwrap();
    }

    /// Sets the clock forward and back by days until `work` is done. Returns how often, and the
    /// result of `work`.
    pub(crate) fn jump_during<T: Send>(&self, work: impl FnOnce() -> T + Send) -> (u64, T) {
        self.set_during(JUMPS.into_iter().cycle(), work)
    }

    /// Sets the clock back by a day, again and again, so that it never reaches its former value.
    pub(crate) fn go_back_during<T: Send>(&self, work: impl FnOnce() -> T + Send) -> (u64, T) {
        self.set_during((0..).map(|days: i64| -days), work)
    }

    fn set_during<T: Send>(
        &self,
        days: impl Iterator<Item = i64>,
        work: impl FnOnce() -> T + Send,
    ) -> (u64, T) {
        std::thread::scope(|scope| {
            let (done, ended) = channel();
            scope.spawn(move || done.send(work()));
            for (jumps, days) in (0..).zip(days) {
                match ended.recv_timeout(JUMP_EVERY) {
                    Ok(given) => return (jumps, given),
                    Err(RecvTimeoutError::Timeout) => self.set(days),
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            panic!("the work beside the clock failed");
        })
    }
}

/// A launcher as [`Bench`] takes it.
pub(crate) fn words(launcher: &[String]) -> Vec<&str> {
    launcher.iter().map(String::as_str).collect()
}
