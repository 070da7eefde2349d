//! Ring 5: what is durable survives the loss of power.
//!
//! - `simulated`: a mixed load on a simulated disk, cut at every operation and during its recovery;
//! - `states`: every directory that a power loss could leave, enumerated from recorded runs;
//! - `shutdown`: ext4 and xfs are shut down under working victims, and mounted again;
//! - `block_log`: the writes and flushes of a block device under ext4, xfs and btrfs are recorded,
//!   and the device is cut between any two of them;
//! - `half_exchange`: btrfs, cut when one half of an exchange of names is on the disk;
//! - `in_order`: both really use ordered content without a sync of its own, where tenure chooses
//!   that;
//! - `seam`: the recordings of `states` miss nothing.
//!
//! All use the same victim and the same checker, and all must detect victims that are broken on
//! purpose.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is how a test fails, and it says what it saw"
)]

mod block_log;
mod half_exchange;
mod in_order;
mod seam;
mod shutdown;
mod simulated;
mod states;
mod victims;

/// The name of this ring.
const RING: &str = "power_loss";
