//! The lease: it outlives its process, and ends only by release, expiry or take-over.

use std::path::Path;
use std::time::{Duration, Instant};

use tenure::outcome::LeaseInfo;
use tenure::{Document, ErrorKind, Guard, Lease, LeaseOptions, Wait, WriteOptions, json};

use crate::altered::Altered;
use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::forged::{SLOTS, forge, number_in};
use crate::puppet::Puppet;
use crate::scratch::{
    FAR_TOO_LONG, LONG, Scratch, at_once, is_soon, kind, lease, lock_for, share_for, terms, write,
};

/// Short enough to wait for, long enough for a few calls on a busy machine.
const SHORT: Duration = Duration::from_millis(300);

/// Returns when the lease is over.
fn expired(path: &Path) {
    let shown = Lease::open(path).unwrap();
    let started = Instant::now();
    while shown.show().unwrap().is_some_and(|info| info.expires_in.is_some()) {
        assert!(started.elapsed() < FAR_TOO_LONG, "it never expires");
        std::thread::yield_now();
    }
}

/// A turn is spread over many hook processes, each of which ends at once. The lease is still there
/// for the next one; the token makes a second acquire the same lease.
#[test]
fn race_44_a_lease_outlives_its_process_and_acquiring_it_again_keeps_the_fence() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let mut hook = Puppet::spawn();
    let got = hook.say(&format!("lease {} turn-1 60000 no", path.display()));
    let [_, token, fence] = got.split(' ').collect::<Vec<_>>()[..] else { panic!("{got}") };
    hook.kill();
    assert_eq!(kind(lock_for(&path, Wait::No)), Some(ErrorKind::Busy));
    let leases = Lease::open(&path).unwrap();
    let again = LeaseOptions { token: Some(token.into()), ..terms("turn-1", LONG, Wait::No) };
    let again = leases.acquire(&again).unwrap();
    assert_eq!((again.fence.to_string().as_str(), again.ttl), (fence, LONG));
    assert!(again.expires_in <= LONG);
    write(&path, Some(again.fence)).unwrap();
    let LeaseInfo { holder, ttl, expires_in, .. } = leases.show().unwrap().unwrap();
    assert_eq!((holder.owner.as_str(), holder.pid, ttl), ("turn-1", hook.pid(), LONG));
    assert!(expires_in.unwrap() > LONG / 2);
    leases.release(token).unwrap();
    assert_eq!(leases.show().unwrap(), None);
    let other = leases.acquire(&terms("turn-2", LONG, Wait::No)).unwrap();
    assert!(other.fence > again.fence);
}

/// A caller that is refused because of a running lease gets its owner's name: locks, readers, other
/// leases and writes without proof.
#[test]
fn race_49_g9_everybody_is_busy_and_told_the_owner_of_a_lease() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let held = lease(&path, "turn-1");
    let other = Lease::open(&path).unwrap().acquire(&terms("turn-2", LONG, Wait::No));
    let refused = [
        lock_for(&path, Wait::No).map(drop).unwrap_err(),
        share_for(&path, Wait::No).map(drop).unwrap_err(),
        write(&path, None).map(drop).unwrap_err(),
        other.map(drop).unwrap_err(),
    ];
    for error in refused {
        let holder = error.holder().unwrap();
        assert_eq!((error.kind(), holder.owner.as_str()), (ErrorKind::Busy, "turn-1"), "{error}");
        assert_eq!(holder.fence, held.fence);
    }
    write(&path, Some(held.fence)).unwrap();
}

/// The holder of a lease is gone for good. A waiter is woken by the expiry, not before, and not
/// long after.
#[test]
fn race_05_g3_a_waiter_gets_the_lease_when_it_expires_and_not_before() {
    let scratch = Scratch::new();
    for (round, verb) in ["lock PATH forever", "lease PATH bob 60000 forever", "add PATH forever 0"]
        .into_iter()
        .enumerate()
    {
        let mut bob = Puppet::spawn();
        is_soon(SHORT + Duration::from_millis(700), |attempt| {
            let path = scratch.path(&format!("target-{round}-{attempt}"));
            let started = Instant::now();
            Lease::open(&path).unwrap().acquire(&terms("gone", SHORT, Wait::No)).unwrap();
            let leased = Instant::now();
            bob.tell(&verb.replace("PATH", &path.display().to_string()));
            assert!(bob.hear().starts_with("ok"), "{verb}");
            let took = started.elapsed();
            assert!(took >= SHORT, "{verb}: {took:?} is before the expiry");
            leased.elapsed()
        });
    }
}

