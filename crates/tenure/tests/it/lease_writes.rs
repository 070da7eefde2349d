//! Writes under a lease: they are admitted by the fence, and none after the lease was lost.

use tenure::{Document, ErrorKind, Guard, Lease, Wait, WriteOptions};

use crate::puppet::Puppet;
use crate::scratch::{
    FAR_TOO_LONG, LONG, Scratch, add_one, at_once, count, guarded, kind, lease, lock_for, terms,
    write,
};

/// A watchdog gave the lock to the next holder while the old one was still writing. A take-over
/// waits for the write in flight; the next one is refused.
#[test]
fn race_06_g3_no_write_of_the_former_holder_is_in_flight_when_a_take_over_returns() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let held = lease(&path, "agent-7");
    let (mut alice, mut bob) = (Puppet::spawn(), Puppet::spawn());
    assert_eq!(alice.say(&format!("slow-add {} {}", path.display(), held.fence)), "inside");
    bob.tell(&format!("take-over {} bob 60000 forever", path.display()));
    bob.is_silent();
    assert_eq!(alice.say("go on"), "ok", "it was the holder when it began");
    assert!(bob.hear().starts_with("ok "));
    assert_eq!(count(&path), 1);
    let late = alice.say(&format!("add {} forever {}", path.display(), held.fence));
    assert!(late.starts_with("err fenced") && late.ends_with(" bob"), "{late}");
    assert_eq!(count(&path), 1);
}

/// The same with a write to another target that is guarded by the lease.
#[test]
fn race_06_g3_a_take_over_waits_for_guarded_writes_too() {
    let scratch = Scratch::new();
    let (session, document) = (scratch.path("session"), scratch.path("document"));
    let held = lease(&session, "agent-7");
    let (mut alice, mut bob) = (Puppet::spawn(), Puppet::spawn());
    let order = format!("slow-add {} 0 {} {}", document.display(), session.display(), held.fence);
    assert_eq!(alice.say(&order), "inside");
    bob.tell(&format!("take-over {} bob 60000 forever", session.display()));
    bob.is_silent();
    assert_eq!(alice.say("go on"), "ok");
    assert!(bob.hear().starts_with("ok "));
    let refused = kind(guarded(&document, &[(&session, held.fence)]));
    assert_eq!((refused, count(&document)), (Some(ErrorKind::Fenced), 1));
}

/// The holder of a lock dies while a process that it gave its fence to is writing. The next holder
/// waits for that write, and no later write under the old fence succeeds.
#[test]
fn race_06_g1_a_new_holder_waits_for_the_writes_of_a_dead_one() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let (mut alice, mut child, mut bob) = (Puppet::spawn(), Puppet::spawn(), Puppet::spawn());
    let got = alice.say(&format!("lock {} no", path.display()));
    let fence = got.split(' ').nth(1).unwrap();
    assert_eq!(child.say(&format!("slow-add {} {fence}", path.display())), "inside");
    alice.kill();
    bob.tell(&format!("lock {} forever", path.display()));
    bob.is_silent();
    assert_eq!(child.say("go on"), "ok");
    assert!(bob.hear().ends_with(&format!(" {}", alice.pid())));
    let late = child.say(&format!("add {} no {fence}", path.display()));
    assert!(late.starts_with("err fenced"), "{late}");
    assert_eq!(count(&path), 1);
}

/// The same with a writer without any proof: it takes the hold, and ends that of the dead holder.
#[test]
fn race_06_g6_an_unproven_write_ends_the_hold_of_a_dead_holder() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let mut alice = Puppet::spawn();
    let got = alice.say(&format!("lock {} no", path.display()));
    let fence = got.split(' ').nth(1).unwrap().parse().unwrap();
    write(&path, Some(fence)).unwrap();
    alice.kill();
    write(&path, None).unwrap();
    assert_eq!(kind(write(&path, Some(fence))), Some(ErrorKind::Fenced));
    assert_eq!(count(&path), 2);
}

/// A fence is proof only if it is the current one: not an old one, and not one that was never given
/// out (a copied or guessed number, a clock that was ahead).
#[test]
fn race_06_g3_only_the_current_fence_writes() {
    let scratch = Scratch::new();
    let path = scratch.target();
    assert_eq!(kind(write(&path, Some(1))), Some(ErrorKind::Fenced), "before there was any hold");
    let held = lease(&path, "me");
    for wrong in [1, held.fence - 1, held.fence + 1, u64::MAX] {
        assert_eq!(kind(write(&path, Some(wrong))), Some(ErrorKind::Fenced), "{wrong}");
        let other = scratch.path("other");
        assert_eq!(kind(guarded(&other, &[(&path, wrong)])), Some(ErrorKind::Fenced), "{wrong}");
        assert!(!other.exists());
    }
    write(&path, Some(held.fence)).unwrap();
    Lease::open(&path).unwrap().release(&held.token).unwrap();
    assert_eq!(kind(write(&path, Some(held.fence))), Some(ErrorKind::Fenced), "it has ended");
    let guard = lock_for(&path, Wait::No).unwrap();
    let fence = guard.publish_fence();
    write(&path, Some(fence)).unwrap();
    guard.release().unwrap();
    assert_eq!(kind(write(&path, Some(fence))), Some(ErrorKind::Fenced), "it has ended");
    assert_eq!(count(&path), 2);
}

