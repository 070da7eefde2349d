//! Fences grow: over locks, leases and take-overs, over lost, old and copied records, over reboots.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tenure::fs::Fs;
use tenure::{ErrorKind, Fence, Lease, Lock, LockOptions, Wait};

use crate::altered::Altered;
use crate::compromised::copy_dir;
use crate::forged::{SLOTS, forge, number_in};
use crate::puppet::Puppet;
use crate::scratch::{LONG, Scratch, kind, lease, lock_for, terms, write};

fn draw(path: &Path) -> Fence {
    lock_for(path, Wait::No).unwrap().publish_fence()
}

fn draw_on(fs: &Arc<dyn Fs>, path: &Path) -> Fence {
    let options = LockOptions { wait: Wait::No, ..LockOptions::default() };
    Lock::open_on(fs, path).unwrap().acquire(&options).unwrap().publish_fence()
}

fn assert_grow(fences: &[Fence]) {
    for pair in fences.windows(2) {
        assert!(pair[0] < pair[1], "fence {} came after {}: {fences:?}", pair[1], pair[0]);
    }
}

/// A watchdog released a lock by force, and its former owner kept writing. Every hold has its own
/// number, larger than all before it, whatever kind of hold it is and whichever holder died in
/// between.
#[test]
fn race_06_g4_every_hold_draws_a_larger_fence() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let leases = Lease::open(&path).unwrap();
    let mut fences = vec![draw(&path)];
    let held = lease(&path, "one");
    fences.push(held.fence);
    fences.push(leases.take_over(&terms("two", LONG, Wait::No), "stuck").unwrap().fence);
    let held = leases.take_over(&terms("three", LONG, Wait::No), "stuck").unwrap();
    fences.push(held.fence);
    leases.release(&held.token).unwrap();
    for _ in 0..3 {
        let mut alice = Puppet::spawn();
        let got = alice.say(&format!("lock {} 5000", path.display()));
        fences.push(got.split(' ').nth(1).unwrap().parse().unwrap());
        alice.kill();
    }
    write(&path, None).unwrap();
    fences.push(draw(&path));
    assert_grow(&fences);
}

/// A renewal and the writes of a hold keep its fence, and readers draw none: a number that grows with
/// every write could not prove a hold.
#[test]
fn g4_writes_renewals_and_readers_draw_no_fence() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let held = lease(&path, "one");
    write(&path, Some(held.fence)).unwrap();
    let leases = Lease::open(&path).unwrap();
    assert_eq!(leases.renew(&held.token, None).unwrap().fence, held.fence);
    write(&path, Some(held.fence)).unwrap();
    leases.release(&held.token).unwrap();
    drop(crate::scratch::share_for(&path, Wait::No).unwrap());
    assert_eq!(draw(&path), held.fence + 1);
}

/// The user deletes `.tenure/`, or one file in it, or only its content. The new record starts at
/// the clock, above everything that was ever given out.
#[test]
fn race_51_g4_a_lost_record_does_not_take_a_fence_back() {
    let losses: [fn(&Scratch); 5] = [
        |scratch| std::fs::remove_dir_all(scratch.path(".tenure")).unwrap(),
        |scratch| std::fs::remove_file(scratch.sidecar("commit")).unwrap(),
        |scratch| std::fs::write(scratch.sidecar("commit"), "").unwrap(),
        |scratch| std::fs::write(scratch.sidecar("commit"), vec![0; 16384]).unwrap(),
        |scratch| std::fs::write(scratch.sidecar("commit"), vec![0x5a; 16384]).unwrap(),
    ];
    let scratch = Scratch::new();
    let mut fences: Vec<_> = (0..100).map(|_| draw(&scratch.target())).collect();
    for lose in losses {
        lose(&scratch);
        fences.extend((0..100).map(|_| draw(&scratch.target())));
    }
    assert_grow(&fences);
}