/// An expired lease has no holder. But until the target is used again its token may renew it: a
/// laptop that slept keeps its lease.
#[test]
fn race_48_an_expired_lease_is_refused_and_can_be_renewed_while_nobody_came() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let leases = Lease::open(&path).unwrap();
    let held = leases.acquire(&terms("sleeper", SHORT, Wait::No)).unwrap();
    expired(&path);
    assert_eq!(kind(write(&path, Some(held.fence))), Some(ErrorKind::LeaseLost));
    let renewed = leases.renew(&held.token, Some(LONG)).unwrap();
    assert_eq!(renewed.fence, held.fence);
    write(&path, Some(held.fence)).unwrap();
    assert_eq!(kind(lock_for(&path, Wait::No)), Some(ErrorKind::Busy));
}

/// The next caller, and what it does.
type Comer = (&'static str, fn(&Path));

/// Another caller came after the expiry: a writer, a lock, a reader who is still reading, another
/// lease. The token and the fence are worth nothing any more.
#[test]
fn race_48_g3_an_expired_lease_is_lost_once_somebody_else_came() {
    let comers: [Comer; 4] = [
        ("a writer", |path| drop(write(path, None).unwrap())),
        ("a lock", |path| lock_for(path, Wait::No).unwrap().release().unwrap()),
        ("a lease", |path| {
            let held = lease(path, "other");
            Lease::open(path).unwrap().release(&held.token).unwrap();
        }),
        ("a take-over", |path| {
            let leases = Lease::open(path).unwrap();
            let held = leases.take_over(&terms("other", LONG, Wait::No), "late").unwrap();
            leases.release(&held.token).unwrap();
        }),
    ];
    for (who, comes) in comers {
        let scratch = Scratch::new();
        let path = scratch.target();
        let leases = Lease::open(&path).unwrap();
        let ttl = Duration::from_millis(30);
        let held = leases.acquire(&terms("sleeper", ttl, Wait::No)).unwrap();
        expired(&path);
        comes(&path);
        assert_eq!(kind(leases.renew(&held.token, None)), Some(ErrorKind::LeaseLost), "{who}");
        assert_eq!(kind(leases.release(&held.token)), Some(ErrorKind::LeaseLost), "{who}");
        let refused = kind(write(&path, Some(held.fence)));
        assert_eq!(refused, Some(ErrorKind::Fenced), "{who}");
        let token = Some(held.token);
        let again = LeaseOptions { token, ..terms("sleeper", LONG, Wait::No) };
        assert!(leases.acquire(&again).unwrap().fence > held.fence, "{who}");
    }
}

/// A reader came in after the expiry and relies on no writer writing. The renewal must not admit a
/// writer beside it.
#[test]
fn g1_an_expired_lease_is_not_renewed_beside_a_reader() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let leases = Lease::open(&path).unwrap();
    let held = leases.acquire(&terms("sleeper", Duration::from_millis(30), Wait::No)).unwrap();
    expired(&path);
    let reader = share_for(&path, Wait::No).unwrap();
    assert_eq!(kind(leases.renew(&held.token, Some(LONG))), Some(ErrorKind::LeaseLost));
    assert!(write(&path, Some(held.fence)).is_err());
    reader.release().unwrap();
    lock_for(&path, Wait::No).unwrap().release().unwrap();
}

/// The holder of a lock died; a process that it had started still knows its fence. A reader relies
/// on no writer writing, so that fence is invalid from then on.
#[test]
fn g1_the_fence_of_a_dead_holder_does_not_write_beside_a_reader() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let mut alice = Puppet::spawn();
    let got = alice.say(&format!("lock {} no", path.display()));
    let fence = got.split(' ').nth(1).unwrap().parse().unwrap();
    alice.kill();
    let reader = share_for(&path, Wait::For(FAR_TOO_LONG)).unwrap();
    assert_eq!(kind(write(&path, Some(fence))), Some(ErrorKind::Fenced));
    reader.release().unwrap();
    let next = lock_for(&path, Wait::No).unwrap();
    let died = next.recovered_from().map(|holder| holder.pid);
    assert_eq!(died, Some(alice.pid()), "the next holder still learns of the death");
}

