//! What this ring must find: locks and writers as people write them, with the same checks.

#![expect(clippy::disallowed_methods, reason = "written as others write")]

use std::path::Path;
use std::process::Command;

use tenure_proof::Tally;
use tenure_proof::live::Live;
use tenure_proof::mount::{Mounted, Turn, may_mount};

use crate::RING;
use crate::suite::fill;

/// A command of a shell, with `path` as its `$0`.
fn script(text: &str, path: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", text]).arg(path);
    command
}

/// `flock` trusts the server: on this file system two processes have the lock.
pub(crate) fn believed(path: &Path) {
    let holder = Live::start(script("exec flock \"$0\" sh -c 'echo held; cat'", path));
    assert_eq!(holder.line().as_deref(), Some("held"));
    let second = script("exec flock -n \"$0\" true", path).status();
    assert!(second.is_ok_and(|status| status.success()), "two holders were not found out");
    holder.end(); // No process may have the file open at the unmount.
}

fn on_memory(test: &str, attack: impl FnOnce(&Path, &mut Tally)) {
    if may_mount("tmpfs") {
        let _turn = Turn::take();
        let mut tally = Tally::new(RING, test);
        let mounted = Mounted::new("none".as_ref(), "tmpfs", "size=4m");
        attack(mounted.path(), &mut tally);
        mounted.unmount();
    }
}

#[test]
fn a_lock_directory_outlives_its_holder() {
    on_memory("a_lock_directory_outlives_its_holder", |dir, tally| {
        let path = dir.join("turn.lock");
        let holder = Live::start(script("mkdir \"$0\" && echo held && cat; rmdir \"$0\"", &path));
        assert_eq!(holder.line().as_deref(), Some("held"));
        holder.kill();
        holder.end();
        let next = script("mkdir \"$0\" 2>/dev/null", &path).status();
        assert!(next.is_ok_and(|status| !status.success()), "a standstill was not found out");
        std::fs::remove_dir(&path).unwrap();
        tally.caught(
            "a lock directory: it outlives its holder, and every caller waits for a dead process",
        );
    });
}

#[test]
fn a_write_in_place_loses_both_versions_on_a_full_disk() {
    on_memory("a_write_in_place_loses_both_versions_on_a_full_disk", |dir, tally| {
        let path = dir.join("state.json");
        let (old, new) = (r#"{"old":true}"#, format!("{{\"new\":\"{}\"}}", "x".repeat(2 << 20)));
        std::fs::write(&path, old).unwrap();
        fill(&dir.join("filler"));
        let refused = std::fs::write(&path, &new);
        let found = std::fs::read_to_string(&path).unwrap();
        let lost = refused.is_err() && found != old && found != new;
        assert!(lost, "the loss of a document was not found out");
        tally.caught("a write in place: a full disk leaves neither version");
    });
}

#[test]
fn changes_without_a_lock_are_lost() {
    on_memory("changes_without_a_lock_are_lost", |dir, tally| {
        let path = dir.join("count");
        std::fs::write(&path, "0").unwrap();
        // Both have read before the first of them writes.
        let change = "n=$(cat \"$0\"); echo read; read -r go; \
                      echo $((n + 1)) > \"$0.$$\" && mv \"$0.$$\" \"$0\"";
        let mut both = [(); 2].map(|()| Live::start(script(change, &path)));
        for one in &both {
            assert_eq!(one.line().as_deref(), Some("read"));
        }
        for one in &mut both {
            one.say("go");
        }
        for one in both {
            assert_eq!(one.end().code, Some(0));
        }
        let count = std::fs::read_to_string(&path).unwrap();
        assert_eq!(count.trim(), "1", "a lost update was not found out");
        tally.caught("load, change, rename without a lock: a lost update");
    });
}
