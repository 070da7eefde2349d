//! Every kind of call that is attacked: what it does, and how it fails.
//!
//! This is the only list. It decides which calls are attacked, which fail together from one moment
//! on, and which faults are tried at one call.

use self::Does::{Begins, Changes, Ends, Locks, Looks, Opens, Says};

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// Changes something on a disk, or promises that it was changed.
    Changes,
    /// Needs a free descriptor. strace cannot distinguish creating a file from opening one.
    Opens,
    /// Changes nothing, and needs the disk to answer.
    Looks,
    /// Takes or releases a lock.
    Locks,
    /// Writes to standard output and standard error.
    Says,
    /// Begins another process.
    Begins,
    /// Ends something. It cannot fail: a failed `close` would keep the file open, which Linux never does.
    Ends,
}

/// One kind of call.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// As strace calls it.
    pub name: &'static str,
    /// What it is for.
    pub does: Does,
    /// What it fails with in practice.
    pub errors: &'static [&'static str],
    /// Whether a failure persists: a full disk stays full, a broken one broken, and a table of open
    /// files full.
    pub lasting: Option<&'static str>,
}

impl Kind {
    /// The kind with this name, if it is attacked.
    pub fn named(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }
}

const FULL: Option<&str> = Some("ENOSPC");
const BROKEN: Option<&str> = Some("EIO");
const READ_ONLY: Option<&str> = Some("EROFS");
const NO_MORE_FILES: Option<&str> = Some("EMFILE");

const OPENING: &[&str] = &["EMFILE", "EACCES", "EROFS", "EIO", "ENOSPC"];
const WRITING: &[&str] = &["ENOSPC", "EIO", "EDQUOT"];
const SYNCING: &[&str] = &["EIO", "ENOSPC", "EDQUOT"];
const NAMING: &[&str] = &["ENOSPC", "EIO", "EACCES", "EROFS"];
const MAKING: &[&str] = &["ENOSPC", "EACCES", "EROFS", "EDQUOT"];
const REMOVING: &[&str] = &["EIO", "EACCES", "EROFS"];
const OWNING: &[&str] = &["EIO", "EPERM", "EROFS"];
const FINDING: &[&str] = &["EIO", "EACCES"];
const ATTACHED: &[&str] = &["EIO", "EOPNOTSUPP"];

/// All of them.
pub const KINDS: &[Kind] = &[
    kind("open", Opens, OPENING, NO_MORE_FILES),
    kind("openat", Opens, OPENING, NO_MORE_FILES),
    kind("openat2", Opens, OPENING, NO_MORE_FILES),
    kind("dup", Opens, &["EMFILE"], None),
    kind("write", Says, WRITING, None),
    kind("pwrite64", Changes, WRITING, FULL),
    kind("copy_file_range", Changes, WRITING, None),
    kind("fallocate", Changes, WRITING, None),
    kind("ftruncate", Changes, WRITING, None),
    kind("fsync", Changes, SYNCING, BROKEN),
    kind("fdatasync", Changes, SYNCING, BROKEN),
    kind("sync_file_range", Changes, &["EIO", "ENOSPC", "EDQUOT", "ENOSYS", "EPERM"], BROKEN),
    kind("rename", Changes, NAMING, READ_ONLY),
    kind("renameat", Changes, NAMING, READ_ONLY),
    kind("renameat2", Changes, NAMING, READ_ONLY),
    kind("link", Changes, NAMING, READ_ONLY),
    kind("linkat", Changes, NAMING, READ_ONLY),
    kind("unlink", Changes, REMOVING, READ_ONLY),
    kind("unlinkat", Changes, REMOVING, READ_ONLY),
    kind("rmdir", Changes, REMOVING, READ_ONLY),
    kind("mkdir", Changes, MAKING, FULL),
    kind("mkdirat", Changes, MAKING, FULL),
    kind("fchmod", Changes, OWNING, None),
    kind("fchown", Changes, OWNING, None),
    kind("utimensat", Changes, OWNING, None),
    kind("fsetxattr", Changes, &["ENOSPC", "EPERM", "EOPNOTSUPP", "EDQUOT"], None),
    kind("fremovexattr", Changes, ATTACHED, None),
    kind("flock", Locks, &["ENOLCK", "EIO"], None),
    kind("read", Looks, &["EIO"], None),
    kind("pread64", Looks, &["EIO"], None),
    kind("stat", Looks, FINDING, None),
    kind("lstat", Looks, FINDING, None),
    kind("fstat", Looks, &["EIO"], None),
    kind("newfstatat", Looks, FINDING, None),
    kind("statx", Looks, FINDING, None),
    kind("statfs", Looks, &["EIO"], None),
    kind("fstatfs", Looks, &["EIO"], None),
    kind("readlink", Looks, FINDING, None),
    kind("readlinkat", Looks, FINDING, None),
    kind("lseek", Looks, &["EIO"], None),
    kind("getdents64", Looks, &["EIO"], None),
    kind("getcwd", Looks, &["ENOENT"], None),
    kind("flistxattr", Looks, ATTACHED, None),
    kind("fgetxattr", Looks, ATTACHED, None),
    kind("clone3", Begins, &["EAGAIN"], None),
    kind("close", Ends, &[], None),
    kind("exit_group", Ends, &[], None),
];

const fn kind(
    name: &'static str,
    does: Does,
    errors: &'static [&'static str],
    lasting: Option<&'static str>,
) -> Kind {
    Kind { name, does, errors, lasting }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_there_once() {
        let mut names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KINDS.len());
        assert_eq!(KINDS.len(), 47);
    }

    /// Two calls that do the same, by a path or relative to a directory, must have equal entries.
    #[test]
    fn calls_of_one_family_fail_alike() {
        let families: &[&[&str]] = &[
            &["open", "openat", "openat2"],
            &["rename", "renameat", "renameat2"],
            &["link", "linkat"],
            &["unlink", "unlinkat"],
            &["mkdir", "mkdirat"],
            &["stat", "lstat", "newfstatat", "statx"],
            &["readlink", "readlinkat"],
            &["statfs", "fstatfs"],
        ];
        for family in families {
            let kinds = family.iter().map(|name| Kind::named(name).expect("a kind"));
            let mut told: Vec<_> =
                kinds.map(|kind| (kind.does, kind.errors, kind.lasting)).collect();
            told.dedup();
            assert_eq!(told.len(), 1, "{family:?}: {told:?}");
        }
    }
}
