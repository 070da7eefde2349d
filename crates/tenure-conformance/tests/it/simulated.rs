//! The store on files passes on the simulated disk what needs one thread.

use std::sync::Arc;

use tenure::file::FileStore;
use tenure_conformance::{Needs, Subject, TESTS, run};
use tenure_testkit::SimFs;

fn subject(seed: u64) -> Subject {
    let fs = SimFs::new(seed);
    fs.add_dir("/shared");
    let (store, second) = (fs.shared(), fs.another_process().shared());
    Subject::new(Arc::new(FileStore::on(&store)), Arc::new(FileStore::on(&second)), "/shared")
}

#[test]
fn tests_of_one_thread_pass_on_a_simulated_disk() {
    let alone: Vec<_> = TESTS.iter().filter(|test| test.needs == Needs::Alone).collect();
    assert!(alone.len() > 20, "{} tests", alone.len());
    let failed: Vec<_> = alone
        .iter()
        .filter_map(|test| {
            let outcome = run(test.name, || subject(7));
            outcome.err().map(|failure| format!("{}: {failure}", test.name))
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
