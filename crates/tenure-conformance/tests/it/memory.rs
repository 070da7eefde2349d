//! The store in memory passes the suite.

use std::path::Path;
use std::sync::Arc;

use tenure_conformance::{MemoryStore, Subject};

/// A store in memory, and what its engine can be made to do.
pub(crate) fn subject(store: &MemoryStore) -> Subject {
    let another = Arc::new(store.another());
    let mut subject = Subject::new(Arc::new(store.clone()), another, "/shared");
    let engine = store.clone();
    subject.lose_reply = Some(Box::new(move || engine.lose_reply()));
    let engine = store.clone();
    subject.lose_entries = Some(Box::new(move |name: &Path, last| {
        engine.lose_entries(name, last);
        Ok(())
    }));
    subject
}

tenure_conformance::conformance!(|| subject(&MemoryStore::new()));
