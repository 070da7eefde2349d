//! The environment of this process that concerns tenure: holds, and the user.

use std::path::Path;

use tenure::Fence;
use tenure::embed::Inherited;

use crate::child::Variables;
use crate::place::{self, here};

/// The holds that this command runs under, and its default wait.
pub(crate) fn inherited() -> Inherited {
    Inherited::read(|name| std::env::var_os(name))
}

/// The fence of the hold on `path` (resolved) that this command runs under.
pub(crate) fn fence_of(path: &Path) -> tenure::Result<Option<Fence>> {
    inherited().fence_of(&here().address(path))
}

/// The token for a lease on `path` (resolved).
pub(crate) fn token_for(path: &Path) -> Option<String> {
    inherited().token_for(&here().address(path)).map(str::to_owned)
}

/// The variables for a command below these holds (target, fence, token), the innermost first, and below
/// those that this command has; with the store that they are in.
pub(crate) fn below(holds: &[(&Path, Fence, Option<&str>)]) -> tenure::Result<Variables> {
    let mut variables = below_around(inherited(), holds)?;
    variables.push((place::VARIABLE, here().url().map(Into::into)));
    Ok(variables)
}

/// The same below other holds than those of this command, and without the store: its URL may have a password.
pub(crate) fn below_around(
    mut around: Inherited,
    holds: &[(&Path, Fence, Option<&str>)],
) -> tenure::Result<Variables> {
    let mut variables = Variables::new();
    for (path, fence, token) in holds.iter().rev() {
        variables = around.below(&here().address(path), *fence, *token)?;
        let set = |name: &str| variables.iter().find(|(variable, _)| *variable == name);
        around = Inherited::read(|name| set(name)?.1.clone());
    }
    Ok(variables)
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
