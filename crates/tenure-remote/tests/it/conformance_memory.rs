//! The store above an engine passes the suite, also with lost replies.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tenure_conformance::Subject;
use tenure_remote::RemoteStore;

use crate::memory_engine::{Memory, MemoryEngine};

const TTL: Duration = Duration::from_secs(10);

fn subject() -> Subject {
    let memory = Memory::new();
    let handle = || Arc::new(RemoteStore::with_ttl(Arc::new(MemoryEngine(memory.clone())), TTL));
    let mut subject = Subject::new(handle(), handle(), "/shared");
    let engine = memory.clone();
    subject.lose_reply = Some(Box::new(move || {
        engine.lose_replies.fetch_add(1, Ordering::SeqCst);
    }));
    subject.lose_entries = Some(Box::new(move |name: &Path, last| {
        memory.lose_entries(name.to_str().expect("UTF-8"), last);
        Ok(())
    }));
    subject
}

tenure_conformance::conformance!(subject);
