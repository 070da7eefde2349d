//! Ring 1: the race book. One test for each known failure mode of files as locks, shared JSON and journals,
//! by its number. A test opens with the story: what broke where, and which guarantee answers it.
//!
//! Every test shows both: what broke, re-implemented here or in `tenure-shipped`, breaks; ours does not. The
//! bad order of events is forced, never hoped for. A test in which nothing breaks fails.
//!
//! | number | on Linux |
//! |---|---|
//! | 28 | Windows cannot rename over an open file. Here: a reader with the file open, and a name that is never missing. |
//! | 43 | O_APPEND over a network needs two machines. Here: short writes and a limit on the file's length. |
//! | 48 | A laptop cannot be put to sleep by a test. Here: a holder that is stopped while its lease runs. |

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![expect(clippy::disallowed_methods, reason = "tests play the outsider who does as they like")]

mod agents;
mod deaths;
mod documents_files;
mod documents_state;
mod documents_updates;
mod exclusion_failures;
mod exclusion_identity;
mod exclusion_processes;
mod exclusion_stealing;
mod failed_syncs;
mod holding_environment;
mod holding_waits;
mod journal;
mod scene;
mod settings;
mod steps;
