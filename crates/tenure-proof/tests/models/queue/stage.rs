//! The stage of the queue: the parts of the crate that `gate.rs` and `wait.rs` use, small enough
//! for shuttle.

pub(crate) mod error {
    //! The real errors.
    pub(crate) use tenure::{Error, ErrorKind, Result};
}

pub(crate) mod fs {
    //! The real seam.
    pub(crate) use tenure::fs::{Extent, FileId, Handle, Mode, RawHandle, if_found};
}

pub(crate) mod wait {
    //! The real deadlines and cancellations, with shuttle's mutex.
    #![expect(dead_code, unreachable_pub, reason = "the core uses what the scenes do not")]
    include!(concat!(env!("OUT_DIR"), "/wait.rs"));
}

pub(crate) mod sys {
    //! One process, which never forks.
    pub(crate) fn process_number() -> u32 {
        0
    }
}

pub(crate) mod process_local {
    //! A value per run: shuttle's mutexes must not outlive the run that made them.

    use std::cell::Cell;
    use std::sync::Mutex;

    thread_local! {
        /// Shuttle runs all threads of a run on one thread.
        static RUN: Cell<u64> = const { Cell::new(0) };
    }

    /// All per-process values start anew.
    pub(crate) fn start_run() {
        RUN.with(|run| run.set(run.get() + 1));
    }

    #[derive(Debug)]
    pub(crate) struct ProcessLocal<T: 'static> {
        values: Mutex<Vec<(std::thread::ThreadId, u64, &'static T)>>,
    }

    impl<T: Default + 'static> ProcessLocal<T> {
        pub(crate) const fn new() -> Self {
            Self { values: Mutex::new(Vec::new()) }
        }

        pub(crate) fn of(&'static self, _: u32) -> &'static T {
            let (thread, run) = (std::thread::current().id(), RUN.with(Cell::get));
            let mut values = self.values.lock().expect("no panic inside");
            if let Some((.., value)) = values.iter().find(|(at, of, _)| (*at, *of) == (thread, run))
            {
                return value;
            }
            values.retain(|(at, ..)| *at != thread); // The previous run is over.
            let value: &'static T = Box::leak(Box::default());
            values.push((thread, run, value));
            value
        }
    }
}

pub(crate) mod waiter_thread {
    //! A thread for each wait; its reuse is tested elsewhere.

    use std::io;

    pub(crate) fn send(job: impl FnOnce() + Send + 'static) -> io::Result<()> {
        shuttle::thread::Builder::new().spawn(job).map(drop)
    }
}

pub(crate) mod target {
    //! A target with one lock file, and the kernel that locks it.

    use std::io;
    use std::path::{Path, PathBuf};

    use shuttle::sync::{Arc, Condvar, Mutex};
    use tenure::fs::{Extent, FileId, Handle, Kind, Mode, RawHandle, Stat};
    use tenure::{Error, Result};

    #[derive(Debug, Clone)]
    pub(crate) struct Target {
        pub(crate) fs: Arc<Disk>,
        path: PathBuf,
        kept: Kept,
    }

    type Kept = Arc<Mutex<Vec<std::sync::Arc<dyn Handle>>>>;

    /// As in the core: an open file for one call, and where it goes afterwards.
    #[derive(Debug)]
    pub(crate) struct Opened {
        pub(crate) handle: std::sync::Arc<dyn Handle>,
        pub(crate) home: Home,
    }

    #[derive(Debug)]
    pub(crate) struct Home {
        kept: Kept,
    }

    impl Home {
        pub(crate) fn keep(self, handle: std::sync::Arc<dyn Handle>) {
            self.kept.lock().expect("no panic inside").push(handle);
        }
    }

    impl Target {
        pub(crate) fn new() -> Self {
            let disk =
                Disk { state: Mutex::default(), freed: Condvar::new(), entered: Condvar::new() };
            Self { fs: Arc::new(disk), path: "/state.json".into(), kept: Arc::default() }
        }

        pub(crate) fn path(&self) -> &Path {
            &self.path
        }

        /// A file that was kept, or a new one.
        #[expect(clippy::unnecessary_wraps, reason = "the real one can fail")]
        pub(crate) fn take_out(&self, _: &Path) -> Result<Opened> {
            let kept = self.kept.lock().expect("no panic inside").pop();
            let home = Home { kept: self.kept.clone() };
            Ok(Opened { handle: kept.unwrap_or_else(|| self.fs.open()), home })
        }

        pub(crate) fn failed(
            action: &'static str,
            path: &Path,
        ) -> impl Fn(io::Error) -> Error + use<> {
            let path = path.to_owned();
            move |err| Error::io(action, &path, err)
        }
    }

