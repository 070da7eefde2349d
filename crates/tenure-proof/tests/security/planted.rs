//! Hostile files planted in place of a sidecar or a document.

use std::fs::File;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use tenure_proof::machine::allows_root;
use tenure_proof::{Form, Tally, seed};
use tenure_testkit::Random;

use crate::RING;
use crate::place::{ALICE, MALLORY, Place, set_mode};

/// Where something is planted.
const NAMES: [&str; 17] = [
    "state.json",
    "log.jsonl",
    ".tenure",
    ".tenure/.gitignore",
    ".tenure/floor",
    ".tenure/state.json.hold",
    ".tenure/state.json.commit",
    ".tenure/state.json.sync0",
    ".tenure/state.json.good",
    ".tenure/state.json.events",
    ".tenure/state.json.tmp.0000000000000000",
    ".tenure/log.jsonl.hold",
    ".tenure/log.jsonl.commit",
    ".tenure/log.jsonl.wal",
    ".tenure/log.jsonl.index",
    ".tenure/log.jsonl.torn",
    ".tenure/log.jsonl.tmp.0000000000000001",
];

/// What is planted, and how.
type Plant = fn(&Path, &Path);
const PLANTS: [(&str, Plant); 11] = [
    (LARGE, |at, _| File::create(at).unwrap().set_len(1 << 40).unwrap()),
    ("a pipe", |at, _| node(at, FileType::Fifo, 0)),
    ("a directory", |at, _| std::fs::create_dir(at).unwrap()),
    ("a device without end", |at, _| node(at, FileType::CharacterDevice, makedev(1, 5))),
    ("a socket", |at, _| drop(UnixListener::bind(at).unwrap())),
    ("a link to itself", |at, _| symlink(at, at).unwrap()),
    ("a link to a secret", |at, vault| symlink(vault.join("secret"), at).unwrap()),
    ("a link to a directory", |at, vault| symlink(vault, at).unwrap()),
    ("a second name of a file", |at, vault| std::fs::hard_link(vault.join("mine"), at).unwrap()),
    ("a file of another user", |at, _| {
        std::fs::write(at, "theirs").unwrap();
        chown(at, Some(MALLORY), Some(MALLORY)).unwrap();
        set_mode(at, 0o600);
    }),
    ("noise", |at, _| std::fs::write(at, "tenure\u{1}\u{0} and what follows".repeat(900)).unwrap()),
];

const LARGE: &str = "a file of a terabyte";
const WORK: [&[&str]; 6] = [
    &["doc", "update", "state.json", ".n += 1"],
    &["doc", "get", "state.json"],
    &["journal", "append", "log.jsonl", "3"],
    &["journal", "verify", "log.jsonl"],
    &["lease", "acquire", "state.json", "--ttl", "1ms", "--wait", "0"],
    &["who"],
];

fn node(at: &Path, kind: FileType, device: u64) {
    mknodat(CWD, at, kind, Mode::from_raw_mode(0o666), device).unwrap();
}

fn clear(at: &Path) {
    let gone = if at.is_dir() && !at.is_symlink() {
        std::fs::remove_dir_all(at)
    } else {
        std::fs::remove_file(at)
    };
    drop(gone);
}

#[test]
fn g12_g13_hostile_files_neither_hang_nor_lead_anybody_outside() {
    if !allows_root() {
        return;
    }
    let test = "g12_g13_hostile_files_neither_hang_nor_lead_anybody_outside";
    let mut tally = Tally::new(RING, test);
    let mut random = Random::new(seed(RING, test));
    let place = Place::new(0o777);
    let (shared, vault) = (place.shared(), place.path("vault"));
    for (number, name) in NAMES.into_iter().enumerate() {
        for (what, plant) in PLANTS {
            // Links to a target are followed. And a command that reads a whole journal of a
            // terabyte takes its time.
            let data = !name.starts_with(".tenure");
            if data && (what.starts_with("a link") || what == LARGE) {
                continue;
            }
            if Form::asked() == Form::Quick && random.below(4) > 0 {
                continue;
            }
            for data in [".tenure", "state.json", "log.jsonl"] {
                clear(&shared.join(data));
            }
            assert!(place.tenure(ALICE, &["doc", "set", "state.json", "{\"n\":1}"]).is_done());
            assert!(place.tenure(ALICE, &["journal", "append", "log.jsonl", "1", "2"]).is_done());
            clear(&shared.join(name));
            plant(&shared.join(name), &vault);
            for (turn, args) in WORK.into_iter().enumerate() {
                // Half of them as root, who may open everything.
                let user = if (number + turn) % 2 == 0 { ALICE } else { 0 };
                let ended = place.tenure(user, args);
                place.vault_is_untouched();
                if name != "state.json" && args[0] == "doc" && ended.is_done() {
                    let n = std::fs::read_to_string(shared.join("state.json")).unwrap();
                    let n: serde_json::Value = serde_json::from_str(&n).unwrap();
                    let least = if args[1] == "update" { 2 } else { 1 };
                    assert!(n["n"].as_u64() >= Some(least), "{what} at {name}: {args:?}: {n}");
                }
                tally.tried(1, "commands that met a hostile file");
            }
        }
    }
}

#[test]
fn g12_a_sidecar_that_cannot_be_opened_is_an_error_and_never_a_second_lock() {
    if !allows_root() {
        return;
    }
    let test = "g12_a_sidecar_that_cannot_be_opened_is_an_error_and_never_a_second_lock";
    let mut tally = Tally::new(RING, test);
    let place = Place::new(0o777);
    assert!(place.tenure(ALICE, &["doc", "set", "state.json", "1"]).is_done());
    for name in ["state.json.hold", "state.json.commit"] {
        let sidecar = place.shared().join(".tenure").join(name);
        set_mode(&sidecar, 0o000);
        for args in [&["run", "state.json", "--", "true"][..], &["doc", "set", "state.json", "2"]] {
            let ended = place.tenure(ALICE, args);
            assert!(!ended.is_done(), "without a lock: {args:?}: {ended:?}");
            assert!(ended.stderr.contains(name), "{ended:?}");
            tally.tried(1, "sidecars that could not be opened");
        }
        set_mode(&sidecar, 0o600);
    }
    assert_eq!(std::fs::read_to_string(place.shared().join("state.json")).unwrap(), "1\n");
}
