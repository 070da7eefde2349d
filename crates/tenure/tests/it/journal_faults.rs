//! An append without a sync that fails half way says truly whether its batch counts (G10).

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure::{AppendOptions, Journal};

use crate::document_scratch::{Scratch, at_once};
use crate::faulty_fs::{FaultyFs, Op, Verdict};

/// What happens to the journal's file from its first write on, by the number of the operation.
fn fails_after_the_write(fault: fn(Op, usize) -> Verdict) {
    let scratch = Scratch::new();
    let path = scratch.path("log.jsonl");
    let (journal, since) = (path.clone(), AtomicUsize::new(0));
    let fs = FaultyFs::new(move |op, at: &Path| {
        let begun = since.load(Ordering::SeqCst) > 0;
        if at != journal || !(begun || op == Op::Write) {
            return Verdict::Go;
        }
        fault(op, since.fetch_add(1, Ordering::SeqCst))
    });
    let options = AppendOptions { write: at_once(), ..AppendOptions::default() };
    let failed = Journal::open_on(&fs.shared(), &path).unwrap().append(&["first"], &options);
    assert_eq!(failed.unwrap_err().is_committed(), Some(true));

    // So nobody repeats it: whoever comes next finds it, or completes it.
    let journal = Journal::open(&path).unwrap();
    journal.append(&["second"], &options).unwrap();
    let lines = journal.read(0, None).unwrap().map(|entry| entry.unwrap().line);
    assert_eq!(lines.collect::<Vec<_>>(), [b"first".to_vec(), b"second".to_vec()]);
}

#[test]
fn race_43_a_batch_that_was_cut_short_is_completed_and_not_reported_as_lost() {
    fails_after_the_write(|op, number| match (op, number) {
        (Op::Write, 0) => Verdict::Short,
        (Op::Write, _) => Verdict::Fail(io::ErrorKind::StorageFull.into()),
        _ => Verdict::Go,
    });
}

#[test]
fn g10_a_look_that_fails_after_the_write_does_not_take_the_batch_back() {
    fails_after_the_write(|op, number| match (op, number) {
        (Op::StatHandle, 1) => Verdict::Fail(io::Error::from_raw_os_error(5)),
        _ => Verdict::Go,
    });
}
