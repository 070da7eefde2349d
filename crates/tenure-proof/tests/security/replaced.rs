//! A lock file, or the whole sidecar directory, replaced while a process holds the lock.

use std::os::unix::fs::symlink;
use std::path::Path;

use tenure_proof::Tally;
use tenure_proof::live::Live;
use tenure_proof::machine::allows_root;

use crate::RING;
use crate::place::{ALICE, MALLORY, Place};

/// What the holder's command does on request: a write that relies on the lock.
const HELD: &str =
    r#"echo ready; read -r go; "$1" doc update state.json '.n += 1'; echo "wrote $?""#;

/// What is done to the sidecars: given the sidecar directory, and one outside.
type Deed = fn(&Path, &Path);
const DEEDS: [(&str, Deed); 6] = [
    ("the lock file is removed", |side, _| {
        std::fs::remove_file(side.join("state.json.hold")).unwrap();
    }),
    ("the lock file is replaced", |side, _| {
        std::fs::write(side.join("new"), "").unwrap();
        std::fs::rename(side.join("new"), side.join("state.json.hold")).unwrap();
    }),
    ("the lock file becomes a link", |side, vault| {
        std::fs::remove_file(side.join("state.json.hold")).unwrap();
        symlink(vault.join("secret"), side.join("state.json.hold")).unwrap();
    }),
    ("the directory is removed", |side, _| std::fs::remove_dir_all(side).unwrap()),
    ("the directory is renamed", |side, _| {
        std::fs::rename(side, side.with_file_name("elsewhere")).unwrap();
    }),
    ("the directory becomes a link", |side, vault| {
        std::fs::rename(side, side.with_file_name("elsewhere")).unwrap();
        symlink(vault, side).unwrap();
    }),
];

#[test]
fn g1_a_holder_whose_lock_was_taken_away_is_told_and_fenced_off() {
    if !allows_root() {
        return;
    }
    let test = "g1_a_holder_whose_lock_was_taken_away_is_told_and_fenced_off";
    let mut tally = Tally::new(RING, test);
    for (what, deed) in DEEDS {
        let place = Place::new(0o777);
        let side = place.shared().join(".tenure");
        assert!(place.tenure(ALICE, &["doc", "set", "state.json", "{\"n\":0}"]).is_done());
        let tenure = place.path("tenure");
        let args = ["run", "state.json", "--", "sh", "-c", HELD, "sh", tenure.to_str().unwrap()];
        let mut holder = Live::start(place.command(ALICE, "tenure", &args));
        assert_eq!(holder.line().as_deref(), Some("ready"), "{what}");
        deed(&side, &place.path("vault"));
        // Exclusion is lost, but the next holder's fence blocks the first one's writes.
        let other = place.tenure(ALICE, &["run", "--wait", "0", "state.json", "--", "true"]);
        holder.say("go");
        let wrote = holder.line();
        let ended = holder.end();
        let late = other.is_done() && wrote.as_deref() == Some("wrote 0");
        assert!(!late, "{what}: a write after another process had the lock");
        assert_eq!(ended.code, Some(4), "{what}: it got no error: {ended:?}");
        place.vault_is_untouched();
        tally.tried(1, "locks taken away from their holder");
    }
}

#[test]
fn g13_nobody_works_through_a_link_in_place_of_the_sidecars() {
    if !allows_root() {
        return;
    }
    let test = "g13_nobody_works_through_a_link_in_place_of_the_sidecars";
    let mut tally = Tally::new(RING, test);
    for user in [0, ALICE, MALLORY] {
        let place = Place::new(0o777);
        std::fs::create_dir(place.path("trap")).unwrap();
        crate::place::set_mode(&place.path("trap"), 0o777);
        symlink(place.path("trap"), place.shared().join(".tenure")).unwrap();
        std::fs::write(place.shared().join("state.json"), "{}").unwrap();
        crate::place::set_mode(&place.shared().join("state.json"), 0o666);
        for args in [
            &["run", "state.json", "--", "true"][..],
            &["doc", "set", "state.json", "1"],
            &["journal", "append", "log.jsonl", "1"],
            &["lease", "acquire", "state.json", "--ttl", "1s"],
        ] {
            let ended = place.tenure(user, args);
            assert!(!ended.is_done(), "{args:?} as {user}: {ended:?}");
            let inside = std::fs::read_dir(place.path("trap")).unwrap().count();
            assert_eq!(inside, 0, "{args:?} as {user} worked through the link");
            tally.tried(1, "commands that met a link in place of the sidecars");
        }
        assert_eq!(std::fs::read_to_string(place.shared().join("state.json")).unwrap(), "{}");
    }
}
