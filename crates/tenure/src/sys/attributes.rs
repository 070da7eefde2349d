//! Owner, group, mode, ACL and extended attributes of a file that replaces another one (G13), and its times.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs as rfs;

use crate::fs::{Handle, Times};

#[cfg(target_vendor = "apple")]
use super::apple::copy_xattrs;

/// The longest list of names, and the longest value, that Linux allows.
#[cfg(not(target_vendor = "apple"))]
const XATTR_BYTES_MAX: usize = 64 * 1024;
/// The attribute that is a file's access list.
#[cfg(not(target_vendor = "apple"))]
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// Copies what `model` has. Owner and attributes are copied where permitted. The mode must be set,
/// and never gets wider: where the group cannot be kept, group and others get only the bits that
/// both had; where the access list cannot be kept, only the owner keeps its bits.
pub(super) fn copy(fd: &OwnedFd, model: &dyn Handle) -> io::Result<()> {
    let (wanted, have) = (model.stat()?, super::stat::from(&rfs::fstat(fd)?, false));
    let mut mode = wanted.mode & 0o777;
    // A file that is closed to others has that mode from the start, and no access list changes it.
    let mut is_set = mode & !0o700 == 0 && mode == have.mode;
    if (wanted.uid, wanted.gid) != (have.uid, have.gid) {
        is_set = false; // Another owner may take bits away.
        let (uid, gid) = (rfs::Uid::from_raw(wanted.uid), rfs::Gid::from_raw(wanted.gid));
        let both = rfs::fchown(fd, Some(uid), Some(gid));
        if both.is_err() && rfs::fchown(fd, None, Some(gid)).is_err() && wanted.gid != have.gid {
            // Members of the old group are others now, and strangers may be in the new one: both
            // classes get only the bits that both had.
            let both = (mode >> 3) & mode & 0o007;
            mode = (mode & 0o700) | (both << 3) | both;
        }
    }
    if let Some(raw) = model.raw() {
        #[expect(unsafe_code, reason = "the model handle outlives this call")]
        // SAFETY: `raw()` was taken from a live handle that the caller borrows for the whole call.
        let model = unsafe { BorrowedFd::borrow_raw(raw) };
        mode &= copy_xattrs(fd, model, mode);
    }
    if is_set { Ok(()) } else { Ok(rfs::fchmod(fd, super::stat::bits(mode))?) }
}

/// Access lists are extended attributes too. Each attribute that may be read and set is kept; the rest
/// (security labels set by the system, trusted ones without the capability) stays as the system made it.
/// Which bits of `mode` may be given then.
#[cfg(not(target_vendor = "apple"))]
fn copy_xattrs(fd: &OwnedFd, model: BorrowedFd<'_>, mode: u32) -> u32 {
    use rustix::fs::XattrFlags;
    use rustix::io::Errno;
    let mut value = Vec::new();
    let mut take_over = |name: &[u8]| {
        value.resize(XATTR_BYTES_MAX, 0);
        let len = rfs::fgetxattr(model, name, &mut value[..])?;
        rfs::fsetxattr(fd, name, &value[..len], XattrFlags::empty())
    };
    // Most files have none; that is asked without a buffer.
    let has_list = if matches!(rfs::flistxattr_query(model), Ok(0) | Err(Errno::NOTSUP)) {
        false
    } else {
        let mut names = vec![0u8; XATTR_BYTES_MAX];
        let len = rfs::flistxattr(model, &mut names[..]).unwrap_or(0);
        let names = names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
        for name in names.filter(|name| *name != ACCESS_LIST) {
            let _ = take_over(name);
        }
        // By its name: there may be more names than can be listed.
        match take_over(ACCESS_LIST) {
            Ok(()) => return !0,
            Err(Errno::NODATA | Errno::NOTSUP) => false,
            Err(_) => true,
        }
    };
    // A directory may give its new files a list that the model does not have.
    let is_free = mode & 0o070 == 0
        || rfs::fgetxattr_query(fd, ACCESS_LIST).is_err()
        || rfs::fremovexattr(fd, ACCESS_LIST).is_ok();
    match (has_list, is_free) {
        // The list may have excluded a user to whom the bits of others give access.
        (true, _) => 0o700,
        // The list could not be removed. The group bits are its mask, and give access to the users
        // in it.
        (false, false) => !0o070,
        (false, true) => !0,
    }
}

/// Birth and last change, where the system knows them.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn times(fd: &OwnedFd) -> Times {
    use rustix::fs::{AtFlags, StatxFlags};
    let asked = StatxFlags::BTIME | StatxFlags::CTIME;
    let Ok(found) = rfs::statx(fd, "", AtFlags::EMPTY_PATH, asked) else {
        return Times::default(); // Before Linux 4.11, and under old seccomp filters.
    };
    Times {
        born_us: super::stat::time_us(&found, StatxFlags::BTIME, found.stx_btime),
        changed_us: super::stat::time_us(&found, StatxFlags::CTIME, found.stx_ctime),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn times(_: &OwnedFd) -> Times {
    Times::default()
}
