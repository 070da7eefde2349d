//! A damaged document is still a user's data: however a restore ends, its bytes are kept.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure::fs::Access;
use tenure::{Document, WriteOptions, json};
use tenure_testkit::{CrashKind, Fault, SimFs, Survival, Times};

use crate::document_scratch::{
    Scratch, at_once, bytes_of, count_in, durably, foreign_replace, foreign_write, increment,
};
use crate::faulty_fs::{FaultyFs, Op, Verdict};

const PATH: &str = "/d/state.json";
const DAMAGE: &[u8] = b"{\"n\": 3, and a line that somebody still wants";

/// More operations than a restore makes.
const STEPS: u64 = 60;

fn document(fs: &SimFs) -> Document {
    Document::open_on(&fs.shared(), Path::new(PATH)).unwrap()
}

/// Two versions, and then something that is none.
fn damaged(seed: u64) -> SimFs {
    let fs = SimFs::new(seed);
    fs.add_dir("/d");
    for n in [1, 2] {
        document(&fs).set(&json!({ "n": n }), &durably()).unwrap();
    }
    damage(&fs);
    fs
}

fn damage(fs: &SimFs) {
    let file = fs.shared().open(Path::new(PATH), Access::ReadWrite).unwrap();
    file.write_all_at(DAMAGE, 0).unwrap();
    file.set_len(DAMAGE.len() as u64).unwrap();
    file.sync().unwrap();
}

/// The damaged bytes, wherever they are. The temporary file does not count: users would not find
/// them there.
fn is_kept(fs: &SimFs) -> bool {
    let side = Path::new("/d/.tenure");
    let names = fs.shared().list(side).unwrap_or_default();
    let aside = names.iter().filter(|name| name.to_string_lossy().contains(".damaged"));
    let mut places: Vec<_> = aside.map(|name| side.join(name)).collect();
    places.push(PATH.into());
    places.iter().any(|place| fs.peek(place).is_some_and(|bytes| bytes == DAMAGE))
}

fn survives_a_death_at_every_step(kind: CrashKind, options: &WriteOptions) {
    for nth in 0..STEPS {
        let fs = damaged(nth);
        fs.fail_after(1 + nth, kind);
        let restored = document(&fs).restore(options);
        match kind {
            CrashKind::Process => fs.process_crash(),
            CrashKind::Power => fs.crash(),
        }
        // The next caller removes what the dead one left, and may restore the document, too.
        let next = document(&fs);
        let _ = next.restore(options);
        next.set(&json!({ "n": 4 }), options).unwrap();
        assert!(is_kept(&fs), "step {nth}, {restored:?}\n{}", fs.history());
    }
}

#[test]
fn race_27_a_restore_that_is_killed_keeps_the_damaged_bytes() {
    for options in [at_once(), durably()] {
        survives_a_death_at_every_step(CrashKind::Process, &options);
    }
}

#[test]
fn race_27_a_restore_that_the_power_ends_keeps_the_damaged_bytes() {
    for options in [at_once(), durably()] {
        survives_a_death_at_every_step(CrashKind::Power, &options);
    }
}

/// A change died between the exchange and restoring what an editor had saved meanwhile. That is not
/// yet valid JSON, and must be kept.
#[test]
fn race_50_a_foreign_version_in_the_temporary_file_is_kept_even_if_it_is_no_document() {
    let fs = damaged(1);
    let half = b"{\"somebody\": is still typing";
    // As after that death: the document is in no record, and the other version has our temporary
    // name.
    let shared = fs.shared();
    let place = |path: &str, bytes: &[u8]| {
        let file = shared.open(Path::new(path), Access::Create(0o600)).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
    };
    place(PATH, b"{\"n\": 3}");
    place("/d/.tenure/state.json.tmp.0000000000000000", half);
    document(&fs).set(&json!({ "n": 4 }), &at_once()).unwrap();
    assert_eq!(fs.peek("/d/.tenure/state.json.damaged.1").as_deref(), Some(&half[..]));
}

/// Where names can be neither exchanged nor linked, a copy keeps what a restore replaces.
#[test]
fn the_damaged_bytes_are_kept_also_where_there_are_no_links() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    for n in [1, 2] {
        scratch.document("state.json").set(&json!({ "n": n }), &durably()).unwrap();
    }
    std::fs::write(&path, DAMAGE).unwrap();
    let fs = FaultyFs::new(|op, _| match op {
        Op::Exchange | Op::Link => Verdict::Fail(std::io::ErrorKind::Unsupported.into()),
        _ => Verdict::Go,
    });
    let document = Document::open_on(&fs.shared(), &path).unwrap();
    document.restore(&at_once()).unwrap();
    assert_eq!(document.read().unwrap().map(|found| found.value), Some(json!({ "n": 1 })));
    let copy = scratch.path(".tenure/state.json.damaged.1");
    assert_eq!(std::fs::read(&copy).unwrap(), DAMAGE);
    assert_eq!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
}

