//! Where the servers' programs are.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The program `name`: named by `variable`, or in the path, which need not have those for administrators.
pub(crate) fn find(name: &str, variable: Option<&str>) -> Option<PathBuf> {
    if let Some(named) = variable.and_then(std::env::var_os) {
        return Some(named.into()).filter(|program: &PathBuf| program.is_file());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin", "/usr/bin"].map(PathBuf::from);
    let mut dirs = std::env::split_paths(&path).chain(more);
    dirs.find_map(|dir| Some(dir.join(name)).filter(|program| program.is_file()))
}

/// The directory of PostgreSQL's programs: named by `TENURE_POSTGRES_BIN`, in the path, or the newest that Debian has
/// installed, which are not in the path.
pub(crate) fn postgres() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let look = || {
        if let Some(named) = std::env::var_os("TENURE_POSTGRES_BIN") {
            return Some(named.into()).filter(|dir: &PathBuf| is_whole(dir));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let in_path = std::env::split_paths(&path).find(|dir| is_whole(dir));
        in_path.or_else(|| newest().map(|(_, dir)| dir))
    };
    FOUND.get_or_init(look).as_deref()
}

/// Whether all programs that the kit runs are in it: a path may have some of them.
fn is_whole(dir: &Path) -> bool {
    ["initdb", "postgres", "psql", "pg_basebackup"].iter().all(|name| dir.join(name).is_file())
}

fn newest() -> Option<(u32, PathBuf)> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let version = |entry: std::fs::DirEntry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, entry.path().join("bin"))).filter(|(_, dir)| is_whole(dir))
    };
    versions.filter_map(version).max()
}
