//! Free ports.
//!
//! They are below the range from which the kernel takes ports of outgoing connections: a server that was killed finds
//! its port free when it starts again.

use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};

/// The first one, and how many.
const RANGE: (u64, u64) = (12_000, 20_000);

/// A port on which nothing listens.
pub(crate) fn free() -> u16 {
    static TURN: AtomicU64 = AtomicU64::new(0);
    for _ in 0..1000 {
        // Another one each time, and others than those of a test program beside this one.
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let drawn = RANGE.0 + RandomState::new().hash_one(turn) % RANGE.1;
        let port = u16::try_from(drawn).expect("it is in the range");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free")
}
