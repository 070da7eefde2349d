//! An attacker that may write in the directory of other users: it swaps files for links, pipes and
//! directories, in bursts as fast as possible, until its input ends.
//!
//! `attacker DIR VICTIM SEED`: links lead to `VICTIM`. For each line of its input it prints how
//! many swaps of each kind it has made so far, as one line of JSON.

#[cfg(target_os = "linux")]
#[expect(clippy::print_stdout, reason = "it is a command")]
mod counts;
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "an attacker writes without care")]
mod swaps;

fn main() {
    #[cfg(target_os = "linux")]
    swaps::run();
}
