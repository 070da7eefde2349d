//! The steps of a change: what is left if a step is refused or is the last one, and which version
//! is kept as a fallback.

use tenure::{ErrorKind, Value, WriteOptions, json};

use crate::document_scratch::{
    at_once, count_in, durably, foreign_replace, foreign_write, increment,
};
use crate::faulty_fs::Op;
use crate::watched_disk::{
    CREATED, EXCHANGED, KEPT_AS_GOOD, RECORDED, SYNCED, TEMP_MADE, TEMP_SYNCED, Watched, another,
    position, two_versions, version,
};

#[test]
fn g5_a_change_without_a_sync_is_synced_if_it_displaces_what_nobody_knows_of() {
    let disk = two_versions(&at_once());
    foreign_replace(disk.document.path(), version(3).unwrap());
    disk.document.update(&at_once(), increment).unwrap();
    assert_eq!(disk.times(TEMP_SYNCED), 1, "another program wrote what it displaces");
    assert_eq!(disk.file("good"), version(1));
    disk.document.update(&at_once(), increment).unwrap();
    assert_eq!(disk.times(TEMP_SYNCED), 1, "what it displaces is synced");
    assert_eq!(disk.file("good"), version(4));
    disk.document.update(&at_once(), increment).unwrap();
    assert_eq!(disk.times(TEMP_SYNCED), 1, "our own unsynced version is not worth it");
    assert_eq!(disk.file("good"), version(4));
    disk.fs.reboot();
    disk.document.update(&at_once(), increment).unwrap();
    assert_eq!(disk.times(TEMP_SYNCED), 2, "unless it outlived a restart: it may be all there is");
    assert_eq!(disk.file("good"), version(4));
    assert_eq!(disk.file("document"), version(7));
}

#[test]
fn g5_what_displaces_a_version_in_doubt_is_synced() {
    // The version before it may have been damaged by a power loss, so it is not kept as a fallback.
    let disk = two_versions(&at_once());
    foreign_replace(disk.document.path(), version(3).unwrap());
    disk.die_after(TEMP_SYNCED);
    disk.document.update(&at_once(), increment).unwrap_err();
    disk.live_on();
    another(&disk).update(&at_once(), increment).unwrap();
    let done = disk.done();
    assert!(position(&done, TEMP_SYNCED) < position(&done, EXCHANGED), "{done:?}");
    assert_eq!((disk.file("good"), disk.file("document")), (version(1), version(4)));
    disk.live_on();
    another(&disk).update(&at_once(), increment).unwrap();
    assert_eq!((disk.times(TEMP_SYNCED), disk.file("good")), (0, version(4)));
}

#[test]
fn g5_a_change_that_dies_behind_the_exchange_leaves_the_good_version_to_the_next() {
    // What it displaced was ours and synced; or another program's, and then the new version is synced.
    for foreign in [false, true] {
        let disk = two_versions(&if foreign { at_once() } else { durably() });
        let displaced = if foreign { 7 } else { 2 };
        if foreign {
            foreign_replace(disk.document.path(), version(displaced).unwrap());
        }
        disk.die_after(EXCHANGED);
        disk.document.update(&at_once(), increment).unwrap_err();
        assert_eq!(
            (disk.file("good"), disk.file("document")),
            (version(1), version(displaced + 1))
        );
        disk.live_on();
        another(&disk).update(&durably(), increment).unwrap();
        let good = if foreign { 1 } else { displaced };
        assert_eq!(disk.file("good"), version(good), "foreign: {foreign}");
        assert_eq!((disk.file("damaged.1"), disk.file("document")), (None, version(displaced + 2)));
    }
}

#[test]
fn g5_a_call_that_changes_nothing_keeps_the_good_version_that_it_finds() {
    let disk = two_versions(&durably());
    disk.die_after(EXCHANGED);
    disk.document.update(&at_once(), increment).unwrap_err();
    disk.live_on();
    another(&disk).update(&durably(), |_: Option<&Value>| Ok(None)).unwrap();
    assert_eq!((disk.file("good"), disk.file("document")), (version(2), version(3)));
    let done = disk.done();
    assert!(position(&done, KEPT_AS_GOOD) < position(&done, TEMP_SYNCED), "{done:?}");
}

