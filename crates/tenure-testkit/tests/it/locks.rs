//! Locks belong to handles.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tenure::fs::{Access, Fs, Handle, Mode};
use tenure_testkit::SimFs;

use crate::machine;

fn open(fs: &SimFs) -> io::Result<Arc<dyn Handle>> {
    fs.open(Path::new("/d/lock"), Access::Create(0o600))
}

#[test]
fn an_exclusive_lock_excludes_other_handles_and_not_its_own() -> io::Result<()> {
    let fs = machine(0);
    let (one, other) = (open(&fs)?, open(&fs)?);
    assert!(one.try_lock(Mode::Exclusive)?);
    assert!(one.try_lock(Mode::Exclusive)?);
    assert!(!other.try_lock(Mode::Exclusive)?);
    assert!(!other.try_lock(Mode::Shared)?);
    one.unlock()?;
    assert!(other.try_lock(Mode::Exclusive)?);
    Ok(())
}

#[test]
fn shared_locks_go_together() -> io::Result<()> {
    let fs = machine(0);
    let (one, other, third) = (open(&fs)?, open(&fs)?, open(&fs)?);
    assert!(one.try_lock(Mode::Shared)?);
    assert!(other.try_lock(Mode::Shared)?);
    assert!(!third.try_lock(Mode::Exclusive)?);
    Ok(())
}

#[test]
fn a_failed_conversion_loses_the_first_lock_as_flock_does() -> io::Result<()> {
    let fs = machine(0);
    let (one, other) = (open(&fs)?, open(&fs)?);
    assert!(one.try_lock(Mode::Shared)? && other.try_lock(Mode::Shared)?);
    assert!(!one.try_lock(Mode::Exclusive)?);
    assert!(other.try_lock(Mode::Exclusive)?, "no other handle has it any more");
    Ok(())
}

#[test]
fn the_last_copy_of_a_handle_releases_the_lock() -> io::Result<()> {
    let fs = machine(0);
    let (one, other) = (open(&fs)?, open(&fs)?);
    let copy = one.clone();
    assert!(one.try_lock(Mode::Exclusive)?);
    drop(one);
    assert!(!other.try_lock(Mode::Exclusive)?);
    drop(copy);
    assert!(other.try_lock(Mode::Exclusive)?);
    Ok(())
}

#[test]
fn a_lock_that_would_block_for_ever_is_an_error() -> io::Result<()> {
    let fs = machine(0);
    let (one, other) = (open(&fs)?, open(&fs)?);
    one.lock(Mode::Exclusive)?;
    let blocked = other.lock(Mode::Shared).map_err(|error| error.kind());
    assert_eq!(blocked, Err(io::ErrorKind::WouldBlock));
    Ok(())
}

#[test]
fn a_lock_is_on_the_inode_and_not_on_the_name() -> io::Result<()> {
    let fs = machine(0);
    let one = open(&fs)?;
    assert!(one.try_lock(Mode::Exclusive)?);
    fs.remove(Path::new("/d/lock"))?;
    let other = open(&fs)?;
    assert_ne!(one.stat()?.id, other.stat()?.id);
    assert!(other.try_lock(Mode::Exclusive)?);
    Ok(())
}

#[test]
fn a_dead_process_has_no_locks_and_another_keeps_its_own() -> io::Result<()> {
    let fs = machine(0);
    let neighbour = fs.another_process();
    let (one, other) = (open(&fs)?, open(&neighbour)?);
    assert!(one.try_lock(Mode::Exclusive)?);
    neighbour.process_crash();
    assert!(other.try_lock(Mode::Shared).is_err(), "its handles are dead");
    let other = open(&neighbour)?;
    assert!(!other.try_lock(Mode::Shared)?, "the first process lives");
    fs.process_crash();
    assert!(other.try_lock(Mode::Exclusive)?);
    drop(one);
    assert!(!open(&fs)?.try_lock(Mode::Shared)?, "a dead handle releases nothing");
    Ok(())
}
