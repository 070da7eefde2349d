//! The process groups of one actor: what is started, signalled and reaped.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The process groups that run.
#[derive(Debug, Default)]
pub(super) struct Groups {
    running: Mutex<Vec<u32>>,
    newest: AtomicU32,
}

impl Groups {
    /// The process that holds what was locked last.
    pub(super) fn newest(&self) -> u32 {
        self.newest.load(Ordering::SeqCst)
    }

    /// This process has got its lock.
    pub(super) fn holds(&self, child: &Child) {
        self.newest.store(child.id(), Ordering::SeqCst);
    }

    fn running(&self) -> MutexGuard<'_, Vec<u32>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process that leads a group of its own.
    pub(super) fn start(&self, command: &mut Command) -> Child {
        // Held over the start: a kill must not miss a process that is just being created.
        let mut running = self.running();
        let child = command.process_group(0).spawn().expect("the command can be started");
        running.push(child.id());
        child
    }

    /// Reaps one that ends by itself.
    pub(super) fn end(&self, child: &mut Child) -> Option<i32> {
        let status = child.wait().expect("it is ours");
        self.running().retain(|pid| *pid != child.id());
        status.code()
    }

    /// Signals the leaders only.
    pub(super) fn signal_leaders(&self, signal: Signal) {
        for pid in self.running().iter() {
            // One that ended by itself meanwhile is no error.
            let _ = kill_process(number(*pid), signal);
        }
    }

    /// Signals all processes.
    pub(super) fn signal(&self, signal: Signal) {
        for pid in self.running().iter() {
            let _ = kill_process_group(number(*pid), signal);
        }
    }
}

fn number(pid: u32) -> Pid {
    i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process number")
}
