//! Whose turn it is in a queue, and what becomes of a grant.

use super::*;
use crate::fs::Access;
use crate::sys::disk;

/// Handles of one file of its own, as different callers have them.
fn handles<const N: usize>(name: &str) -> [Arc<dyn Handle>; N] {
    let name = format!("tenure-queue-{}-{name}", std::process::id());
    let path = std::env::temp_dir().canonicalize().unwrap().join(name);
    let opened = std::array::from_fn(|_| disk().open(&path, Access::Create(0o600)).unwrap());
    disk().remove(&path).unwrap();
    opened
}

fn place(ticket: u64, mode: Mode) -> Place {
    Place { ticket, mode, thread: std::thread::current().id() }
}

fn is_free(handle: &Arc<dyn Handle>) -> bool {
    let free = handle.try_lock(Mode::Exclusive).unwrap();
    handle.unlock().unwrap();
    free
}

/// A queue in which these wait, in this order.
fn waiting(modes: &[Mode]) -> Queue {
    let places = (0..).zip(modes).map(|(ticket, mode)| (place(ticket, *mode), Arc::default()));
    Queue { waiting: places.collect(), ..Queue::default() }
}

fn have(next: io::Result<Next>) -> Option<Arc<dyn Handle>> {
    match next.unwrap() {
        Next::Have(handle) => Some(handle),
        Next::Block | Next::Sleep => None,
    }
}

#[test]
fn a_queue_that_anybody_has_to_do_with_is_in_use() {
    let [handle] = handles("used");
    let used = [
        Queue { holders: vec![place(0, Mode::Shared)], ..Queue::default() },
        waiting(&[Mode::Shared]),
        Queue { arriving: 1, ..Queue::default() },
        Queue { blocked: vec![(handle.clone(), Mode::Shared)], ..Queue::default() },
        Queue { answer: Answer::Granted(handle, Mode::Shared), ..Queue::default() },
    ];
    assert!(Queue::default().is_unused());
    assert!(used.iter().all(|queue| !queue.is_unused()));
}

#[test]
fn what_the_head_wants_is_what_counts() {
    let queue = waiting(&[Mode::Exclusive, Mode::Shared]);
    assert!(queue.head_wants(Mode::Exclusive) && !queue.head_wants(Mode::Shared));
    assert!(!Queue::default().head_wants(Mode::Shared));
}

#[test]
fn what_was_granted_for_the_last_who_leaves_is_given_back() {
    let [granted, other] = handles("leaves");
    let mut queue = waiting(&[Mode::Exclusive, Mode::Exclusive]);
    assert!(granted.try_lock(Mode::Exclusive).unwrap());
    queue.answer = Answer::Granted(granted.clone(), Mode::Exclusive);
    queue.leave_queue(0);
    assert!(!is_free(&other), "a caller still waits for it");
    queue.leave_queue(1);
    assert!(is_free(&other) && queue.is_unused());
}

#[test]
fn a_grant_serves_its_own_mode_only() {
    let [granted, own] = handles("grant");
    for mode in [Mode::Exclusive, Mode::Shared] {
        let mut queue = waiting(&[Mode::Exclusive]);
        assert!(granted.try_lock(mode).unwrap());
        queue.answer = Answer::Granted(granted.clone(), mode);
        let got = have(queue.next(place(0, Mode::Exclusive), &own, true)).unwrap();
        let expected = if mode == Mode::Exclusive { &granted } else { &own };
        assert!(Arc::ptr_eq(&got, expected), "granted {mode:?}");
        got.unlock().unwrap();
        assert!(is_free(&own), "nothing else is held");
    }
}

#[test]
fn nobody_tries_before_its_turn() {
    let [held, own] = handles("turn");
    assert!(held.try_lock(Mode::Exclusive).unwrap());
    let mut queue = waiting(&[Mode::Shared, Mode::Shared]);
    let thread = std::thread::spawn(|| std::thread::current().id()).join().unwrap();
    queue.holders.push(Place { thread, ..place(9, Mode::Exclusive) });
    let next = queue.next(place(0, Mode::Shared), &own, true).unwrap();
    assert!(matches!(next, Next::Sleep), "one of this process has it: {next:?}");
    queue.holders.clear();
    let next = queue.next(place(1, Mode::Shared), &own, true).unwrap();
    assert!(matches!(next, Next::Sleep), "it is not the head: {next:?}");
    let next = queue.next(place(0, Mode::Shared), &own, true).unwrap();
    assert!(matches!(next, Next::Block), "another caller has it: {next:?}");
    let next = Queue::default().next(place(0, Mode::Shared), &own, true).unwrap();
    assert!(matches!(next, Next::Sleep), "it has left: {next:?}");
}
