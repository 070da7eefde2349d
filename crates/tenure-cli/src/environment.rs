//! The environment of this process, as far as it is about tenure.

use tenure::Inherited;

/// The holds that this command runs under, and the wait that it was given.
pub(crate) fn inherited() -> Inherited {
    Inherited::read(|name| std::env::var_os(name))
}
