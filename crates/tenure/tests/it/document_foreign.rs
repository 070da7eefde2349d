//! Tools that do not use tenure replace the file while we change it (G6).

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure::{Document, ErrorKind, Value, Wait, WriteOptions, json};

use crate::document_scratch::{
    Scratch, at_once, bytes_of, count_in, durably, foreign_replace, foreign_write, increment,
};
use crate::faulty_fs::{FaultyFs, Op, Verdict};

/// A document on a disk where `act` runs before each exchange, with the number of the exchange.
fn acting_before_exchange(
    scratch: &Scratch,
    act: impl Fn(u64) -> io::Result<()> + Send + Sync + 'static,
) -> Document {
    let exchanges = AtomicU64::new(0);
    let fs = FaultyFs::new(move |op, _| match op {
        Op::Exchange => match act(exchanges.fetch_add(1, Ordering::Relaxed)) {
            Ok(()) => Verdict::Go,
            Err(error) => Verdict::Fail(error),
        },
        _ => Verdict::Go,
    });
    Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap()
}

/// Adds our mark.
#[expect(clippy::unnecessary_wraps, reason = "the signature that an update takes")]
fn sign(current: Option<&Value>) -> tenure::Result<Option<Value>> {
    let mut next = current.cloned().unwrap_or_else(|| json!({}));
    next["ours"] = json!(true);
    Ok(Some(next))
}

#[test]
fn race_20_g6_a_replacement_between_read_and_publish_is_noticed_and_built_upon() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 1 }), &at_once()).unwrap();
    let mut calls = 0;
    let compute = |current: Option<&Value>| {
        calls += 1;
        if calls == 1 {
            foreign_replace(&path, "{\"n\": 41}");
        }
        increment(current)
    };
    document.update(&at_once(), compute).unwrap();
    assert_eq!(calls, 2);
    assert_eq!(count_in(&document), 42);
    assert!(scratch.temps().is_empty());
}

#[test]
fn race_20_g6_a_creation_or_deletion_between_read_and_publish_is_noticed() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    let document = scratch.document("state.json");
    let mut calls = 0;
    let compute = |current: Option<&Value>| {
        calls += 1;
        match calls {
            1 => foreign_replace(&path, "{\"n\": 41}"),
            2 => std::fs::remove_file(&path).unwrap(),
            _ => assert!(current.is_none(), "the deletion was seen"),
        }
        increment(current)
    };
    document.update(&at_once(), compute).unwrap();
    assert_eq!((calls, count_in(&document)), (3, 1));
    assert!(scratch.temps().is_empty());
}

#[test]
fn race_20_g6_a_replacement_exactly_between_check_and_exchange_is_given_back() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    let document = acting_before_exchange(&scratch, move |nth| {
        if nth == 0 {
            foreign_replace(&path, "{\"theirs\": 1}");
        }
        Ok(())
    });
    document.set(&json!({ "n": 1 }), &at_once()).unwrap();
    document.update(&at_once(), sign).unwrap();
    let value = document.read().unwrap().unwrap().value;
    assert_eq!(value, json!({ "theirs": 1, "ours": true }));
    assert!(scratch.temps().is_empty());
}

#[test]
fn race_20_g6_a_replacement_before_each_of_many_exchanges_never_loses_the_newest() {
    // The second one arrives while the first is being restored: it must not end as a left-over.
    for last in 1..6 {
        let scratch = Scratch::new();
        let path = scratch.path("state.json");
        let document = acting_before_exchange(&scratch, move |nth| {
            if nth < last {
                foreign_replace(&path, format!("{{\"theirs\": {nth}}}"));
            }
            Ok(())
        });
        document.set(&json!({ "n": 1 }), &at_once()).unwrap();
        document.update(&at_once(), sign).unwrap();
        let value = document.read().unwrap().unwrap().value;
        assert_eq!(value, json!({ "theirs": last - 1, "ours": true }));
        assert!(scratch.temps().is_empty());
    }
}

