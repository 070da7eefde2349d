//! Children: a forked child never unlocks what its parent holds; a started program holds nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use tenure::embed;
use tenure::{ErrorKind, Lock, LockGuard, LockOptions, Wait};

use crate::altered::Altered;
use crate::puppet::Puppet;
use crate::scratch::{FAR_TOO_LONG, Scratch, count, kind, lock_for, write};
use crate::starting::alone;

/// After this many seconds the system ends a child that hangs.
const HANGS_S: u32 = 20;

/// A forked child has a copy of its parent's guard. In other tools its exit handlers ran `release`,
/// and the parent continued without a lock. Here nothing that the child does releases the lock.
#[test]
fn race_16_g11_a_forked_child_does_not_release_its_parents_lock() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let mut alice = Puppet::spawn();
    let got = alice.say(&format!("lock {} no", path.display()));
    let parent = alice.pid();
    let in_child = alice.say("fork");
    let busy = format!("err busy {parent}");
    assert_eq!(in_child, format!("verify err compromised, lock {busy}, ok, {busy}"));
    assert_eq!(alice.hear(), "ok", "the child has ended");
    assert_eq!(kind(lock_for(&path, Wait::No)), Some(ErrorKind::Busy), "the parent still holds it");
    assert_eq!(kind(write(&path, None)), Some(ErrorKind::Busy));
    assert_eq!(alice.say(&format!("verify {}", path.display())), "ok");
    let fence = got.split(' ').nth(1).unwrap();
    assert_eq!(alice.say(&format!("add {} no {fence}", path.display())), "ok");
    assert_eq!(alice.say(&format!("release {}", path.display())), "ok");
    let next = lock_for(&path, Wait::No).unwrap();
    assert_eq!(next.recovered_from(), None);
}

/// The same with readers: the child's copy is a copy of one lock, not a second one.
#[test]
fn race_16_g11_a_forked_child_does_not_release_a_shared_lock_either() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let mut alice = Puppet::spawn();
    assert_eq!(alice.say(&format!("share {} no", path.display())), "ok 0 0");
    let in_child = alice.say("fork");
    assert!(in_child.starts_with("verify err compromised, lock err busy"), "{in_child}");
    assert_eq!(alice.hear(), "ok");
    assert_eq!(kind(lock_for(&path, Wait::No)), Some(ErrorKind::Busy));
    assert_eq!(alice.say(&format!("release {}", path.display())), "ok");
    lock_for(&path, Wait::No).unwrap().release().unwrap();
}

/// A forked child that lives on has a copy of the descriptor, so closing ours would leave the lock
/// with the child. A release must unlock.
#[test]
fn race_16_g2_a_release_frees_the_lock_although_a_forked_child_has_a_copy() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let mut alice = Puppet::spawn();
    for verb in ["lock", "share"] {
        assert!(alice.say(&format!("{verb} {} no", path.display())).starts_with("ok "));
        assert!(alice.say("linger").starts_with("ok "));
        assert_eq!(alice.say(&format!("release {}", path.display())), "ok");
        lock_for(&path, Wait::No).unwrap().release().unwrap();
        write(&path, None).unwrap();
    }
}

/// A program started during a hold inherited the descriptor and kept the lock for as long as it
/// ran. Ours are closed by `exec`: the program lives on, the lock does not.
#[test]
fn race_16_g2_a_program_started_during_a_hold_does_not_keep_it() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let mut alice = Puppet::spawn();
    assert!(alice.say(&format!("lock {} no", path.display())).starts_with("ok "));
    let program = alice.say("program").replace("ok ", "");
    assert!(!files_of(&program).iter().any(|file| file.contains(".tenure")), "it has our files");
    assert_eq!(alice.say(&format!("release {}", path.display())), "ok");
    lock_for(&path, Wait::No).unwrap().release().unwrap();
    assert!(alice.say(&format!("lock {} no", path.display())).starts_with("ok "));
    alice.say("program");
    alice.kill(); // The programs see the end of their input and end too, some time later.
    let next = lock_for(&path, Wait::For(FAR_TOO_LONG)).unwrap();
    assert_eq!(next.recovered_from().map(|holder| holder.pid), Some(alice.pid()));
}