/// A lease ends once. Releasing it late, or twice, or with an old token, ends no other holder's
/// lease.
#[test]
fn race_04_g11_releasing_a_lease_twice_does_not_touch_the_next_one() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let leases = Lease::open(&path).unwrap();
    let one = lease(&path, "one");
    leases.release(&one.token).unwrap();
    assert_eq!(kind(leases.release(&one.token)), Some(ErrorKind::LeaseLost));
    let two = lease(&path, "two");
    assert_eq!(kind(leases.release(&one.token)), Some(ErrorKind::LeaseLost));
    assert_eq!(kind(leases.renew(&one.token, None)), Some(ErrorKind::LeaseLost));
    write(&path, Some(two.fence)).unwrap();
    leases.release(&two.token).unwrap();
    let guard = lock_for(&path, Wait::No).unwrap();
    assert_eq!(kind(leases.release(&two.token)), Some(ErrorKind::LeaseLost));
    guard.verify().unwrap();
    assert_eq!(kind(lock_for(&path, Wait::No)), Some(ErrorKind::Busy));
}

/// A take-over ends only a lease. A lock has a living holder, and is never taken away.
#[test]
fn race_06_g3_a_take_over_needs_a_reason_and_never_takes_a_lock() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let leases = Lease::open(&path).unwrap();
    let terms = |wait| terms("ops", LONG, wait);
    let mut alice = Puppet::spawn();
    assert!(alice.say(&format!("lock {} no", path.display())).starts_with("ok "));
    let refused = leases.take_over(&terms(Wait::For(Duration::from_millis(50))), "stuck");
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert_eq!(refused.holder().map(|holder| holder.pid), Some(alice.pid()));
    assert_eq!(alice.say(&format!("verify {}", path.display())), "ok");
    assert_eq!(alice.say(&format!("release {}", path.display())), "ok");
    // The wait that was given up above is granted the lock for an instant, now or later.
    let patient = terms(Wait::For(FAR_TOO_LONG));
    let agent = LeaseOptions { owner: "agent-7".into(), ..patient.clone() };
    let held = leases.acquire(&agent).unwrap();
    assert_eq!(kind(leases.take_over(&terms(Wait::No), "  ")), Some(ErrorKind::Invalid));
    let taken = leases.take_over(&patient, "agent 7 hangs").unwrap();
    assert!(taken.fence > held.fence && taken.token != held.token);
    let event =
        leases.events().unwrap().into_iter().find(|event| event["event"] == "take_over").unwrap();
    assert_eq!(event["detail"]["reason"], "agent 7 hangs");
    assert_eq!(event["detail"]["from"]["owner"], "agent-7");
    assert_eq!(kind(leases.renew(&held.token, None)), Some(ErrorKind::LeaseLost));
    assert_eq!(kind(write(&path, Some(held.fence))), Some(ErrorKind::Fenced));
    write(&path, Some(taken.fence)).unwrap();
}

/// A lease of zero length is refused, and one without end would be a stale lock.
#[test]
fn a_lease_needs_a_sensible_time_to_live_and_token() {
    let scratch = Scratch::new();
    let leases = Lease::open(scratch.target()).unwrap();
    for ttl in [Duration::ZERO, Duration::from_secs(400 * 24 * 3600), Duration::MAX] {
        let terms = terms("me", ttl, Wait::No);
        assert_eq!(kind(leases.acquire(&terms)), Some(ErrorKind::Invalid), "{ttl:?}");
        assert_eq!(kind(leases.take_over(&terms, "x")), Some(ErrorKind::Invalid), "{ttl:?}");
    }
    assert!(!scratch.path(".tenure").exists(), "a wrong call creates nothing");
    for token in ["", "short", &"x".repeat(257)] {
        let token = Some(token.to_owned());
        let options = LeaseOptions { token, ..terms("me", LONG, Wait::No) };
        assert_eq!(kind(leases.acquire(&options)), Some(ErrorKind::Invalid));
    }
    let held = lease(&scratch.target(), "me");
    assert_eq!(kind(leases.renew(&held.token, Some(Duration::ZERO))), Some(ErrorKind::Invalid));
    assert_eq!(kind(leases.renew("short", None)), Some(ErrorKind::Invalid));
}

/// The machine was rebooted. Its leases have expired, whatever their clock said. Whether there was
/// a later holder is uncertain, because a power loss may have taken that record back: the token
/// gets a new fence.
#[test]
fn race_48_a_lease_of_another_boot_has_expired_and_is_renewed_under_a_new_fence() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let (before, _) = Altered::boot(1).mounted();
    let (after, _) = Altered::boot(2).mounted();
    let (old, new) =
        (Lease::open_on(&before, &path).unwrap(), Lease::open_on(&after, &path).unwrap());
    let held = old.acquire(&terms("sleeper", LONG, Wait::No)).unwrap();
    assert_eq!(new.show().unwrap().unwrap().expires_in, None);
    let renewed = new.renew(&held.token, None).unwrap();
    assert!(renewed.fence > held.fence && renewed.token == held.token);
    assert!(new.show().unwrap().unwrap().expires_in.is_some());
    assert_eq!(new.renew(&held.token, None).unwrap().fence, renewed.fence);
    new.release(&held.token).unwrap();
    assert_eq!(new.show().unwrap(), None);
}

