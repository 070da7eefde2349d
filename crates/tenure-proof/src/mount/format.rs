//! File systems in image files.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::{Mounted, tool};
use crate::block_log::SECTOR;

/// How a file system is made and mounted.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// The name for people.
    pub name: &'static str,
    /// The name for the kernel.
    pub kind: &'static str,
    /// The program that makes it, before the name of the image.
    pub make: &'static [&'static str],
    /// Mount options.
    pub options: &'static str,
    /// The size of its image: about the smallest that is possible.
    pub mib: u64,
    /// How many bytes it expects its disk to write atomically.
    pub atom: usize,
}

/// With the defaults for a disk.
pub const EXT4: Format = Format {
    name: "ext4",
    kind: "ext4",
    make: &["mkfs.ext4", "-q", "-F", "-b", "4096"],
    options: "",
    mib: 32,
    atom: SECTOR,
};

/// Blocks smaller than a page.
pub const EXT4_SMALL_BLOCKS: Format =
    Format { name: "ext4, 1 KiB blocks", make: &["mkfs.ext4", "-q", "-F", "-b", "1024"], ..EXT4 };

/// Data may be written after the metadata that refers to it.
pub const EXT4_WRITEBACK: Format =
    Format { name: "ext4, data=writeback", options: "data=writeback", ..EXT4 };

/// Journals metadata only.
pub const XFS: Format = Format {
    name: "xfs",
    kind: "xfs",
    make: &["mkfs.xfs", "-q", "-f"],
    options: "",
    mib: 300,
    atom: SECTOR,
};

/// Copy on write. Its superblock is 4 KiB under one checksum, and it cannot be mounted if only half
/// of a new one was written.
pub const BTRFS: Format = Format {
    name: "btrfs",
    kind: "btrfs",
    make: &["mkfs.btrfs", "-q", "-f"],
    options: "",
    mib: 128,
    atom: 4096,
};

impl Format {
    /// Makes an image in `dir`.
    pub fn image(&self, dir: &Path) -> PathBuf {
        let path = dir.join("image");
        let file = File::create(&path).and_then(|file| file.set_len(self.mib << 20));
        file.expect("an image file");
        tool(self.make, Some(&path));
        path
    }

    /// Mounts an image through a loop device, which goes away with the mount.
    pub fn mount(&self, image: &Path) -> Mounted {
        Mounted::new(image, self.kind, &self.with("loop"))
    }

    /// Our options and one more.
    pub fn with(&self, option: &str) -> String {
        if self.options.is_empty() {
            return option.to_owned();
        }
        format!("{},{option}", self.options)
    }
}