    /// The kernel: which open files hold the lock of which file, and which file has the name.
    #[derive(Debug)]
    pub(crate) struct Disk {
        state: Mutex<State>,
        freed: Condvar,
        entered: Condvar,
    }

    #[derive(Debug, Default)]
    struct State {
        named: u64,
        opened: u64,
        /// How many are blocked.
        blocked: u64,
        locks: Vec<Lock>,
    }

    #[derive(Debug, Clone, Copy)]
    struct Lock {
        file: u64,
        open_file: u64,
        mode: Mode,
    }

    impl State {
        fn may_have(&self, file: u64, open_file: u64, mode: Mode) -> bool {
            self.locks.iter().filter(|lock| lock.file == file).all(|lock| {
                lock.open_file == open_file || (lock.mode == Mode::Shared && mode == Mode::Shared)
            })
        }

        fn take(&mut self, file: u64, open_file: u64, mode: Mode) {
            self.locks.retain(|lock| lock.open_file != open_file);
            self.locks.push(Lock { file, open_file, mode });
        }
    }

    impl Disk {
        /// Opens the lock file that has the name now; another process does it by this, too.
        pub(crate) fn open(self: &Arc<Self>) -> std::sync::Arc<dyn Handle> {
            let mut state = self.state.lock().expect("no panic inside");
            state.opened += 1;
            let (file, open_file) = (state.named, state.opened);
            drop(state);
            std::sync::Arc::new(Open { disk: self.clone(), file, number: open_file })
        }

        #[expect(clippy::unnecessary_wraps, reason = "the real one can fail")]
        pub(crate) fn extent(&self, _: &Path) -> io::Result<Extent> {
            let ino = self.state.lock().expect("no panic inside").named;
            Ok(stat_of(ino).into())
        }

        /// Waits until a caller is blocked here.
        pub(crate) fn await_blocked(&self) {
            let mut state = self.state.lock().expect("no panic inside");
            while state.blocked == 0 {
                state = self.entered.wait(state).expect("no panic inside");
            }
        }

        /// Moves the name to another file, as the removal of a key does.
        pub(crate) fn replace(&self) {
            self.state.lock().expect("no panic inside").named += 1;
        }
    }

    fn stat_of(ino: u64) -> Stat {
        Stat {
            id: FileId { dev: 1, ino },
            links: 1,
            size: 0,
            mode: 0,
            uid: 0,
            gid: 0,
            modified_ns: 0,
            kind: Kind::File,
            mount_root: false,
        }
    }

    /// An open file. Closing it releases its lock.
    #[derive(Debug)]
    struct Open {
        disk: Arc<Disk>,
        file: u64,
        number: u64,
    }

    impl Drop for Open {
        fn drop(&mut self) {
            let _ = self.unlock();
        }
    }

    fn no<T>() -> io::Result<T> {
        Err(io::ErrorKind::Unsupported.into())
    }

    impl Handle for Open {
        fn try_lock(&self, mode: Mode) -> io::Result<bool> {
            let mut state = self.disk.state.lock().expect("no panic inside");
            let may = state.may_have(self.file, self.number, mode);
            if may {
                state.take(self.file, self.number, mode);
            }
            Ok(may)
        }

        fn lock(&self, mode: Mode) -> io::Result<()> {
            let mut state = self.disk.state.lock().expect("no panic inside");
            state.blocked += 1;
            while !state.may_have(self.file, self.number, mode) {
                self.disk.entered.notify_all();
                state = self.disk.freed.wait(state).expect("no panic inside");
            }
            state.blocked -= 1;
            state.take(self.file, self.number, mode);
            Ok(())
        }

        fn unlock(&self) -> io::Result<()> {
            let mut state = self.disk.state.lock().expect("no panic inside");
            let number = self.number;
            state.locks.retain(|lock| lock.open_file != number);
            drop(state);
            self.disk.freed.notify_all();
            Ok(())
        }

        fn stat(&self) -> io::Result<Stat> {
            Ok(stat_of(self.file))
        }

        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            no()
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            no()
        }

        fn append(&self, _: &[u8]) -> io::Result<(usize, u64)> {
            no()
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            no()
        }

        fn sync(&self) -> io::Result<()> {
            no()
        }

        fn set_mode(&self, _: u32) -> io::Result<()> {
            no()
        }

        fn copy_attributes(&self, _: &dyn Handle) -> io::Result<()> {
            no()
        }

        fn raw(&self) -> Option<RawHandle> {
            None
        }
    }
}
