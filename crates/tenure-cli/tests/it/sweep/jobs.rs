//! The commands of the sweep, one test each.

use std::path::Path;

use super::job::{Job, Subject};
use super::sweep;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const ONE: &[&str] = &["doc", "set", "d.json", r#"{"n":1}"#];
const TWO: &[&str] = &["doc", "set", "d.json", r#"{"n":2}"#];
const TWO_UNSYNCED: &[&str] = &["doc", "set", "d.json", r#"{"n":2}"#, "--no-sync"];
const LINES: &[&str] = &["journal", "append", "j.jsonl", "1", "2", "3"];
const LEASE: &[&str] = &["lease", "acquire", "t", "--ttl", "1h", "--token", TOKEN];
const RUN: &[&str] = &["run", "t", "--", "true"];
const UPDATE: &[&str] = &["doc", "update", "d.json", ".n += 1"];

const fn document(prepare: &'static [&[&str]], args: &'static [&str]) -> Job {
    Job { prepare, tamper: nothing, args, subject: Subject::Document, lacks: None }
}

const fn journal(prepare: &'static [&[&str]], args: &'static [&str]) -> Job {
    Job { subject: Subject::Journal, ..document(prepare, args) }
}

const fn lease(prepare: &'static [&[&str]], args: &'static [&str]) -> Job {
    Job { subject: Subject::Lease, ..document(prepare, args) }
}

/// Nobody else does anything.
fn nothing(_: &Path) {}

/// The directory as `cp -r` makes it: the records belong to other files.
fn copy(dir: &Path) {
    let moved = dir.with_extension("moved");
    copy_all(dir, &moved);
    std::fs::remove_dir_all(dir).unwrap();
    copy_all(&moved, dir);
    std::fs::remove_dir_all(moved).unwrap();
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Somebody cut the document in place.
fn cut(dir: &Path) {
    let file = std::fs::OpenOptions::new().write(true).open(dir.join("d.json")).unwrap();
    file.set_len(4).unwrap();
}

#[test]
fn g10_doc_set_new() {
    sweep(document(&[], ONE));
}

#[test]
fn g10_doc_update() {
    sweep(document(&[ONE], UPDATE));
}

#[test]
fn g10_doc_update_again() {
    // The third version: there is a last good one to replace.
    sweep(document(&[ONE, TWO], UPDATE));
}

#[test]
fn g10_doc_update_no_sync() {
    sweep(document(&[ONE, TWO], &["doc", "update", "d.json", ".n += 1", "--no-sync"]));
}

#[test]
fn g10_doc_update_after_no_sync() {
    sweep(document(&[ONE, TWO_UNSYNCED], UPDATE));
}

#[test]
fn g10_doc_update_of_a_copied_directory() {
    sweep(Job { tamper: copy, ..document(&[ONE, TWO], UPDATE) });
}

#[test]
fn g10_doc_update_where_names_cannot_be_exchanged() {
    let lacks = Some("renameat2:error=EINVAL");
    sweep(Job { lacks, ..document(&[ONE, TWO], UPDATE) });
}

#[test]
fn g10_doc_update_with_an_operation_id() {
    sweep(document(&[ONE, TWO], &["doc", "update", "d.json", ".n += 1", "--op-id", "a"]));
}

#[test]
fn g10_doc_merge() {
    let args = &["doc", "merge", "d.json", r#"{"n":5,"k":[1]}"#, "--sum", "/n"];
    sweep(document(&[ONE], args));
}

#[test]
fn g10_doc_restore() {
    sweep(Job { tamper: cut, ..document(&[ONE, TWO], &["doc", "restore", "d.json"]) });
}

#[test]
fn g10_journal_append_new() {
    sweep(journal(&[], LINES));
}

#[test]
fn g10_journal_append() {
    sweep(journal(&[LINES], &["journal", "append", "j.jsonl", "4", "5"]));
}

#[test]
fn g10_journal_append_no_sync() {
    sweep(journal(&[LINES, LINES], &["journal", "append", "j.jsonl", "4", "5", "--no-sync"]));
}

#[test]
fn g10_journal_append_to_a_copied_directory() {
    sweep(Job { tamper: copy, ..journal(&[LINES], &["journal", "append", "j.jsonl", "4", "5"]) });
}

#[test]
fn g10_journal_rotate() {
    let args = &["journal", "rotate", "j.jsonl"];
    sweep(Job { subject: Subject::Rotated, ..journal(&[LINES, LINES], args) });
}

#[test]
fn g10_journal_compact() {
    let args = &["journal", "compact", "j.jsonl", "--from", "4"];
    sweep(Job { subject: Subject::Replaced, ..journal(&[LINES, LINES], args) });
}

#[test]
fn g10_lease_acquire() {
    sweep(lease(&[], LEASE));
}

#[test]
fn g10_lease_renew() {
    sweep(lease(&[LEASE], &["lease", "renew", "t", "--ttl", "2h", "--token", TOKEN]));
}

#[test]
fn g10_lease_release() {
    sweep(lease(&[LEASE], &["lease", "release", "t", "--token", TOKEN]));
}

#[test]
fn g10_run() {
    sweep(Job { subject: Subject::Run, ..lease(&[], RUN) });
}

#[test]
fn g10_run_again() {
    sweep(Job { subject: Subject::Run, ..lease(&[RUN], RUN) });
}
