//! The everyday behaviour of files, directories and symlinks.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use tenure::fs::{Access, Fs, Kind, Trust};

use crate::{machine, write};

fn path(text: &str) -> &Path {
    Path::new(text)
}

fn kind<T>(outcome: io::Result<T>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}

#[test]
fn open_honours_the_access() -> io::Result<()> {
    let fs = machine(0);
    for access in [Access::Read, Access::ReadWrite, Access::Append] {
        assert_eq!(kind(fs.open(path("/d/a"), access)), Some(ErrorKind::NotFound));
    }
    assert_eq!(kind(fs.open(path("/no/a"), Access::Create(0o600))), Some(ErrorKind::NotFound));
    fs.open(path("/d/a"), Access::CreateNew(0o640))?;
    let again = fs.open(path("/d/a"), Access::CreateNew(0o600));
    assert_eq!(kind(again), Some(ErrorKind::AlreadyExists));
    assert_eq!(kind(fs.open(path("/d"), Access::Read)), Some(ErrorKind::IsADirectory));
    let through_file = fs.open(path("/d/a/b"), Access::Create(0o600));
    assert_eq!(kind(through_file), Some(ErrorKind::NotADirectory));

    let reader = fs.open(path("/d/a"), Access::Read)?;
    assert!(reader.write_at(b"x", 0).is_err() && reader.set_len(0).is_err());
    let writer = fs.open(path("/d/a"), Access::Create(0o600))?;
    assert_eq!(writer.stat()?.mode, 0o640, "an existing file keeps its mode");
    assert_eq!(kind(writer.append(b"x")), Some(ErrorKind::InvalidInput));
    let appender = fs.open(path("/d/a"), Access::Append)?;
    assert_eq!(kind(appender.write_at(b"x", 0)), Some(ErrorKind::InvalidInput));
    writer.write_all_at(b"12", 1)?;
    appender.append(b"3")?;
    assert_eq!(fs.peek("/d/a").as_deref(), Some(b"\x00123".as_slice()));
    Ok(())
}

#[test]
fn reads_end_at_the_end() -> io::Result<()> {
    let fs = machine(0);
    fs.add_file("/d/a", "12345");
    let file = fs.open(path("/d/a"), Access::Read)?;
    assert_eq!(file.read_range(3, 100)?, b"45");
    assert_eq!(file.read_at(&mut [0; 4], 5)?, 0);
    assert_eq!(file.read_at(&mut [0; 4], u64::MAX)?, 0);
    Ok(())
}

#[test]
fn stat_tells_identity_links_and_size() -> io::Result<()> {
    let fs = machine(0);
    fs.add_file("/d/a", "123");
    let file = fs.open(path("/d/a"), Access::ReadWrite)?;
    fs.link(path("/d/a"), path("/d/b"))?;
    let stat = fs.stat(path("/d/b"))?;
    assert_eq!(stat, file.stat()?);
    assert_eq!((stat.links, stat.size, stat.mode, stat.kind), (2, 3, 0o600, Kind::File));
    fs.rename(path("/d/a"), path("/d/b"))?;
    assert_eq!(file.stat()?.links, 2, "two names of one file: a rename does nothing");
    fs.remove(path("/d/a"))?;
    fs.remove(path("/d/b"))?;
    assert_eq!(file.stat()?.links, 0);
    assert_eq!(fs.stat(path("/d"))?.kind, Kind::Directory);
    assert_eq!(kind(fs.stat(path("/d/a"))), Some(ErrorKind::NotFound));
    Ok(())
}

#[test]
fn an_inode_number_is_used_again_only_when_nothing_can_bring_the_file_back() -> io::Result<()> {
    let fs = machine(0);
    write(&fs, "/d/a", b"")?;
    fs.sync_dir(path("/d"))?;
    let first = fs.stat(path("/d/a"))?.id;
    fs.remove(path("/d/a"))?;
    write(&fs, "/d/b", b"")?;
    assert_ne!(fs.stat(path("/d/b"))?.id, first, "the removal is not durable");
    fs.sync_dir(path("/d"))?;
    write(&fs, "/d/c", b"")?;
    assert_eq!(fs.stat(path("/d/c"))?.id, first);
    Ok(())
}

