//! A process that the power-loss and file-system rings crash; it also checks the files afterwards.
//!
//! `victim DIR [--writer N] [--rounds N] [--tasks a,b] [--boot N] [--broken HOW]` works and writes
//! `ACK ...` to standard output after each acknowledged call; `--tasks all` are all. `victim DIR
//! --check [--writer N] [--tasks a,b] [--boot N]` reads such lines from standard input, checks the
//! directory, works in it as writer N, and writes what that acknowledged. It exits with 1 and a
//! line about the first fault.

#![expect(clippy::print_stderr, reason = "findings and errors go there")]

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use tenure_proof::victim::{self, Broken, Task, Work};

/// What the command line asks for.
struct Order {
    work: Work,
    boot: u64,
    broken: Option<Broken>,
    check: bool,
}

fn main() -> ExitCode {
    match order(std::env::args().skip(1)).and_then(|order| run(&order)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("victim: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn order(mut words: impl Iterator<Item = String>) -> Result<Order, String> {
    let dir = PathBuf::from(words.next().ok_or("a directory is missing")?);
    let work = Work { dir, writer: 1, tasks: Task::COMMON.to_vec(), rounds: u64::MAX };
    let mut order = Order { work, boot: 1, broken: None, check: false };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word}: its value is missing"));
        match word.as_str() {
            "--check" => order.check = true,
            "--writer" => order.work.writer = parse(&value()?)?,
            "--rounds" => order.work.rounds = parse(&value()?)?,
            "--boot" => order.boot = parse(&value()?)?,
            "--broken" => order.broken = Some(value()?.parse()?),
            "--tasks" => order.work.tasks = tasks(&value()?)?,
            _ => return Err(format!("{word}: unknown")),
        }
    }
    Ok(order)
}

fn tasks(names: &str) -> Result<Vec<Task>, String> {
    match names {
        "all" => Ok(Task::all()),
        _ => names.split(',').map(Task::from_str).collect(),
    }
}

fn parse(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("`{word}` is no number"))
}

fn run(order: &Order) -> Result<(), String> {
    let disk = victim::boot(order.boot, &tenure::disk());
    if order.check {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(|err| err.to_string())?;
        let acks = victim::acks_in(&text);
        let next = Work { rounds: 2, ..order.work.clone() };
        let new = victim::check_and_go_on(&disk, &acks, &next)?;
        let told = std::io::stdout().write_all(victim::lines_of(&new).as_bytes());
        return told.map_err(|err| err.to_string());
    }
    let fs = order.broken.map_or_else(|| disk.clone(), |broken| broken.over(&disk));
    let mut out = std::io::stdout();
    let mut acknowledge = |ack: victim::Ack| {
        // In one write: the reader, or the log of the block device, has it whole or not at all.
        let line = format!("{ack}\n");
        let told = out.write_all(line.as_bytes()).and_then(|()| out.flush());
        // There is no reader any more: further work could not be checked.
        told.unwrap_or_else(|_| std::process::exit(3));
    };
    victim::work(&fs, &order.work, &mut acknowledge).map_err(|error| error.to_string())
}
