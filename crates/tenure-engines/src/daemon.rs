//! A server process: started so that it cannot outlive this one, killed, paused and continued.
//!
//! # Invariants
//!
//! 1. It dies with this process: `setpriv --pdeathsig` asks the kernel for it. The kernel goes by the *thread* that
//!    started it, so a thread that never ends starts all of them.
//! 2. Its children are killed and paused with it, the process itself first: it starts no others meanwhile.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

use crate::network::Host;

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
}

/// How a server is started.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) program: &'a Path,
    pub(crate) arguments: Vec<OsString>,
    /// Who it runs as, if that is not the user of this process.
    pub(crate) user: Option<&'a str>,
    pub(crate) host: &'a Host,
    /// What it prints goes there.
    pub(crate) log: PathBuf,
}

impl Daemon {
    pub(crate) fn start(launch: &Launch<'_>) -> Self {
        let mut command = launch.host.command("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if let Some(user) = launch.user {
            command.args(["--reuid", user, "--regid", user, "--init-groups"]);
        }
        command.arg(launch.program).args(&launch.arguments).current_dir("/");
        let log = File::options().create(true).append(true).open(&launch.log);
        let log = log.unwrap_or_else(|err| panic!("{}: {err}", launch.log.display()));
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a descriptor")).stderr(log);
        Self { child: spawn(command), log: launch.log.clone() }
    }

    /// Its process number.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// What it has printed.
    pub(crate) fn printed(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Fails the test if it has ended.
    pub(crate) fn assert_runs(&mut self) {
        if let Some(status) = self.child.try_wait().expect("it is our child") {
            panic!("the server ended ({status}): {}", self.printed());
        }
    }

    /// `kill -9`, its children included, and waits until they are gone.
    pub(crate) fn kill(&mut self) {
        self.pause();
        let children = self.children();
        for pid in children.iter().chain([&self.pid()]) {
            let _ = kill_process(*pid, Signal::KILL);
        }
        let _ = self.child.wait();
        for pid in children {
            // A zombie is gone as well: it holds no file, no port and no shared memory.
            let gone = || (!is_alive(pid)).then_some(());
            crate::until("a killed child is gone", std::time::Duration::from_secs(30), gone);
        }
    }

    /// `SIGSTOP`.
    pub(crate) fn pause(&self) {
        let _ = kill_process(self.pid(), Signal::STOP);
        for pid in self.children() {
            let _ = kill_process(pid, Signal::STOP);
        }
    }

    /// `SIGCONT`.
    pub(crate) fn resume(&self) {
        for pid in self.children() {
            let _ = kill_process(pid, Signal::CONT);
        }
        let _ = kill_process(self.pid(), Signal::CONT);
    }

    fn children(&self) -> Vec<Pid> {
        let pid = self.child.id();
        let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let listed = listed.unwrap_or_default();
        listed.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

fn is_alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let state = stat.ok().and_then(|stat| stat.rsplit_once(") ")?.1.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// Starts it from the thread that never ends.
pub(crate) fn spawn(command: Command) -> Child {
    type Order = (Command, Sender<std::io::Result<Child>>);
    static STARTER: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (orders, taken) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in taken {
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(orders)
    });
    let (answer, child) = channel();
    let told = format!("{command:?}");
    let orders = starter.lock().unwrap_or_else(PoisonError::into_inner);
    orders.send((command, answer)).expect("the starter never ends");
    let child = child.recv().expect("the starter answers");
    child.unwrap_or_else(|err| panic!("{told}: {err}"))
}
