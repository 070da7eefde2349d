//! What macOS does in its own way: the full sync, attributes with access lists, and the name of a boot.
#![expect(unsafe_code, reason = "fcopyfile and sysctlbyname are raw calls")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr;

use rustix::fs::{self as rfs, CopyfileFlags};
use rustix::io::Errno;

unsafe extern "C" {
    fn sysctlbyname(
        name: *const c_char,
        old: *mut c_void,
        old_len: *mut usize,
        new: *mut c_void,
        new_len: usize,
    ) -> c_int;
}

/// fsync(2) on macOS leaves the data in the cache of the drive; F_FULLFSYNC waits until it is out. A
/// file system without it (network, some FUSE) says so, and does its best with fsync.
pub(super) fn full_sync(fd: &OwnedFd) -> rustix::io::Result<()> {
    match rfs::fcntl_fullfsync(fd) {
        Err(Errno::NOTSUP | Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => rfs::fsync(fd),
        done => done,
    }
}

/// Access lists are not among the extended attributes here, but the system copies both. What may not
/// be copied stays as the system made it. Lists are not bound to the bits of the mode: they take nothing
/// from the group, and all of its bits may be given.
pub(super) fn copy_xattrs(fd: &OwnedFd, model: BorrowedFd<'_>, _mode: u32) -> u32 {
    let what = CopyfileFlags::ACL | CopyfileFlags::XATTR;
    let Ok(state) = rfs::copyfile_state_alloc() else { return !0 };
    // SAFETY: the state is new, used for this one copy, and freed once.
    unsafe {
        let _ = rfs::fcopyfile(model, fd, state, what);
        let _ = rfs::copyfile_state_free(state);
    }
    !0
}

/// `kern.bootsessionuuid`: another one in every boot.
pub(super) fn boot_name() -> String {
    let mut name = [0u8; 64];
    // The last byte stays zero whatever the call does.
    let mut len = name.len() - 1;
    // SAFETY: the name ends with a zero, and `name` has room for `len` bytes.
    let failed = unsafe {
        sysctlbyname(
            c"kern.bootsessionuuid".as_ptr(),
            name.as_mut_ptr().cast(),
            &raw mut len,
            ptr::null_mut(),
            0,
        )
    };
    let name = CStr::from_bytes_until_nul(&name).ok().filter(|_| failed == 0);
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
