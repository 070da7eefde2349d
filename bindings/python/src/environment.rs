//! The environment of this process, as far as it is about tenure.

use tenure::embed::Inherited;

/// The holds that this program runs under, and the wait that it was given. Read anew for every call: a
/// program may change its environment.
pub(crate) fn inherited() -> Inherited {
    Inherited::read(|name| std::env::var_os(name))
}