/// One lease on a session protects its document and its journal, wherever their names sort, and
/// several guards protect one write.
#[test]
fn one_lease_guards_other_targets() {
    let scratch = Scratch::new();
    let (a, m, z) = (scratch.path("a"), scratch.path("m"), scratch.path("z"));
    let held = lease(&m, "session");
    guarded(&a, &[(&m, held.fence)]).unwrap();
    guarded(&z, &[(&m, held.fence)]).unwrap();
    guarded(&m, &[(&m, held.fence)]).unwrap();
    let other = lease(&z, "other");
    let both = [(m.as_path(), held.fence), (z.as_path(), other.fence)];
    guarded(&a, &both).unwrap();
    guarded(&a, &[both[1], both[0], both[0]]).unwrap();
    assert_eq!(kind(guarded(&z, &[(&m, held.fence)])), Some(ErrorKind::Busy), "z is leased now");
    guarded(&z, &both).unwrap();
    let leases = Lease::open(&m).unwrap();
    leases.take_over(&terms("ops", LONG, Wait::No), "stuck").unwrap();
    assert_eq!(kind(guarded(&a, &both)), Some(ErrorKind::Fenced));
    assert_eq!((count(&a), count(&m), count(&z)), (3, 1, 2));
}

/// The hook processes of one lease all have its fence, so none of them waits for the hold. They
/// still take turns: the commit lock is exclusive.
#[test]
fn race_20_g6_writers_of_one_lease_take_turns() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let held = lease(&path, "turn-1");
    let mut hooks: Vec<_> = (0..4).map(|_| Puppet::spawn()).collect();
    for hook in &mut hooks {
        for _ in 0..100 {
            hook.tell(&format!("add {} forever {}", path.display(), held.fence));
        }
    }
    for hook in &hooks {
        assert!((0..100).all(|_| hook.hear() == "ok"));
    }
    assert_eq!(count(&path), 400);
    let (one, two) = hooks.split_at_mut(1);
    assert_eq!(one[0].say(&format!("slow-add {} {}", path.display(), held.fence)), "inside");
    two[0].tell(&format!("add {} forever {}", path.display(), held.fence));
    two[0].is_silent();
    assert_eq!((one[0].say("go on"), two[0].hear()), ("ok".into(), "ok".into()));
    assert_eq!(count(&path), 402);
}

/// Two processes write two documents, each guarded by the lease of the other. Locks are taken in
/// the order of names, so they never wait for each other.
#[test]
fn writes_that_guard_each_other_do_not_deadlock() {
    let scratch = Scratch::new();
    let (a, b) = (scratch.path("a"), scratch.path("b"));
    let (on_a, on_b) = (lease(&a, "a"), lease(&b, "b"));
    let (mut alice, mut bob) = (Puppet::spawn(), Puppet::spawn());
    let wait = FAR_TOO_LONG.as_millis();
    for _ in 0..100 {
        let (a, b) = (a.display(), b.display());
        alice.tell(&format!("add {a} {wait} {} {b} {}", on_a.fence, on_b.fence));
        bob.tell(&format!("add {b} {wait} {} {a} {}", on_b.fence, on_a.fence));
    }
    for _ in 0..100 {
        assert_eq!((alice.hear(), bob.hear()), ("ok".into(), "ok".into()));
    }
    assert_eq!((count(&a), count(&b)), (100, 100));
}

/// A document that is guarded by a lease has its own hold as well: writers still wait for a lock on
/// it.
#[test]
fn a_guard_does_not_stand_for_the_hold_of_the_target() {
    let scratch = Scratch::new();
    let (session, document) = (scratch.path("session"), scratch.path("document"));
    let held = lease(&session, "me");
    let guard = lock_for(&document, Wait::No).unwrap();
    let refused = kind(guarded(&document, &[(&session, held.fence)]));
    assert_eq!(refused, Some(ErrorKind::Busy));
    guard.release().unwrap();
    guarded(&document, &[(&session, held.fence)]).unwrap();
}

/// The same target proved twice: by the write itself and by a guard. Both have to be current.
#[test]
fn race_06_g3_two_proofs_of_one_target_must_agree() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let held = lease(&path, "me");
    let proven = |fence, guard| {
        let guards = vec![Guard { target: path.clone(), fence: guard }];
        add_one(&path, &WriteOptions { guards, ..at_once(Some(fence)) })
    };
    assert_eq!(kind(proven(held.fence - 1, held.fence)), Some(ErrorKind::Fenced));
    assert_eq!(kind(proven(held.fence, held.fence - 1)), Some(ErrorKind::Fenced));
    assert!(!path.exists());
    proven(held.fence, held.fence).unwrap();
    assert_eq!(count(&path), 1);
}

/// A fence that was never given out, as a guard on an unused target, is refused like any other
/// wrong fence. Missing sidecars are not a separate error.
#[test]
fn race_06_g3_a_guard_on_an_unused_target_is_fenced() {
    let (scratch, elsewhere) = (Scratch::new(), Scratch::new());
    let session = elsewhere.path("session");
    let refused = kind(guarded(&scratch.target(), &[(&session, 1)]));
    assert_eq!(refused, Some(ErrorKind::Fenced));
    assert!(!scratch.target().exists());
}

/// A write without proof ends the hold of a dead holder, even if it changes nothing.
#[test]
fn race_06_g6_a_write_that_changes_nothing_ends_the_hold_of_a_dead_holder() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let mut alice = Puppet::spawn();
    let got = alice.say(&format!("lock {} no", path.display()));
    let fence = got.split(' ').nth(1).unwrap().parse().unwrap();
    alice.kill();
    let document = Document::open(&path).unwrap();
    document.update(&at_once(None), |_| Ok(None)).unwrap();
    assert_eq!(kind(write(&path, Some(fence))), Some(ErrorKind::Fenced));
    assert!(!path.exists());
}
