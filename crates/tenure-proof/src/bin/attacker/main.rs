//! Somebody hostile who may write in the directory of others: swaps files for links, pipes and
//! directories, as fast as possible, until its input ends.
//!
//! `attacker DIR VICTIM SEED`: links lead to `VICTIM`. Prints how many swaps were made.

#[cfg(target_os = "linux")]
#[expect(clippy::print_stdout, reason = "it is a command")]
#[expect(clippy::disallowed_methods, reason = "it is not here to keep anything whole")]
mod swaps;

fn main() {
    #[cfg(target_os = "linux")]
    swaps::run();
}
