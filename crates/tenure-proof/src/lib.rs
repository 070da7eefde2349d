//! The rings: tests that attack every guarantee of tenure with the methods of the most trusted
//! systems.
//!
//! A ring is a test binary of this crate (`tests/NAME/`). It has a quick form, which runs with all
//! other tests, and a long form. [`Form`] says which; [`seed`] gives a test its seed and prints the
//! command that repeats it; [`Tally`] records what was tried. `cargo xtask prove` runs every ring
//! in its long form and writes the table in `docs/RELIABILITY.md` from those records.

pub mod block_log;
#[cfg(unix)]
pub mod bounded;
mod command;
pub mod crash_states;
mod form;
mod history;
pub mod inputs;
#[cfg(target_os = "linux")]
pub mod live;
#[cfg(target_os = "linux")]
pub mod machine;
pub mod mount;
#[cfg(target_os = "linux")]
pub mod strace;
mod tally;
#[cfg(unix)]
pub mod verbs;
pub mod victim;

pub mod puppet;
pub mod timeline;

pub use self::command::tenure;
pub use self::form::{Form, seed};
pub use self::history::read_history;
pub use self::tally::Tally;
pub use tenure_testkit::not_run;
pub use tenure_torture::history::{History, Judgement, Object, Operation};
