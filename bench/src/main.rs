//! tenure beside the system-call floor and beside what people would use instead.
//!
//! `bench [--quick|--full] [--on DIR] [--runs DIR] [ROW...]` measures, prints a table, and leaves a
//! record. `bench --child ...` is a process of a heat, started by the former.

#![cfg(unix)]

mod child;
mod document;
mod kit;
mod place;
mod report;
mod round;
mod row;
mod rows;
mod run;
mod settings;
mod shared;
mod stores;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::row::{Form, NotHere, Result, Row};

const USAGE: &str = "\
usage: bench [--quick|--full] [--on DIR] [--runs DIR] [ROW...]

  --quick     all rows in about two minutes (the default)
  --full      more rounds, larger sizes, and without --on also on tmpfs, and on xfs and btrfs where
              root may mount them
  --on DIR    on the file system of this directory (the current one)
  --runs DIR  leave the record in a directory below this one (bench/runs)
  ROW         P1 to P11; all, if none is named";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--child", row, race, contender, form, dir, number] => {
            play(row, race, contender, form, Path::new(dir), number).map(|()| true)
        }
        _ => Asked::from(&words).and_then(|asked| {
            allow_many_files()?;
            place::clean_up_at_signals()?;
            bench(&asked)
        }),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(if error.is::<NotHere>() { child::NOT_HERE } else { 2 })
        }
    }
}

/// What the command line asks for.
#[derive(Debug)]
struct Asked {
    form: Form,
    on: Option<PathBuf>,
    runs: PathBuf,
    rows: Vec<&'static Row>,
}

impl Asked {
    fn from(words: &[String]) -> Result<Self> {
        let mut asked =
            Self { form: Form::Quick, on: None, runs: "bench/runs".into(), rows: Vec::new() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a directory"));
            match word.as_str() {
                "--quick" => asked.form = Form::Quick,
                "--full" => asked.form = Form::Full,
                "--on" => asked.on = Some(value()?.into()),
                "--runs" => asked.runs = value()?.into(),
                name => {
                    let row = rows::named(name);
                    asked.rows.push(row.ok_or_else(|| format!("no row `{name}`\n\n{USAGE}"))?);
                }
            }
        }
        if asked.rows.is_empty() {
            asked.rows = rows::ALL.iter().collect();
        }
        Ok(asked)
    }
}

/// Runs what was asked for on every place; returns whether every contender did its job. A goal that
/// is missed is a result, not a failure.
fn bench(asked: &Asked) -> Result<bool> {
    let (mut good, mut places) = (true, 0);
    for place in place::all(asked.form, asked.on.as_deref()) {
        places += 1;
        let settings = settings::of(&place)?;
        println!("{}", settings.heading());
        settings.warning().inspect(|warning| println!("{warning}"));
        let mut results = Vec::new();
        for row in &asked.rows {
            let result = run::row(row, asked.form, place.dir())?;
            print!("{}", report::table(&result));
            good &= !report::has_failure(&result);
            results.push(result);
        }
        let dir = report::write(&asked.runs, asked.form, &settings, &results)?;
        println!("{}", report::verdict(&results));
        println!("record: {}", dir.display());
    }
    Ok(good && places > 0)
}

/// A thousand children have two pipes each.
fn allow_many_files() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?)
}

/// A process of a heat.
fn play(
    row: &str,
    race: &str,
    contender: &str,
    form: &str,
    dir: &Path,
    number: &str,
) -> Result<()> {
    let form = if form == "full" { Form::Full } else { Form::Quick };
    let row = rows::named(row).ok_or("no such row")?;
    let races = (row.races)(form);
    let race = races.iter().find(|known| known.name == race).ok_or("no such race")?;
    let named = |known: &&row::Contender| known.name == contender;
    let contender = race.contenders.iter().find(named).ok_or("no such contender")?;
    child::play(race, contender, form, dir, number.parse()?)
}
