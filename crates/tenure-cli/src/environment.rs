//! The environment of this process, as far as it is about tenure: holds, and who runs it.

use tenure::Inherited;

/// The holds that this command runs under, and the wait that it was given.
pub(crate) fn inherited() -> Inherited {
    Inherited::read(|name| std::env::var_os(name))
}

/// Who runs this: a name, or where nobody was given one (a hook, a cron job, a container) the number.
pub(crate) fn user() -> String {
    let named = |name: &&str| std::env::var(name).ok().filter(|user| !user.is_empty());
    ["LOGNAME", "USER", "USERNAME"].iter().find_map(named).unwrap_or_else(number)
}

/// The user as the kernel knows him.
#[cfg(unix)]
fn number() -> String {
    format!("uid {}", rustix::process::geteuid().as_raw())
}

#[cfg(not(unix))]
fn number() -> String {
    "unknown".to_owned()
}
