//! tenure on a server: the same locks, leases, documents, journals and collections for several machines.
//!
//! [`open`] makes a [`RemoteStore`] of a URL, which is a [`tenure::store::Store`]: `Lock::on(&store, "/build")`.
//!
//! [`engine`] is what a server has to do. The store above it is written once, for every engine: [`store`] and `target`
//! translate what the nouns ask, `commit` is every write, `queue` every wait, `holds` the locks of this process, and
//! `session` what they last as long as.

mod client;
mod commit;
pub mod engine;
mod entries;
#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(any(feature = "etcd", feature = "postgres"))]
mod holder;
mod holds;
mod name;
mod patience;
#[cfg(any(feature = "etcd", feature = "postgres"))]
mod pem;
mod place;
#[cfg(feature = "postgres")]
pub mod postgres;
mod queue;
mod session;
mod store;
mod target;
pub mod url;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tenure::Result;
use tenure::store::ProcessLocal;

use self::engine::Engine;
pub use self::place::Place;
use self::session::locked;
pub use self::store::RemoteStore;
use self::store::WeakStore;
use self::url::Url;

/// The store with this URL. In one process the same URL is the same handle, as long as one is in use: its locks know
/// each other, and one session serves them.
pub fn open(url: &str) -> Result<RemoteStore> {
    static OPEN: ProcessLocal<Mutex<HashMap<String, WeakStore>>> = ProcessLocal::new();
    let mut known = locked(OPEN.here());
    if let Some(store) = known.get(url).and_then(WeakStore::upgrade) {
        return Ok(store);
    }
    let store = open_apart(url)?;
    known.retain(|_, store| store.upgrade().is_some());
    known.insert(url.to_owned(), store.downgrade());
    Ok(store)
}

/// A handle of its own, as another process would have it.
pub fn open_apart(url: &str) -> Result<RemoteStore> {
    let url = Url::parse(url)?;
    Ok(RemoteStore::with_ttl(connect(&url)?, url.ttl))
}

fn connect(url: &Url) -> Result<Arc<dyn Engine>> {
    match url.scheme {
        #[cfg(feature = "postgres")]
        url::Scheme::Postgres => Ok(Arc::new(postgres::PostgresEngine::connect(url)?)),
        #[cfg(feature = "etcd")]
        url::Scheme::Etcd => Ok(Arc::new(etcd::EtcdEngine::connect(url)?)),
        #[cfg(not(all(feature = "postgres", feature = "etcd")))]
        scheme => {
            let detail = format!("this program was built without {scheme:?} (store {url})");
            let error = tenure::Error::new(tenure::ErrorKind::Unsupported, "open", detail);
            Err(error.hint("build it with that feature"))
        }
    }
}
