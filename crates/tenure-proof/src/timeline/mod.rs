//! Scenarios as numbered timelines in text files, readable by people and played by puppets.
//!
//! ```text
//! # What it is about, and which guarantee answers for it.
//! files: doc
//!
//!  1  A  lock $doc                  -> fence=$a
//!  2  B  lock $doc                  -> error busy holder.pid=$A.pid
//!  3  B  lock $doc wait=forever     blocks
//!  4  A  release                    -> ok
//!  5  B  answers                    -> fence=$b
//!  6  -  $b > $a
//! ```
//!
//! - `files:` names scratch files; `$doc` is the path of one.
//! - An actor starts with its first step. Its order is a word, positional values (`path`, or the name of a
//!   hold) and `field=value`. A value is `$name`, JSON, or a bare word.
//! - After `->` comes the expected answer: `ok`, `error CODE`, and `field=value`. A `$name` that is
//!   not known yet is bound; a known one is compared. `field?=value` is compared if the answer has
//!   the field.
//! - `blocks` instead of an answer: the order waits. `answers` is when it ends.
//! - `kill`, `stop`, `resume` are signals to the actor's processes.
//! - `-` is no actor: `$b > $a`, `$b = $a`, or `write $file TEXT` and `append $file TEXT` by a
//!   plain program, and `expires $doc`, which waits for the end of a lease.

mod parse;
mod play;
mod words;

pub use self::parse::{Deed, Expected, Scenario, Step};
pub use self::play::{Cast, play};
