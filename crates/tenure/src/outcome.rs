//! What calls return. A program names these types where it keeps a result or passes it on.

pub use crate::document::{Typed, Watch};
pub use crate::journal::{Entries, Follow};
pub use crate::results::{
    Appended, Compacted, Damage, Earlier, Entry, LeaseInfo, Leased, Pruned, Report, Rotated,
    Snapshot, Split, Written,
};
