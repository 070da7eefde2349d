//! Swaps files for links, pipes and directories.
//!
//! # Invariants
//!
//! 1. A swap is undone, or the name is left free. Nothing planted stays, since no command would get
//!    far enough to be attacked again. Other tests try planted files that stay.
//! 2. Bursts and pauses alternate, so that some commands succeed and others meet a swap in the
//!    middle of their work.

use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use tenure_testkit::Random;

use crate::counts::Counts;

/// The directory of the sidecars.
const SIDE: &str = ".tenure";
/// The same in a sticky directory, for a user who works there.
const SIDE_OF_ALICE: &str = ".tenure-61111";
/// The temporary file of a new document.
const TEMPORARY: &str = ".tenure/state.json.tmp.0000000000000000";
/// The names that are swapped, below the attacked directory; the sidecar directory as often as all
/// data.
const NAMES: [&str; 28] = [
    "state.json",
    "log.jsonl",
    "loose.json",
    SIDE,
    SIDE,
    SIDE,
    SIDE_OF_ALICE,
    SIDE_OF_ALICE,
    SIDE_OF_ALICE,
    ".tenure-0",
    ".tenure-0/state.json.hold",
    ".tenure-0/state.json.commit",
    ".tenure-61111/loose.json.hold",
    ".tenure-61111/loose.json.commit",
    ".tenure/.gitignore",
    ".tenure/floor",
    ".tenure/state.json.hold",
    ".tenure/state.json.commit",
    ".tenure/state.json.sync0",
    ".tenure/state.json.sync1",
    ".tenure/state.json.good",
    ".tenure/state.json.events",
    ".tenure/script.tmp",
    TEMPORARY,
    ".tenure/log.jsonl.hold",
    ".tenure/log.jsonl.commit",
    ".tenure/log.jsonl.log",
    ".tenure/log.jsonl.index",
];
/// What is planted; links first.
const PLANTS: [&str; 5] =
    ["a link to a secret", "a link to a directory", "a second name", "a pipe", "a file"];
const LINKS: usize = 2;

/// The most swaps in a burst, and the most milliseconds between two bursts.
const BURST: usize = 96;
const PAUSE_MS: u64 = 40;

/// The attack.
pub(crate) fn run() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, victim, seed] = args.as_slice() else {
        panic!("attacker DIR VICTIM SEED");
    };
    let (dir, victim) = (PathBuf::from(dir), PathBuf::from(victim));
    let mut random = Random::new(seed.parse().expect("a number"));
    let counts = Counts::answering();
    while !counts.is_over() {
        for _ in 0..=random.index(BURST) {
            let name = NAMES[random.index(NAMES.len())];
            if let Some(what) = swap(&dir.join(name), &victim, &mut random) {
                counts.add(place(name), what);
            }
        }
        rest(random.below(PAUSE_MS * 1000));
    }
}

/// What kind of place a name is.
fn place(name: &str) -> &'static str {
    match name {
        SIDE | SIDE_OF_ALICE => "directory",
        _ if name.starts_with(SIDE) => "sidecar",
        _ => "data",
    }
}

fn rest(micros: u64) {
    std::thread::sleep(Duration::from_micros(micros));
}

/// Whether this is a directory of sidecars, by its name.
fn is_side(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(SIDE.as_bytes()))
}

/// Whether names in the directory of `path` belong to their owners.
fn is_sticky(path: &Path) -> bool {
    let dir = path.parent().and_then(|dir| std::fs::metadata(dir).ok());
    dir.is_some_and(|dir| dir.permissions().mode() & 0o1000 != 0)
}

/// Replaces `name` for a moment, and returns what with, if it could.
fn swap(name: &Path, victim: &Path, random: &mut Random) -> Option<&'static str> {
    let (aside, planted) = (name.with_extension("aside"), name.with_extension("planted"));
    clear(&planted);
    // A link as a target is followed; only in a sticky directory is another user's link refused.
    let data = name.extension().is_some() && !name.parent().is_some_and(is_side);
    let first = if data && !is_sticky(name) { LINKS } else { 0 };
    let what = first + random.index(PLANTS.len() - first);
    let is_temporary = name.ends_with(TEMPORARY);
    // An attacker that can replace a temporary file by a link can also replace the document. But a
    // link that was there first must not be followed. If the link still becomes the document
    // (because the temporary file was removed just before), it leads nowhere: a file created
    // through it would show.
    let file = if is_temporary { "not there" } else { "secret" };
    plant(what, &planted, victim, file).ok()?;
    // In one step, so that the name always exists, or in two, so that another process may take it.
    let (kept, swapped) = if what < LINKS && is_temporary {
        (None, rename_new(&planted, name).is_ok())
    } else if random.coin() && exchange(&planted, name).is_ok() {
        (Some(planted.as_path()), true)
    } else {
        let kept = std::fs::rename(name, &aside).is_ok().then_some(aside.as_path());
        (kept, std::fs::rename(&planted, name).is_ok())
    };
    // A link in place of a link is no swap of the directory; in a sticky one the attacker comes
    // first.
    let real = !is_side(name) || kept.is_some_and(is_directory) || is_sticky(name);
    if random.chance(64) {
        rest(random.below(2000));
    }
    let sidecar = !data && !is_side(name);
    match kept {
        Some(kept) if !(sidecar && random.chance(32)) => put_back(kept, name),
        Some(kept) => [kept, name].into_iter().for_each(clear),
        None if swapped => clear(name),
        None => {}
    }
    clear(&planted);
    (swapped && real).then_some(PLANTS[what])
}

/// Makes one of [`PLANTS`]; `file` is what a link to a file leads to.
fn plant(what: usize, at: &Path, victim: &Path, file: &str) -> io::Result<()> {
    match what {
        0 => symlink(victim.join(file), at),
        1 => symlink(victim, at),
        2 => std::fs::hard_link(victim.join("mine"), at),
        3 => Ok(mknodat(CWD, at, FileType::Fifo, Mode::from_raw_mode(0o666), 0)?),
        _ => std::fs::write(at, "not what you think"),
    }
}

fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// Restores what was at `name`, and replaces what others have created there meanwhile.
fn put_back(kept: &Path, name: &Path) {
    match exchange(kept, name) {
        Ok(()) => clear(kept),
        Err(_) => drop(std::fs::rename(kept, name)),
    }
}

/// Removes whatever has this name, without following links.
fn clear(path: &Path) {
    let gone =
        if is_directory(path) { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    drop(gone);
}

/// Whether this is a directory, and not a link to one.
fn is_directory(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}
