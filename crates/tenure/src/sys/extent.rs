//! Identity and length of a file on Linux, without its times.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags, makedev, statx};
use rustix::io::Errno;

use crate::fs::{Extent, FileId};

use super::platform::kind_of;

/// `None` where the call is not known, or a filter refuses it.
pub(super) fn of(dir: impl AsFd, path: &Path, flags: AtFlags) -> Option<io::Result<Extent>> {
    let wanted = StatxFlags::TYPE | StatxFlags::NLINK | StatxFlags::INO | StatxFlags::SIZE;
    match statx(dir, path, flags, wanted) {
        Err(Errno::NOSYS | Errno::PERM) => None,
        Err(err) => Some(Err(err.into())),
        Ok(found) => Some(Ok(Extent {
            id: FileId {
                dev: makedev(found.stx_dev_major, found.stx_dev_minor),
                ino: found.stx_ino,
            },
            links: found.stx_nlink.into(),
            size: found.stx_size,
            kind: kind_of(found.stx_mode.into()),
        })),
    }
}
