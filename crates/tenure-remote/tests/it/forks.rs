//! A forked child: it has its parent's guards in memory, and neither its session nor its connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure::{Lock, LockGuard, LockOptions, Wait};
use tenure_remote::RemoteStore;

use crate::memory_engine::{Memory, MemoryEngine};

/// A child that does not end by itself is ended by the system.
const CHILD_SECONDS: u32 = 20;

/// Runs this in a forked child, and returns whether it was `true` there.
fn is_so_in_a_child(act: impl FnOnce() -> bool) -> bool {
    #[expect(unsafe_code, reason = "there is no safe fork")]
    // SAFETY: the child uses only what it owns or what is made for forks, and ends without the parent's destructors.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        #[expect(unsafe_code, reason = "a limit for a child that waits for a mutex of its parent")]
        // SAFETY: it only sets a timer.
        unsafe {
            libc::alarm(CHILD_SECONDS);
        }
        let is_so = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).unwrap_or(false);
        #[expect(unsafe_code, reason = "no exit handlers of the parent in the child")]
        // SAFETY: it ends the process.
        unsafe {
            libc::_exit(i32::from(!is_so))
        }
    }
    let mut status = 0;
    #[expect(unsafe_code, reason = "the child was not made by the standard library")]
    // SAFETY: the child is ours, and the pointer is to a local variable.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(ended, child);
    status == 0
}

fn trying() -> LockOptions {
    LockOptions { wait: Wait::No, ..LockOptions::default() }
}

fn held(store: &RemoteStore) -> LockGuard {
    Lock::on(store, "/target").expect("a lock").acquire(&trying()).expect("a free lock")
}

#[test]
fn a_child_neither_releases_nor_renews_for_its_parent() {
    let memory = Memory::new();
    let ttl = Duration::from_millis(600);
    let store = RemoteStore::with_ttl(Arc::new(MemoryEngine(memory.clone())), ttl);
    let guard = held(&store);
    let mut guard = Some(guard);
    assert!(is_so_in_a_child(|| {
        let before = memory.requests();
        drop(guard.take());
        let began = Instant::now();
        while began.elapsed() < ttl {
            std::thread::park_timeout(ttl);
        }
        // Nothing was sent for the parent. What the child locks itself has a session of its own.
        let is_silent = memory.requests() == before;
        let own = Lock::on(&store, "/own").and_then(|lock| lock.acquire(&trying()));
        is_silent && own.is_ok_and(|own| own.verify().is_ok() && own.release().is_ok())
    }));
    let guard = guard.expect("the parent has it still");
    guard.verify().expect("the parent holds it");
    guard.release().expect("the parent releases it");
}

/// The same on a server: the child has copies of the parent's sockets, too.
#[cfg(all(target_os = "linux", any(feature = "etcd", feature = "postgres")))]
fn a_child_leaves_the_connections_of_its_parent_alone(url: &str) {
    use tenure::{Document, WriteOptions, json};
    let store = tenure_remote::open_apart(url).expect("a store");
    store.init().expect("the server answers");
    let document = Document::on(&store, "/document").expect("a document");
    document.set(&json!(0), &WriteOptions::default()).expect("a write");
    let mut guard = Some(held(&store));
    let write = |number: i32| {
        let document = Document::on(&store, format!("/{number}")).expect("a document");
        document.set(&json!(number), &WriteOptions::default())
    };
    for _ in 0..2 {
        assert!(is_so_in_a_child(|| {
            drop(guard.take());
            (1..10).all(|number| write(number).is_ok())
        }));
        write(11).expect("the parent writes");
        guard.as_ref().expect("a guard").verify().expect("the parent holds it");
    }
    let guard = guard.expect("the parent has it still");
    let fence = Some(guard.publish_fence());
    let proven = WriteOptions { fence, ..WriteOptions::default() };
    let target = Document::on(&store, "/target").expect("a document");
    target.set(&json!(1), &proven).expect("a proven write");
    guard.release().expect("the parent releases it");
}

#[cfg(all(target_os = "linux", feature = "postgres"))]
#[test]
fn a_child_leaves_the_connections_to_postgres_alone() {
    if tenure_engines::Postgres::is_here() {
        let url = tenure_engines::Postgres::shared().fresh_url();
        a_child_leaves_the_connections_of_its_parent_alone(&url);
    }
}

#[cfg(all(target_os = "linux", feature = "etcd"))]
#[test]
fn a_child_leaves_the_connections_to_etcd_alone() {
    if tenure_engines::Etcd::is_here() {
        let url = tenure_engines::Etcd::shared().fresh_url();
        a_child_leaves_the_connections_of_its_parent_alone(&url);
    }
}

/// A thread of the parent is in the middle of an append: the child does not wait for it.
#[cfg(all(target_os = "linux", feature = "etcd"))]
#[test]
fn a_child_appends_while_an_append_of_its_parent_has_no_answer() {
    use tenure_engines::{Etcd, Proxy};

    use crate::asking::{append, until};
    if !Etcd::is_here() {
        return;
    }
    let proxy = Proxy::start(&Etcd::shared().address(0));
    let prefix = Etcd::fresh_prefix();
    let engine =
        crate::etcd_steps::engine_at(&format!("etcd://{}/{prefix}?timeout=20s", proxy.address()));
    append(&engine, "/log", &[b"0"]);
    proxy.strand();
    let before = engine.requests();
    std::thread::scope(|scope| {
        let parent = scope.spawn(|| append(&engine, "/log", &[b"1"]));
        until("the request of the parent", || engine.requests() > before);
        assert!(is_so_in_a_child(|| {
            append(&engine, "/log", &[b"2"]);
            true
        }));
        assert!(!parent.is_finished());
        proxy.heal();
        parent.join().expect("an append");
    });
}
