//! What a record is about: a commit, and no file outside of it.
//!
//! # Invariants
//!
//! 1. A record names the commit that was attacked, so none is made while a file differs from it, or is not in it:
//!    rings read whole directories. What git ignores and what the run itself writes are excepted.

use std::process::Command;

use crate::root;

/// What `cargo xtask prove` writes: a run of several rings continues after writing its own records.
const WRITTEN: &[&str] =
    &["docs/RELIABILITY.md", "docs/PLATFORM.md", "crates/tenure-proof/record/"];

/// The commit of the tree, shortened. The error says that it is not what the tree is.
pub(crate) fn clean_commit() -> Result<String, String> {
    let status = git(&["status", "--porcelain", "--untracked-files=all", "--no-renames"])?;
    let changed = changed(&status);
    match changed.as_slice() {
        [] => Ok(git(&["rev-parse", "--short=10", "HEAD"])?.trim().to_owned()),
        [first, others @ ..] => {
            let more = if others.is_empty() {
                String::new()
            } else {
                format!(" and {} more", others.len())
            };
            let why = "a record names the commit that it is about: commit first";
            Err(format!("not as in HEAD: {first}{more}; {why}"))
        }
    }
}

/// The files of a status that a run does not write: two letters, a space and the name.
fn changed(status: &str) -> Vec<&str> {
    let ours = |name: &&str| !WRITTEN.iter().any(|written| name.starts_with(written));
    status.lines().filter_map(|line| line.get(3..)).filter(ours).collect()
}

fn git(arguments: &[&str]) -> Result<String, String> {
    let done = Command::new("git").args(arguments).current_dir(root()).output();
    let done = done.map_err(|err| format!("cannot run git: {err}"))?;
    if !done.status.success() {
        let why = String::from_utf8_lossy(&done.stderr);
        return Err(format!("git {}: {}", arguments.join(" "), why.trim()));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::changed;

    #[test]
    fn only_what_a_run_writes_may_differ() {
        let written = " M crates/tenure-proof/record/torture.jsonl\n M docs/PLATFORM.md\n\
                       M  docs/RELIABILITY.md\n?? crates/tenure-proof/record/new.jsonl\n";
        assert_eq!(changed(written), [""; 0]);
        let both = format!("{written}MM crates/tenure/src/lease.rs\n D docs/FORMAT.md\n");
        assert_eq!(changed(&both), ["crates/tenure/src/lease.rs", "docs/FORMAT.md"]);
    }

    #[test]
    fn a_file_that_git_does_not_know_is_a_difference() {
        let planted = "?? crates/tenure-proof/corpus/record/planted\n";
        assert_eq!(changed(planted), ["crates/tenure-proof/corpus/record/planted"]);
    }
}
