//! Which file systems can be trusted to lock, by the magic number of `statfs`.

use std::io;
use std::path::Path;

use crate::fs::Trust;

/// Local file systems whose flock and fsync were run by our tests, or share their code.
#[cfg(any(target_os = "linux", target_os = "android"))]
const LOCAL: &[(u64, Trust)] = &[
    (0xEF53, Trust::Yes),            // ext2, ext3, ext4
    (0x5846_5342, Trust::Yes),       // xfs
    (0x0102_1994, Trust::Yes),       // tmpfs
    (0x8584_58F6, Trust::Yes),       // ramfs
    (0x9123_683E, Trust::Unordered), // btrfs: seen to happen
    (0x794C_7630, Trust::Unordered), // overlayfs: as what is below it, which may be btrfs
    (0xF2F5_2010, Trust::Unordered), // f2fs: a log of single files, too; not tried
    (0x2FC1_2FC1, Trust::Unordered), // zfs: the same
];

/// File systems that other machines write to, where flock may not exclude other processes.
#[cfg(any(target_os = "linux", target_os = "android"))]
const REMOTE: &[(u64, &str)] = &[
    (0x6969, "nfs"),
    (0x517B, "smb"),
    (0xFE53_4D42, "smb2"),
    (0xFF53_4D42, "cifs"),
    (0x0102_1997, "9p"),
    (0x0BD0_0BD0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x00C3_6400, "ceph"),
    (0x5346_414F, "afs"),
    (0x786F_4256, "vboxsf"),
    (0x7375_7245, "coda"),
    (0x7461_636F, "ocfs2"),
    (0x0116_1970, "gfs2"),
    (0x1983_0326, "beegfs"),
    (0x2003_0528, "orangefs"),
    (0xBACB_ACBC, "vmhgfs"),
    (0x7C7C_6673, "prl_fs"),
];

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn of(dir: &Path) -> io::Result<Trust> {
    #[expect(clippy::cast_sign_loss, reason = "a magic number is 32 bits")]
    let magic = rustix::fs::statfs(dir)?.f_type as u64 & 0xFFFF_FFFF;
    if let Some((_, trust)) = LOCAL.iter().find(|(number, _)| *number == magic) {
        return Ok(trust.clone());
    }
    let remote = REMOTE.iter().find(|(number, _)| *number == magic);
    Ok(remote.map_or(Trust::Probe, |(_, name)| Trust::No((*name).to_owned())))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn of(dir: &Path) -> io::Result<Trust> {
    // macOS names the file system instead of numbering it.
    let found = rustix::fs::statfs(dir)?.f_fstypename;
    let bytes = found.iter().take_while(|byte| **byte != 0);
    #[expect(clippy::cast_sign_loss, reason = "the bytes of a C string")]
    let name: String = bytes.map(|byte| char::from(*byte as u8)).collect();
    Ok(match name.as_str() {
        "apfs" | "hfs" => Trust::Yes,
        "nfs" | "smbfs" | "afpfs" | "webdav" => Trust::No(name),
        _ => Trust::Probe,
    })
}
