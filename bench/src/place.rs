//! Where a run works: a directory of its own on some file system.
//!
//! # Invariants
//!
//! 1. What was made is removed when its value is dropped, mounts before the directories they are
//!    on; also when a signal ends the run.
//! 2. A file system that cannot be mounted here is named; nothing is left out silently.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::row::{Form, Result};

/// The image of a loop mount: room for the largest journals of the full form.
const IMAGE_BYTES: u64 = 24 << 30;

/// How often the removal is repeated, while processes that have not ended yet make new files.
const ATTEMPTS: usize = 50;

/// A directory to work in. There is one at a time.
#[derive(Debug)]
pub(crate) struct Place {
    dir: PathBuf,
}

/// What is to be removed at the end.
#[derive(Debug)]
struct Made {
    directory: Option<PathBuf>,
    /// Where it is mounted, and the image.
    mounted: Option<(PathBuf, PathBuf)>,
}

static MADE: Mutex<Made> = Mutex::new(Made { directory: None, mounted: None });

fn made() -> MutexGuard<'static, Made> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Made {
    fn remove(&mut self) {
        if let Some(dir) = self.directory.take() {
            let stays = |_: &usize| std::fs::remove_dir_all(&dir).is_err() && dir.exists();
            let _ = (0..ATTEMPTS).take_while(stays).count();
        }
        if let Some((at, image)) = self.mounted.take() {
            // Lazily: an open file there does not keep the rest from being removed.
            let _ = Command::new("umount").arg("--lazy").arg(&at).output();
            let _ = std::fs::remove_dir(at);
            let _ = std::fs::remove_file(image);
        }
    }
}

/// Makes a signal that ends the run remove what was made.
pub(crate) fn clean_up_at_signals() -> Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let mut made = made(); // Nothing is made after this.
            made.remove();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
    Ok(())
}

impl Place {
    /// A new directory below `on`.
    fn below(on: &Path) -> Result<Self> {
        Self::make(&mut made(), &on.join(format!("tenure-bench-{}", std::process::id())))
    }

    fn make(made: &mut Made, dir: &Path) -> Result<Self> {
        std::fs::create_dir(dir)?;
        let dir = dir.canonicalize()?;
        made.directory = Some(dir.clone());
        Ok(Self { dir })
    }

    /// A new file system in an image file below `on`.
    fn mounted(on: &Path, kind: &str) -> Result<Self> {
        let base = on.join(format!("tenure-bench-{kind}-{}", std::process::id()));
        let (image, at) = (base.with_extension("image"), base);
        let mut made = made();
        std::fs::create_dir(&at)?;
        made.mounted = Some((at.canonicalize()?, image.clone()));
        let mount = |made: &mut Made| {
            File::create(&image)?.set_len(IMAGE_BYTES)?;
            command(Command::new(format!("mkfs.{kind}")).args(["-q", "-f"]).arg(&image))?;
            command(Command::new("mount").args(["-t", kind, "-o", "loop"]).arg(&image).arg(&at))?;
            Self::make(made, &at.join("work"))
        };
        mount(&mut made).inspect_err(|_| made.remove())
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        made().remove();
    }
}

/// A kind of place, which is made when its turn comes.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A directory that is there.
    Directory(&'static str),
    /// A file system in an image.
    Image(&'static str),
}

/// Where a run in this form works, one place after the other. What is not available here is
/// reported.
pub(crate) fn all(form: Form, on: Option<&Path>) -> impl Iterator<Item = Place> {
    let here = on.unwrap_or(Path::new("."));
    let others: &[Kind] = match form {
        Form::Full if on.is_none() => {
            &[Kind::Directory("/dev/shm"), Kind::Image("xfs"), Kind::Image("btrfs")]
        }
        _ => &[],
    };
    let told = move |name: &str, place: Result<Place>| {
        place.map_err(|problem| println!("NOT RUN: on {name}: {problem}")).ok()
    };
    let first = std::iter::once_with(move || told(&here.display().to_string(), Place::below(here)));
    let rest = others.iter().map(move |kind| match kind {
        Kind::Directory(dir) => told(dir, Place::below(Path::new(dir))),
        Kind::Image(system) => told(system, Place::mounted(here, system)),
    });
    first.chain(rest).flatten()
}

fn command(command: &mut Command) -> Result<()> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}
