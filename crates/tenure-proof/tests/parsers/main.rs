//! Ring 8: malformed input for everything that tenure reads.
//!
//! Properties of JSON, merges, patches, numbers, names and lines with random input (`json`,
//! `lines`); every file on the disk damaged in every way (`corruption`), and the two states of a
//! log (`state_slots`); random command lines (`command_line`); and every file of the fuzz corpus
//! (`corpus`), from which the targets in `fuzz/` continue. The same inputs must break code as
//! people write it (`controls`).

#![expect(clippy::disallowed_methods, reason = "tests play the outsider who does as they like")]

mod command_line;
mod controls;
mod corpus;
mod corruption;
mod json;
mod lines;
mod runs;
mod sealed;
mod seeds;
mod state_slots;
mod words;
