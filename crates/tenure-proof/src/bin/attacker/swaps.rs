//! Swaps files for links, pipes and directories, as fast as possible.

use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tenure_testkit::Random;

/// What is swapped, below the attacked directory.
const NAMES: [&str; 16] = [
    "state.json",
    "log.jsonl",
    ".tenure",
    ".tenure/.gitignore",
    ".tenure/floor",
    ".tenure/state.json.hold",
    ".tenure/state.json.commit",
    ".tenure/state.json.sync0",
    ".tenure/state.json.sync1",
    ".tenure/state.json.good",
    ".tenure/state.json.events",
    ".tenure/state.json.tmp.0000000000000000",
    ".tenure/log.jsonl.hold",
    ".tenure/log.jsonl.commit",
    ".tenure/log.jsonl.wal",
    ".tenure/log.jsonl.index",
];

/// See the top of `main.rs`.
pub(crate) fn run() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, victim, seed] = args.as_slice() else {
        panic!("attacker DIR VICTIM SEED");
    };
    let (dir, victim) = (PathBuf::from(dir), PathBuf::from(victim));
    let mut random = Random::new(seed.parse().expect("a number"));
    let over = Arc::new(AtomicBool::new(false));
    let told = over.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        told.store(true, Ordering::SeqCst);
    });
    let mut swaps = 0_u64;
    while !over.load(Ordering::SeqCst) {
        let name = dir.join(NAMES[random.index(NAMES.len())]);
        swaps += u64::from(swap(&name, &victim, &mut random));
    }
    println!("{swaps}");
}

/// Whether names in the directory of `path` belong to their owners.
fn is_sticky(path: &Path) -> bool {
    let dir = path.parent().and_then(|dir| std::fs::metadata(dir).ok());
    dir.is_some_and(|dir| dir.permissions().mode() & 0o1000 != 0)
}

/// Puts something else in the place of `name` for a moment, and sometimes leaves it there.
fn swap(name: &Path, victim: &Path, random: &mut Random) -> bool {
    let (aside, planted) = (name.with_extension("aside"), name.with_extension("planted"));
    let _ = std::fs::remove_file(&planted);
    // A target is what its name leads to; only in a sticky directory is a link of others refused.
    let data =
        name.extension().is_some() && !name.parent().is_some_and(|dir| dir.ends_with(".tenure"));
    let first = if data && !is_sticky(name) { 3 } else { 0 };
    let made = match first + random.below(6 - first) {
        0 | 1 => symlink(victim.join("secret"), &planted),
        2 => symlink(victim, &planted),
        3 => std::fs::hard_link(victim.join("mine"), &planted),
        4 => {
            let mode = Mode::from_raw_mode(0o666);
            mknodat(CWD, &planted, FileType::Fifo, mode, 0).map_err(std::io::Error::from)
        }
        _ => std::fs::write(&planted, "not what you think"),
    };
    let there = made.is_ok() && std::fs::rename(name, &aside).is_ok();
    let swapped = made.is_ok() && std::fs::rename(&planted, name).is_ok();
    if there && random.chance(200) {
        if name.is_dir() != aside.is_dir() {
            let _ = std::fs::remove_file(name);
        }
        let _ = std::fs::rename(&aside, name);
    }
    let _ = std::fs::remove_file(&planted).and_then(|()| std::fs::remove_file(&aside));
    swapped
}
