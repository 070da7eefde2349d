//! What a puppet can do. An order is a verb and words; the answer starts with `ok` or `err CODE`.
//! A wait is `no`, `forever` or milliseconds; a fence of 0 is none.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use tenure::options::Durability;
use tenure::{
    AppendOptions, Cancel, Document, Error, Fence, Guard, Journal, Lease, Lock, LockGuard,
    LockOptions, Result, Wait, WriteOptions, json,
};

use crate::puppet::interject;
use crate::scratch::{add_one, at_once, lock_for, own, share_for, terms};

/// What the puppet has.
#[derive(Debug, Default)]
pub(crate) struct Scene {
    guards: HashMap<String, LockGuard>,
    programs: Vec<Child>,
}

impl Scene {
    pub(crate) fn perform(&mut self, order: &str) -> String {
        let words: Vec<_> = order.split_whitespace().collect();
        let done = match words.as_slice() {
            ["lock", path, wait] => self.keep(path, lock_for(Path::new(path), wait_of(wait))),
            ["share", path, wait] => self.keep(path, share_for(Path::new(path), wait_of(wait))),
            ["verify", path] => self.guards[*path].verify().map(|()| String::new()),
            ["release", path] => {
                self.guards.remove(*path).unwrap().release().map(|()| String::new())
            }
            ["fork"] => Ok(self.fork()),
            ["append-and-fork", path] => append_and_fork(path),
            ["fork-in-update", path] => fork_in_update(path),
            ["nest", path, fence] => self.keep(path, nest(path, fence)),
            ["linger"] => Ok(linger()),
            ["warm", path] => self.warm(path),
            ["program"] => Ok(self.program()),
            ["add", path, wait, fence, guards @ ..] => add(path, wait, fence, guards),
            ["slow-add", path, fence, guards @ ..] => slow_add(path, fence, guards),
            ["lease", path, owner, ttl, wait] => {
                let terms = terms(owner, time(ttl), wait_of(wait));
                Lease::open(path).and_then(|lease| lease.acquire(&terms)).map(|got| told(&got))
            }
            ["take-over", path, owner, ttl, wait] => {
                let terms = terms(owner, time(ttl), wait_of(wait));
                let taken = Lease::open(path).and_then(|lease| lease.take_over(&terms, "test"));
                taken.map(|got| told(&got))
            }
            ["renew", path, token, ttl] => {
                let renewed =
                    Lease::open(path).and_then(|lease| lease.renew(token, Some(time(ttl))));
                renewed.map(|got| told(&got))
            }
            ["give-up", path, times] => Ok(give_up(path, times)),
            ["many", path, times] => many(path, times),
            ["hammer", path, oracle, fences] => hammer(path, oracle, fences),
            _ => panic!("unknown order {order}"),
        };
        match done {
            Ok(words) => format!("ok {words}").trim_end().to_owned(),
            Err(error) => told_error(&error),
        }
    }

    /// `ok FENCE PID`, the pid of the holder that died before us, or 0.
    fn keep(&mut self, path: &str, got: Result<LockGuard>) -> Result<String> {
        let guard = got?;
        let died = guard.recovered_from().map_or(0, |holder| holder.pid);
        let words = format!("{} {died}", guard.publish_fence());
        self.guards.insert(path.to_owned(), guard);
        Ok(words)
    }

    /// Takes and releases a lock, forks a child that outlives us, and takes the lock again by the same
    /// handle. `ok FENCE PID CHILD`.
    fn warm(&mut self, path: &str) -> Result<String> {
        let lock = Lock::open(path)?;
        let options = LockOptions { wait: Wait::No, ..LockOptions::default() };
        lock.acquire(&options)?.release()?;
        let child = outlive();
        let words = self.keep(path, lock.acquire(&options))?;
        Ok(format!("{words} {child}"))
    }

    /// Forks; the child says what it may do with its copies, drops them and ends. Then `ok`.
    fn fork(&mut self) -> String {
        let mut guards = std::mem::take(&mut self.guards);
        #[expect(unsafe_code, reason = "there is no safe fork")]
        // SAFETY: the child calls nothing but this crate and ends with `_exit`; that the library
        // survives this is what is tested.
        let child = unsafe { libc::fork() };
        if child == 0 {
            for (path, guard) in guards.drain() {
                let target = Path::new(&path);
                let code =
                    |done: Result<()>| done.map_or_else(|err| told_error(&err), |()| "ok".into());
                let verified = code(guard.verify());
                let relock = code(lock_for(target, Wait::No).map(drop));
                let released = code(guard.release());
                let again = code(lock_for(target, Wait::For(Duration::from_millis(20))).map(drop));
                interject(&format!("verify {verified}, lock {relock}, {released}, {again}"));
            }
            #[expect(unsafe_code, reason = "no exit handlers of the parent in the child")]
            // SAFETY: ends the process; nothing runs afterwards.
            unsafe {
                libc::_exit(0)
            }
        }
        wait_for_child(child);
        self.guards = guards;
        String::new()
    }