/// The newest record and the marks beside the older one are lost together: what is left is a valid
/// record of an older fence. The other slot is not its predecessor, which reveals the loss.
#[test]
fn race_11_g4_a_record_that_was_cut_or_zeroed_does_not_take_a_fence_back() {
    for holds in [3, 4] {
        for from in [4096, 4200, 5120, 5144, 8192, 8300, 9216, 12_288] {
            for zeroes in [false, true] {
                let scratch = Scratch::new();
                let mut fences: Vec<_> = (0..holds).map(|_| draw(&scratch.target())).collect();
                let commit = File::options().write(true).open(scratch.sidecar("commit")).unwrap();
                let length = commit.metadata().unwrap().len();
                commit.set_len(from).unwrap();
                if zeroes {
                    commit.set_len(length).unwrap();
                }
                fences.push(draw(&scratch.target()));
                assert_grow(&fences);
            }
        }
    }
}

/// `cp -r`, rsync and backups bring an older `.tenure/` back. Its record says which file it was
/// written into, so a copy is noticed even if it got the old file's inode number, and its fence
/// counts only as a lower limit.
#[test]
fn race_51_g4_a_restored_older_record_does_not_take_a_fence_back() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let mut fences = vec![draw(&path)];
    copy_dir(&scratch.path(".tenure"), &scratch.path("backup"));
    for _ in 0..20 {
        fences.extend((0..20).map(|_| draw(&path)));
        scratch.let_the_record_age();
        std::fs::remove_dir_all(scratch.path(".tenure")).unwrap();
        copy_dir(&scratch.path("backup"), &scratch.path(".tenure"));
    }
    assert_grow(&fences);
}

/// A restored file often gets the inode number of the removed one. It is still another file: it was
/// born later.
#[test]
fn race_51_g4_a_restored_record_with_the_old_inode_number_is_noticed() {
    let scratch = Scratch::new();
    let (path, commit) = (scratch.target(), scratch.sidecar("commit"));
    let number = || std::fs::metadata(scratch.sidecar("commit")).unwrap().ino();
    let mut fences = vec![draw(&path)];
    let (backup, original) = (std::fs::read(&commit).unwrap(), number());
    fences.extend((0..20).map(|_| draw(&path)));
    scratch.let_the_record_age();
    for attempt in 0..50 {
        std::fs::remove_file(&commit).unwrap();
        std::fs::write(&commit, &backup).unwrap();
        if number() == original {
            break;
        }
        // Some file systems never reuse a number; on others the next free one is close.
        let filler = scratch.path(&format!("filler-{attempt}"));
        std::fs::hard_link(&commit, filler).unwrap();
    }
    fences.extend((0..20).map(|_| draw(&path)));
    assert_grow(&fences);
}

/// `cp -a backup/. .tenure/` and `rsync --inplace` write the older record into the same file. The
/// file changed long after that record was written, and that time cannot be set back.
#[test]
fn race_51_g4_an_older_record_put_back_in_place_does_not_take_a_fence_back() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let mut fences = vec![draw(&path)];
    let backup = std::fs::read(scratch.sidecar("commit")).unwrap();
    fences.extend((0..20).map(|_| draw(&path)));
    // A backup is not restored within a second of being made; the waiting lock is the timer.
    let guard = lock_for(&path, Wait::No).unwrap();
    let other = scratch.target();
    let late =
        std::thread::spawn(move || kind(lock_for(&other, Wait::For(Duration::from_secs(1)))));
    assert_eq!(late.join().unwrap(), Some(ErrorKind::Busy));
    fences.push(guard.publish_fence());
    guard.release().unwrap();
    std::fs::write(scratch.sidecar("commit"), backup).unwrap();
    fences.extend((0..20).map(|_| draw(&path)));
    assert_grow(&fences);
}

