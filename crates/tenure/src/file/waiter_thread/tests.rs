//! Which thread does a job, and which one stays.

use std::sync::mpsc::channel;
use std::thread::ThreadId;

use super::*;

/// Sends a job that reports its thread, and waits until a thread is idle again.
fn sent(room: &'static Room) -> ThreadId {
    let (tell, told) = channel();
    room.send(Box::new(move || tell.send(std::thread::current().id()).unwrap())).unwrap();
    let thread = told.recv().unwrap();
    while !matches!(*room.lock(), State::Idle) {
        std::thread::yield_now();
    }
    thread
}

#[test]
fn one_thread_stays_and_a_job_never_waits_for_another() {
    let stays = Duration::from_secs(60);
    let room = Box::leak(Box::new(Room { stays, ..Room::default() }));
    let first = sent(room);
    let (end, ends) = channel::<()>();
    let (begin, begun) = channel();
    // The idle thread is called and blocked: the next job gets another thread.
    let blocked = move || {
        begin.send(std::thread::current().id()).unwrap();
        ends.recv().unwrap();
    };
    room.send(Box::new(blocked)).unwrap();
    let blocked = begun.recv().unwrap();
    let other = sent(room);
    assert_eq!(blocked, first, "it is called again");
    assert_ne!(other, blocked, "who is blocked does nothing else");
    end.send(()).unwrap();
    assert_eq!(sent(room), other, "one of them stays, the other leaves");
}

#[test]
fn whoever_finds_somebody_in_the_room_leaves_it_as_it_is() {
    let stays = Duration::from_millis(1);
    let room: &'static Room = Box::leak(Box::new(Room { stays, ..Room::default() }));
    for state in [State::Idle, State::Called(Box::new(|| {}))] {
        let is_idle = matches!(state, State::Idle);
        *room.lock() = state;
        room.serve(Box::new(|| {}));
        assert!(!matches!(*room.lock(), State::Empty), "another caller's job is lost");
        assert_eq!(matches!(*room.lock(), State::Idle), is_idle);
    }
}