    /// Starts a program that lives until the puppet dies, and that was started during a hold.
    fn program(&mut self) -> String {
        let program = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let program = program.unwrap();
        let pid = program.id();
        self.programs.push(program);
        pid.to_string()
    }
}

/// Forks a child that keeps its copies of everything until the test closes the puppet's input.
fn outlive() -> i32 {
    #[expect(unsafe_code, reason = "there is no safe fork")]
    // SAFETY: the child makes two system calls, of which the second ends it.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let mut input = libc::pollfd { fd: 0, events: 0, revents: 0 };
            libc::poll(&raw mut input, 1, -1);
            libc::_exit(0);
        }
        child
    }
}

/// Forks in the middle of a change. The child continues it and reports the result; the parent waits
/// for that and continues, too.
fn fork_in_update(path: &str) -> Result<String> {
    let mut child = None;
    let done = Document::open(path)?.update(&at_once(None), |_| {
        #[expect(unsafe_code, reason = "there is no safe fork")]
        // SAFETY: the child calls nothing but this crate and ends with `_exit`.
        let forked = *child.get_or_insert_with(|| unsafe { libc::fork() });
        if forked > 0 {
            wait_for_child(forked);
        }
        Ok(Some(json!({ "n": if forked > 0 { 1 } else { 2 } })))
    });
    if child == Some(0) {
        interject(&done.map_or_else(|error| told_error(&error), |_| "ok".to_owned()));
        #[expect(unsafe_code, reason = "no exit handlers of the parent in the child")]
        // SAFETY: ends the process; nothing runs afterwards.
        unsafe {
            libc::_exit(0)
        }
    }
    done.map(|_| String::new())
}

/// A nested hold.
fn nest(path: &str, fence: &str) -> Result<LockGuard> {
    let options = LockOptions { fence: fence_of(fence), wait: Wait::No, ..LockOptions::default() };
    Lock::open(path)?.acquire(&options)
}

/// Forks a child that does nothing with its copies of everything, and lives until the puppet dies.
fn linger() -> String {
    #[expect(unsafe_code, reason = "there is no safe fork")]
    // SAFETY: the child makes system calls and nothing else until it is killed.
    let child = unsafe {
        let parent = libc::getpid();
        let child = libc::fork();
        if child == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // A process that has died before that sends nothing.
            while libc::getppid() == parent {
                libc::pause();
            }
            libc::_exit(0);
        }
        child
    };
    child.to_string()
}

fn told(got: &tenure::outcome::Leased) -> String {
    format!("{} {}", got.token, got.fence)
}

/// `err CODE PID OWNER`: the error and the current holder.
fn told_error(error: &Error) -> String {
    let holder = error.holder().map(|holder| format!(" {} {}", holder.pid, holder.owner));
    let words = format!("err {}{}", error.kind().code(), holder.unwrap_or_default());
    words.trim_end().to_owned()
}

fn wait_of(word: &str) -> Wait {
    match word {
        "no" => Wait::No,
        "forever" => Wait::Forever,
        _ => Wait::For(time(word)),
    }
}

fn time(word: &str) -> Duration {
    Duration::from_millis(word.parse().unwrap())
}

fn fence_of(word: &str) -> Option<Fence> {
    Some(word.parse().unwrap()).filter(|fence| *fence > 0)
}

fn add(path: &str, wait: &str, fence: &str, guards: &[&str]) -> Result<String> {
    let options = WriteOptions { wait: wait_of(wait), ..proven(fence, guards) };
    add_one(Path::new(path), &options).map(|_| String::new())
}

fn proven(fence: &str, guards: &[&str]) -> WriteOptions {
    let guard = |pair: &[&str]| Guard { target: pair[0].into(), fence: pair[1].parse().unwrap() };
    WriteOptions {
        wait: Wait::Forever,
        fence: fence_of(fence),
        guards: guards.chunks(2).map(guard).collect(),
        durability: Durability::NoSync,
        ..WriteOptions::default()
    }
}

/// An update whose function says `inside` and returns when the next line comes.
fn slow_add(path: &str, fence: &str, guards: &[&str]) -> Result<String> {
    let options = proven(fence, guards);
    let document = Document::open(path)?;
    let written = document.update(&options, |value| {
        interject("inside");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        let count = value.and_then(|value| value["n"].as_u64()).unwrap_or(0);
        Ok(Some(json!({ "n": count + 1 })))
    });
    written.map(|_| String::new())
}

