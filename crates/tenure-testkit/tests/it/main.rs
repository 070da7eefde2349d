//! The rules of the simulated disk, each with the classic example that needs it.

mod contents;
mod errors;
mod files;
mod fork;
mod invariants;
mod locks;
mod names;
mod process;
mod real;
mod replace;
mod stop;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use tenure::fs::{Access, Fs};
use tenure_testkit::SimFs;

/// How many crashes count as "every": each rule below has far fewer outcomes.
const MANY: u64 = 2_000;

/// A machine with an empty directory `/d`.
fn machine(seed: u64) -> SimFs {
    let fs = SimFs::new(seed);
    fs.add_dir("/d");
    fs
}

/// Creates a file with this content; syncs nothing.
fn write(fs: &SimFs, path: &str, bytes: &[u8]) -> io::Result<()> {
    fs.open(Path::new(path), Access::Create(0o600))?.write_all_at(bytes, 0)
}

fn sync(fs: &SimFs, path: &str) -> io::Result<()> {
    fs.open(Path::new(path), Access::Read)?.sync()
}

/// Every different state that the disk can have after a power loss.
fn after_power_loss<T: Ord>(
    work: impl Fn(&SimFs) -> io::Result<()>,
    look: impl Fn(&SimFs) -> T,
) -> io::Result<BTreeSet<T>> {
    let mut found = BTreeSet::new();
    for seed in 0..MANY {
        let fs = machine(seed);
        let _tell = fs.tell_on_panic();
        work(&fs)?;
        fs.crash();
        found.insert(look(&fs));
    }
    Ok(found)
}

/// Which of the files there are, and what is in them.
fn contents<const N: usize>(paths: [&'static str; N]) -> impl Fn(&SimFs) -> [Option<String>; N] {
    move |fs| paths.map(|path| fs.peek(path).map(|bytes| String::from_utf8_lossy(&bytes).into()))
}

/// The shorthand for one outcome of [`contents`].
fn outcome<const N: usize>(values: [Option<&str>; N]) -> [Option<String>; N] {
    values.map(|value| value.map(String::from))
}
