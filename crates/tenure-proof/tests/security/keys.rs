//! Keys of a collection that try to climb out of its directory.

use tenure_proof::machine::allows_root;
use tenure_proof::{Form, Tally, bounded, seed};
use tenure_testkit::Random;

use crate::RING;
use crate::place::{ALICE, Place};

const CLIMBERS: [&str; 22] = [
    "..",
    ".",
    "",
    "/",
    "../x",
    "../../vault/secret",
    "/etc/passwd",
    "a/../../b",
    "a/b",
    "..%2fx",
    "%2e%2e/x",
    ".tenure",
    ".tenure/x",
    "../.tenure/floor",
    "x\ny",
    "~root",
    "-rf",
    "CON",
    "a\\..\\b",
    "\u{202e}gnp.exe",
    "x/",
    "...",
];

#[test]
fn g13_a_key_never_leaves_its_directory() {
    if !allows_root() {
        return;
    }
    let test = "g13_a_key_never_leaves_its_directory";
    let mut tally = Tally::new(RING, test);
    let mut random = Random::new(seed(RING, test));
    let place = Place::new(0o777);
    let collection = place.shared().join("c");
    let letters = ['.', '/', '%', '2', 'e', 'a', '\\', '~', ' '];
    let mut made_up = || {
        let length = 1 + random.index(12);
        (0..length).map(|_| letters[random.index(letters.len())]).collect::<String>()
    };
    let more: Vec<String> = (0..Form::asked().pick(40, 4000)).map(|_| made_up()).collect();
    let long = "k".repeat(300);
    let keys = CLIMBERS.into_iter().chain(more.iter().map(String::as_str)).chain([long.as_str()]);
    for key in keys {
        let _ = std::fs::remove_dir_all(&collection);
        std::fs::create_dir(&collection).unwrap();
        std::os::unix::fs::chown(&collection, Some(ALICE), None).unwrap();
        let ended =
            bounded::run(place.command(ALICE, "subject", &["collection-set", "c", key, "1"]));
        let names = |dir| -> Vec<_> {
            let entries = std::fs::read_dir(dir).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        assert_eq!(names(place.shared()), ["c"], "{key:?}: {ended:?}");
        place.vault_is_untouched();
        let mut inside = names(collection.clone());
        inside.retain(|name| name != ".tenure");
        assert_eq!(inside.len(), usize::from(ended.is_done()), "{key:?}: {inside:?}, {ended:?}");
        if ended.is_done() {
            let listed = place.tenure(ALICE, &["collection", "list", "c", "--json"]);
            let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
            assert!(listed.to_string().contains(&serde_json::json!(key).to_string()), "{listed}");
        }
        tally.tried(1, "keys that try to climb");
    }
}
