//! What other processes and threads see of locks, documents and leases: one binary, one module per
//! concept. Tests are named after the guarantee (`g1`) and the known failure mode (`race_01`) they
//! cover. Nothing sleeps to synchronise: a reply over a pipe is the synchronisation.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![expect(clippy::disallowed_methods, reason = "tests play the outsider who does as they like")]

mod altered;
mod at_once;
mod clock_ahead;
mod collection;
mod compromised;
mod document;
mod document_bad_input;
mod document_crash;
mod document_failed_sync;
mod document_faults;
mod document_files;
mod document_foreign;
mod document_group;
mod document_left_over;
mod document_moving;
mod document_readers;
mod document_repair;
mod document_restore;
mod document_restore_aside;
mod document_restore_left_over;
mod document_scratch;
mod document_steps;
mod document_unsynced;
mod faulty_fs;
mod fence;
mod forged;
mod fork;
mod holding;
mod hostile;
mod hostile_sidecars;
mod identity;
mod in_flight;
mod journal_crash;
mod journal_damage;
mod journal_foreign;
mod journal_late;
mod journal_restart;
#[expect(dead_code, reason = "the stage offers more than each test needs")]
mod journal_stage;
mod journal_sync;
mod lease;
mod lease_refusals;
mod lease_writes;
mod lock;
mod newcomer;
mod operations;
mod operations_kept;
mod permissions;
mod puppet;
mod renewal;
mod roles;
mod scratch;
mod serde_of_others;
mod shared;
mod sidecars;
mod starting;
mod sweep;
mod together;
mod typed;
mod verbs;
mod versions;
mod waiting;
mod watched_disk;
