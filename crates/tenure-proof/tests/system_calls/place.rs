//! Whether an error names its place: the first quoted text is something that its command works on.

use std::ffi::OsStr;
use std::path::Path;

use super::sweep::Sweep;

/// Where every command also writes.
const OUTPUT: &str = "standard output";
/// The sidecar of a directory as a whole.
const FLOOR: &str = "floor";

/// Whether the first quoted text is a path of this sweep: an argument of the command, a file that
/// was there at some time, a sidecar of one, or a directory of these.
pub(crate) fn is_named(sweep: &Sweep, message: &str) -> bool {
    let Some(quoted) = message.split('`').nth(1).filter(|quoted| !quoted.is_empty()) else {
        return false;
    };
    let Sweep { job, dir, files, seen, .. } = sweep;
    let path = dir.join(quoted);
    let is_path = |file: &str| dir.join(file) == path;
    let mut below = seen.iter().filter_map(|name| dir.join(name).parent().map(Path::to_path_buf));
    quoted == OUTPUT
        || job.args.iter().skip(1).any(|word| is_path(word))
        || files.iter().chain(seen).any(|file| is_path(file))
        || path == *dir
        || below.any(|directory| directory == path)
        || is_sidecar(sweep, &path)
}

/// Whether this is in a sidecar directory, with the name of something that the command works on.
fn is_sidecar(sweep: &Sweep, path: &Path) -> bool {
    let directory = path.strip_prefix(&sweep.dir).ok().and_then(Path::parent);
    let (Some(directory), Some(name)) = (directory, path.file_name().and_then(OsStr::to_str))
    else {
        return false;
    };
    let words = sweep.job.args.iter().copied().chain(sweep.seen.iter().map(String::as_str));
    let mut targets = words.filter_map(|word| Path::new(word).file_name()?.to_str());
    let is_of = |target| name.strip_prefix(target).is_some_and(|end| end.starts_with('.'));
    directory.ends_with(".tenure") && (name == FLOOR || targets.any(is_of))
}
