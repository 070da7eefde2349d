//! System calls: every call of every operation killed, refused, interrupted and cut short, also
//! while recovering from an earlier crash; and real limits, full disks and vanished directories.
//!
//! A command runs once to record its system calls. Then it runs again for each of them, in a fresh
//! directory, with one fault. After each: readers see the old data or the new; an error is one line
//! with the step and the path; the next command of the same kind works at once; and nothing is left
//! over. The quick form samples, the long form takes every call with every fault.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a panic is how a test fails")]

mod cases;
mod controls;
mod ext4;
mod job;
mod jobs;
mod judge;
mod limits;
mod place;
mod sweep;
mod together;
mod trouble;
mod underneath;
mod verbs;
