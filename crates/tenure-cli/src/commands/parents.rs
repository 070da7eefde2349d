//! Locks and leases below directories that are missing: mostly a mistyped path, which would lock nothing.

use std::path::Path;

use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};

/// Refuses a target whose directory is not `there`, unless the caller wants it created (`--parents`).
pub(super) fn require(action: &'static str, path: &Path, there: bool, parents: bool) -> Result<()> {
    if there || parents {
        return Ok(());
    }
    let dir = path.parent().unwrap_or(path).display().to_string();
    let detail = format!("its directory `{}` does not exist", dir.escape_debug());
    Err(Failure::new(ExitCode::Failed, "not_found", action, detail)
        .at(path)
        .hint("check the path, or create the directory with --parents"))
}

/// The same for a caller who names a lease that must be there already.
pub(super) fn require_lease(action: &'static str, path: &Path, there: bool) -> Result<()> {
    if there {
        return Ok(());
    }
    let detail = "there is no lease: its directory does not exist";
    Err(Failure::new(ExitCode::Failed, "not_found", action, detail).at(path).hint("check the path"))
}