/// The same, noticed by the first caller. If that is a writer without a fence, it makes the record
/// current, and the record then no longer shows that it was restored.
#[test]
fn race_51_g4_an_older_record_put_back_in_place_is_noticed_by_whoever_comes_first() {
    const WRITTEN: usize = 120;
    let first: [fn(&Path); 3] = [
        |_| {},
        |path| drop(write(path, None).unwrap()),
        |path| drop(crate::scratch::share_for(path, Wait::No).unwrap()),
    ];
    for first in first {
        let scratch = Scratch::new();
        let path = scratch.target();
        let mut fences = vec![draw(&path)];
        let backup = scratch.path("backup");
        let mut bytes = std::fs::read(scratch.sidecar("commit")).unwrap();
        bytes[5120..5168].fill(0); // The marks have times of their own.
        std::fs::write(&backup, &bytes).unwrap();
        forge(&backup, SLOTS, |slot| {
            let earlier = number_in(slot, WRITTEN) - 10_000_000;
            slot[WRITTEN..WRITTEN + 8].copy_from_slice(&earlier.to_le_bytes());
        });
        fences.extend((0..20).map(|_| draw(&path)));
        std::fs::write(scratch.sidecar("commit"), std::fs::read(&backup).unwrap()).unwrap();
        first(&path);
        fences.extend((0..5).map(|_| draw(&path)));
        assert_grow(&fences);
    }
}

/// A hold and a lease in a restored `.tenure/` are over: they block no caller and prove nothing.
#[test]
fn race_51_g3_a_restored_hold_is_not_a_hold() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let held = lease(&path, "one");
    copy_dir(&scratch.path(".tenure"), &scratch.path("backup"));
    Lease::open(&path).unwrap().release(&held.token).unwrap();
    scratch.let_the_record_age();
    std::fs::remove_dir_all(scratch.path(".tenure")).unwrap();
    copy_dir(&scratch.path("backup"), &scratch.path(".tenure"));
    assert_eq!(kind(write(&path, Some(held.fence))), Some(ErrorKind::LeaseLost));
    assert!(draw(&path) > held.fence);
}

/// The power fails, and what was not synced is lost. Whenever that happens, the next boot must draw
/// above everything that was ever given out.
#[test]
fn g4_a_reboot_that_loses_unsynced_records_does_not_take_a_fence_back() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let mut fences = Vec::new();
    for boot in 1..=4 {
        let (fs, altered) = Altered::boot(boot).mounted();
        fences.extend((0..600).map(|_| draw_on(&fs, &path)));
        let survives = altered.synced.lock().unwrap()[&scratch.sidecar("commit")].clone();
        std::fs::write(scratch.sidecar("commit"), survives).unwrap();
    }
    assert_grow(&fences);
}

/// The same with a dead clock: in 1970 only the synced reservation keeps new fences above the old
/// ones. So no fence above the reservation may ever be given out.
#[test]
fn g4_a_synced_reservation_is_above_every_fence_even_if_the_clock_is_lost() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let (fs, altered) = Altered::boot(0).mounted();
    let mut reservations = Vec::new();
    for _ in 0..1500 {
        let fence = draw_on(&fs, &path);
        let reserved = reserved(&altered.synced.lock().unwrap()[&scratch.sidecar("commit")]);
        assert!(reserved >= fence, "{fence} is out, and only {reserved} is reserved");
        reservations.push(reserved);
    }
    reservations.dedup();
    assert_eq!(reservations.len(), 2, "a reservation lasts for a thousand fences");
}

/// The `ceiling` of the newest slot of a record file, as docs/FORMAT.md has it.
fn reserved(file: &[u8]) -> u64 {
    let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let slot = [4096, 8192].into_iter().max_by_key(|slot| number(slot + 8)).unwrap();
    number(slot + 24)
}

/// A lock needs no sync of its own: one sync pays for a thousand fences.
#[test]
fn race_34_g4_one_sync_reserves_a_thousand_fences() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let (fs, altered) = Altered::boot(0).mounted();
    draw_on(&fs, &path);
    let syncs = altered.syncs.load(Ordering::SeqCst);
    for _ in 0..1000 {
        draw_on(&fs, &path);
    }
    assert_eq!(altered.syncs.load(Ordering::SeqCst), syncs);
}

/// A failed sync gives out no fence and no lock, and does not block the next holder.
#[test]
fn g10_a_failed_reservation_gives_out_nothing() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let (fs, altered) = Altered::boot(0).mounted();
    let lock = Lock::open_on(&fs, &path).unwrap();
    let options = LockOptions { wait: Wait::No, ..LockOptions::default() };
    drop(lock.acquire(&options).unwrap());
    std::fs::remove_file(scratch.sidecar("commit")).unwrap();
    altered.sync_fails.store(true, Ordering::SeqCst);
    assert_eq!(kind(lock.acquire(&options)), Some(ErrorKind::Io));
    assert_eq!(kind(lock.acquire(&options)), Some(ErrorKind::Io), "busy: the lock was leaked");
    altered.sync_fails.store(false, Ordering::SeqCst);
    lock.acquire(&options).unwrap().release().unwrap();
}

