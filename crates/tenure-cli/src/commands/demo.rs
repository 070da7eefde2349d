//! `tenure demo`.

use std::ffi::OsString;
use std::path::Path;

use crate::args::DemoArgs;
use crate::demo;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Output;

pub(super) fn run(args: &DemoArgs, out: &Output) -> Result<ExitCode> {
    let options = demo::Options { json: out.is_json(), quick: args.quick, seed: args.seed };
    ended(demo::run(options))
}

pub(super) fn worker(words: Vec<OsString>) -> Result<ExitCode> {
    ended(demo::worker::run(words))
}

fn ended(result: std::io::Result<()>) -> Result<ExitCode> {
    result.map_err(|err| Failure::io("run", Path::new("demo"), err))?;
    Ok(ExitCode::Done)
}
