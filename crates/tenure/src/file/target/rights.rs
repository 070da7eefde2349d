//! Owner, group and mode of a file or directory, and what they mean for sidecars.

use crate::fs::Stat;

/// Owner, group and mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rights {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mode: u32,
}

impl From<&Stat> for Rights {
    fn from(found: &Stat) -> Self {
        Self { uid: found.uid, gid: found.gid, mode: found.mode }
    }
}

impl Rights {
    /// Users may create names here, and remove only their own.
    pub(super) fn is_shared(self) -> bool {
        self.mode & 0o1000 != 0 && self.is_open()
    }

    /// Other users than the owner may write it.
    pub(super) fn is_open(self) -> bool {
        self.mode & 0o022 != 0
    }

    /// Whether all who may write the directory `dir` may write this.
    pub(super) fn is_open_to_writers_of(self, dir: Self) -> bool {
        let (group, others) = (self.mode & 0o020 != 0, self.mode & 0o002 != 0);
        let group_may = group && (self.gid == dir.gid || others);
        (dir.mode & 0o020 == 0 || group_may) && (dir.mode & 0o002 == 0 || others)
    }

    /// The mode of its sidecars. The owner of a read-only document may replace it, so the owner may lock
    /// it, too.
    pub(super) fn of_sidecars(self) -> u32 {
        (self.mode & 0o777) | 0o600
    }

    /// The rights that locks in this directory give to others who may write it. A mere reader gets
    /// none, since a lock that can be read can be taken.
    pub(super) fn of_locks(self, gid: u32) -> u32 {
        let group = if self.gid == gid { (self.mode & 0o020) * 3 } else { 0 };
        group | ((self.mode & 0o002) * 3)
    }

    /// Group and mode in one number, never 0.
    pub(super) fn packed(self) -> u64 {
        u64::from(self.gid) << 32 | 1 << 31 | u64::from(self.mode)
    }
}

#[cfg(test)]
mod tests {
    use super::Rights;

    #[test]
    fn writers_of_a_directory_and_of_a_target() {
        let rights = |gid, mode| Rights { uid: 1, gid, mode };
        // Directory, target, whether all writers of the first may write the second.
        let cases = [
            ((7, 0o2770), (7, 0o660), true),
            ((7, 0o2770), (8, 0o660), false),
            ((7, 0o2770), (8, 0o666), true),
            ((7, 0o2770), (7, 0o640), false),
            ((7, 0o2770), (7, 0o606), false),
            ((7, 0o777), (7, 0o660), false),
            ((7, 0o777), (7, 0o666), true),
            ((7, 0o777), (7, 0o600), false),
            ((7, 0o757), (7, 0o602), true),
            ((7, 0o755), (7, 0o600), true),
        ];
        for ((dir_gid, dir), (gid, target), expected) in cases {
            let open = rights(gid, target).is_open_to_writers_of(rights(dir_gid, dir));
            assert_eq!(open, expected, "{target:o} of {gid} in {dir:o} of {dir_gid}");
        }
    }

    #[test]
    fn a_directory_is_shared_if_users_can_put_names_into_it_that_others_cannot_remove() {
        let shared = |mode| Rights { uid: 1, gid: 1, mode }.is_shared();
        assert!(shared(0o1777) && shared(0o1770) && shared(0o3733));
        assert!(!shared(0o777) && !shared(0o1755) && !shared(0o2770) && !shared(0o1700));
    }
}