#[test]
fn g10_a_change_that_dies_before_the_exchange_leaves_nothing_worth_keeping() {
    for exists in [false, true] {
        let disk = if exists { two_versions(&durably()) } else { Watched::new() };
        disk.die_after(TEMP_SYNCED);
        let error = disk.document.update(&durably(), increment).unwrap_err();
        assert_ne!(error.is_committed(), Some(true), "{error}");
        assert_eq!(disk.scratch.temps().len(), 1, "it could not clean up");
        disk.live_on();
        another(&disk).update(&durably(), increment).unwrap();
        assert_eq!(disk.file("damaged.1"), None, "it was never published; exists: {exists}");
        assert_eq!(disk.file("document"), version(if exists { 3 } else { 1 }));
        assert!(disk.scratch.temps().is_empty());
    }
}

#[test]
fn g10_a_refused_step_of_a_publication_is_an_error_and_not_another_attempt() {
    let steps = [
        (CREATED, false),
        (TEMP_MADE, false),
        (EXCHANGED, true),
        ((Op::Stat, "document"), true),
        (TEMP_MADE, true),
    ];
    for (step, exists) in steps {
        let disk = if exists { two_versions(&durably()) } else { Watched::new() };
        let before = disk.file("document");
        let error = disk.document.update(&durably(), |current| {
            disk.refuse_once(step);
            increment(current)
        });
        let error = error.expect_err(&format!("{step:?} was refused"));
        assert_eq!(error.kind(), ErrorKind::Io, "{step:?}: {error}");
        assert_ne!(error.is_committed(), Some(true), "{step:?}: {error}");
        assert_eq!(disk.file("document"), before, "{step:?}");
        assert!(disk.scratch.temps().is_empty(), "{step:?}");
    }
}

#[test]
fn g10_a_copy_that_cannot_be_kept_is_not_left_under_its_temporary_name() {
    let disk = two_versions(&durably());
    disk.refuse(&[KEPT_AS_GOOD]);
    disk.document.update(&durably(), increment).unwrap();
    assert_eq!((disk.file("good"), disk.file("document")), (version(1), version(3)));
    assert!(disk.scratch.temps().is_empty());
}

#[test]
fn g10_an_exchange_whose_result_cannot_be_looked_at_is_undone() {
    let disk = two_versions(&durably());
    disk.refuse_once((Op::Stat, "temp"));
    let error = disk.document.update(&durably(), increment).unwrap_err();
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Io, Some(false)), "{error}");
    assert_eq!((disk.file("good"), disk.file("document")), (version(1), version(2)));
    assert!(disk.scratch.temps().is_empty());
}

#[test]
fn race_26_g5_only_a_bare_number_is_synced_unasked() {
    let disk = Watched::new();
    disk.document.set(&json!({ "n": 0 }), &durably()).unwrap();
    for (value, syncs) in [
        (json!(12), 1),
        (json!(-12), 1),
        (json!([12, 13]), 1), // What it displaces would be one.
        (json!({ "n": 12 }), 0),
        (json!("12"), 0),
    ] {
        disk.live_on();
        disk.document.set(&value, &at_once()).unwrap();
        assert_eq!(disk.times(TEMP_SYNCED), syncs, "{value}: cut in the middle it is still one");
    }
}

#[test]
fn g10_a_temporary_file_of_the_wrong_length_is_never_published() {
    let lying = |fs: crate::faulty_fs::FaultyFs| {
        fs.showing_open(|path, mut stat| {
            if path.to_string_lossy().contains(".tmp.") {
                stat.size = stat.size.saturating_sub(1);
            }
            stat
        })
    };
    let disk = Watched::shown_as(lying);
    let error = disk.document.update(&durably(), increment).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert_eq!(disk.file("document"), None);
    assert!(disk.scratch.temps().is_empty());
}

#[test]
fn race_25_a_second_name_that_only_an_open_file_has_is_none() {
    // A FUSE server that cannot refuse to replace a name gives the file a second one for a moment.
    let disk = Watched::shown_as(|fs| {
        fs.showing_open(|path, mut stat| {
            stat.links += u64::from(path.ends_with("state.json"));
            stat
        })
    });
    disk.document.update(&durably(), increment).unwrap();
    disk.document.update(&durably(), increment).unwrap();
    assert_eq!(count_in(&disk.document), 2);
    std::fs::hard_link(disk.document.path(), disk.scratch.path("other")).unwrap();
    let error = disk.document.update(&durably(), increment).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "a real one is one: {error}");
}

