//! Fences drawn while the clock was years ahead. Only the reservation keeps the next fences above
//! them (G4, F1-F3).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tenure::embed;
use tenure::options::CollectionKind;
use tenure::{Collection, ErrorKind, Fence, Lease, Lock, LockGuard, LockOptions, Wait, json};

use crate::altered::Altered;
use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::forged::{RESERVATIONS, SLOTS, forge, newest_slot, number_in};
use crate::scratch::{Scratch, at_once, kind, lease, lock_for, write};

/// In the year 2100, in microseconds.
const AHEAD: Fence = 4_102_444_800_000_000;
const CEILING: usize = 24;

fn set_ceiling(slot: &mut [u8], ceiling: Fence) {
    slot[CEILING..CEILING + 8].copy_from_slice(&ceiling.to_le_bytes());
}

/// A power loss tore both slots and the marks.
fn tear_slots(record: &Path) {
    let file = File::options().write(true).open(record).unwrap();
    file.write_all_at(&[0; 8192], SLOTS[0]).unwrap();
}

/// What the copies of the reservation say.
fn reserved(record: &Path) -> [Fence; 2] {
    let bytes = std::fs::read(record).unwrap();
    RESERVATIONS.map(|offset| {
        let offset = usize::try_from(offset).unwrap();
        bytes.get(offset..offset + 1024).map_or(0, |slot| number_in(slot, CEILING))
    })
}

/// A record with both copies of a reservation, of which the newer one, at `nth`, has this ceiling.
fn reserved_ahead(scratch: &Scratch, nth: usize) {
    let record = scratch.sidecar("commit");
    for boot in 1..=3 + u8::try_from(nth).unwrap() {
        // Each boot reserves anew.
        let (fs, _) = Altered::boot(boot).mounted();
        let options = LockOptions { wait: Wait::No, ..LockOptions::default() };
        drop(Lock::open_on(&fs, &scratch.target()).unwrap().acquire(&options).unwrap());
    }
    let copies = reserved(&record);
    assert!(copies[1 - nth] > 0 && copies[nth] > copies[1 - nth], "both are there: {copies:?}");
    forge(&record, [RESERVATIONS[nth]; 2], |slot| set_ceiling(slot, AHEAD));
    tear_slots(&record);
}

#[test]
fn g4_f1_the_newer_reservation_counts_and_survives_the_next_one() {
    for nth in [0, 1] {
        let scratch = Scratch::new();
        reserved_ahead(&scratch, nth);
        let fence = lock_for(&scratch.target(), Wait::No).unwrap().publish_fence();
        assert!(fence > AHEAD, "{fence}");
        let reserved = reserved(&scratch.sidecar("commit"));
        assert_eq!(reserved[nth], AHEAD, "a crash during the next one would leave it");
        assert!(reserved[1 - nth] > fence, "{reserved:?}");
    }
}

#[test]
fn g4_f1_the_ceiling_of_a_record_of_another_boot_counts() {
    let scratch = Scratch::new();
    drop(lock_for(&scratch.target(), Wait::No).unwrap());
    forge(&scratch.sidecar("commit"), SLOTS, |slot| set_ceiling(slot, AHEAD));
    let (fs, _) = Altered::boot(1).mounted();
    let options = LockOptions { wait: Wait::No, ..LockOptions::default() };
    let fence =
        Lock::open_on(&fs, &scratch.target()).unwrap().acquire(&options).unwrap().publish_fence();
    assert!(fence > AHEAD, "{fence}");
}

#[test]
fn g4_f2_c2_a_removed_key_takes_what_was_reserved_into_the_floor_of_its_directory() {
    let scratch = Scratch::new();
    let keys = Collection::open(scratch.path("keys"), CollectionKind::Documents).unwrap();
    let (key, other) = (keys.path_of("a").unwrap(), keys.path_of("b").unwrap());
    keys.document("a").unwrap().set(&json!(1), &at_once(None)).unwrap();
    drop(lock_for(&key, Wait::No).unwrap());
    let record = scratch.path("keys/.tenure/a.json.commit");
    forge(&record, RESERVATIONS, |slot| set_ceiling(slot, AHEAD));
    tear_slots(&record);
    keys.remove("a", &at_once(None)).unwrap();
    for path in [&key, &other] {
        let fence = lock_for(path, Wait::No).unwrap().publish_fence();
        assert!(fence > AHEAD, "{}: {fence}", path.display());
    }
}

