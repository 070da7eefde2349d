//! The store on local files passes the suite.

use std::path::Path;
use std::sync::Arc;

use tenure::file::FileStore;
use tenure::{Journal, WriteOptions};
use tenure_conformance::Subject;

fn subject() -> Subject {
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path().canonicalize().expect("a path");
    let (store, second) = (Arc::new(FileStore::local()), Arc::new(FileStore::local()));
    let mut subject = Subject::new(store, second, root);
    subject.lose_entries = Some(Box::new(|name: &Path, _| {
        let rotated = Journal::open(name)?.rotate(&WriteOptions::default())?;
        let archive = rotated.archive.expect("an archive");
        std::fs::remove_file(archive).expect("the archive goes");
        Ok(())
    }));
    subject.keeps = Some(Box::new(dir));
    subject
}

tenure_conformance::conformance!(subject);
