//! The processes of a heat: how they are started together, and what they send back.
//!
//! # Invariants
//!
//! 1. All children wait for the end of one pipe, which they share as their standard input. Its writer
//!    closes it when the last of them is ready, so none starts before the others could.
//! 2. A child that hangs ends itself; the parent needs no clock.
//! 3. What a child sends is [`HEAD`] numbers and then its samples, eight bytes each, little endian.
//! 4. A rate counts the turns that ended inside a window of time. Before it all processes get
//!    going; after it they only finish what they began, and those turns do not count.

use std::io::{PipeReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::round::Heat;
use crate::row::{Contender, Form, Ground, Length, NotHere, Part, Race, Result, Seat};

/// Numbers before the samples: turns, turns in the window, start, end, processor time, memory.
const HEAD: usize = 6;

/// The warm-up time before the window, as a part of the heat's time.
const WARM_UP: u32 = 4;

/// How much longer than its heat a child may take: to open its files, and on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// The exit code of a child whose part cannot run on this machine.
pub(crate) const NOT_HERE: u8 = 4;

/// Says that a child is ready.
const READY: u8 = b'r';

/// Nanoseconds of a clock.
pub(crate) fn clock(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

/// Nanoseconds of the clock that all processes share.
pub(crate) fn now() -> u64 {
    clock(ClockId::Monotonic)
}

/// One heat of a contender, in as many processes as it has.
pub(crate) fn heat(row: &str, race: &Race, contender: &Contender, ground: &Ground) -> Result<Heat> {
    let (starter, mut keeper) = std::io::pipe()?;
    let mut children = Vec::new();
    for number in 0..contender.processes {
        children.push(start(row, race, contender, ground, number, &starter)?);
    }
    drop(starter);
    for child in &mut children {
        let mut ready = [0];
        let sent = child.stdout.as_mut().map(|out| out.read_exact(&mut ready));
        if !matches!(sent, Some(Ok(()))) || ready != [READY] {
            return Err(failure(children));
        }
    }
    keeper.flush()?;
    drop(keeper);
    collect(children, race.length)
}

fn start(
    row: &str,
    race: &Race,
    contender: &Contender,
    ground: &Ground,
    number: usize,
    starter: &PipeReader,
) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--child", row, race.name, &contender.name]);
    command.arg(ground.form.pick("quick", "full")).arg(&ground.dir).arg(number.to_string());
    command.stdin(starter.try_clone()?).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command.spawn()?)
}

/// Ends the other children, and returns what the failed ones printed.
fn failure(mut children: Vec<Child>) -> Box<dyn std::error::Error + Send + Sync> {
    for child in &mut children {
        let _ = child.kill();
    }
    let (mut said, mut not_here): (Vec<String>, bool) = (Vec::new(), false);
    for child in children {
        let Ok(output) = child.wait_with_output() else { continue };
        not_here |= output.status.code() == Some(NOT_HERE.into());
        let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if !text.is_empty() && !said.contains(&text) {
            said.push(text);
        }
    }
    match (said.is_empty(), not_here) {
        (true, _) => "a process ended without a word".into(),
        (false, true) => NotHere(said.join("; ")).into(),
        (false, false) => said.join("; ").into(),
    }
}

fn collect(mut children: Vec<Child>, length: Length) -> Result<Heat> {
    let mut heat = Heat::default();
    let (mut first, mut last) = (u64::MAX, 0);
    for at in 0..children.len() {
        let mut bytes = Vec::new();
        if let Some(out) = &mut children[at].stdout {
            out.read_to_end(&mut bytes)?;
        }
        let (words, _) = bytes.as_chunks::<8>();
        let numbers: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let Some((&[turns, inside, start, end, cpu, memory], samples)) =
            numbers.split_first_chunk::<HEAD>()
        else {
            return Err(failure(children));
        };
        heat.memory_bytes = heat.memory_bytes.max(memory);
        if turns == 0 {
            continue;
        }
        heat.turns += turns;
        heat.turns_inside += inside;
        heat.cpu_ns += cpu;
        heat.cpu_most_ns = heat.cpu_most_ns.max(cpu);
        heat.samples.extend_from_slice(samples);
        (first, last) = (first.min(start), last.max(end));
    }
    for mut child in children {
        child.wait()?;
    }
    heat.samples.sort_unstable();
    heat.window_ns = match length {
        Length::Time(time) => time.as_nanos().try_into()?,
        Length::Turns(_) => last.saturating_sub(first),
    };
    Ok(heat)
}

