//! What is measured in a store.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tenure::options::{CollectionKind, Durability};
use tenure::store::Store;
use tenure::{Collection, Lease, LeaseOptions, Lock, WriteOptions};
use tenure_cli::Result;

use super::rows::{self, Row, Step};

const DOCUMENT: &str = "document";
const JOURNAL: &str = "journal";

/// Names that no other process uses.
#[derive(Debug)]
pub(super) struct Scratch<'a> {
    store: &'a Arc<dyn Store>,
    name: PathBuf,
}

impl<'a> Scratch<'a> {
    pub(super) fn new(store: &'a Arc<dyn Store>) -> Self {
        let seed = tenure_shipped::Dice::fresh_seed();
        Self { store, name: format!("/tenure-bench-{}-{seed:x}", std::process::id()).into() }
    }

    /// All rows.
    pub(super) fn rows(&self) -> Result<Vec<Row>> {
        let document = self.collection(CollectionKind::Documents)?.document(DOCUMENT)?;
        document.set(&rows::content(), &WriteOptions::default())?;
        let journal = self.collection(CollectionKind::Journals)?.journal(JOURNAL)?;
        let lock = Lock::on(self.store.as_ref(), self.name.join("lock"))?;
        let row = |name, ours| Row { name, ours, floor: None };
        Ok(vec![
            row("lock and unlock", rows::lock(lock)),
            row("lease and release", self.lease()?),
            row("document read, 12 KB", rows::read(&document)),
            row("document update, 12 KB", rows::update(&document, Durability::Durable)),
            row("journal append, 300 B", rows::append(journal, Durability::Durable)),
        ])
    }

    /// Removes what the rows have written.
    pub(super) fn remove(self) -> Result<()> {
        for (kind, key) in
            [(CollectionKind::Documents, DOCUMENT), (CollectionKind::Journals, JOURNAL)]
        {
            self.collection(kind)?.remove(key, &WriteOptions::default())?;
        }
        Ok(())
    }

    fn collection(&self, kind: CollectionKind) -> Result<Collection> {
        Ok(Collection::on(self.store, &self.name, kind)?)
    }

    fn lease(&self) -> Result<Step> {
        let lease = Lease::on(self.store.as_ref(), self.name.join("lease"))?;
        let options = LeaseOptions {
            ttl: Duration::from_secs(60),
            owner: "tenure bench".to_owned(),
            ..LeaseOptions::default()
        };
        Ok(Box::new(move || Ok(lease.release(&lease.acquire(&options)?.token)?)))
    }
}