/// The same, if an editor fixes the document while its copy is synced: the fixed version stays.
#[test]
fn a_document_that_is_mended_during_its_restore_stays() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    for n in [1, 2] {
        scratch.document("state.json").set(&json!({ "n": n }), &durably()).unwrap();
    }
    std::fs::write(&path, DAMAGE).unwrap();
    let there = path.clone();
    let fs = FaultyFs::new(move |op, at| match op {
        Op::Exchange | Op::Link => Verdict::Fail(std::io::ErrorKind::Unsupported.into()),
        Op::Sync if at.to_string_lossy().ends_with(".damaged.1") => {
            foreign_replace(&there, "{\"n\": 3}");
            Verdict::Go
        }
        _ => Verdict::Go,
    });
    let document = Document::open_on(&fs.shared(), &path).unwrap();
    document.restore(&durably()).unwrap_err();
    assert_eq!(document.read().unwrap().map(|found| found.value), Some(json!({ "n": 3 })));
}

/// A change found the damage first, and has copied it.
#[test]
fn damaged_bytes_that_a_restore_relies_on_are_synced() {
    for seed in 0..100 {
        let fs = SimFs::new(seed);
        fs.add_dir("/d");
        for n in [1, 2] {
            document(&fs).set(&json!({ "n": n }), &durably()).unwrap();
        }
        let file = fs.shared().open(Path::new(PATH), Access::ReadWrite).unwrap();
        file.write_all_at(DAMAGE, 0).unwrap();
        file.sync().unwrap();
        drop(file);
        let poor = FaultyFs::on(fs.shared(), |op, _| match op {
            Op::Exchange | Op::Link => Verdict::Fail(std::io::ErrorKind::Unsupported.into()),
            _ => Verdict::Go,
        });
        let document = Document::open_on(&poor.shared(), Path::new(PATH)).unwrap();
        document.update(&durably(), |_| Ok(Some(json!(0)))).unwrap_err();
        document.restore(&durably()).unwrap();
        fs.crash();
        let kept = ["/d/.tenure/state.json.damaged.1", PATH].map(|path| fs.peek(path));
        assert!(kept.iter().flatten().any(|bytes| bytes == DAMAGE), "seed {seed}");
    }
}

/// A full disk, where a damaged document can be neither linked nor exchanged: its copy is complete
/// or absent. Otherwise each attempt would leave a partial copy with a new number.
#[test]
fn g10_no_half_of_a_damaged_document_is_left_by_a_full_disk() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    for n in [1, 2] {
        document.set(&json!({ "n": n }), &durably()).unwrap();
    }
    foreign_replace(document.path(), DAMAGE);
    let written = AtomicU64::new(0);
    let full = FaultyFs::new(move |op, path| match op {
        Op::Exchange | Op::Link => Verdict::Fail(std::io::ErrorKind::Unsupported.into()),
        Op::Write if path.to_string_lossy().contains(".damaged") => {
            let first = written.fetch_add(1, Ordering::Relaxed) % 2 == 0;
            let full = Verdict::Fail(std::io::ErrorKind::StorageFull.into());
            if first { Verdict::Short } else { full }
        }
        _ => Verdict::Go,
    });
    let full = Document::open_on(&full.shared(), document.path()).unwrap();
    for _ in 0..3 {
        full.restore(&durably()).unwrap_err();
        full.set(&json!({ "n": 3 }), &at_once()).unwrap_err();
        let names = scratch.listing();
        let halves: Vec<_> =
            names.iter().filter(|name| name.to_string_lossy().contains(".damaged")).collect();
        assert!(halves.is_empty(), "{halves:?}");
    }
    document.restore(&durably()).unwrap();
    assert_eq!(std::fs::read(scratch.path(".tenure/state.json.damaged.1")).unwrap(), DAMAGE);
}

