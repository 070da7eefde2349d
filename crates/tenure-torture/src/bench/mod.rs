//! `tenure bench`: what the operations cost on the user's own disk, and what the disk itself costs.
//!
//! Every row alternates between an operation of tenure and its floor, the bare system calls that it
//! needs, so that both see the same disk and the same load. A figure is the median of its turns.
//!
//! - `rows` is what is measured, `floor` the bare system calls; `remote` is the same in a store, without a floor;
//! - `report` prints the figures.

mod floor;
mod remote;
mod report;
mod rows;
mod scratch;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tenure::store::Store;

pub(crate) use self::report::Report;
use self::report::{Figure, Line};
use self::rows::{Row, Step};
use self::scratch::Scratch;

use tenure_cli::{ExitCode, Failure, Progress, Result};

/// How long a row takes, together with its floor.
const ROW: Duration = Duration::from_millis(1300);
/// The same with `--quick`.
const QUICK_ROW: Duration = Duration::from_millis(130);
/// How long one side runs until it is the other's turn.
const TURN: Duration = Duration::from_millis(40);
/// An upper bound for the bytes written to the user's disk.
const OPERATIONS_MAX: u32 = 20_000;

/// Measures in a directory of its own below `dir`, which is removed at the end.
pub(crate) fn run(dir: &Path, quick: bool) -> Result<Report> {
    let time = if quick { QUICK_ROW } else { ROW };
    let interrupted = watch_for_interruption();
    let scratch = Scratch::new(dir).map_err(|err| Failure::io("measure in", dir, err))?;
    let rows = rows::all(scratch.path())?;
    let progress = Progress::new();
    let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
    let mut lines = Vec::new();
    progress.show(0.0, "the disk");
    let sync = alone(rows::sync(scratch.path())?, time, &interrupted)?;
    for (index, mut row) in (0_u32..).zip(rows) {
        progress.show(f64::from(index) / f64::from(count), row.name);
        lines.push(measure(&mut row, time, &interrupted)?);
    }
    Ok(Report { place: scratch.parent().display().to_string(), lines, sync: Some(sync) })
}

/// Measures in a store, under names that are removed at the end.
pub(crate) fn run_on_store(store: &Arc<dyn Store>, name: &str, quick: bool) -> Result<Report> {
    let time = if quick { QUICK_ROW } else { ROW };
    let interrupted = watch_for_interruption();
    let scratch = remote::Scratch::new(store);
    let rows = scratch.rows()?;
    let progress = Progress::new();
    let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
    let measured: Result<Vec<_>> = (0_u32..)
        .zip(rows)
        .map(|(index, mut row)| {
            progress.show(f64::from(index) / f64::from(count), row.name);
            measure(&mut row, time, &interrupted)
        })
        .collect();
    scratch.remove()?;
    Ok(Report { place: name.to_owned(), lines: measured?, sync: None })
}

/// One row. A turn is always finished, so a very slow disk has few figures, not none.
fn measure(row: &mut Row, time: Duration, interrupted: &AtomicBool) -> Result<Line> {
    let (mut ours, mut floor) = (Turns::default(), Turns::default());
    let start = Instant::now();
    while !ours.are_enough(start, time) {
        refuse_to_go_on(interrupted)?;
        ours.take(&mut row.ours)?;
        if let Some(step) = &mut row.floor {
            floor.take(step)?;
        }
    }
    let floor = row.floor.as_ref().map(|_| floor.median());
    Ok(Line { name: row.name, ours: ours.median(), floor })
}

/// A step without a floor.
fn alone(mut step: Step, time: Duration, interrupted: &AtomicBool) -> Result<Figure> {
    let mut turns = Turns::default();
    let start = Instant::now();
    while !turns.are_enough(start, time) {
        refuse_to_go_on(interrupted)?;
        turns.take(&mut step)?;
    }
    Ok(turns.median())
}

fn refuse_to_go_on(interrupted: &AtomicBool) -> Result<()> {
    if !interrupted.load(Ordering::Relaxed) {
        return Ok(());
    }
    let detail = "it was interrupted; nothing is left behind";
    Err(Failure::new(ExitCode::Failed, "cancelled", "measure", detail))
}

/// The turns of one side.
#[derive(Debug, Default)]
struct Turns {
    /// The time of one operation, turn by turn.
    taken: Vec<Duration>,
    operations: u32,
}

impl Turns {
    fn are_enough(&self, start: Instant, time: Duration) -> bool {
        let over = start.elapsed() >= time || self.operations >= OPERATIONS_MAX;
        over && !self.taken.is_empty()
    }

    fn take(&mut self, step: &mut Step) -> Result<()> {
        let start = Instant::now();
        let mut operations = 0;
        while operations == 0 || (start.elapsed() < TURN && operations < OPERATIONS_MAX / 10) {
            step()?;
            operations += 1;
        }
        self.taken.push(start.elapsed() / operations);
        self.operations += operations;
        Ok(())
    }

    fn median(mut self) -> Figure {
        self.taken.sort_unstable();
        let median = self.taken.get(self.taken.len() / 2).copied().unwrap_or_default();
        Figure { median, operations: self.operations }
    }
}

/// Set by a signal: the directory is removed before the end.
fn watch_for_interruption() -> Arc<AtomicBool> {
    let interrupted = Arc::new(AtomicBool::new(false));
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // Without it an interruption leaves the directory behind; nothing else is lost.
        let _ = signal_hook::flag::register(signal, Arc::clone(&interrupted));
    }
    interrupted
}