/// A backup of the sidecars is restored: the record in it names a lease that was taken over since.
/// Its token must not make that old fence the current one.
#[test]
fn g4_a_restored_record_does_not_revive_the_fence_of_its_lease() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let leases = Lease::open(&path).unwrap();
    let first = leases.acquire(&terms("first", LONG, Wait::No)).unwrap();
    let record = path.parent().unwrap().join(".tenure").join("state.json.commit");
    let backup = std::fs::read(&record).unwrap();
    let second = leases.take_over(&terms("second", LONG, Wait::No), "it hangs").unwrap();
    scratch.let_the_record_age();
    std::fs::remove_file(&record).unwrap();
    std::io::Write::write_all(&mut std::fs::File::create(&record).unwrap(), &backup).unwrap();
    assert_eq!(kind(leases.renew(&first.token, None)), Some(ErrorKind::LeaseLost));
    assert_eq!(kind(write(&path, Some(first.fence))), Some(ErrorKind::LeaseLost));
    let third = leases.acquire(&terms("third", LONG, Wait::No)).unwrap();
    assert!(third.fence > second.fence);
}

/// The same for a copy in another directory that is used after a restart: whether its lease was the
/// newest is unknown.
#[test]
fn g4_a_copied_record_of_another_boot_does_not_revive_its_lease() {
    let scratch = Scratch::new();
    let held = lease(&scratch.target(), "me");
    let copy = scratch.path("copy/state.json");
    std::fs::create_dir_all(scratch.path("copy/.tenure")).unwrap();
    let to = scratch.path("copy/.tenure/state.json.commit");
    std::fs::copy(scratch.sidecar("commit"), to).unwrap();
    let (after, _) = Altered::boot(2).mounted();
    let leases = Lease::open_on(&after, &copy).unwrap();
    assert_eq!(kind(leases.renew(&held.token, None)), Some(ErrorKind::LeaseLost));
}

/// An older record is restored in place, and the lease in it is renewed, which makes the record
/// current. The fences that came after it must still not be given out again.
#[test]
fn race_51_g4_a_renewal_notices_that_its_record_was_put_back() {
    const WRITTEN: usize = 120;
    let scratch = Scratch::new();
    let leases = Lease::open(scratch.target()).unwrap();
    let first = lease(&scratch.target(), "first");
    let (record, backup) = (scratch.sidecar("commit"), scratch.path("backup"));
    std::fs::copy(&record, &backup).unwrap();
    forge(&backup, SLOTS, |slot| {
        let earlier = number_in(slot, WRITTEN) - 10_000_000;
        slot[WRITTEN..WRITTEN + 8].copy_from_slice(&earlier.to_le_bytes());
    });
    let second = leases.take_over(&terms("second", LONG, Wait::No), "it hangs").unwrap();
    std::fs::write(&record, std::fs::read(&backup).unwrap()).unwrap();
    leases.renew(&first.token, None).unwrap();
    leases.release(&first.token).unwrap();
    let third = lease(&scratch.target(), "third");
    assert!(third.fence > second.fence, "{} after {}", third.fence, second.fence);
}

/// An unknown file system is tested before a lock on it is trusted: also by a caller that proves a
/// lease there to write elsewhere, and by one that renews it.
#[test]
fn g12_a_guard_and_a_token_count_only_where_locks_do() {
    let scratch = Scratch::new();
    let session = scratch.path("sessions/agent");
    std::fs::create_dir(scratch.path("sessions")).unwrap();
    let held = lease(&session, "agent");
    let fs = FaultyFs::new(|op, path| match op {
        Op::Lock if path.ends_with("sessions/.tenure/probe") => {
            Verdict::Fail(std::io::Error::from_raw_os_error(5))
        }
        _ => Verdict::Go,
    });
    let fs = fs.unknown().shared();
    let guard = Guard { target: session.clone(), fence: held.fence };
    let options = WriteOptions { guards: vec![guard], ..at_once(None) };
    let document = Document::open_on(&fs, &scratch.target()).unwrap();
    assert!(document.set(&json!(1), &options).is_err(), "guarded");
    assert!(!scratch.target().exists());
    let leases = Lease::open_on(&fs, &session).unwrap();
    assert!(leases.renew(&held.token, None).is_err(), "renewed");
}
