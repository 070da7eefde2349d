//! What the tests share: handles as several processes would have them, and a pause that faults last.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure::store::Store;
use tenure_remote::RemoteStore;

/// A handle of its own, as another process would have it, on a store that is initialised.
pub(crate) fn handle(url: &str) -> RemoteStore {
    let store = tenure_remote::open_apart(url).unwrap_or_else(|error| panic!("{error}"));
    store.init().unwrap_or_else(|error| panic!("{error}"));
    store
}

/// This many handles.
pub(crate) fn handles(url: &str, count: usize) -> Vec<Arc<dyn Store>> {
    let first = handle(url);
    let other = |_| tenure_remote::open_apart(url).unwrap_or_else(|error| panic!("{error}"));
    let all = std::iter::once(first).chain((1..count).map(other));
    all.map(|store| Arc::new(store) as Arc<dyn Store>).collect()
}

/// How long a fault lasts. Nothing is synchronised by it.
pub(crate) fn wait(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(left);
    }
}

/// A URL with one more parameter.
pub(crate) fn with(url: &str, parameter: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}{parameter}")
}

/// For the report of a failure, and for a person who runs one test.
#[expect(clippy::print_stdout, reason = "the harness shows it where it is wanted")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}
