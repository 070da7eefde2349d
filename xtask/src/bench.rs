//! `cargo xtask bench`: builds the benchmark, which is a workspace of its own, and runs it.

mod kit;

use std::process::Command;

use crate::pipeline::cargo;
use crate::tally::Tally;
use crate::{root, stream};

/// Where the benchmark is built, unless the caller chose another place.
const TARGET: &str = "target/bench";

/// Where it leaves its records.
const RUNS: &str = "bench/runs";

/// Builds it as tenure ships, and runs it with these words.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root().join(TARGET), Into::into);
    let manifest = "bench/Cargo.toml";
    let mut build = cargo(&["build", "--release", "--manifest-path", manifest]);
    build.arg("--target-dir").arg(&target);
    stream::run(&mut build, &mut Tally::default())?;
    // In the caller's directory, whose file system is the one that is measured.
    let mut bench = Command::new(target.join("release/tenure-bench"));
    bench.arg("--runs").arg(root().join(RUNS)).args(words);
    if kit::is_needed(words) {
        let kit = target.join("kit");
        kit::make(&kit)?;
        bench.env("TENURE_BENCH_KIT", kit);
    }
    stream::run(&mut bench, &mut Tally::default())
}
