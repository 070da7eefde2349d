//! Stopping at the n-th operation, and the message about it.

use std::io;
use std::path::Path;

use tenure::fs::{Access, Fs, Mode};
use tenure_testkit::{CrashKind, SimFs};

use crate::{machine, write};

fn path(text: &str) -> &Path {
    Path::new(text)
}

/// Seven changing operations, and others that do not count.
fn work(fs: &SimFs) -> io::Result<()> {
    let file = fs.open(path("/d/tmp"), Access::CreateNew(0o600))?;
    file.lock(Mode::Exclusive)?;
    file.write_all_at(b"x", 0)?;
    file.set_mode(0o640)?;
    file.set_len(2)?;
    file.sync()?;
    fs.stat(path("/d/tmp"))?;
    fs.rename(path("/d/tmp"), path("/d/a"))?;
    fs.open(path("/d/a"), Access::Create(0o600))?;
    fs.list(path("/d"))?;
    fs.sync_dir(path("/d"))
}

#[test]
fn only_changes_are_counted() -> io::Result<()> {
    let fs = machine(0);
    work(&fs)?;
    assert_eq!(fs.operations(), 7);
    Ok(())
}

#[test]
fn every_operation_fails_from_the_nth_change_on() {
    for nth in 1..=7 {
        let fs = machine(0);
        fs.fail_after(nth, CrashKind::Power);
        let error = work(&fs).map_err(|error| (error.kind(), error.to_string()));
        assert_eq!(error, Err((io::ErrorKind::Other, "crashed".into())), "{nth}");
        assert!(fs.is_down());
        assert_eq!(fs.operations(), nth);
        assert!(fs.stat(path("/d")).is_err());
        fs.crash();
        assert!(!fs.is_down());
        assert!(work(&fs).is_ok() || fs.peek("/d/tmp").is_some(), "the machine works again");
    }
    let fs = machine(0);
    fs.fail_after(8, CrashKind::Power);
    assert!(work(&fs).is_ok() && !fs.is_down());
}

#[test]
fn handles_from_before_a_crash_are_dead() -> io::Result<()> {
    let fs = machine(0);
    fs.add_file("/d/a", "x");
    let file = fs.open(path("/d/a"), Access::ReadWrite)?;
    let boot = fs.boot_id();
    fs.crash();
    assert_ne!(fs.boot_id(), boot);
    assert!(file.read_at(&mut [0], 0).is_err());
    assert!(file.write_at(b"y", 0).is_err());
    assert!(file.sync().is_err());
    assert!(file.stat().is_err());
    assert!(file.try_lock(Mode::Shared).is_err());
    assert!(file.unlock().is_err());
    assert_eq!(fs.peek("/d/a").as_deref(), Some(b"x".as_slice()));
    Ok(())
}

#[test]
fn a_broken_exchange_can_stop_half_way() -> io::Result<()> {
    let fs = machine(0);
    fs.break_promises(tenure_testkit::Broken {
        break_exchange_atomicity: true,
        ..Default::default()
    });
    write(&fs, "/d/a", b"A")?;
    write(&fs, "/d/b", b"B")?;
    fs.fail_after(1, CrashKind::Process);
    assert!(fs.exchange(path("/d/a"), path("/d/b")).is_err());
    assert_eq!(fs.peek("/d/a"), fs.peek("/d/b"));
    Ok(())
}

#[test]
fn the_history_names_the_seed_and_the_last_operations() -> io::Result<()> {
    let fs = machine(4711);
    for number in 0..60 {
        write(&fs, &format!("/d/{number}"), b"abc")?;
    }
    fs.fail_after(1, CrashKind::Power);
    assert!(fs.rename(path("/d/1"), path("/d/2")).is_err());
    fs.crash();
    let history = fs.history();
    assert!(history.starts_with("seed 4711, 121 changing operations"), "{history}");
    assert_eq!(history.lines().count(), 41);
    assert!(history.contains("Write /d/59 [0..+3]"), "{history}");
    assert!(history.contains("#121  p0 Rename /d/1 -> /d/2  ! down (Power)"), "{history}");
    assert!(history.contains("POWER LOSS"), "{history}");
    Ok(())
}