/// What one thread did.
#[derive(Debug, Default)]
struct Done {
    turns: u64,
    turns_inside: u64,
    start: u64,
    end: u64,
    samples: Vec<u64>,
}

/// A child: plays its parts and sends what they measured.
pub(crate) fn play(
    race: &Race,
    contender: &Contender,
    form: Form,
    dir: &Path,
    number: usize,
) -> Result<()> {
    let most = match race.length {
        Length::Time(time) => time,
        Length::Turns(_) => Duration::ZERO,
    };
    std::thread::spawn(move || end_after(most + PATIENCE));
    let ground = Ground { dir: dir.to_owned(), size: contender.size, form };
    let seat_of = |thread: usize| Seat {
        ground: ground.clone(),
        number: number * contender.threads + thread,
    };
    let barrier = Barrier::new(contender.threads);
    let mut cpu = 0;
    let mut done = Vec::new();
    std::thread::scope(|scope| -> Result<()> {
        let (barrier, length) = (&barrier, race.length);
        let mut others = Vec::new();
        for thread in 1..contender.threads {
            let seat = seat_of(thread);
            others.push(scope.spawn(move || {
                let part = (contender.part)(&seat);
                barrier.wait();
                barrier.wait();
                turns(&mut part?, length)
            }));
        }
        let part = (contender.part)(&seat_of(0));
        barrier.wait();
        wait_for_start()?;
        let before = clock(ClockId::ProcessCPUTime);
        barrier.wait();
        done.push(turns(&mut part?, length)?);
        for other in others {
            done.push(other.join().map_err(|_| "a thread panicked")??);
        }
        cpu = clock(ClockId::ProcessCPUTime) - before;
        Ok(())
    })?;
    send(&done, cpu)
}

/// Ends a child that hangs: its heat was over long ago.
#[expect(clippy::disallowed_methods, reason = "a clock that ends the process, not a wait")]
fn end_after(time: Duration) {
    std::thread::sleep(time);
    eprintln!("still not done after {} s", time.as_secs());
    std::process::exit(3);
}

fn wait_for_start() -> Result<()> {
    let mut out = std::io::stdout();
    out.write_all(&[READY])?;
    out.flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn turns(part: &mut Part, length: Length) -> Result<Done> {
    let mut samples = Vec::with_capacity(1 << 16);
    let start = now();
    let (window, most) = match length {
        Length::Time(time) => (start + nanoseconds(time / WARM_UP), u64::MAX),
        Length::Turns(most) => (start, most),
    };
    let end = match length {
        Length::Time(time) => window + nanoseconds(time),
        Length::Turns(_) => u64::MAX,
    };
    let (mut turns, mut turns_inside, mut last) = (0, 0, start);
    while last < end && turns < most {
        let (begun, before) = (now(), samples.len());
        (part.turn)(&mut samples)?;
        last = now();
        if part.timed {
            samples.push(last - begun);
        }
        turns += 1;
        if (window..end).contains(&last) {
            turns_inside += (samples.len() - before) as u64;
        }
    }
    if !part.counts {
        return Ok(Done::default());
    }
    Ok(Done { turns: samples.len() as u64, turns_inside, start, end: last, samples })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn send(done: &[Done], cpu: u64) -> Result<()> {
    let played = || done.iter().filter(|done| done.turns > 0);
    let turns = played().map(|done| done.turns).sum();
    let inside = played().map(|done| done.turns_inside).sum();
    let start = played().map(|done| done.start).min().unwrap_or(0);
    let end = played().map(|done| done.end).max().unwrap_or(0);
    let mut bytes: Vec<u8> = Vec::new();
    for number in [turns, inside, start, end, cpu, memory()] {
        bytes.extend(number.to_le_bytes());
    }
    for sample in played().flat_map(|done| &done.samples) {
        bytes.extend(sample.to_le_bytes());
    }
    let mut out = std::io::stdout();
    out.write_all(&bytes)?;
    out.flush()?;
    Ok(())
}

/// The largest resident set of this process so far, in bytes; 0 where the system does not report
/// it.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
