//! Where a run works: a directory of its own on some file system.
//!
//! # Invariants
//!
//! 1. What was made is removed when its value is dropped, mounts before the directories they are on.
//! 2. A file system that cannot be mounted here is named; nothing is left out in silence.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::row::{Form, Result};

/// The image of a loop mount: room for the largest journals of the full form.
const IMAGE_BYTES: u64 = 24 << 30;

/// A directory to work in.
#[derive(Debug)]
pub(crate) struct Place {
    dir: PathBuf,
    /// Unmounted at the end, and the image that was mounted there removed.
    mounted: Option<(PathBuf, PathBuf)>,
}

impl Place {
    /// A new directory below `on`.
    fn below(on: &Path) -> Result<Self> {
        let dir = on.join(format!("tenure-bench-{}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        Ok(Self { dir: dir.canonicalize()?, mounted: None })
    }

    /// A new file system in an image file below `on`.
    fn mounted(on: &Path, kind: &str) -> Result<Self> {
        let base = on.join(format!("tenure-bench-{kind}-{}", std::process::id()));
        let (image, at) = (base.with_extension("image"), base);
        std::fs::create_dir_all(&at)?;
        // From here on the drop cleans up.
        let mut place = Self { dir: at.join("work"), mounted: Some((at.clone(), image.clone())) };
        File::create(&image)?.set_len(IMAGE_BYTES)?;
        command(Command::new(format!("mkfs.{kind}")).args(["-q", "-f"]).arg(&image))?;
        command(Command::new("mount").args(["-t", kind, "-o", "loop"]).arg(&image).arg(&at))?;
        std::fs::create_dir(&place.dir)?;
        place.dir = place.dir.canonicalize()?;
        Ok(place)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
        if let Some((at, image)) = &self.mounted {
            let _ = Command::new("umount").arg(at).output();
            let _ = std::fs::remove_dir(at);
            let _ = std::fs::remove_file(image);
        }
    }
}

/// Where a run in this form works.
pub(crate) fn all(form: Form, on: Option<&Path>) -> Result<Vec<Place>> {
    let here = on.unwrap_or(Path::new("."));
    let mut places = vec![Place::below(here)?];
    if form == Form::Quick || on.is_some() {
        return Ok(places);
    }
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        places.push(Place::below(memory)?);
    } else {
        println!("NOT RUN: on tmpfs: there is no {}", memory.display());
    }
    for kind in ["xfs", "btrfs"] {
        match Place::mounted(here, kind) {
            Ok(place) => places.push(place),
            Err(problem) => println!("NOT RUN: on {kind}: {problem}"),
        }
    }
    Ok(places)
}

fn command(command: &mut Command) -> Result<()> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}