/// The copy of the damaged document has to be durable before the document is replaced.
#[test]
fn g10_a_restore_that_cannot_sync_what_it_sets_aside_changes_nothing() {
    for links in [true, false] {
        let scratch = Scratch::new();
        let path = scratch.path("state.json");
        for n in [1, 2] {
            scratch.document("state.json").set(&json!({ "n": n }), &durably()).unwrap();
        }
        foreign_write(&path, DAMAGE);
        let side = scratch.path(".tenure");
        let fs = FaultyFs::new(move |op, at| match op {
            Op::Exchange | Op::Link if !links => {
                Verdict::Fail(std::io::ErrorKind::Unsupported.into())
            }
            Op::SyncDir if at == side => Verdict::Fail(std::io::Error::from_raw_os_error(5)),
            _ => Verdict::Go,
        });
        let document = Document::open_on(&fs.shared(), &path).unwrap();
        let refused = document.restore(&durably());
        assert!(refused.is_err(), "links: {links}");
        assert_eq!(bytes_of(&path), DAMAGE, "links: {links}");
        scratch.document("state.json").restore(&durably()).unwrap();
        let copy = scratch.path(".tenure/state.json.damaged.1");
        assert_eq!(bytes_of(copy), DAMAGE, "links: {links}");
    }
}

/// An older version is back, and it is unknown which operations it contains: each is applied again.
#[test]
fn race_51_a_restored_version_has_forgotten_its_operations() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    let named = |id: u32| WriteOptions { operation: Some(id.to_string()), ..durably() };
    for id in [1, 2] {
        document.update(&named(id), increment).unwrap();
    }
    foreign_write(document.path(), DAMAGE);
    document.update(&named(2), increment).unwrap_err();
    document.restore(&at_once()).unwrap();
    assert_eq!(count_in(&document), 1);
    assert!(!document.update(&named(2), increment).unwrap().replayed, "it is not there");
    assert!(document.update(&named(2), increment).unwrap().replayed);
}

/// A machine on which the process that made the sidecar directory died at its `nth` step, so the
/// directory's name may not be on the disk; then three changes without a sync.
fn after_a_dead_maker(nth: u64, seed: u64) -> SimFs {
    let fs = SimFs::new(seed);
    fs.add_dir("/d");
    fs.inject(1, Fault::NoExchange, Times::Forever);
    fs.fail_after(nth, CrashKind::Process);
    let _ = document(&fs).update(&at_once(), increment);
    fs.process_crash();
    for _ in 0..3 {
        document(&fs).update(&at_once(), increment).unwrap();
    }
    fs
}

/// Without an exchange of names, the fallback version has its second name only in that directory.
#[test]
fn g5_a_version_to_fall_back_to_is_not_lost_with_the_directory_of_a_dead_maker() {
    for (nth, seed) in (1..10).flat_map(|nth| (0..60).map(move |seed| (nth, seed))) {
        let fs = after_a_dead_maker(nth, seed);
        let _tell = fs.tell_on_panic();
        fs.crash();
        document(&fs).read().unwrap();
    }
}

/// The same for the copy that a restore sets aside.
#[test]
fn race_27_what_is_set_aside_is_not_lost_with_the_directory_of_a_dead_maker() {
    for (nth, seed) in (1..10).flat_map(|nth| (0..60).map(move |seed| (nth, seed))) {
        let fs = after_a_dead_maker(nth, seed);
        let _tell = fs.tell_on_panic();
        damage(&fs);
        document(&fs).restore(&at_once()).unwrap();
        fs.crash();
        let places = [PATH, "/d/.tenure/state.json.damaged.1"];
        let is_there = |path: &&str| fs.peek(path).is_some_and(|bytes| bytes == DAMAGE);
        assert!(places.iter().any(is_there), "{nth} {seed}");
    }
}

/// The sync of a new version fails, and its process dies before it removes the file. A second sync
/// would claim success: a restore that finds the file must not use it in place of a version that is
/// on the disk.
#[test]
fn race_54_g5_a_version_whose_sync_failed_does_not_become_the_last_good_one() {
    let mut tried = 0;
    for (seed, step) in (0..6).flat_map(|seed| (1..40).map(move |step| (seed, step))) {
        for nth in 1..40 {
            let fs = SimFs::new(seed);
            let _tell = fs.tell_on_panic();
            fs.add_dir("/d");
            let set = |n: u64| document(&fs).set(&json!({ "n": n }), &durably());
            set(1).unwrap();
            set(2).unwrap();
            fs.inject(1, Fault::FileSyncFailure, Times::Once);
            fs.fail_after(step, CrashKind::Process);
            let _ = set(3);
            fs.process_crash();
            fs.clear_faults();
            if fs.peek("/d/.tenure/state.json.tmp.0000000000000000").is_none() {
                break;
            }
            damage(&fs);
            tried += 1;
            fs.fail_after(nth, CrashKind::Power);
            let how = if seed % 2 == 0 { durably() } else { at_once() };
            let _ = document(&fs).restore(&how);
            let died = fs.is_down();
            fs.crash_with(Survival::NamesOnly);
            document(&fs).restore(&durably()).unwrap();
            if !died {
                break;
            }
        }
    }
    assert!(tried > 20, "{tried}");
}
