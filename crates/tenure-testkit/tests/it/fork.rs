//! The same seed gives the same disk; a copy goes its own way.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use tenure::fs::{Access, Fs, Mode};
use tenure_testkit::{CrashKind, SimFs};

use crate::{machine, write};

fn stopped(seed: u64) -> SimFs {
    let fs = machine(seed);
    fs.fail_after(9, CrashKind::Power);
    let _stopped: io::Result<()> =
        (0..20).try_for_each(|n| write(&fs, &format!("/d/{n}"), &[n; 9]));
    fs.crash();
    fs
}

fn disk(fs: &SimFs) -> Vec<Option<Vec<u8>>> {
    (0..20).map(|n| fs.peek(format!("/d/{n}"))).collect()
}

#[test]
fn a_seed_repeats_everything() {
    let mut different = BTreeSet::new();
    for seed in 0..100 {
        let (one, other) = (stopped(seed), stopped(seed));
        assert_eq!(disk(&one), disk(&other));
        assert_eq!(one.history(), other.history());
        different.insert(disk(&one));
    }
    assert!(different.len() > 30, "seeds differ: {}", different.len());
}

#[test]
fn one_state_can_be_crashed_in_many_ways() -> io::Result<()> {
    let fs = machine(1);
    let file = fs.open(Path::new("/d/a"), Access::Create(0o600))?;
    assert!(file.try_lock(Mode::Exclusive)?);
    file.write_all_at(b"xy", 0)?;
    let mut found = BTreeSet::new();
    for seed in 0..500 {
        let copy = fs.fork(seed);
        assert!(copy.open(Path::new("/d/a"), Access::Read)?.try_lock(Mode::Exclusive)?);
        copy.crash();
        found.insert(copy.peek("/d/a"));
    }
    assert!(found.len() >= 5, "{found:?}");
    assert_eq!(file.read_range(0, 9)?, b"xy", "the original is as it was");
    Ok(())
}
