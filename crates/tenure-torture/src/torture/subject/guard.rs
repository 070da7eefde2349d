//! What ends a hold: a release, or leaving it to a child.

use std::io;

use tenure::LockGuard;
use tenure::embed;
use tenure_shipped::Lock as _;
use tenure_shipped::locks::SessionLock;

use super::Answer;
use super::reused::{self, Descriptor};
use super::unlocked::Copied;
use tenure_cli::Inherited;

/// What ends a hold.
#[derive(Debug)]
pub(in crate::torture) enum Guard {
    Tenure(LockGuard),
    Shipped(SessionLock),
    Reused(Descriptor),
    Unlocked(Copied),
    /// For code that never releases anything.
    Nothing,
}

impl Guard {
    /// Copies for a child to inherit; `None` for locks that end with their process.
    pub(in crate::torture) fn inherited(&self) -> io::Result<Option<Inherited>> {
        match self {
            Self::Tenure(guard) => Inherited::of(guard),
            Self::Reused(descriptor) => descriptor.inherited().map(Some),
            Self::Shipped(_) | Self::Unlocked(_) | Self::Nothing => Ok(None),
        }
    }

    /// Releases it.
    pub(in crate::torture) fn release(self) -> Answer<()> {
        match self {
            Self::Tenure(guard) => Ok(guard.release()?),
            Self::Shipped(mut lock) => Ok(lock.leave()?),
            Self::Reused(descriptor) => Ok(descriptor.release()?),
            Self::Unlocked(lock) => Ok(lock.release()?),
            Self::Nothing => Ok(()),
        }
    }

    /// Leaves the lock to the child that inherited it.
    pub(in crate::torture) fn leave_to_children(self) -> Answer<()> {
        match self {
            Self::Tenure(guard) => Ok(embed::leave_to_children(guard)?),
            Self::Reused(_) => {
                reused::leave();
                Ok(())
            }
            Self::Shipped(_) | Self::Unlocked(_) | Self::Nothing => self.release(),
        }
    }
}
