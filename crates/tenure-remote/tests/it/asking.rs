//! How tests ask an engine, without a store above it.

use std::thread;
use std::time::{Duration, Instant};

use tenure::status::Holder;
use tenure::{Fence, store};
use tenure_remote::engine::{
    Commit, Committed, Engine, Kind, Put, Receipt, SessionId, Taken, Ticket,
};

pub(crate) const TTL: Duration = Duration::from_secs(10);
/// Nothing in a test takes so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn id() -> String {
    store::new_token().expect("random bytes")
}

pub(crate) fn ticket(session: &SessionId, kind: Kind) -> Ticket {
    let holder = Holder::this_process("a test", "me");
    Ticket { id: id(), session: session.clone(), kind, holder, may_wait: true }
}

pub(crate) fn lease(ttl: Duration, token: u8) -> Kind {
    Kind::Lease { ttl, token_sum: [token; 16] }
}

pub(crate) fn held(taken: Taken) -> Fence {
    match taken {
        Taken::Held { fence, .. } => fence,
        busy @ Taken::Busy { .. } => panic!("{busy:?}"),
    }
}

pub(crate) fn is_busy(taken: &Taken) -> bool {
    matches!(taken, Taken::Busy { .. })
}

pub(crate) fn done(committed: Committed) -> Receipt {
    match committed {
        Committed::Done(receipt) => receipt,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn commit(id: &str) -> Commit<'_> {
    Commit { id, ..Commit::default() }
}

/// Appends without a proof.
pub(crate) fn append(engine: &dyn Engine, name: &str, lines: &[&[u8]]) -> (u64, u64) {
    let id = id();
    let change = Commit { free: vec![name], journal: Some((name, lines)), ..commit(&id) };
    done(engine.commit(&change).expect("an append")).lines.expect("its numbers")
}

/// Writes a document without a proof, whatever it was before.
pub(crate) fn write(engine: &dyn Engine, name: &str, bytes: &[u8]) -> Receipt {
    let id = id();
    let before = engine.read(name, None).expect("a read").document.map(|(_, version)| version);
    let put = Put { name, base: before.as_ref(), bytes: Some(bytes) };
    let change = Commit { free: vec![name], document: Some(put), ..commit(&id) };
    done(engine.commit(&change).expect("a write"))
}

/// Repeats a look until it is true.
pub(crate) fn until(what: &str, mut look: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !look() {
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        thread::park_timeout(Duration::from_millis(5));
    }
}
