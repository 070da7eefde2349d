//! A write guarded by a hold is in flight when the hold ends. The process that ends the hold, and
//! the next holder, wait for that write (G3).

use std::path::Path;

use tenure::{ErrorKind, Lease, Lock, LockOptions, Result, Wait};

use crate::puppet::Puppet;
use crate::scratch::{
    A_MOMENT, FAR_TOO_LONG, LONG, Scratch, count, guarded, kind, lease, lock_for, terms,
};

/// A puppet in the middle of a write to `document` that is guarded by `fence` of `session`.
fn writing(document: &Path, session: &Path, fence: u64) -> Puppet {
    let mut puppet = Puppet::spawn();
    let order = format!("slow-add {} 0 {} {fence}", document.display(), session.display());
    assert_eq!(puppet.say(&order), "inside");
    puppet
}

/// The same under a short lease, long enough for this machine to begin the write.
fn writing_under_a_short_lease(document: &Path, session: &Path) -> (Puppet, u64) {
    for moments in [4, 40, 400] {
        let owner = terms("alice", A_MOMENT * moments, Wait::For(FAR_TOO_LONG));
        let fence = Lease::open(session).unwrap().acquire(&owner).unwrap().fence;
        let mut puppet = Puppet::spawn();
        let order = format!("slow-add {} 0 {} {fence}", document.display(), session.display());
        if puppet.say(&order) == "inside" {
            return (puppet, fence);
        }
    }
    panic!("half a minute is too short to begin a write");
}

/// The lease expires meanwhile. `bob` wants it, by this verb.
fn expires_during_a_guarded_write(verb: &str) {
    let scratch = Scratch::new();
    let (session, document) = (scratch.path("session"), scratch.path("document"));
    let mut bob = Puppet::spawn();
    let (mut writer, fence) = writing_under_a_short_lease(&document, &session);
    while Lease::open(&session).unwrap().show().unwrap().unwrap().expires_in.is_some() {
        std::thread::yield_now();
    }
    bob.tell(&verb.replace("PATH", &session.display().to_string()));
    bob.is_silent();
    assert_eq!(writer.say("go on"), "ok", "it had the lease when it began");
    assert!(bob.hear().starts_with("ok "));
    assert_eq!(kind(guarded(&document, &[(&session, fence)])), Some(ErrorKind::Fenced));
    assert_eq!(count(&document), 1);
}

#[test]
fn race_06_g3_a_lease_after_an_expired_one_waits_for_guarded_writes() {
    expires_during_a_guarded_write("lease PATH bob 60000 forever");
}

#[test]
fn race_06_g3_a_lock_after_an_expired_lease_waits_for_guarded_writes() {
    expires_during_a_guarded_write("lock PATH forever");
}

#[test]
fn race_06_g3_a_shared_lock_after_an_expired_lease_waits_for_guarded_writes() {
    expires_during_a_guarded_write("share PATH forever");
}

/// Asserts that a release of `session` waits for the writer in flight, and that no other holder
/// gets in before.
fn waits_for(mut writer: Puppet, session: &Path, release: impl FnOnce() -> Result<()> + Send) {
    let mut bob = Puppet::spawn();
    std::thread::scope(|scope| {
        let release = scope.spawn(release);
        bob.tell(&format!("lock {} forever", session.display()));
        bob.is_silent();
        assert!(!release.is_finished(), "a write is under way");
        assert_eq!(writer.say("go on"), "ok");
        release.join().unwrap().unwrap();
        assert!(bob.hear().starts_with("ok "));
    });
}

/// When the release of a lease returns, no write under it is in flight.
#[test]
fn race_06_g3_the_release_of_a_lease_waits_for_guarded_writes() {
    let scratch = Scratch::new();
    let (session, document) = (scratch.path("session"), scratch.path("document"));
    let held = lease(&session, "me");
    let writer = writing(&document, &session, held.fence);
    waits_for(writer, &session, || Lease::open(&session)?.release(&held.token));
}

/// The same with a lock. A nested hold, which only reads, does not wait for the write.
#[test]
fn race_06_g3_the_release_of_a_lock_waits_for_guarded_writes() {
    let scratch = Scratch::new();
    let (session, document) = (scratch.path("session"), scratch.path("document"));
    let guard = lock_for(&session, Wait::No).unwrap();
    let writer = writing(&document, &session, guard.publish_fence());
    let nested = LockOptions {
        fence: Some(guard.publish_fence()),
        wait: Wait::No,
        ..LockOptions::default()
    };
    Lock::open(&session).unwrap().acquire(&nested).unwrap().verify().unwrap();
    waits_for(writer, &session, || guard.release());
}

/// A caller that waits for a lease does not block others meanwhile: a take-over needs the kernel
/// lock that the waiter has asked for.
#[test]
fn race_06_g3_a_waiter_for_a_lease_does_not_keep_a_take_over_out() {
    let scratch = Scratch::new();
    let path = scratch.target();
    lease(&path, "stuck");
    let mut bob = Puppet::spawn();
    bob.tell(&format!("lock {} forever", path.display()));
    bob.is_silent();
    let leases = Lease::open(&path).unwrap();
    let taken = leases.take_over(&terms("ops", LONG, Wait::For(FAR_TOO_LONG)), "stuck").unwrap();
    bob.is_silent();
    leases.release(&taken.token).unwrap();
    assert!(bob.hear().starts_with("ok "));
}
