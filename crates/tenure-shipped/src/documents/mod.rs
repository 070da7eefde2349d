//! Ways to save a shared JSON file that shipped.

mod cached_store;
mod expiring;
mod fingerprint;
mod fixed_temporary;
mod merge_on_save;
mod reset_when_corrupt;
mod round_trip;
mod save_without_lock;
mod truncate_in_place;

pub use self::cached_store::CachedStore;
pub use self::expiring::Expiring;
pub use self::fingerprint::Fingerprint;
pub use self::fixed_temporary::FixedTemporary;
pub use self::merge_on_save::State;
pub use self::reset_when_corrupt::ResetWhenCorrupt;
pub use self::round_trip::RoundTrip;
pub use self::save_without_lock::SaveWithoutLock;
pub use self::truncate_in_place::Session;
