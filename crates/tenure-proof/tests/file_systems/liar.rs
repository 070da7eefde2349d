//! A FUSE file system whose server answers lock requests, and answers wrongly (G12).
//!
//! It has just enough of a file system for tenure to reach its self-test: directories and empty
//! files in memory, whose writes are ignored.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyCreate,
    ReplyEmpty, ReplyEntry, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use serde_json::json;
use tenure::{
    AppendOptions, Document, ErrorKind, Journal, Lease, LeaseOptions, Lock, LockOptions,
    WriteOptions,
};
use tenure_proof::Tally;
use tenure_proof::mount::{Turn, may_mount};

use crate::{RING, controls};

/// The server's answer to every lock request.
#[derive(Debug, Clone, Copy)]
enum Answer {
    /// Granted.
    Granted,
    /// Not supported.
    Unsupported,
}

/// A name, by the directory it is in.
type Place = (INodeNo, OsString);

/// All files, in the order of their numbers; the root is the first.
struct Liar {
    answer: Answer,
    nodes: Mutex<Vec<FileAttr>>,
    names: Mutex<BTreeMap<Place, INodeNo>>,
}

const NO_TIME: Duration = Duration::ZERO;

impl Liar {
    fn new(answer: Answer) -> Self {
        let root = attributes(INodeNo::ROOT, FileType::Directory, 0o700);
        Self { answer, nodes: Mutex::new(vec![root]), names: Mutex::default() }
    }

    fn node(&self, ino: INodeNo) -> Option<FileAttr> {
        let at = usize::try_from(ino.0).ok()?.checked_sub(1)?;
        lock(&self.nodes).get(at).copied()
    }

    fn make(&self, parent: INodeNo, name: &OsStr, kind: FileType, mode: u32) -> FileAttr {
        let mut nodes = lock(&self.nodes);
        let ino = INodeNo(nodes.len() as u64 + 1);
        let made = attributes(ino, kind, mode);
        nodes.push(made);
        lock(&self.names).insert((parent, name.to_owned()), ino);
        made
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn attributes(ino: INodeNo, kind: FileType, mode: u32) -> FileAttr {
    let then = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino,
        size: 0,
        blocks: 0,
        atime: then,
        mtime: then,
        ctime: then,
        crtime: then,
        kind,
        perm: u16::try_from(mode & 0o7777).unwrap_or(0),
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Filesystem for Liar {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without this the kernel would keep the locks itself, correctly.
        let added = config.add_capabilities(InitFlags::FUSE_FLOCK_LOCKS);
        added.map_err(|_| io::Error::other("this kernel does not ask a server for locks"))
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = lock(&self.names).get(&(parent, name.to_owned())).copied();
        match found.and_then(|ino| self.node(ino)) {
            Some(node) => reply.entry(&NO_TIME, &node, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.node(ino) {
            Some(node) => reply.attr(&NO_TIME, &node),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.getattr(request, ino, handle, reply);
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let made = self.make(parent, name, FileType::Directory, mode);
        reply.entry(&NO_TIME, &made, Generation(0));
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let made = self.make(parent, name, FileType::RegularFile, mode);
        reply.created(&NO_TIME, &made, Generation(0), FileHandle(0), FopenFlags::empty());
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        reply.written(u32::try_from(bytes.len()).unwrap_or(0));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn setlk(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: LockOwner,
        _: u64,
        _: u64,
        _: i32,
        _: u32,
        _: bool,
        reply: ReplyEmpty,
    ) {
        match self.answer {
            Answer::Granted => reply.ok(),
            Answer::Unsupported => reply.error(Errno::EOPNOTSUPP),
        }
    }
}

/// Every operation that needs a lock is refused on it.
fn is_refused(name: &str, answer: Answer) {
    if !may_mount(name) {
        return;
    }
    let _turn = Turn::take();
    let mut tally = Tally::new(RING, name);
    let at = tempfile::tempdir().unwrap();
    let session = fuser::spawn_mount(Liar::new(answer), at.path(), &Config::default()).unwrap();
    let path = at.path().join("target");
    let lock = Lock::open(&path).and_then(|lock| lock.acquire(&LockOptions::default()));
    let minute = LeaseOptions { ttl: Duration::from_secs(60), ..LeaseOptions::default() };
    let lease = Lease::open(&path).and_then(|lease| lease.acquire(&minute));
    let write = WriteOptions::default();
    let document = Document::open(&path).and_then(|found| found.set(&json!({}), &write));
    let journal = Journal::open(&path);
    let journal = journal.and_then(|found| found.append(&["line"], &AppendOptions::default()));
    let outcomes = [lock.map(drop), lease.map(drop), document.map(drop), journal.map(drop)];
    for outcome in outcomes {
        let error = outcome.expect_err("a lock that excludes no process is not used");
        println!("{name}: {error}");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        tally.tried(1, "refused");
    }
    if matches!(answer, Answer::Granted) {
        controls::believed(&at.path().join("believed"));
        tally.caught("flock(1): a server that grants every lock is believed, and two have it");
    }
    session.umount_and_join().unwrap();
}

#[test]
fn g12_a_server_that_grants_every_lock_is_refused() {
    is_refused("FUSE, a server that grants every lock", Answer::Granted);
}

#[test]
fn g12_a_server_without_locks_is_refused() {
    is_refused("FUSE, a server that refuses every lock", Answer::Unsupported);
}