/// A lock file kept open from an earlier turn is shared with every child forked since. A lock on it
/// would outlive its owner in the child, so a file opened before a fork is not locked again.
#[test]
fn race_16_g2_a_child_forked_between_two_turns_does_not_keep_the_second() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let mut alice = Puppet::spawn();
    let answer = alice.say(&format!("warm {}", path.display()));
    let child = answer.split(' ').nth(3).unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(kind(lock_for(&path, Wait::No)), Some(ErrorKind::Busy));
    alice.shoot(); // The child keeps its output open, so that does not end.
    let next = lock_for(&path, Wait::For(FAR_TOO_LONG)).unwrap();
    assert_eq!(next.recovered_from().map(|holder| holder.pid), Some(alice.pid()));
    assert!(
        files_of(child).iter().any(|file| file.contains("/.tenure/")),
        "it lives, with its copy"
    );
}

/// A child forked in the middle of a change has the new version but no lock.
#[test]
fn race_16_g11_a_child_forked_during_a_change_does_not_publish_it() {
    let scratch = Scratch::new();
    let mut alice = Puppet::spawn();
    let in_child = alice.say(&format!("fork-in-update {}", scratch.target().display()));
    assert_eq!(in_child, "err compromised");
    assert_eq!(alice.hear(), "ok", "its parent does");
    assert_eq!(count(&scratch.target()), 1);
}

/// A nested hold is proven by its fence, so a forked child has it as well.
#[test]
fn race_16_g11_a_forked_child_takes_part_in_a_hold_as_its_parent_does() {
    let scratch = Scratch::new();
    let path = scratch.target();
    let guard = lock_for(&path, Wait::No).unwrap();
    let mut alice = Puppet::spawn();
    let nested = alice.say(&format!("nest {} {}", path.display(), guard.publish_fence()));
    assert_eq!(nested, format!("ok {} 0", guard.publish_fence()));
    let busy = format!("err busy {}", std::process::id());
    assert_eq!(alice.say("fork"), format!("verify ok, lock {busy}, ok, {busy}"));
    assert_eq!(alice.hear(), "ok");
    guard.verify().unwrap();
}

fn files_of(pid: &str) -> Vec<String> {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let name = |link: std::fs::DirEntry| std::fs::read_link(link.path()).unwrap_or_default();
    links.map(|link| name(link).display().to_string()).collect()
}

/// A thread of the parent is inside a call of a guard when the process forks. In the child that
/// call never ends; no call of the child on its copy may wait for it.
#[test]
fn race_16_g11_a_child_forked_amid_a_call_does_not_wait_for_its_end() {
    let scratch = Scratch::new();
    let (fs, altered) = Altered::default().mounted();
    let lock = Lock::open_on(&fs, &scratch.target()).unwrap();
    let guard = Arc::new(lock.acquire(&LockOptions::default()).unwrap());
    let (copy, code) = (guard.clone(), Arc::new(AtomicI32::new(-1)));
    let told = code.clone();
    altered.next_look.plan(move || told.store(alone(|| child_of_a_call(&copy)), Ordering::SeqCst));
    guard.verify().unwrap();
    assert_eq!(code.load(Ordering::SeqCst), 0, "the child hung, or got another error");
    guard.verify().unwrap();
    Arc::into_inner(guard).unwrap().release().unwrap();
}

/// Forks; the wait status of the child, which exits with 0 if the library reports that the hold is
/// not its own.
fn child_of_a_call(guard: &LockGuard) -> i32 {
    #[expect(unsafe_code, reason = "there is no safe fork")]
    // SAFETY: the child calls nothing but this crate and ends with `_exit`; that the library survives
    // this is what is tested.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(HANGS_S);
            let refused = kind(guard.verify()) == Some(ErrorKind::Compromised);
            let silent = guard.publish_fence() > 0
                && embed::descriptors(guard).is_empty()
                && embed::end(guard).is_ok();
            libc::_exit(i32::from(!(refused && silent)));
        }
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
        status
    }
}
