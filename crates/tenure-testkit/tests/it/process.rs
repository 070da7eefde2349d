//! A process dies; the kernel lives.

use std::io;
use std::path::Path;

use tenure::fs::{Access, Fs};
use tenure_testkit::CrashKind;

use crate::{machine, write};

#[test]
fn a_process_crash_keeps_everything_that_was_written() -> io::Result<()> {
    let fs = machine(3);
    let boot = fs.boot_id();
    write(&fs, "/d/tmp", b"new")?;
    fs.rename(Path::new("/d/tmp"), Path::new("/d/a"))?;
    fs.process_crash();
    assert_eq!(fs.peek("/d/a").as_deref(), Some(b"new".as_slice()));
    assert_eq!(fs.peek("/d/tmp"), None);
    assert_eq!(fs.boot_id(), boot);
    Ok(())
}

#[test]
fn what_a_dead_process_wrote_is_still_not_durable() -> io::Result<()> {
    // The compound failure: A dies before it syncs the directory, B finds the file and trusts it.
    let lost = |sync_dir: bool| -> io::Result<bool> {
        for seed in 0..500 {
            let fs = machine(seed);
            write(&fs, "/d/a", b"")?;
            fs.process_crash();
            let file = fs.open(Path::new("/d/a"), Access::ReadWrite)?;
            file.write_all_at(b"acknowledged", 0)?;
            file.sync()?;
            if sync_dir {
                fs.sync_dir(Path::new("/d"))?;
            }
            fs.crash();
            if fs.peek("/d/a").as_deref() != Some(b"acknowledged") {
                return Ok(true);
            }
        }
        Ok(false)
    };
    assert!(lost(false)?);
    assert!(!lost(true)?);
    Ok(())
}

#[test]
fn only_the_process_that_was_to_die_dies() -> io::Result<()> {
    let fs = machine(0);
    let neighbour = fs.another_process();
    fs.fail_after(2, CrashKind::Process);
    fs.create_dir(Path::new("/d/one"), 0o700)?;
    neighbour.create_dir(Path::new("/d/two"), 0o700)?;
    assert!(fs.create_dir(Path::new("/d/three"), 0o700).is_err());
    assert!(fs.is_down() && !neighbour.is_down());
    neighbour.create_dir(Path::new("/d/four"), 0o700)?;
    fs.process_crash();
    fs.create_dir(Path::new("/d/five"), 0o700)
}

/// The kernel notices a kill between two pages: what is left ends at a multiple of a sector.
#[test]
fn a_process_can_die_in_the_middle_of_a_write() -> io::Result<()> {
    let mut lengths = std::collections::BTreeSet::new();
    let bytes: Vec<u8> = (0..1100_u32).map(|at| at.to_le_bytes()[0]).collect();
    for seed in 0..500 {
        let fs = machine(seed);
        let file = fs.open(Path::new("/d/a"), Access::Create(0o600))?;
        fs.fail_after(1, CrashKind::Process);
        assert!(file.write_at(&bytes, 0).is_err());
        fs.process_crash();
        let left = fs.peek("/d/a").unwrap_or_default();
        assert!(bytes.starts_with(&left), "a kernel writes from the front");
        lengths.insert(left.len());
    }
    assert_eq!(lengths, [0, 512, 1024].into());
    Ok(())
}

#[test]
fn power_is_not_restored_by_a_new_process() {
    let fs = machine(0);
    fs.fail_after(1, CrashKind::Power);
    assert!(fs.create_dir(Path::new("/d/one"), 0o700).is_err());
    fs.process_crash();
    assert!(fs.create_dir(Path::new("/d/one"), 0o700).is_err());
    fs.crash();
    assert!(fs.create_dir(Path::new("/d/one"), 0o700).is_ok());
}