/// A fence that could not be read back would be given out a second time.
#[test]
fn g4_numbers_that_are_at_their_end_give_out_nothing() {
    let scratch = Scratch::new();
    let path = scratch.target();
    drop(lock_for(&path, Wait::No).unwrap());
    let end = (1_u64 << 56).to_le_bytes();
    forge(&scratch.sidecar("commit"), SLOTS, |slot| {
        for at in [16, 24, 32] {
            slot[at..at + 8].copy_from_slice(&end);
        }
    });
    for _ in 0..2 {
        let refused = lock_for(&path, Wait::No).map(|guard| guard.publish_fence()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
    }
}

/// A floor that claims to have confirmed more than it reserved would never be raised.
#[test]
fn g4_f2_a_floor_keeps_what_it_says_and_no_more() {
    let scratch = Scratch::new();
    let keys = Collection::open(scratch.path("keys"), CollectionKind::Documents).unwrap();
    let set = |key: &str| keys.document(key).unwrap().set(&json!(1), &at_once(None)).unwrap();
    set("a");
    drop(lock_for(&keys.path_of("a").unwrap(), Wait::No).unwrap());
    keys.remove("a", &at_once(None)).unwrap();
    let floor = scratch.path("keys/.tenure/floor");
    forge(&floor, SLOTS, |slot| slot[32..40].copy_from_slice(&(2 * AHEAD).to_le_bytes()));
    set("a");
    let record = scratch.path("keys/.tenure/a.json.commit");
    forge(&record, SLOTS, |slot| set_ceiling(slot, AHEAD));
    keys.remove("a", &at_once(None)).unwrap();
    let fence = lock_for(&keys.path_of("b").unwrap(), Wait::No).unwrap().publish_fence();
    assert!(fence > AHEAD, "{fence}");
}

#[test]
fn g4_f2_a_floor_counts_by_its_record_and_by_its_reservation() {
    // The copy that is not raised keeps an older ceiling.
    for (slots, tears) in [(SLOTS, false), (RESERVATIONS, false), (RESERVATIONS, true)] {
        let scratch = Scratch::new();
        let keys = Collection::open(scratch.path("keys"), CollectionKind::Documents).unwrap();
        keys.document("a").unwrap().set(&json!(1), &at_once(None)).unwrap();
        drop(lock_for(&keys.path_of("a").unwrap(), Wait::No).unwrap());
        keys.remove("a", &at_once(None)).unwrap();
        let floor = scratch.path("keys/.tenure/floor");
        forge(&floor, slots, |slot| set_ceiling(slot, AHEAD));
        if tears {
            tear_slots(&floor);
        }
        let fence = lock_for(&keys.path_of("b").unwrap(), Wait::No).unwrap().publish_fence();
        assert!(fence > AHEAD, "{slots:?} {tears}: {fence}");
    }
}

/// A hold marked its end, and the record was damaged afterwards. The mark still holds the fence.
#[test]
fn g4_a_record_that_is_gone_does_not_take_back_the_fence_in_a_mark() {
    for ends in [true, false] {
        let scratch = Scratch::new();
        let path = scratch.target();
        lock_for(&path, Wait::No).unwrap().release().unwrap();
        let guard = lock_for(&path, Wait::No).unwrap();
        let fence = if ends { embed::unpublished_fence(&guard) } else { guard.publish_fence() };
        let record = scratch.sidecar("commit");
        let held = std::fs::read(&record).unwrap();
        guard.release().unwrap();
        if !ends {
            std::fs::write(&record, held).unwrap(); // It died.
        }
        let bytes = std::fs::read(&record).unwrap();
        let newest = SLOTS.into_iter().max_by_key(|slot| {
            let at = usize::try_from(*slot).unwrap();
            number_in(&bytes, at + 8)
        });
        let file = File::options().write(true).open(&record).unwrap();
        file.write_all_at(&[0xff; 8], newest.unwrap() + 300).unwrap();
        let next = lock_for(&path, Wait::No).unwrap().publish_fence();
        assert!(next > fence, "{next} after {fence}, ends: {ends}");
    }
}

/// A floor that cannot be read is not the same as a missing one.
#[test]
fn g4_f2_a_floor_that_cannot_be_opened_gives_out_nothing() {
    let scratch = Scratch::new();
    let fs = FaultyFs::new(|op, path| match op {
        Op::Open(_) if path.ends_with("floor") => {
            Verdict::Fail(std::io::Error::from_raw_os_error(5))
        }
        _ => Verdict::Go,
    });
    let lock = Lock::open_on(&fs.shared(), &scratch.target()).unwrap();
    let error = lock.acquire(&LockOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
}

/// The first record reserves the space for both slots. A full disk is reported when the lock is
/// taken, not when it is released.
#[test]
fn g10_the_first_record_takes_the_room_for_both_slots() {
    let first: [fn(&Path) -> Option<LockGuard>; 2] = [
        |path| Some(lock_for(path, Wait::No).unwrap()),
        |path| write(path, None).map(|_| None).unwrap(),
    ];
    for first in first {
        let scratch = Scratch::new();
        let _guard = first(&scratch.target());
        let file = File::open(scratch.sidecar("commit")).unwrap();
        for slot in SLOTS {
            let data = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(slot)).unwrap();
            assert_eq!(data, slot, "there is no hole");
        }
    }
}

/// A reservation counts after a power loss only if the names of its file are durable. The first one makes
/// them so, after its content; the later ones need not.
#[test]
fn g4_f1_the_first_reservation_makes_the_names_durable() {
    let scratch = Scratch::new();
    let syncs = Arc::new(Mutex::new(Vec::new()));
    let noted = syncs.clone();
    let fs = FaultyFs::new(move |op, path| {
        if matches!(op, Op::Sync | Op::SyncDir) {
            noted.lock().unwrap().push(path.to_path_buf());
        }
        Verdict::Go
    });
    drop(lock_for(&scratch.path("other"), Wait::No).unwrap()); // The directory is there.
    let lock = Lock::open_on(&fs.shared(), &scratch.target()).unwrap();
    drop(lock.acquire(&LockOptions::default()).unwrap());
    let record = scratch.sidecar("commit");
    let names = [scratch.path(".tenure"), scratch.target().parent().unwrap().to_path_buf()];
    assert_eq!(
        std::mem::take(&mut *syncs.lock().unwrap()),
        [std::slice::from_ref(&record), &names].concat()
    );
    for _ in 0..1100 {
        drop(lock.acquire(&LockOptions::default()).unwrap());
    }
    assert_eq!(*syncs.lock().unwrap(), [record]);
}

/// The newest slot is lost, and the one before it names a hold that died. The mark of the newer
/// fence does not count for the older one, which was never published.
#[test]
fn r7_a_mark_speaks_for_no_older_fence() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let guard = lock_for(&path, Wait::No).unwrap();
    let older = guard.publish_fence() - 1;
    forge(&scratch.sidecar("commit"), SLOTS, |slot| {
        slot[16..24].copy_from_slice(&older.to_le_bytes());
    });
    assert_eq!(kind(write(&path, Some(older))), Some(ErrorKind::Fenced));
}

