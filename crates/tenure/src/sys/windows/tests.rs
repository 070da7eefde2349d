//! The Windows arm on a real directory. Under Wine too, whose locks are advisory and whose rename
//! refuses an open target: what depends on that is not tested here.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::fs::{Access, Handle, Kind, Mode, Trust};

use super::disk;

/// A directory of its own, resolved, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("tenure-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(disk().resolve(&dir).unwrap())
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        open(&path).write_all_at(content, 0).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path) -> Arc<dyn Handle> {
    disk().open(path, Access::Create(0o600)).unwrap()
}

fn kind_of<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
    result.err().map(|err| err.kind())
}

#[test]
fn reads_and_writes_at_offsets() {
    let scratch = Scratch::new("offsets");
    let path = scratch.0.join("a");
    let file = disk().open(&path, Access::CreateNew(0o600)).unwrap();
    assert_eq!(
        kind_of(disk().open(&path, Access::CreateNew(0o600))),
        Some(io::ErrorKind::AlreadyExists)
    );
    file.write_all_at(b"hello world", 0).unwrap();
    file.write_all_at(b"W", 6).unwrap();
    file.sync().unwrap();
    disk().open(&path, Access::Read).unwrap().sync().unwrap();
    assert_eq!(file.read_range(6, 100).unwrap(), b"World");
    assert_eq!(file.read_at(&mut [0; 4], 11).unwrap(), 0);
    file.set_len(5).unwrap();
    assert_eq!(file.read_range(0, 100).unwrap(), b"hello");
    assert_eq!(disk().stat(&path).unwrap().size, 5);
    disk().sync_dir(&scratch.0).unwrap();
}

#[test]
fn append_finds_the_end_and_may_cut() {
    let scratch = Scratch::new("append");
    let path = scratch.file("a", b"one\n");
    let (first, second) =
        (disk().open(&path, Access::Append).unwrap(), disk().open(&path, Access::Append).unwrap());
    assert_eq!(first.append(b"two\n").unwrap(), 4);
    assert_eq!(second.append(b"three\n").unwrap(), 6);
    assert_eq!(first.append(b"torn").unwrap(), 4);
    assert_eq!(std::fs::read(&path).unwrap(), b"one\ntwo\nthree\ntorn");
    first.set_len(14).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"one\ntwo\nthree\n");
}

#[test]
fn locks_exclude_other_handles() {
    let scratch = Scratch::new("locks");
    let path = scratch.0.join("a");
    let (one, other) = (open(&path), open(&path));
    assert!(one.try_lock(Mode::Shared).unwrap());
    assert!(other.try_lock(Mode::Shared).unwrap());
    // Converting waits for the other one, never for itself; a failed conversion leaves no lock.
    assert!(!one.try_lock(Mode::Exclusive).unwrap());
    assert!(other.try_lock(Mode::Exclusive).unwrap());
    assert!(!one.try_lock(Mode::Shared).unwrap());
    other.unlock().unwrap();
    other.unlock().unwrap();
    one.lock(Mode::Exclusive).unwrap();
    assert!(!other.try_lock(Mode::Exclusive).unwrap());
    drop(one);
    assert!(other.try_lock(Mode::Exclusive).unwrap());
}

#[test]
fn a_blocked_lock_waits_for_its_holder_and_for_nothing_else() {
    let scratch = Scratch::new("blocked");
    let path = scratch.0.join("a");
    let (holder, waiter, reader) = (open(&path), open(&path), open(&path));
    holder.write_all_at(b"record", 8).unwrap();
    holder.lock(Mode::Exclusive).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        waiter.lock(Mode::Exclusive).unwrap();
        tell.send(()).unwrap();
    });
    for _ in 0..1_000 {
        assert_eq!(reader.read_range(8, 14).unwrap(), b"record");
        assert_eq!(reader.stat().unwrap().size, 14);
    }
    assert!(told.try_recv().is_err());
    holder.unlock().unwrap();
    told.recv().unwrap();
    thread.join().unwrap();
}

#[test]
fn names_change_in_one_step() {
    let scratch = Scratch::new("names");
    let (from, to) = (scratch.file("from", b"new"), scratch.file("to", b"old"));
    let id = disk().stat(&from).unwrap().id;
    assert_eq!(kind_of(disk().rename_new(&from, &to)), Some(io::ErrorKind::AlreadyExists));
    disk().rename(&from, &to).unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), b"new");
    assert_eq!(disk().stat(&to).unwrap().id, id);
    assert_eq!(kind_of(disk().stat(&from)), Some(io::ErrorKind::NotFound));
    disk().rename_new(&to, &from).unwrap();
    disk().link(&from, &to).unwrap();
    assert_eq!(disk().stat(&to).unwrap().links, 2);
    assert_eq!(kind_of(disk().link(&from, &to)), Some(io::ErrorKind::AlreadyExists));
    assert_eq!(kind_of(disk().exchange(&from, &to)), Some(io::ErrorKind::Unsupported));
    let mut names = disk().list(&scratch.0).unwrap();
    names.sort();
    assert_eq!(names, ["from", "to"]);
    disk().remove(&from).unwrap();
    assert_eq!(kind_of(disk().remove(&from)), Some(io::ErrorKind::NotFound));
    disk().open(&from, Access::CreateNew(0o600)).unwrap();
}

#[test]
fn describes_files_and_directories() {
    let scratch = Scratch::new("stat");
    let path = scratch.file("a", b"123");
    let file = disk().open(&path, Access::ReadWrite).unwrap();
    let found = file.stat().unwrap();
    assert_eq!(found, disk().stat(&path).unwrap());
    assert_eq!((found.kind, found.size, found.links, found.mode), (Kind::File, 3, 1, 0o666));
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    let modified = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(found.modified_ns, i128::try_from(modified.as_nanos()).unwrap());

    let model = disk().open(&scratch.file("model", b""), Access::ReadWrite).unwrap();
    model.set_mode(0o444).unwrap();
    file.copy_attributes(&*model).unwrap();
    assert_eq!(file.stat().unwrap().mode, 0o444);
    file.set_mode(0o600).unwrap();
    model.set_mode(0o600).unwrap();

    assert_eq!(disk().stat(&scratch.0).unwrap().kind, Kind::Directory);
    assert_eq!(kind_of(disk().open(&scratch.0, Access::Read)), Some(io::ErrorKind::IsADirectory));
    let missing = scratch.0.join("missing");
    assert_eq!(kind_of(disk().open(&missing, Access::Read)), Some(io::ErrorKind::NotFound));
    assert!(!matches!(disk().trust(&scratch.0).unwrap(), Trust::No(_)));
}

#[test]
fn knows_the_machine() {
    let (wall, boot) = (super::wall_time_us(), super::boot_time_us());
    assert!(super::wall_time_us() >= wall && super::boot_time_us() >= boot && boot > 0);
    assert_ne!(super::boot_id(), [0; 16]);
    assert!(!super::host_name().is_empty());
    let own = super::process_start(std::process::id());
    assert!(own.is_some() && own == super::process_start(std::process::id()));
    // The handle of a process that ended keeps its number, not its life.
    let mut child = Command::new("cmd").args(["/c", "exit"]).spawn().unwrap();
    child.wait().unwrap();
    assert_eq!(super::process_start(child.id()), None);
}
