//! The environment of this process that concerns tenure: holds, and the user.

use tenure::Inherited;

/// The holds that this command runs under, and its default wait.
pub(crate) fn inherited() -> Inherited {
    Inherited::read(|name| std::env::var_os(name))
}

/// The user who runs this: a name, or the number where no name is set (a hook, a cron job, a
/// container).
pub(crate) fn user() -> String {
    let named = |name: &&str| std::env::var(name).ok().filter(|user| !user.is_empty());
    ["LOGNAME", "USER", "USERNAME"].iter().find_map(named).unwrap_or_else(number)
}

/// The user as the kernel knows it.
#[cfg(unix)]
fn number() -> String {
    format!("uid {}", rustix::process::geteuid().as_raw())
}

#[cfg(not(unix))]
fn number() -> String {
    "unknown".to_owned()
}
