//! Documents on a file system that keeps the order of writes, where `sync_file_range` replaces a
//! sync. A file system in memory needs neither.

use tenure_proof::mount::{EXT4, Turn, may_mount, memory};
use tenure_proof::{Form, Tally, seed, strace};
use tenure_testkit::Random;

use super::cases::Sample;
use super::jobs::OPERATIONS;
use super::sweep::{RING, Sweep, conclude};

/// What is tried. The quick form takes the calls that are made here and not in memory, and their
/// neighbours; the long one takes all.
const SAMPLE: Sample = Sample { kills: 1, others: 1, anything: true, moments: 2, only: &IN_ORDER };
const IN_ORDER: [&str; 4] = ["sync_file_range", "fstatfs", "fsync", "renameat2"];

/// The operations, and whether they are durable when they return.
const DOCUMENTS: [(&str, bool); 4] = [
    ("g10_doc_update_with_an_operation_id", true),
    ("g10_doc_set_new", true),
    ("g10_doc_update_again", true),
    ("g10_doc_update_no_sync", false),
];

#[test]
fn g10_documents_on_ext4_where_content_is_written_in_order() {
    let test = "g10_documents_on_ext4_where_content_is_written_in_order";
    if !strace::available() || !may_mount(test) {
        return;
    }
    let _turn = Turn::take();
    let mut tally = Tally::new(RING, test);
    let mut random = Random::new(seed(RING, test));
    let scratch = memory();
    let disk = EXT4.mount(&EXT4.image(scratch.path()));
    let dir = disk.path().canonicalize().unwrap().join("work");
    let mut bad = Vec::new();
    for (name, is_durable) in &DOCUMENTS[..Form::asked().pick(2, DOCUMENTS.len())] {
        let (_, job) = OPERATIONS.iter().find(|(known, _)| known == name).unwrap();
        let sweep = Sweep::at(*job, dir.clone(), None).unwrap();
        let in_order = sweep.calls().attacked().contains_key("sync_file_range");
        assert!(in_order || !is_durable, "{name} does not do what is tested here");
        bad.extend(sweep.sampled_calls(SAMPLE, " on ext4", &mut random, &mut tally));
    }
    conclude(&bad, &tally);
}
