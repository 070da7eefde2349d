//! What a power loss leaves of names.

use std::io;
use std::path::Path;

use tenure::fs::{Access, Fs};
use tenure_testkit::{Broken, Fault, SimFs, Times};

use crate::{after_power_loss, contents, outcome, sync, write};

fn path(text: &str) -> &Path {
    Path::new(text)
}

#[test]
fn a_created_file_can_vanish_although_it_was_synced() -> io::Result<()> {
    let work = |fs: &SimFs| {
        write(fs, "/d/a", b"x")?;
        sync(fs, "/d/a")
    };
    let found = after_power_loss(work, contents(["/d/a"]))?;
    assert_eq!(found, [outcome([None]), outcome([Some("x")])].into());

    let synced = |fs: &SimFs| work(fs).and_then(|()| fs.sync_dir(path("/d")));
    let found = after_power_loss(synced, contents(["/d/a"]))?;
    assert_eq!(found, [outcome([Some("x")])].into());
    Ok(())
}

#[test]
fn write_and_rename_without_a_sync_can_give_an_empty_file() -> io::Result<()> {
    let replace = |fs: &SimFs, with_sync: bool| {
        fs.add_file("/d/a", "old");
        write(fs, "/d/tmp", b"new")?;
        if with_sync {
            sync(fs, "/d/tmp")?;
        }
        fs.rename(path("/d/tmp"), path("/d/a"))?;
        fs.sync_dir(path("/d"))
    };
    let found = after_power_loss(|fs| replace(fs, false), contents(["/d/a"]))?;
    assert!(found.contains(&outcome([Some("")])), "{found:?}");
    assert!(!found.contains(&outcome([Some("old")])), "the name was synced");

    let found = after_power_loss(|fs| replace(fs, true), contents(["/d/a"]))?;
    assert_eq!(found, [outcome([Some("new")])].into());
    Ok(())
}

#[test]
fn a_rename_carries_the_inode_and_not_the_name() -> io::Result<()> {
    // The second file of the same temporary name must never appear under the first target.
    let work = |fs: &SimFs| {
        for (text, target) in [("1", "/d/one"), ("2", "/d/two")] {
            write(fs, "/d/tmp", text.as_bytes())?;
            sync(fs, "/d/tmp")?;
            fs.rename(path("/d/tmp"), path(target))?;
        }
        Ok(())
    };
    let found = after_power_loss(work, contents(["/d/one", "/d/two"]))?;
    for [one, two] in &found {
        assert!(matches!(one.as_deref(), None | Some("1")), "{found:?}");
        assert!(matches!(two.as_deref(), None | Some("2")), "{found:?}");
    }
    Ok(())
}

#[test]
fn later_operations_on_a_name_wait_for_the_earlier_ones() -> io::Result<()> {
    // a -> b -> c: c with a still there would be one file moved and not moved.
    let work = |fs: &SimFs| {
        fs.add_file("/d/a", "x");
        fs.rename(path("/d/a"), path("/d/b"))?;
        fs.rename(path("/d/b"), path("/d/c"))
    };
    let found = after_power_loss(work, contents(["/d/a", "/d/b", "/d/c"]))?;
    let x = Some("x");
    let expected = [[x, None, None], [None, x, None], [None, None, x]].map(outcome);
    assert_eq!(found, expected.into());
    Ok(())
}

#[test]
fn different_names_of_one_directory_have_no_order() -> io::Result<()> {
    let work = |fs: &SimFs| {
        write(fs, "/d/a", b"")?;
        write(fs, "/d/b", b"")
    };
    let found = after_power_loss(work, contents(["/d/a", "/d/b"]))?;
    assert_eq!(found.len(), 4, "{found:?}");
    Ok(())
}

fn two_directories(fs: &SimFs) {
    fs.add_dir("/e");
    fs.add_file("/d/a", "A");
    fs.add_file("/e/b", "B");
}

#[test]
fn a_rename_between_directories_is_one_operation() -> io::Result<()> {
    let work = |fs: &SimFs| {
        two_directories(fs);
        fs.rename(path("/d/a"), path("/e/b"))
    };
    let before = outcome([Some("A"), Some("B")]);
    let after = outcome([None, Some("A")]);
    let found = after_power_loss(work, contents(["/d/a", "/e/b"]))?;
    assert_eq!(found, [before, after.clone()].into());
    for dir in ["/d", "/e"] {
        let synced = |fs: &SimFs| work(fs).and_then(|()| fs.sync_dir(path(dir)));
        let found = after_power_loss(synced, contents(["/d/a", "/e/b"]))?;
        assert_eq!(found, [after.clone()].into(), "sync of {dir}");
    }
    Ok(())
}

