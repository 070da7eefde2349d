//! Sidecars that stay open between calls, so that a warm lock opens nothing.
//!
//! # Invariants
//!
//! 1. A file is in use by one call or kept, never both: a lock belongs to the open file, and two
//!    users of one would share it. The call that takes it out compares it with its name before
//!    relying on it.
//! 2. A file that this process opened before a fork is not used after it, by parent or child: the
//!    other has a copy, and would keep a lock on it alive after its owner's death.
//! 3. Files are kept per target, and let go with it; a process keeps a bounded number in all.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::fs::Handle;
use crate::sys;

/// Of all targets together. A process may commonly have 1,024 files open.
const KEPT_MAX: usize = 128;

/// How many are kept now.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// An open sidecar, in use by one call.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) handle: Arc<dyn Handle>,
    pub(crate) home: Home,
}

/// Where an open sidecar belongs.
#[derive(Debug)]
pub(crate) struct Home {
    kept: Arc<Kept>,
    path: PathBuf,
    /// The number of forks when it was opened.
    forks: Option<u32>,
}

/// Its path, the number of forks when it was opened, and itself.
type File = (PathBuf, Option<u32>, Arc<dyn Handle>);

/// The sidecars of a target that no call uses now.
#[derive(Debug, Default)]
pub(super) struct Kept {
    files: Mutex<Vec<File>>,
}

impl Home {
    /// Keeps `handle` for later calls. The caller has unlocked it and has the only reference: a
    /// thread that still waits on it for a caller that gave up might lock it later.
    pub(crate) fn keep(self, handle: Arc<dyn Handle>) {
        if self.forks.is_none() || self.forks != sys::forks() {
            return;
        }
        let Ok(mut files) = self.kept.files.try_lock() else { return };
        let is_new = files.iter().all(|(path, ..)| *path != self.path);
        if is_new && KEPT.load(Ordering::Relaxed) < KEPT_MAX {
            files.push((self.path, self.forks, handle));
            KEPT.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Kept {
    /// A file that was kept, for one call alone. It may have lost its name meanwhile.
    pub(super) fn take_out(self: &Arc<Self>, path: &Path) -> Option<Opened> {
        let forks = sys::forks();
        // Another thread is at it, or a fork came in between: then a new one is opened.
        let mut files = self.files.try_lock().ok()?;
        let place = files.iter().position(|(kept, ..)| kept == path)?;
        let (path, opened, handle) = files.swap_remove(place);
        KEPT.fetch_sub(1, Ordering::Relaxed);
        let home = Home { kept: self.clone(), path, forks };
        (opened == forks).then_some(Opened { handle, home })
    }

    /// Where a file that is about to be opened belongs.
    pub(super) fn home(self: &Arc<Self>, path: &Path) -> Home {
        Home { kept: self.clone(), path: path.to_path_buf(), forks: sys::forks() }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Ok(files) = self.files.get_mut() {
            KEPT.fetch_sub(files.len(), Ordering::Relaxed);
        }
    }
}