/// After a reboot a process reserves fences and fails half-way. Writing the record back must not
/// revive the lease of the boot before: its expiry is on a clock that has started anew.
#[test]
fn g4_a_failed_reservation_does_not_revive_a_lease_of_another_boot() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let (before, _) = Altered::boot(1).mounted();
    let held = Lease::open_on(&before, &path).unwrap().acquire(&terms("old", LONG, Wait::No));
    let held = held.unwrap();
    let (after, altered) = Altered::boot(2).mounted();
    let lock = Lock::open_on(&after, &path).unwrap();
    let options = LockOptions { wait: Wait::No, ..LockOptions::default() };
    altered.sync_fails.store(true, Ordering::SeqCst);
    assert_eq!(kind(lock.acquire(&options)), Some(ErrorKind::Io));
    altered.sync_fails.store(false, Ordering::SeqCst);
    let document = tenure::Document::open_on(&after, &path).unwrap();
    let proven = crate::scratch::at_once(Some(held.fence));
    let refused = document.set(&serde_json::json!(1), &proven);
    assert_eq!(kind(refused), Some(ErrorKind::LeaseLost));
    assert!(lock.acquire(&options).unwrap().publish_fence() > held.fence);
}

/// The same for a lock that the power failure ended.
#[test]
fn g4_a_failed_reservation_does_not_revive_a_lock_of_another_boot() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let (before, _) = Altered::boot(1).mounted();
    let options = LockOptions { wait: Wait::No, ..LockOptions::default() };
    let guard = Lock::open_on(&before, &path).unwrap().acquire(&options).unwrap();
    let fence = guard.publish_fence();
    let held = std::fs::read(scratch.sidecar("commit")).unwrap();
    guard.release().unwrap();
    std::fs::write(scratch.sidecar("commit"), held).unwrap(); // As if it had died with the power.
    let (after, altered) = Altered::boot(2).mounted();
    let lock = Lock::open_on(&after, &path).unwrap();
    altered.sync_fails.store(true, Ordering::SeqCst);
    assert_eq!(kind(lock.acquire(&options)), Some(ErrorKind::Io));
    altered.sync_fails.store(false, Ordering::SeqCst);
    let document = tenure::Document::open_on(&after, &path).unwrap();
    let proven = crate::scratch::at_once(Some(fence));
    assert_eq!(kind(document.set(&serde_json::json!(1), &proven)), Some(ErrorKind::Fenced));
    let next = lock.acquire(&options).unwrap();
    assert!(next.publish_fence() > fence);
}

/// The same, and then the lease is renewed by its token. A later grant may have been lost with the
/// power, so the old fence must not become current again, whichever process bound the record to
/// this boot.
#[test]
fn g4_a_failed_reservation_does_not_make_a_fence_of_another_boot_current_again() {
    for by_itself in [true, false] {
        let scratch = Scratch::new();
        let path = scratch.target();
        let (before, _) = Altered::boot(1).mounted();
        let held = Lease::open_on(&before, &path).unwrap().acquire(&terms("old", LONG, Wait::No));
        let held = held.unwrap();
        let (after, altered) = Altered::boot(2).mounted();
        let lease = Lease::open_on(&after, &path).unwrap();
        altered.sync_fails.store(true, Ordering::SeqCst);
        let failed = if by_itself {
            kind(lease.renew(&held.token, None))
        } else {
            kind(lease.acquire(&terms("new", LONG, Wait::No)))
        };
        assert_eq!(failed, Some(ErrorKind::Io));
        altered.sync_fails.store(false, Ordering::SeqCst);
        let renewed = lease.renew(&held.token, None).unwrap();
        assert!(renewed.fence > held.fence, "{} came after {}", renewed.fence, held.fence);
    }
}
