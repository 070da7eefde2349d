//! Umasks and shared directories: nothing becomes readable or writable for more users than before.

use std::path::Path;
use std::process::Command;

use tenure_proof::bounded::{self, Ended};
use tenure_proof::machine::allows_root;
use tenure_proof::{Tally, strace};

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

/// A command of ALICE with this umask, started by `launcher`.
fn under_umask(place: &Place, launcher: &[&str], umask: &str, args: &[&str]) -> Ended {
    let inner = place.command(ALICE, "tenure", args);
    let mut command = Command::new(launcher[0]);
    command.args(&launcher[1..]).args(["sh", "-c", &format!("umask {umask}; exec \"$@\""), "sh"]);
    command.arg(inner.get_program()).args(inner.get_args()).current_dir(place.shared());
    bounded::run(command)
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
                let ended = under_umask(&place, &["env"], umask, args);
                assert!(ended.is_done(), "umask {umask} in {directory:o}: {args:?}: {ended:?}");
                tally.tried(1, "commands under odd umasks");
            }
            for data in ["state.json", "log.jsonl"] {
                let path = place.shared().join(data);
                assert_eq!(mode(&path), 0o600, "{data}, umask {umask} in {directory:o}");
            }
            assert_eq!(mode(&place.shared()), directory, "the directory itself");
            let shared = directory & 0o1000 != 0;
            let side = if shared { format!(".tenure-{ALICE}") } else { ".tenure".to_owned() };
            for entry in std::fs::read_dir(place.shared().join(side)).unwrap() {
                let path = entry.unwrap().path();
                // Closed by its directory, and no secret: one asterisk.
                if path.ends_with(".gitignore") {
                    continue;
                }
                let allowed = if shared { 0 } else { directory };
                let wider = for_others(&path) & !allowed;
                let about = format!("{} {:o}, umask {umask}", path.display(), mode(&path));
                assert_eq!(wider, 0, "wider than its directory ({directory:o}): {about}");
                // Files with data are as closed as the data.
                let content = ["good", "wal", "index"]
                    .iter()
                    .any(|end| path.extension().is_some_and(|found| found == *end));
                assert!(!content || for_others(&path) == 0, "open to others: {about}");
            }
        }
    }
}

#[test]
fn g13_a_death_while_a_journal_is_made_leaves_none_that_its_owner_cannot_open() {
    if !allows_root() || !strace::available() {
        return;
    }
    let test = "g13_a_death_while_a_journal_is_made_leaves_none_that_its_owner_cannot_open";
    let mut tally = Tally::new(RING, test);
    let append = WORK[1];
    for call in ["fchmod", "renameat2"] {
        let place = Place::new(0o700);
        std::os::unix::fs::chown(place.shared(), Some(ALICE), Some(ALICE)).unwrap();
        let journal = place.shared().join("log.jsonl");
        // The sidecars exist, so that the first call of its kind is for the journal.
        assert!(place.tenure(ALICE, append).is_done());
        std::fs::remove_file(&journal).unwrap();
        let inject = format!("inject={call}:signal=KILL:when=1");
        let dies = ["strace", "-qq", "-o", "/dev/null", "-e", &inject];
        let killed = under_umask(&place, &dies, "777", append);
        assert!(!killed.is_done(), "it was not killed at {call}: {killed:?}");
        assert!(!journal.exists() || mode(&journal) == 0o600, "after a death at {call}");
        let next = under_umask(&place, &["env"], "777", append);
        assert!(next.is_done(), "after a death at {call}: {next:?}");
        assert_eq!(mode(&journal), 0o600, "after a death at {call}");
        tally.tried(1, "deaths while a journal is made under an odd umask");
    }
}
