//! Wrong stores, and a server that forgets: what the checks of this ring must catch.

use std::sync::Arc;
use std::time::Duration;

use tenure::store::Store;
use tenure_conformance::{MemoryStore, Wrong};
use tenure_engines::Postgres;
use tenure_proof::{Object, Tally, seed};
use tenure_testkit::Random;

use crate::load::Load;
use crate::scene::{handles, say, wait};

/// A store in memory under the load, with replies lost now and then.
fn findings(store: &MemoryStore, seed: u64) -> Vec<String> {
    let handles = (0..6).map(|_| Arc::new(store.another()) as Arc<dyn Store>).collect();
    let mut load = Load::new(handles);
    let mut random = Random::new(seed);
    load.round(seed, || {
        for _ in 0..40 {
            store.lose_reply();
            wait(Duration::from_millis(5 + random.below(10)));
        }
    });
    load.findings()
}

#[test]
fn a_right_store_in_memory_passes() {
    let mut tally = Tally::new("stores", "a_right_store_in_memory_passes");
    let found = findings(&MemoryStore::new(), seed("stores", "a_right_store_in_memory_passes"));
    assert_eq!(found, Vec::<String>::new());
    tally.tried(1, "rounds of a right store in memory");
}

#[test]
fn wrong_stores_are_caught() {
    let mut tally = Tally::new("stores", "wrong_stores_are_caught");
    let seed = seed("stores", "wrong_stores_are_caught");
    let objects = [Object::Counter, Object::Register, Object::Jobs];
    let mistakes = [
        (Wrong::CheckThenWrite, objects.map(|object| format!("{object:?}")).to_vec()),
        (Wrong::RetryWithoutId, vec!["Queue".to_owned()]),
        (Wrong::FenceFromMemory, vec!["fence".to_owned()]),
    ];
    for (wrong, mut left) in mistakes {
        // A scheduler may let few of them overlap in one run, but not in all.
        for run in 0..20 {
            let found = findings(&MemoryStore::wrong(wrong), seed + run);
            left.retain(|object| {
                let caught = found.iter().any(|finding| finding.contains(object.as_str()));
                if caught {
                    tally.caught(&format!("a store that makes the mistake {wrong:?}: {object}"));
                }
                !caught
            });
            if left.is_empty() {
                break;
            }
        }
        assert_eq!(left, Vec::<String>::new(), "{wrong:?} was not noticed");
    }
}

/// Every check of a history sees that acknowledged operations are gone.
#[test]
fn a_server_on_an_old_copy_of_its_data_is_caught() {
    if !Postgres::is_here() {
        return;
    }
    let test = "a_server_on_an_old_copy_of_its_data_is_caught";
    let mut tally = Tally::new("stores", test);
    let seed = seed("stores", test);
    let mut server = Postgres::start();
    let mut load = Load::new(handles(&server.fresh_url(), 4));
    let mut left = vec![Object::Counter, Object::Register, Object::Queue, Object::Jobs];
    // How much is forgotten depends on the load of the machine.
    for round in 0..8 {
        server.kill();
        server.keep();
        server.restart();
        load.round(seed + round, || {
            wait(Duration::from_millis(700));
            server.kill();
            server.roll_back();
            server.restart();
            wait(Duration::from_millis(700));
        });
        let found = load.findings();
        say(&format!("{found:?}"));
        left.retain(|object| {
            let name = format!("{object:?}");
            let caught = found.iter().any(|finding| finding.contains(&name));
            if caught {
                tally.caught(&format!("a server started with an old copy of its data: {name}"));
            }
            !caught
        });
        if left.is_empty() && load.counts.lost > 0 {
            break;
        }
    }
    assert_eq!(left, []);
    assert!(load.counts.lost > 0, "{:?}", load.counts);
}