#[test]
fn names_change_as_posix_says() -> io::Result<()> {
    let fs = machine(0);
    write(&fs, "/d/a", b"A")?;
    write(&fs, "/d/b", b"B")?;
    fs.create_dir(path("/d/sub"), 0o750)?;
    assert_eq!(fs.stat(path("/d/sub"))?.mode, 0o750);
    assert_eq!(kind(fs.create_dir(path("/d/sub"), 0o700)), Some(ErrorKind::AlreadyExists));
    let taken = fs.rename_new(path("/d/a"), path("/d/b"));
    assert_eq!(kind(taken), Some(ErrorKind::AlreadyExists));
    assert_eq!(kind(fs.link(path("/d/a"), path("/d/b"))), Some(ErrorKind::AlreadyExists));
    assert_eq!(kind(fs.rename(path("/d/a"), path("/d/sub"))), Some(ErrorKind::IsADirectory));
    assert_eq!(kind(fs.rename(path("/d/sub"), path("/d/a"))), Some(ErrorKind::NotADirectory));
    assert_eq!(kind(fs.rename(path("/d"), path("/d/sub/d"))), Some(ErrorKind::InvalidInput));
    assert_eq!(kind(fs.remove(path("/d/sub"))), Some(ErrorKind::IsADirectory));
    assert_eq!(kind(fs.exchange(path("/d/a"), path("/d/x"))), Some(ErrorKind::NotFound));
    fs.rename_new(path("/d/a"), path("/d/sub/a"))?;
    fs.rename(path("/d/sub"), path("/d/moved"))?;
    fs.exchange(path("/d/moved/a"), path("/d/b"))?;
    assert_eq!(fs.peek("/d/b").as_deref(), Some(b"A".as_slice()));
    assert_eq!(fs.peek("/d/moved/a").as_deref(), Some(b"B".as_slice()));
    let mut names = fs.list(path("/d"))?;
    names.sort();
    assert_eq!(names, [OsString::from("b"), "moved".into()]);
    assert_eq!(kind(fs.list(path("/d/b"))), Some(ErrorKind::NotADirectory));
    assert_eq!(kind(fs.sync_dir(path("/d/b"))), Some(ErrorKind::NotADirectory));
    Ok(())
}

#[test]
fn symlinks_are_resolved_when_asked_and_refused_by_open() -> io::Result<()> {
    let fs = machine(0);
    fs.add_dir("/d/real/sub");
    fs.add_file("/d/real/a", "x");
    fs.add_symlink("real", "/d/link");
    fs.add_symlink("../d/link/a", "/d/file");
    fs.add_symlink("/d/loop", "/d/loop");
    fs.add_symlink("/d/none", "/d/dangling");
    assert_eq!(fs.resolve(path("/d/file"))?, PathBuf::from("/d/real/a"));
    assert_eq!(fs.resolve(path("/d/link/sub/../a"))?, PathBuf::from("/d/real/a"));
    assert_eq!(kind(fs.resolve(path("/d/dangling"))), Some(ErrorKind::NotFound));
    assert!(fs.resolve(path("/d/loop")).is_err());
    assert_eq!(fs.stat(path("/d/file"))?.kind, Kind::Symlink);
    assert_eq!(fs.stat(path("/d/link/a"))?.kind, Kind::File);
    for refused in ["/d/file", "/d/link/a", "/d/link/new", "/d/dangling"] {
        assert!(fs.open(path(refused), Access::Create(0o600)).is_err(), "{refused}");
    }
    assert_eq!(fs.peek("/d/real/new"), None);
    Ok(())
}

#[test]
fn attributes_are_copied_and_survive_with_a_sync() -> io::Result<()> {
    for seed in 0..100 {
        let fs = machine(seed);
        fs.add_file("/d/model", "");
        let model = fs.open(path("/d/model"), Access::ReadWrite)?;
        model.set_mode(0o664)?;
        let file = fs.open(path("/d/a"), Access::Create(0o600))?;
        file.copy_attributes(&*model)?;
        assert_eq!(file.stat()?.mode, 0o664);
        file.sync()?;
        fs.sync_dir(path("/d"))?;
        fs.crash();
        assert_eq!(fs.stat(path("/d/a"))?.mode, 0o664);
        assert!([0o600, 0o664].contains(&fs.stat(path("/d/model"))?.mode));
    }
    Ok(())
}

#[test]
fn the_clock_is_logical() -> io::Result<()> {
    let fs = machine(0);
    let file = fs.open(path("/d/a"), Access::Create(0o600))?;
    let first = file.stat()?.modified_ns;
    file.write_all_at(b"1", 0)?;
    let second = file.stat()?.modified_ns;
    assert_eq!(second - first, 1_000);
    fs.set_clock_step(std::time::Duration::ZERO);
    file.write_all_at(b"2", 0)?;
    assert_eq!(file.stat()?.modified_ns, second, "a coarse clock does not see it");
    fs.advance_clock(std::time::Duration::from_secs(1));
    file.write_all_at(b"3", 0)?;
    assert_eq!(file.stat()?.modified_ns - second, 1_000_000_000);
    assert_eq!(fs.trust(path("/d"))?, Trust::Yes);
    assert!(file.raw().is_none());
    Ok(())
}
