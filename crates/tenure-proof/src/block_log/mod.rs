//! A block device that records every write, flush and acknowledgement, in one order.
//!
//! The device is a file of a FUSE file system under a loop device. Beside it is a file `ack`: what
//! victims write to it is recorded in the same order. Afterwards the device can be cut after any
//! step, with any part of the blocks that were not flushed: the volatile cache of a real disk.

mod cut;
mod device;

pub use self::cut::{Cut, Image, SECTOR};
pub use self::device::{BlockLog, Step};
