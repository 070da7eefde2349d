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
mod document_faults;
mod document_files;
mod document_foreign;
mod document_group;
mod document_moving;
mod document_readers;
mod document_repair;
mod document_restore;
mod document_scratch;
mod document_steps;
mod faulty_fs;
mod fence;
mod forged;
mod fork;
mod holding;
mod hostile;
mod hostile_sidecars;
mod identity;
mod in_flight;
mod journal;
mod journal_adopt;
mod journal_anchors;
mod journal_crash;
mod journal_faults;
mod journal_hold;
mod journal_kept;
mod journal_killed;
mod journal_light;
mod journal_open_files;
mod journal_power;
mod journal_repair;
mod journal_restart;
mod journal_settle;
mod journal_stage;
mod journal_sync;
mod journal_unanchored;
mod lease;
mod lease_refusals;
mod lease_writes;
mod lock;
mod newcomer;
mod operations;
mod permissions;
mod puppet;
mod renewal;
mod roles;
mod scratch;
mod shared;
mod sidecars;
mod together;
mod verbs;
mod versions;
mod waiting;
mod watched_disk;
