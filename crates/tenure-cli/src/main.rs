//! The `tenure` command: the start of the process and its memory; the rest is in the library.
#![cfg_attr(all(target_os = "linux", not(test)), no_main)]

mod allocator;
#[cfg(all(target_os = "linux", not(test)))]
mod start;

use self::allocator::Arena;

#[global_allocator]
static ALLOCATOR: Arena = Arena::new();

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    tenure_cli::run(&words).into()
}