/// Waits in vain, half the times until a deadline and half until it is cancelled, eight at a time.
/// `ok` and the number of threads before and after, and of descriptors before and after.
fn give_up(path: &str, times: &str) -> String {
    let lock = Lock::open(path).unwrap();
    let (threads, files) = (own("task"), own("fd"));
    for round in 0..times.parse::<usize>().unwrap() / 8 {
        let cancel = Cancel::new();
        let wait = if round % 2 == 0 { Wait::For(Duration::from_millis(3)) } else { Wait::Forever };
        let options = LockOptions { wait, cancel: Some(cancel.clone()), ..LockOptions::default() };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert!(lock.acquire(&options).is_err()));
            }
            if wait == Wait::Forever {
                cancel.cancel();
            }
        });
    }
    format!("{threads} {} {files} {}", settled("task", threads + 1), settled("fd", files + 1))
}

/// Locks many targets once each, and waits for some. The same numbers as `give-up`.
fn many(path: &str, times: &str) -> Result<String> {
    let (threads, files) = (own("task"), own("fd"));
    for number in 0..times.parse::<usize>().unwrap() {
        let target = format!("{path}{number}");
        let guard = lock_for(Path::new(&target), Wait::No)?;
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| lock_for(Path::new(&target), Wait::Forever).map(drop));
            guard.release()?;
            waiting.join().unwrap()
        })?;
    }
    Ok(format!("{threads} {} {files} {}", settled("task", threads), settled("fd", files)))
}

/// A thread that was joined may be listed for a moment more.
fn settled(what: &str, expected: usize) -> usize {
    let started = Instant::now();
    while own(what) > expected && started.elapsed() < Duration::from_secs(2) {
        std::thread::yield_now();
    }
    own(what)
}

/// Takes and releases the lock for ever. Inside, an independent lock on a second file shows whether
/// another process is inside too, and the fence is written down in the order of the holds.
fn hammer(path: &str, oracle: &str, fences: &str) -> Result<String> {
    let oracle =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(oracle);
    let oracle = oracle.unwrap();
    let mut fences = OpenOptions::new().append(true).create(true).open(fences).unwrap();
    let parent = std::os::unix::process::parent_id();
    while std::os::unix::process::parent_id() == parent {
        let guard = lock_for(Path::new(path), Wait::Forever)?;
        while flock(&oracle, FlockOperation::NonBlockingLockExclusive).is_err() {
            if let Some(other) = living_witness(&oracle) {
                return Ok(format!("two holders, the other is {other}"));
            }
        }
        oracle.write_all_at(&std::process::id().to_le_bytes(), 0).unwrap();
        fences.write_all(format!("{}\n", guard.publish_fence()).as_bytes()).unwrap();
        oracle.write_all_at(&[0; 4], 0).unwrap();
        flock(&oracle, FlockOperation::Unlock).unwrap();
        guard.release()?;
    }
    Ok("alone".into())
}

/// The process inside, unless it is being killed: the kernel closes the files of a dying process
/// one after the other, so its hold may be free a moment before its second lock.
fn living_witness(oracle: &File) -> Option<u32> {
    const EXITING: u32 = 4;
    let mut pid = [0; 4];
    let read = oracle.read_at(&mut pid, 0).unwrap();
    let pid = Some(u32::from_le_bytes(pid)).filter(|pid| read == 4 && *pid > 0)?;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let flags = stat.rsplit_once(')')?.1.split_whitespace().nth(6)?.parse::<u32>().ok()?;
    (flags & EXITING == 0).then_some(pid)
}

/// Appends twice, forks, lets the child append twice with the same journal, and continues. Prints
/// the numbers that are in the journal then.
fn append_and_fork(path: &str) -> Result<String> {
    let journal = Journal::open(path)?;
    let write = WriteOptions { durability: Durability::NoSync, ..WriteOptions::default() };
    let options = AppendOptions { write, ..AppendOptions::default() };
    let twice = |who: &str| (0..2).try_for_each(|_| journal.append(&[who], &options).map(drop));
    twice("parent")?;
    #[expect(unsafe_code, reason = "there is no safe fork")]
    // SAFETY: the child calls nothing but this crate and ends with `_exit`; that the library survives
    // this is what is tested.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let failed = i32::from(twice("child").is_err());
        #[expect(unsafe_code, reason = "no exit handlers of the parent in the child")]
        // SAFETY: ends the process; nothing runs afterwards.
        unsafe {
            libc::_exit(failed)
        }
    }
    wait_for_child(child);
    twice("parent")?;
    let numbers: Result<Vec<String>> =
        journal.read(0, None)?.map(|entry| entry.map(|entry| entry.seq.to_string())).collect();
    Ok(numbers?.join(" "))
}

fn wait_for_child(child: i32) {
    let pid = rustix::process::Pid::from_raw(child).unwrap();
    rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap();
}