/// A confirmed number above the reservation cannot be genuine (R1): the next fence is above the
/// reservation.
#[test]
fn r1_a_record_that_confirms_more_than_it_reserves_confirms_nothing() {
    let scratch = Scratch::new();
    let path = scratch.target();
    drop(lock_for(&path, Wait::No).unwrap());
    let record = scratch.sidecar("commit");
    let ceiling = number_in(&newest_slot(&record), CEILING);
    forge(&record, SLOTS, |slot| slot[32..40].copy_from_slice(&(ceiling | 0xFFFF).to_le_bytes()));
    let next = lock_for(&path, Wait::No).unwrap().publish_fence();
    assert!(next > ceiling, "{next}, after {ceiling} was reserved");
}

/// The largest number that a record can hold is written and read back. The next one is refused, and
/// nothing changes.
#[test]
fn r1_after_the_last_number_of_a_record_nothing_is_written() {
    let scratch = Scratch::new();
    let leases = Lease::open(scratch.target()).unwrap();
    let held = lease(&scratch.target(), "me");
    leases.renew(&held.token, None).unwrap();
    let (record, end) = (scratch.sidecar("commit"), 1_u64 << 56);
    for (slot, seq) in SLOTS.into_iter().zip([end - 1, end - 2]) {
        forge(&record, [slot; 2], |slot| slot[8..16].copy_from_slice(&seq.to_le_bytes()));
    }
    leases.renew(&held.token, None).unwrap();
    assert_eq!(kind(leases.renew(&held.token, None)), Some(ErrorKind::Io));
    assert_eq!(leases.show().unwrap().map(|found| found.holder.fence), Some(held.fence));
}
