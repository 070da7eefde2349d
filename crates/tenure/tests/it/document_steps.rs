//! The steps of a change: what each of them refused, or the last, leaves behind, and which version is
//! kept to fall back to.

use serde_json::{Value, json};
use tenure::{ErrorKind, WriteOptions};

use crate::document_scratch::{
    at_once, count_in, durably, foreign_replace, foreign_write, increment,
};
use crate::faulty_fs::Op;
use crate::watched_disk::{
    CREATED, EXCHANGED, KEPT_AS_GOOD, RECORDED, SYNCED, TEMP_MADE, TEMP_SYNCED, Watched, another,
    position, two_versions, version,
};

#[test]
fn g5_a_change_without_a_sync_first_syncs_what_it_may_have_to_fall_back_to() {
    let disk = two_versions(&at_once());
    foreign_replace(disk.document.path(), version(3).unwrap());
    disk.document.update(&at_once(), increment).unwrap();
    assert_eq!(disk.times(SYNCED), 1, "somebody else wrote it, and nobody has synced it");
    assert_eq!(disk.file("good"), version(3));
    disk.document.update(&at_once(), increment).unwrap();
    assert_eq!(disk.times(SYNCED), 1, "our own unsynced version is not worth it");
    assert_eq!(disk.file("good"), version(3));
    disk.fs.reboot();
    disk.document.update(&at_once(), increment).unwrap();
    assert_eq!(disk.times(SYNCED), 2, "unless it outlived a restart: then it may be all there is");
    assert_eq!(disk.file("good"), version(5));
    assert_eq!(disk.file("document"), version(6));
}

#[test]
fn g5_what_could_not_be_synced_is_not_kept_as_good() {
    let disk = two_versions(&at_once());
    foreign_replace(disk.document.path(), version(3).unwrap());
    disk.refuse(&[SYNCED]);
    disk.document.update(&at_once(), increment).unwrap();
    assert_eq!((disk.file("good"), disk.file("document")), (version(1), version(4)));
}

#[test]
fn g5_what_displaces_a_version_in_doubt_is_synced() {
    // The version before it may have outlived a power loss, and is not kept to fall back to.
    let disk = two_versions(&at_once());
    foreign_replace(disk.document.path(), version(3).unwrap());
    disk.die_after(SYNCED);
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
    // What it displaced was ours and synced, or somebody else's and synced just before.
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
        assert_eq!(disk.file("good"), version(displaced), "foreign: {foreign}");
        assert_eq!((disk.file("damaged"), disk.file("document")), (None, version(displaced + 2)));
        let done = disk.done();
        assert!(position(&done, TEMP_SYNCED) < position(&done, KEPT_AS_GOOD), "{done:?}");
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
    assert!(position(&done, KEPT_AS_GOOD) < position(&done, SYNCED), "{done:?}");
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
        assert_eq!(disk.file("damaged"), None, "nobody was told of it; exists: {exists}");
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
        (json!([12, 13]), 0),
        (json!({ "n": 12 }), 0),
        (json!("12"), 0),
    ] {
        disk.live_on();
        disk.document.set(&value, &at_once()).unwrap();
        let spare = (Op::Sync, "spare"); // It has the temporary name when it is synced.
        assert_eq!(disk.times(spare), syncs, "{value}: cut in the middle it is still one");
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
fn g5_without_an_exchange_the_old_version_is_safe_before_the_new_one_takes_its_name() {
    let kept = (Op::SyncDir, "sidecars");
    let published = (Op::Rename, "document");
    for (durable, links) in [(false, true), (false, false), (true, true)] {
        let options = if durable { durably() } else { at_once() };
        let disk = two_versions(&durably());
        disk.cannot_exchange();
        if !links {
            disk.refuse(&[(Op::Link, "spare")]);
        }
        disk.document.update(&options, increment).unwrap();
        let done = disk.done();
        let published = position(&done, published);
        assert_eq!(disk.file("document"), version(3));
        assert_eq!(disk.file("good"), version(if links { 2 } else { 1 }), "links: {links}");
        assert_eq!(disk.file("spare"), None);
        if links && !durable {
            let (renamed, kept) = (position(&done, KEPT_AS_GOOD), position(&done, kept));
            assert!(renamed < kept && kept < published, "{done:?}");
        } else {
            assert!(!done[..published].contains(&kept), "nothing to wait for: {done:?}");
            assert!(position(&done, TEMP_SYNCED) < published, "the new one is safe: {done:?}");
        }
    }
}

#[test]
fn g10_the_spare_name_of_a_document_that_is_gone_goes_with_the_next_one() {
    let disk = two_versions(&durably());
    let spare = disk.scratch.path(".tenure/state.json.spare");
    std::fs::rename(disk.document.path(), &spare).unwrap();
    disk.document.update(&durably(), increment).unwrap();
    assert_eq!((disk.file("spare"), disk.file("document")), (None, version(1)));
}

/// An operation that was published, by a process that died before it could write that down.
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
        (RECORDED, "once", true),
        (RECORDED, "other", false),
        ((Op::Remove, "temp"), "once", true),
        ((Op::Remove, "temp"), "other", false),
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
    assert_eq!(disk.times(SYNCED), 1);
}

#[test]
fn g8_bytes_that_somebody_put_back_are_synced_again() {
    let disk = two_versions(&at_once());
    let unchanged = |_: Option<&Value>| Ok(None);
    let ours = disk.file("document").unwrap();
    foreign_replace(disk.document.path(), "{\"n\":3}");
    disk.document.update(&durably(), unchanged).unwrap();
    assert_eq!(disk.times(SYNCED), 1, "somebody else's");
    foreign_replace(disk.document.path(), ours);
    disk.document.update(&durably(), unchanged).unwrap();
    assert_eq!(disk.times(SYNCED), 2, "ours, which was never synced");
}

#[test]
fn g8_a_call_that_changed_nothing_does_not_say_that_its_change_is_in_doubt() {
    let disk = two_versions(&at_once());
    disk.refuse(&[RECORDED]);
    let error = disk.document.update(&durably(), |_: Option<&Value>| Ok(None)).unwrap_err();
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Io, None), "{error}");
}

#[test]
fn race_27_a_document_that_cannot_be_read_is_not_a_damaged_one() {
    let disk = two_versions(&durably());
    disk.refuse_once((Op::Read, "document"));
    let error = disk.document.update(&durably(), increment).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert_eq!(disk.file("damaged"), None);
    foreign_write(disk.document.path(), "{\"n\":");
    let error = disk.document.update(&durably(), increment).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    assert_eq!(disk.file("damaged"), Some(b"{\"n\":".to_vec()));
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
