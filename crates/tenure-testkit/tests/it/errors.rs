//! Errors without a crash.

use std::io;
use std::path::Path;

use tenure::fs::{Access, Fs, Mode};
use tenure_testkit::{Broken, Fault, Times};

use crate::{machine, write};

fn path(text: &str) -> &Path {
    Path::new(text)
}

#[test]
fn a_full_disk_refuses_writes_and_names_but_not_removals() -> io::Result<()> {
    let fs = machine(0);
    fs.add_file("/d/a", "x");
    fs.inject(1, Fault::NoSpace, Times::Forever);
    let full = |outcome: io::Result<()>| {
        assert_eq!(outcome.map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull));
    };
    full(write(&fs, "/d/a", b"y"));
    full(write(&fs, "/d/b", b"y"));
    full(fs.create_dir(path("/d/c"), 0o700));
    full(fs.link(path("/d/a"), path("/d/b")));
    assert_eq!(fs.faults_fired(), 4);
    fs.remove(path("/d/a"))?;
    fs.sync_dir(path("/d"))?;
    fs.clear_faults();
    write(&fs, "/d/b", b"y")
}

#[test]
fn a_fault_counts_only_what_it_can_hit() -> io::Result<()> {
    let fs = machine(0);
    fs.inject(2, Fault::NoSpace, Times::Once);
    let file = fs.open(path("/d/a"), Access::Create(0o600))?;
    file.sync()?;
    fs.sync_dir(path("/d"))?;
    assert_eq!(fs.faults_fired(), 0);
    assert!(file.write_at(b"x", 0).is_err());
    assert_eq!(file.write_at(b"x", 0)?, 1);
    assert_eq!(fs.faults_fired(), 1);
    Ok(())
}

#[test]
fn an_io_error_hits_reads_and_changes() -> io::Result<()> {
    let fs = machine(0);
    fs.add_file("/d/a", "x");
    let file = fs.open(path("/d/a"), Access::ReadWrite)?;
    fs.inject(1, Fault::Io, Times::Once);
    assert!(file.read_at(&mut [0], 0).is_err());
    assert_eq!(file.read_at(&mut [0], 0)?, 1);
    fs.inject(1, Fault::Io, Times::Once);
    assert!(fs.rename(path("/d/a"), path("/d/b")).is_err());
    assert!(fs.peek("/d/a").is_some() && fs.peek("/d/b").is_none());
    Ok(())
}

#[test]
fn descriptors_can_run_out() -> io::Result<()> {
    let fs = machine(0);
    fs.add_file("/d/a", "x");
    fs.inject(2, Fault::TooManyFiles, Times::Once);
    let _first = fs.open(path("/d/a"), Access::Read)?;
    assert!(fs.open(path("/d/b"), Access::CreateNew(0o600)).is_err());
    assert!(fs.peek("/d/b").is_none(), "a failed open creates nothing");
    fs.open(path("/d/a"), Access::Read).map(drop)
}

#[test]
fn a_short_write_says_how_much_and_the_rest_can_follow() -> io::Result<()> {
    let fs = machine(0);
    let file = fs.open(path("/d/a"), Access::Create(0o600))?;
    fs.inject(1, Fault::ShortWrite, Times::Once);
    assert_eq!(file.write_at(b"12345", 0)?, 3);
    fs.inject(1, Fault::ShortWrite, Times::Forever);
    file.write_all_at(b"abcdefgh", 0)?;
    assert_eq!(fs.peek("/d/a").as_deref(), Some(b"abcdefgh".as_slice()));

    let tail = fs.open(path("/d/a"), Access::Append)?;
    assert_eq!(tail.append(b"ij")?.0, 1);
    assert_eq!(fs.peek("/d/a").as_deref(), Some(b"abcdefghi".as_slice()));
    Ok(())
}

#[test]
fn a_file_system_can_be_poor() -> io::Result<()> {
    let fs = machine(0);
    fs.add_file("/d/a", "x");
    fs.add_file("/d/b", "y");
    fs.inject(1, Fault::NoExchange, Times::Forever);
    fs.inject(1, Fault::NoLocks, Times::Forever);
    let exchanged = fs.exchange(path("/d/a"), path("/d/b")).map_err(|error| error.kind());
    assert_eq!(exchanged, Err(io::ErrorKind::Unsupported));
    let file = fs.open(path("/d/a"), Access::ReadWrite)?;
    assert!(file.try_lock(Mode::Shared).is_err());
    fs.crash();
    assert!(fs.exchange(path("/d/a"), path("/d/b")).is_err(), "a reboot does not fix it");
    fs.inject(1, Fault::ReadOnly, Times::Forever);
    let removed = fs.remove(path("/d/a")).map_err(|error| error.kind());
    assert_eq!(removed, Err(io::ErrorKind::ReadOnlyFilesystem));
    Ok(())
}

#[test]
fn a_failing_sync_of_files_leaves_directories_alone_and_can_be_withdrawn() -> io::Result<()> {
    let fs = machine(0);
    fs.inject(1, Fault::FileSyncFailure, Times::Once);
    let file = fs.open(path("/d/a"), Access::Create(0o600))?;
    fs.sync_dir(path("/d"))?;
    assert!(file.sync().is_err());
    assert!(!fs.withdraw(Fault::FileSyncFailure), "it has come");
    fs.inject(1, Fault::FileSyncFailure, Times::Once);
    fs.inject(1, Fault::NoLocks, Times::Once);
    assert!(fs.withdraw(Fault::FileSyncFailure), "it was still to come");
    file.sync()?;
    assert!(file.try_lock(Mode::Exclusive).is_err(), "others stay");
    Ok(())
}

#[test]
fn a_disk_can_hide_that_a_sync_failed() -> io::Result<()> {
    let lost = |seed| {
        let fs = machine(seed);
        fs.break_promises(Broken { hide_sync_failures: true, ..Broken::default() });
        fs.add_file("/d/a", "old");
        let file = fs.open(path("/d/a"), Access::ReadWrite)?;
        file.write_all_at(b"new", 0)?;
        fs.inject(1, Fault::FileSyncFailure, Times::Once);
        file.sync()?;
        fs.crash();
        io::Result::Ok(fs.peek("/d/a") == Some(b"old".to_vec()))
    };
    let lost: Vec<bool> = (0..20).map(lost).collect::<io::Result<_>>()?;
    assert!(lost.contains(&true));
    Ok(())
}