#[test]
fn g10_a_foreign_version_that_cannot_be_given_back_stays_until_the_next_change_sets_it_aside() {
    // The exchange displaced a version that tenure had not read, and the disk fails right then.
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    scratch.document("state.json").set(&json!({ "n": 1 }), &at_once()).unwrap();
    foreign_write(scratch.path(".tenure/state.json.damaged.1"), "of before");
    let (theirs, exchanges) = (path.clone(), AtomicU64::new(0));
    let fs = FaultyFs::new(move |op, _| match op {
        Op::Exchange if exchanges.fetch_add(1, Ordering::Relaxed) == 0 => {
            foreign_replace(&theirs, "{\"theirs\": 1}");
            Verdict::Go
        }
        Op::Exchange => Verdict::Fail(io::Error::from_raw_os_error(5)),
        _ => Verdict::Go,
    });
    let error = Document::open_on(&fs.shared(), &path).unwrap().update(&at_once(), sign);
    let error = error.unwrap_err();
    assert_eq!(error.is_committed(), Some(true), "ours is what readers see");
    assert!(
        error.to_string().contains(".tmp."),
        "the error names the file that holds their version: {error}"
    );
    let left: Vec<_> =
        scratch.temps().iter().map(|name| bytes_of(scratch.dir().join(name))).collect();
    assert_eq!(left, [b"{\"theirs\": 1}"]);
    scratch.document("state.json").update(&at_once(), sign).unwrap();
    scratch.document("state.json").update(&at_once(), increment).unwrap();
    assert_eq!(bytes_of(scratch.path(".tenure/state.json.damaged.1")), b"of before");
    assert_eq!(bytes_of(scratch.path(".tenure/state.json.damaged.2")), b"{\"theirs\": 1}");
    assert!(scratch.temps().is_empty());
}

#[test]
fn race_20_g6_a_deletion_exactly_between_check_and_exchange_is_noticed() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    let document = acting_before_exchange(&scratch, move |_| std::fs::remove_file(&path));
    document.set(&json!({ "n": 1 }), &at_once()).unwrap();
    let mut seen = Vec::new();
    let compute = |current: Option<&Value>| {
        seen.push(current.is_some());
        increment(current)
    };
    document.update(&at_once(), compute).unwrap();
    assert_eq!((seen, count_in(&document)), (vec![true, false], 1));
    assert!(scratch.temps().is_empty());
}

#[test]
fn g9_somebody_who_never_stops_replacing_it_is_a_busy_error_at_the_deadline() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    let document = scratch.document("state.json");
    let count = Arc::new(AtomicU64::new(0));
    let compute = |current: Option<&Value>| {
        let nth = count.fetch_add(1, Ordering::Relaxed);
        foreign_replace(&path, format!("{{\"n\": {nth}}}"));
        increment(current)
    };
    let wait = Wait::For(Duration::from_millis(20));
    let error = document.update(&WriteOptions { wait, ..at_once() }, compute).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.to_string().contains("replacing"), "{error}");
    document.update(&at_once(), increment).unwrap();
    assert!(scratch.temps().is_empty());
}

#[test]
fn race_50_g1_a_removed_sidecar_directory_during_the_change_is_compromised_and_changes_nothing() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.set(&json!({ "n": 1 }), &at_once()).unwrap();
    let compute = |current: Option<&Value>| {
        std::fs::remove_dir_all(scratch.path(".tenure")).unwrap();
        increment(current)
    };
    let error = document.update(&at_once(), compute).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Compromised | ErrorKind::NotFound), "{error}");
    assert_ne!(error.is_committed(), Some(true));
    assert_eq!(count_in(&document), 1);
    document.update(&at_once(), increment).unwrap();
    assert_eq!(count_in(&document), 2);
}

#[test]
fn race_50_g1_replaced_lock_files_during_the_change_are_compromised_and_change_nothing() {
    for name in ["state.json.commit", "state.json.hold"] {
        let scratch = Scratch::new();
        let document = scratch.document("state.json");
        document.set(&json!({ "n": 1 }), &at_once()).unwrap();
        let sidecar = scratch.path(".tenure").join(name);
        let compute = |current: Option<&Value>| {
            let bytes = bytes_of(&sidecar);
            foreign_replace(&sidecar, bytes);
            increment(current)
        };
        let error = document.update(&at_once(), compute).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Compromised, "{name}: {error}");
        assert_eq!(count_in(&document), 1);
        document.update(&at_once(), increment).unwrap();
        assert!(scratch.temps().is_empty());
    }
}