#[test]
fn g5_without_an_exchange_the_new_version_is_safe_before_it_takes_its_name() {
    let published = (Op::Rename, "document");
    for (durable, links) in [(false, true), (false, false), (true, true), (true, false)] {
        let options = if durable { durably() } else { at_once() };
        let disk = two_versions(&durably());
        disk.cannot_exchange();
        if !links {
            disk.refuse(&[(Op::Link, "good")]);
        }
        disk.document.update(&options, increment).unwrap();
        let done = disk.done();
        assert_eq!(disk.file("document"), version(3));
        assert_eq!(disk.file("good"), version(2).filter(|_| links), "links: {links}");
        assert!(position(&done, TEMP_SYNCED) < position(&done, published), "{done:?}");
        assert_eq!(disk.times(TEMP_SYNCED), 1);
    }
}

/// An operation published by a process that died before it could record it.
fn half_done(options: &WriteOptions) -> Watched {
    let disk = two_versions(&durably());
    disk.die_after(EXCHANGED);
    disk.document.update(&with_operation("once", options), increment).unwrap_err();
    assert_eq!(disk.file("document"), version(3));
    disk.live_on();
    disk
}

fn with_operation(id: &str, options: &WriteOptions) -> WriteOptions {
    WriteOptions { operation: Some(id.into()), ..options.clone() }
}

#[test]
fn g10_an_operation_of_a_dead_process_that_cannot_be_noted_is_done_for_its_own_caller_only() {
    let disk = half_done(&at_once());
    for (refused, id, committed) in [
        ((Op::Write, "ids"), "once", true),
        ((Op::Write, "ids"), "other", false),
        (KEPT_AS_GOOD, "once", true),
        (KEPT_AS_GOOD, "other", false),
        (RECORDED, "once", true),
        (RECORDED, "other", false),
    ] {
        disk.refuse(&[refused]);
        let error = another(&disk).update(&with_operation(id, &at_once()), increment);
        let error = error.expect_err("that it is done cannot be noted");
        assert_eq!(error.is_committed(), Some(committed), "{refused:?} {id}: {error}");
    }
    disk.live_on();
    let done = another(&disk).update(&with_operation("once", &at_once()), increment).unwrap();
    assert!(done.replayed);
    assert_eq!(disk.file("document"), version(3));
}

#[test]
fn g8_what_a_dead_process_published_counts_as_unsynced() {
    let disk = half_done(&at_once());
    another(&disk).update(&durably(), |_: Option<&Value>| Ok(None)).unwrap();
    assert_eq!(disk.times(TEMP_SYNCED), 1);
}

#[test]
fn g8_bytes_that_another_program_wrote_are_published_anew() {
    let disk = two_versions(&at_once());
    let unchanged = |_: Option<&Value>| Ok(None);
    let ours = disk.file("document").unwrap();
    foreign_replace(disk.document.path(), "{\"n\":3}");
    disk.document.update(&durably(), unchanged).unwrap();
    assert_eq!(disk.times(TEMP_SYNCED), 1, "another program's");
    foreign_replace(disk.document.path(), ours);
    disk.document.update(&durably(), unchanged).unwrap();
    assert_eq!(disk.times(TEMP_SYNCED), 2, "ours, which was never synced");
    assert_eq!(disk.times(SYNCED), 0, "none is synced in place");
}

#[test]
fn race_27_a_document_that_cannot_be_read_is_not_a_damaged_one() {
    let disk = two_versions(&durably());
    disk.refuse_once((Op::Read, "document"));
    let error = disk.document.update(&durably(), increment).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert_eq!(disk.file("damaged.1"), None);
    foreign_write(disk.document.path(), "{\"n\":");
    let error = disk.document.update(&durably(), increment).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    assert_eq!(disk.file("damaged.1"), Some(b"{\"n\":".to_vec()));
}

#[test]
fn g8_a_sync_note_that_cannot_be_read_is_not_one_that_says_nothing() {
    let disk = two_versions(&durably());
    disk.refuse(&[(Op::Read, "sync note")]);
    let error = disk.document.update(&durably(), increment).unwrap_err();
    assert_eq!(
        (error.kind(), error.is_committed()),
        (ErrorKind::NotDurable, Some(true)),
        "{error}"
    );
}
