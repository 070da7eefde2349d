//! Cutting a mounted file system off from its device, as a power loss would.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::ioctl::{Setter, ioctl, opcode};

/// `EXT4_IOC_SHUTDOWN` and `XFS_IOC_GOINGDOWN` are one number: `_IOR('X', 125, u32)`.
const SHUTDOWN: rustix::ioctl::Opcode = opcode::read::<u32>(b'X', 125);
/// Data in memory, including the journal, is not written any more.
const NO_LOG_FLUSH: u32 = 2;

/// The file system mounted at `at` loses everything that is not on its device, and fails from now on.
#[expect(unsafe_code, reason = "no safe wrapper of this request exists")]
pub fn shut_down(at: &Path) -> io::Result<()> {
    let root = File::open(at)?;
    // SAFETY: the request reads one u32, which it is given; it writes to no memory of ours.
    unsafe { ioctl(&root, Setter::<SHUTDOWN, u32>::new(NO_LOG_FLUSH))? };
    Ok(())
}