#[test]
fn g6_without_an_exchange_the_rename_keeps_the_rules_it_can() {
    // vfat, old kernels, network file systems: no RENAME_EXCHANGE.
    let scratch = Scratch::new();
    let document = acting_before_exchange(&scratch, |_| Err(io::ErrorKind::Unsupported.into()));
    let durable = WriteOptions::default();
    for expected in 1..=4 {
        document.update(&durable, increment).unwrap();
        assert_eq!(count_in(&document), expected);
    }
    let good = bytes_of(scratch.path(".tenure/state.json.good"));
    assert_eq!(good, b"{\n  \"n\": 3\n}\n", "the version before");
    let mut calls = 0;
    let compute = |current: Option<&Value>| {
        calls += 1;
        if calls == 1 {
            foreign_replace(document.path(), "{\"n\": 41}");
        }
        increment(current)
    };
    document.update(&durable, compute).unwrap();
    assert_eq!(count_in(&document), 42, "a replacement since the read is noticed");
    let mut seen = Vec::new();
    let compute = |current: Option<&Value>| {
        seen.push(current.is_some());
        let _ = std::fs::remove_file(document.path());
        increment(current)
    };
    document.update(&durable, compute).unwrap();
    assert_eq!((seen, count_in(&document)), (vec![true, false], 1), "and so is a deletion");
    assert!(scratch.temps().is_empty());
}

/// Another process takes the rights of others away while the new version, with the old mode, is
/// being published.
#[test]
fn g13_a_mode_that_is_set_meanwhile_is_kept() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    foreign_write(&path, "{\"n\": 1}");
    let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
    mode(0o644).unwrap();
    let there = path.clone();
    let document = acting_before_exchange(&scratch, move |nth| {
        let closed = std::fs::Permissions::from_mode(0o600);
        if nth == 0 { std::fs::set_permissions(&there, closed) } else { Ok(()) }
    });
    document.update(&at_once(), increment).unwrap();
    assert_eq!(count_in(&document), 2);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

/// Where names cannot be exchanged, every change is synced. A foreign version or a removed lock
/// file is still noticed during that sync.
#[test]
fn g6_without_an_exchange_a_replacement_during_a_sync_is_noticed() {
    for removes in [false, true] {
        let scratch = Scratch::new();
        let path = scratch.path("state.json");
        scratch.document("state.json").set(&json!({ "n": 1 }), &durably()).unwrap();
        let (there, lock) = (path.clone(), scratch.path(".tenure/state.json.commit"));
        let armed = AtomicU64::new(1);
        let fs = FaultyFs::new(move |op, at| {
            let is_new = op == Op::Sync && at.to_string_lossy().contains(".tmp.");
            if is_new && armed.swap(0, Ordering::Relaxed) > 0 {
                if removes {
                    std::fs::remove_file(&lock).unwrap();
                } else {
                    foreign_replace(&there, "{\"n\": 100}");
                }
            }
            match op {
                Op::Exchange => Verdict::Fail(io::ErrorKind::Unsupported.into()),
                _ => Verdict::Go,
            }
        });
        let document = Document::open_on(&fs.shared(), &path).unwrap();
        let done = document.update(&at_once(), increment);
        if removes {
            assert_eq!(done.unwrap_err().kind(), ErrorKind::Compromised);
        } else {
            done.unwrap();
            assert_eq!(count_in(&document), 101);
        }
    }
}

/// A foreign version is recorded before the change that follows it. If recording it fails, nothing
/// is changed.
#[test]
fn g10_a_foreign_version_that_cannot_be_written_down_is_left_as_it_is() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    scratch.document("state.json").set(&json!({ "n": 1 }), &at_once()).unwrap();
    foreign_replace(&path, "{\"theirs\": 1}");
    let fs = FaultyFs::new(|op, path| match op {
        Op::Write if path.ends_with("state.json.commit") => {
            Verdict::Fail(io::ErrorKind::StorageFull.into())
        }
        _ => Verdict::Go,
    });
    let document = Document::open_on(&fs.shared(), &path).unwrap();
    let error = document.update(&durably(), sign).unwrap_err();
    assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Io, Some(false)), "{error}");
    assert_eq!(bytes_of(&path), b"{\"theirs\": 1}");
}
