//! Umasks and shared directories: nothing becomes readable or writable for more people than before.

use std::path::Path;
use std::process::Command;

use tenure_proof::machine::allows_root;
use tenure_proof::{Tally, bounded};

use crate::RING;
use crate::place::{ALICE, Place, mode};

const WORK: [&[&str]; 4] = [
    &["doc", "update", "state.json", ".n += 1", "--init", "{\"n\":0}"],
    &["journal", "append", "log.jsonl", "1", "2"],
    &["lease", "acquire", "task", "--ttl", "1ms"],
    &["run", "task", "--", "true"],
];

/// Who may do what with a file, beyond its owner.
pub(crate) fn for_others(path: &Path) -> u32 {
    mode(path) & 0o077
}

#[test]
fn g13_no_umask_opens_or_locks_anything() {
    if !allows_root() {
        return;
    }
    let mut tally = Tally::new(RING, "g13_no_umask_opens_or_locks_anything");
    for umask in ["000", "022", "077", "777"] {
        for directory in [0o700, 0o755, 0o775, 0o777, 0o1777] {
            let place = Place::new(directory);
            std::os::unix::fs::chown(place.shared(), Some(ALICE), Some(ALICE)).unwrap();
            // Twice: the first makes the files, the second must be able to use them.
            for args in WORK.iter().chain(&WORK) {
                // A new journal has the mode that the umask leaves: none at all, in this case.
                if umask == "777" && args[0] == "journal" {
                    continue;
                }
                let inner = place.command(ALICE, "tenure", args);
                let mut command = Command::new("sh");
                command.args(["-c", &format!("umask {umask}; exec \"$@\""), "sh"]);
                command.arg(inner.get_program()).args(inner.get_args());
                let ended = bounded::run({
                    command.current_dir(place.shared());
                    command
                });
                assert!(ended.is_done(), "umask {umask} in {directory:o}: {args:?}: {ended:?}");
                tally.tried(1, "commands under odd umasks");
            }
            for data in ["state.json", "log.jsonl"] {
                let path = place.shared().join(data);
                let closed = !path.exists() || mode(&path) == 0o600;
                assert!(closed, "{data}, umask {umask} in {directory:o}");
            }
            assert_eq!(mode(&place.shared()), directory, "the directory itself");
            for entry in std::fs::read_dir(place.shared().join(".tenure")).unwrap() {
                let path = entry.unwrap().path();
                // Closed by its directory, and no secret: one asterisk.
                if path.ends_with(".gitignore") {
                    continue;
                }
                let wider = for_others(&path) & !directory;
                let about = format!("{} {:o}, umask {umask}", path.display(), mode(&path));
                assert_eq!(wider, 0, "wider than its directory ({directory:o}): {about}");
                // What has the data in it is as closed as the data.
                let content = ["good", "wal", "index"]
                    .iter()
                    .any(|end| path.extension().is_some_and(|found| found == *end));
                assert!(!content || for_others(&path) == 0, "open to others: {about}");
            }
        }
    }
}
