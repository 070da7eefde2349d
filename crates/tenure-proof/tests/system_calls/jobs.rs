//! The operations that are swept, one test each.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use super::job::{Job, Program, Subject, tenure};
use super::sweep::sweep;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
pub(crate) const ONE: &[&str] = &["doc", "set", "d.json", r#"{"n":1}"#];
const TWO: &[&str] = &["doc", "set", "d.json", r#"{"n":2}"#];
const TWO_UNSYNCED: &[&str] = &["doc", "set", "d.json", r#"{"n":2}"#, "--no-sync"];
const LINES: &[&str] = &["journal", "append", "j.jsonl", "1", "2", "3"];
const MORE: &[&str] = &["journal", "append", "j.jsonl", "4", "5"];
const LEASE: &[&str] = &["lease", "acquire", "t", "--ttl", "1h", "--token", TOKEN];
const RUN: &[&str] = &["run", "t", "--", "true"];
pub(crate) const UPDATE: &[&str] = &["doc", "update", "d.json", ".n += 1"];

pub(crate) const fn document(prepare: &'static [&[&str]], args: &'static [&str]) -> Job {
    let program = Program::Tenure;
    let subject = Subject::Document;
    Job { prepare, tamper: nothing, program, args, subject, open_line: None, lacks: None }
}

const fn journal(prepare: &'static [&[&str]], args: &'static [&str]) -> Job {
    Job { subject: Subject::Journal, ..document(prepare, args) }
}

const fn lease(prepare: &'static [&[&str]], args: &'static [&str]) -> Job {
    Job { subject: Subject::Lease, ..document(prepare, args) }
}

/// A call of the library.
pub(crate) const fn called(
    prepare: &'static [&[&str]],
    args: &'static [&str],
    subject: Subject,
) -> Job {
    Job { program: Program::Subject, subject, ..document(prepare, args) }
}

/// Two documents of a collection.
const TWO_KEYS: &[&[&str]] =
    &[&["doc", "set", "c/a.json", r#"{"n":1}"#], &["doc", "set", "c/b.json", r#"{"n":2}"#]];

/// No other process does anything.
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

/// A directory for a collection.
fn collection(dir: &Path) {
    std::fs::create_dir(dir.join("c")).unwrap();
}

/// An index of two keys, to be split.
fn index(dir: &Path) {
    std::fs::write(dir.join("index.json"), r#"{"a":{"n":1},"b":{"n":2}}"#).unwrap();
}

/// Two documents of a collection; the second is the newer one.
fn two_keys(dir: &Path) {
    collection(dir);
    for args in TWO_KEYS {
        let ended = tenure(dir, args);
        assert!(ended.is_done(), "{ended:?}");
    }
    let day = Duration::from_secs(86_400);
    let file = std::fs::File::options().write(true).open(dir.join("c/a.json")).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    file.set_modified(modified - day).unwrap();
}

/// Half a line.
const HALF: &str = "half";

/// Another process appended it.
fn tear(dir: &Path) {
    let mut file = std::fs::File::options().append(true).open(dir.join("j.jsonl")).unwrap();
    file.write_all(HALF.as_bytes()).unwrap();
}

/// Another process truncated the document in place.
fn cut(dir: &Path) {
    let file = std::fs::OpenOptions::new().write(true).open(dir.join("d.json")).unwrap();
    file.set_len(4).unwrap();
}

/// Another user may write the document: an access list, which the next version keeps.
fn let_in(dir: &Path) {
    let nobody = u32::MAX;
    let entries =
        [(1_u16, 6_u16, nobody), (2, 6, 1111), (4, 0, nobody), (16, 6, nobody), (32, 0, nobody)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    let (file, name) = (dir.join("d.json"), "system.posix_acl_access");
    rustix::fs::setxattr(file, name, &list, rustix::fs::XattrFlags::empty()).unwrap();
}

/// A directory that gives another user access to all files created in it; the document was there
/// before.
fn let_into_new(dir: &Path) {
    let_in(dir);
    let (file, name) = (dir.join("d.json"), "system.posix_acl_access");
    let mut list = [0; 256];
    let length = rustix::fs::getxattr(&file, name, &mut list[..]).unwrap();
    rustix::fs::removexattr(&file, name).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(dir, "system.posix_acl_default", &list[..length], flags).unwrap();
    let shared = std::os::unix::fs::PermissionsExt::from_mode(0o640);
    std::fs::set_permissions(file, shared).unwrap();
}

/// One test for each, and all of them in a table.
macro_rules! operations {
    ($($name:ident: $job:expr;)*) => {
        /// Every operation, by the name of its test.
        pub(crate) const OPERATIONS: &[(&str, Job)] = &[$((stringify!($name), $job)),*];
        $(
            #[test]
            fn $name() {
                sweep(stringify!($name), $job);
            }
        )*
    };
}

operations! {
    g10_lock: called(&[], &["lock", "t"], Subject::Lease);
    g10_lock_again: called(&[RUN], &["lock", "t"], Subject::Lease);
    g10_run: Job { subject: Subject::Run, ..lease(&[], RUN) };
    g10_run_again: Job { subject: Subject::Run, ..lease(&[RUN], RUN) };
    g10_run_shared:
        Job { subject: Subject::Run, ..lease(&[], &["run", "--shared", "t", "--", "true"]) };
    g10_lease_acquire: lease(&[], LEASE);
    g10_lease_renew: lease(&[LEASE], &["lease", "renew", "t", "--ttl", "2h", "--token", TOKEN]);
    g10_lease_release: lease(&[LEASE], &["lease", "release", "t", "--token", TOKEN]);
    g10_lease_take_over: lease(&[LEASE], &["lease", "take-over", "t", "--ttl", "3h", "--reason", "x"]);
    g10_doc_set_new: document(&[], ONE);
    g10_doc_update: document(&[ONE], UPDATE);
    // The third version: there is a last good one to replace.
    g10_doc_update_again: document(&[ONE, TWO], UPDATE);
    g10_doc_update_no_sync:
        document(&[ONE, TWO], &["doc", "update", "d.json", ".n += 1", "--no-sync"]);
    g10_doc_update_after_no_sync: document(&[ONE, TWO_UNSYNCED], UPDATE);
    g10_doc_update_of_a_copied_directory: Job { tamper: copy, ..document(&[ONE, TWO], UPDATE) };
    g10_doc_update_with_an_access_list: Job { tamper: let_in, ..document(&[ONE], UPDATE) };
    g10_doc_update_where_new_files_get_an_access_list:
        Job { tamper: let_into_new, ..document(&[ONE], UPDATE) };
    g10_doc_update_where_names_cannot_be_exchanged:
        Job { lacks: Some("renameat2:error=EINVAL"), ..document(&[ONE, TWO], UPDATE) };
    g10_doc_update_with_an_operation_id:
        document(&[ONE, TWO], &["doc", "update", "d.json", ".n += 1", "--op-id", "a"]);
    g10_doc_merge:
        document(&[ONE], &["doc", "merge", "d.json", r#"{"n":5,"k":[1]}"#, "--sum", "/n"]);
    g10_doc_patch: document(
        &[ONE],
        &["doc", "patch", "d.json", r#"[{"op":"replace","path":"/n","value":7}]"#],
    );
    g10_doc_restore: Job { tamper: cut, ..document(&[ONE, TWO], &["doc", "restore", "d.json"]) };
    g10_journal_append_new: journal(&[], LINES);
    g10_journal_append: journal(&[LINES], MORE);
    g10_journal_append_no_sync:
        journal(&[LINES, LINES], &["journal", "append", "j.jsonl", "4", "5", "--no-sync"]);
    g10_journal_append_to_a_copied_directory: Job { tamper: copy, ..journal(&[LINES], MORE) };
    g10_journal_append_to_a_torn_tail:
        Job { tamper: tear, open_line: Some(HALF), ..journal(&[LINES], MORE) };
    g10_journal_repair: Job { tamper: tear, ..journal(&[LINES], &["journal", "repair", "j.jsonl"]) };
    g10_journal_rotate:
        Job { subject: Subject::Rotated, ..journal(&[LINES, LINES], &["journal", "rotate", "j.jsonl"]) };
    g10_journal_compact: Job {
        subject: Subject::Replaced,
        ..journal(&[LINES, LINES], &["journal", "compact", "j.jsonl", "--from", "4"])
    };
    g10_update_and_append_new:
        called(&[], &["update-and-append", "d.json", "j.jsonl", "a"], Subject::Both);
    g10_update_and_append:
        called(&[ONE, LINES], &["update-and-append", "d.json", "j.jsonl", "a"], Subject::Both);
    g10_collection_set: Job {
        tamper: collection,
        ..called(&[], &["collection-set", "c", "a", r#"{"n":1}"#], Subject::Collection)
    };
    g10_collection_prune: Job {
        tamper: two_keys,
        subject: Subject::Collection,
        ..document(&[], &["collection", "prune", "c", "--max-count", "1"])
    };
    g10_collection_split: Job {
        tamper: index,
        subject: Subject::Collection,
        ..document(&[], &["collection", "split", "index.json", "c"])
    };
    g10_reading_a_document: Job { subject: Subject::Both, ..document(&[ONE, LINES], &["doc", "get", "d.json"]) };
    g10_reading_a_journal:
        Job { subject: Subject::Both, ..document(&[ONE, LINES], &["journal", "read", "j.jsonl"]) };
    g10_verifying_a_journal:
        Job { subject: Subject::Both, ..document(&[ONE, LINES], &["journal", "verify", "j.jsonl"]) };
    g10_listing_a_collection: Job {
        tamper: two_keys,
        subject: Subject::Collection,
        ..document(&[], &["collection", "list", "c"])
    };
    g10_showing_a_lease: lease(&[LEASE], &["lease", "show", "t"]);
    g10_who: Job { subject: Subject::Both, ..document(&[ONE, LINES, LEASE], &["who"]) };
    g10_doctor: Job { subject: Subject::Both, ..document(&[ONE, LINES, LEASE], &["doctor"]) };
}
