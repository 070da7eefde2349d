//! `tenure bench`.

use crate::args::BenchArgs;
use crate::bench;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::Output;

pub(super) fn run(args: &BenchArgs, out: &mut Output) -> Result<ExitCode> {
    let report = bench::run(&args.dir, args.quick)?;
    out.result(|| report.json(), || report.text())?;
    Ok(ExitCode::Done)
}
