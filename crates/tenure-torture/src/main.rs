//! The `tenure-lab` program, which `tenure demo`, `torture` and `bench` become.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    tenure_torture::run(&words).into()
}
