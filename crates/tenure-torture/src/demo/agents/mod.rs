//! `tenure demo agents`: three agents on a small repository, once without tenure and once with it.
//!
//! No model is needed: an agent here is a process that does what a coding agent does in a turn. It takes a task from a
//! board, makes sure that its access token is fresh, and edits a source file: reads it, thinks, writes it. With
//! tenure it calls `tenure hook`, `tenure mcp` and `tenure once` as a real agent's settings would.
//!
//! - `repository` is what they share, and counts what went wrong in it;
//! - `agent` is one process: its turns;
//! - `alone` and `plugged_in` are the two ways to work, `server` is a client of `tenure mcp`;
//! - `report` prints the table.

pub(crate) mod agent;
mod alone;
mod plugged_in;
mod report;
mod repository;
mod server;

use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tenure_shipped::Dice;

use self::agent::Task;
use self::report::Report;
use self::repository::Repository;
use super::scratch::Scratch;
use super::{Options, Progress};

/// How many agents share the repository.
const AGENTS: u64 = 3;
/// An agent that says nothing for so long is stuck, and the demo fails.
const STUCK: Duration = Duration::from_secs(60);

/// How the agents work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Alone,
    PluggedIn,
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::PluggedIn => "plugged-in",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Alone, Self::PluggedIn].into_iter().find(|way| way.name() == name)
    }
}

/// Runs both and prints the table. An error if anything went wrong with tenure.
pub(crate) fn run(options: Options) -> io::Result<()> {
    let started = Instant::now();
    let seed = options.seed.unwrap_or_else(Dice::fresh_seed);
    let time = Duration::from_secs(if options.quick { 2 } else { 14 });
    let scratch = Scratch::new()?;
    let progress = Progress::new();
    let mut both = Vec::new();
    for (index, way) in [Way::Alone, Way::PluggedIn].into_iter().enumerate() {
        let place = scratch.inner(way.name())?;
        let repository = Repository::create(place.path(), way)?;
        let half = if index == 0 { 0.0 } else { 0.5 };
        let show = |part: f64| progress.show(half + part / 2.0, way.name());
        both.push(repository.counts(&work(repository.root(), way, seed, time, show)?)?);
    }
    drop(progress);
    let (Some(with), Some(without)) = (both.pop(), both.pop()) else {
        return Err(io::Error::other("no run"));
    };
    let report = Report { seed, quick: options.quick, took: started.elapsed(), without, with };
    let mut out = io::stdout().lock();
    if options.json {
        writeln!(out, "{}", report.json())?;
    } else {
        out.write_all(report.text(super::wants_colour(out.is_terminal())).as_bytes())?;
    }
    out.flush()?;
    match report.broken_promise() {
        None => Ok(()),
        Some(broken) => Err(io::Error::other(broken)),
    }
}

/// Children that do not outlive this process's interest in them.
struct Crew(Vec<Child>);

impl Drop for Crew {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Lets the agents work in the repository for this time; what they report.
fn work(
    root: &Path,
    way: Way,
    seed: u64,
    time: Duration,
    progress: impl Fn(f64),
) -> io::Result<Vec<String>> {
    let mut dice = Dice::new(seed);
    let (sender, reports) = mpsc::channel();
    let mut crew = Crew(Vec::new());
    for number in 0..AGENTS {
        let task = Task { way, root: root.to_path_buf(), number, time, seed: dice.roll() };
        let mut child = start(&task)?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        crew.0.push(child);
        let sender = sender.clone();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
    }
    drop(sender);
    let (started, mut lines) = (Instant::now(), Vec::new());
    loop {
        match reports.recv_timeout(STUCK) {
            Ok(line) => lines.push(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                return Err(io::Error::other("an agent is stuck"));
            }
        }
        progress(started.elapsed().as_secs_f64() / time.as_secs_f64());
    }
    for child in &mut crew.0 {
        if !child.wait()?.success() {
            return Err(io::Error::other(format!("an agent ({}) failed", way.name())));
        }
    }
    Ok(lines)
}

fn start(task: &Task) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg("demo-agent")
        .args(task.arguments())
        .current_dir(&task.root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
}

/// The `tenure` beside this program, or else the one in the path.
fn tenure(root: &Path) -> io::Result<Command> {
    let name = format!("tenure{}", std::env::consts::EXE_SUFFIX);
    let beside = std::env::current_exe()?.with_file_name(&name);
    let mut command = Command::new(if beside.is_file() { beside } else { name.into() });
    command.current_dir(root).env("CLAUDE_PROJECT_DIR", root);
    Ok(command)
}
