//! The victim: it uses every feature of tenure, reports what was acknowledged, and is crashed.
//!
//! [`work`] does the work and [`check_and_go_on`] checks the files after a crash: first as a
//! program without tenure, then as a reader through tenure, then as the next writer. Both run on
//! any file system of the seam, so a run can be recorded ([`crate::crash_states`]) or broken on
//! purpose ([`Broken`]).

mod ack;
mod boot;
mod broken;
mod check;
mod keys;
mod layer;
mod loose;
mod stamp;
mod work;

pub use self::ack::{Ack, acks_in, lines_of};
pub use self::boot::boot;
pub use self::broken::Broken;
pub use self::check::{check, check_and_go_on};
pub use self::layer::{Layer, OpenFile, lay};
pub use self::loose::survivors;
pub use self::work::{Task, Work, work};