#[test]
fn syncing_a_directory_brings_what_its_names_follow_from() -> io::Result<()> {
    let work = |fs: &SimFs| {
        two_directories(fs);
        fs.add_dir("/f");
        fs.rename(path("/d/a"), path("/e/moved"))?;
        fs.rename(path("/e/moved"), path("/f/moved"))?;
        fs.sync_dir(path("/f"))
    };
    let found = after_power_loss(work, contents(["/d/a", "/e/moved", "/f/moved"]))?;
    assert_eq!(found, [outcome([None, None, Some("A")])].into());
    Ok(())
}

#[test]
fn an_exchange_is_atomic_also_between_directories() -> io::Result<()> {
    let work = |fs: &SimFs| {
        two_directories(fs);
        fs.exchange(path("/d/a"), path("/e/b"))
    };
    let before = outcome([Some("A"), Some("B")]);
    let after = outcome([Some("B"), Some("A")]);
    let found = after_power_loss(work, contents(["/d/a", "/e/b"]))?;
    assert_eq!(found, [before, after.clone()].into());

    let synced = |fs: &SimFs| work(fs).and_then(|()| fs.sync_dir(path("/e")));
    let found = after_power_loss(synced, contents(["/d/a", "/e/b"]))?;
    assert_eq!(found, [after].into());
    Ok(())
}

#[test]
fn a_broken_exchange_loses_a_file() -> io::Result<()> {
    let work = |fs: &SimFs| {
        two_directories(fs);
        fs.break_promises(Broken { break_exchange_atomicity: true, ..Broken::default() });
        fs.exchange(path("/d/a"), path("/e/b"))
    };
    let found = after_power_loss(work, contents(["/d/a", "/e/b"]))?;
    assert!(found.contains(&outcome([Some("B"), Some("B")])), "{found:?}");
    Ok(())
}

#[test]
fn a_file_in_a_new_directory_needs_both_directories_synced() -> io::Result<()> {
    let work = |fs: &SimFs| {
        fs.create_dir(path("/d/new"), 0o700)?;
        write(fs, "/d/new/a", b"x")?;
        sync(fs, "/d/new/a")?;
        fs.sync_dir(path("/d/new"))
    };
    let found = after_power_loss(work, contents(["/d/new/a"]))?;
    assert_eq!(found, [outcome([None]), outcome([Some("x")])].into());

    let synced = |fs: &SimFs| work(fs).and_then(|()| fs.sync_dir(path("/d")));
    let found = after_power_loss(synced, contents(["/d/new/a"]))?;
    assert_eq!(found, [outcome([Some("x")])].into());
    Ok(())
}

#[test]
fn links_and_removals_are_pending_too() -> io::Result<()> {
    let work = |fs: &SimFs| {
        fs.add_file("/d/a", "x");
        fs.link(path("/d/a"), path("/d/b"))?;
        fs.sync_dir(path("/d"))?;
        fs.remove(path("/d/a"))
    };
    let found = after_power_loss(work, contents(["/d/a", "/d/b"]))?;
    let expected = [[Some("x"), Some("x")], [None, Some("x")]].map(outcome);
    assert_eq!(found, expected.into());
    Ok(())
}

#[test]
fn a_failed_directory_sync_forgets_its_names() -> io::Result<()> {
    let work = |fs: &SimFs| {
        write(fs, "/d/a", b"")?;
        fs.inject(1, Fault::SyncFailure, Times::Once);
        assert!(fs.sync_dir(path("/d")).is_err());
        assert!(fs.peek("/d/a").is_some(), "still visible");
        fs.sync_dir(path("/d"))
    };
    let found = after_power_loss(work, contents(["/d/a"]))?;
    assert_eq!(found, [outcome([None]), outcome([Some("")])].into());
    Ok(())
}

#[test]
fn a_file_without_a_name_is_gone_after_the_power() -> io::Result<()> {
    let work = |fs: &SimFs| {
        fs.add_file("/d/a", "x");
        let file = fs.open(path("/d/a"), Access::Read)?;
        fs.remove(path("/d/a"))?;
        fs.sync_dir(path("/d"))?;
        let mut buf = [0];
        file.read_exact_at(&mut buf, 0)?;
        assert_eq!((&buf, file.stat()?.links), (b"x", 0));
        Ok(())
    };
    let found = after_power_loss(work, contents(["/d/a"]))?;
    assert_eq!(found, [outcome([None])].into());
    Ok(())
}
