//! What the tests need beyond the Rust toolchain, and how it gets here.
//!
//! # Invariants
//!
//! 1. What will be installed is announced first.
//! 2. Tests that cannot run on a machine are named, and the run fails unless `--allow-missing` was
//!    given. The tests themselves learn it from an environment variable, and report it again.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::pipeline::Options;
use crate::stream;
use crate::tally::Tally;

/// Set where system calls and instructions cannot be counted.
pub(crate) const WITHOUT_COUNTERS: &str = "TENURE_WITHOUT_COUNTERS";

/// What some tests need.
#[derive(Debug)]
struct Need {
    /// Which tests.
    tests: &'static str,
    /// Set to `1` for them where it is missing.
    without: &'static str,
    /// Programs, and the Debian packages that bring them.
    programs: &'static [(&'static str, &'static str)],
    /// Whether this machine allows what they are for; the reason if not.
    allowed: fn() -> Result<(), String>,
}

/// Everything that is needed. A new need is a new entry.
const NEEDS: &[Need] = &[
    Need {
        tests: "the system-call ring",
        without: "TENURE_WITHOUT_STRACE",
        programs: &[("strace", "strace")],
        allowed: may_trace,
    },
    Need {
        tests: "the costs of the hot paths",
        without: WITHOUT_COUNTERS,
        programs: &[("strace", "strace"), ("valgrind", "valgrind")],
        allowed: may_count,
    },
    Need {
        tests: "the rings of identity and security, and full disks",
        without: "TENURE_WITHOUT_ROOT",
        programs: &[
            ("unshare", "util-linux"),
            ("setpriv", "util-linux"),
            ("prlimit", "util-linux"),
        ],
        allowed: may_be_others,
    },
    Need {
        tests: "the rings of power loss and file systems, as far as they mount real ones",
        without: "TENURE_WITHOUT_MOUNTS",
        programs: &[
            ("mkfs.ext4", "e2fsprogs"),
            ("mkfs.xfs", "xfsprogs"),
            ("mkfs.btrfs", "btrfs-progs"),
            ("mksquashfs", "squashfs-tools"),
            ("mkfs.erofs", "erofs-utils"),
            ("bindfs", "bindfs"),
            ("fusermount3", "fuse3"),
        ],
        allowed: may_mount,
    },
    Need {
        tests: "the stores on PostgreSQL",
        without: "TENURE_WITHOUT_POSTGRES",
        programs: &[
            ("postgres", "postgresql"),
            ("pgbouncer", "pgbouncer"),
            ("openssl", "openssl"),
            ("setpriv", "util-linux"),
        ],
        allowed: may_serve,
    },
    Need {
        tests: "the stores on etcd",
        without: "TENURE_WITHOUT_ETCD",
        programs: &[("etcd", "etcd-server"), ("openssl", "openssl"), ("setpriv", "util-linux")],
        allowed: may_serve,
    },
    Need {
        tests: "the stores across hosts, as far as they take networks of their own",
        without: "TENURE_WITHOUT_NETWORKS",
        programs: &[("ip", "iproute2"), ("unshare", "util-linux"), ("nsenter", "util-linux")],
        allowed: may_network,
    },
    Need {
        tests: "storms in memory of the torture ring",
        without: "TENURE_WITHOUT_MEMORY",
        programs: &[],
        allowed: may_use_memory,
    },
];

/// Makes what is needed available, or reports what is not run.
pub(crate) fn ensure(options: &Options) -> Result<(), String> {
    let mut missing = Vec::new();
    for need in NEEDS {
        let tests = need.tests;
        if !cfg!(target_os = "linux") {
            println!("not run: {tests}: it takes Linux");
            continue;
        }
        let packages = need.missing_packages();
        let installed = if packages.is_empty() { Ok(()) } else { install(&packages) };
        match installed.and_then(|()| (need.allowed)()) {
            Ok(()) => println!("{tests}: everything is here"),
            Err(problem) => {
                println!("not run: {tests}: {problem}");
                missing.push(tests);
            }
        }
    }
    if missing.is_empty() || options.allow_missing {
        return Ok(());
    }
    let missing = missing.join("; ");
    Err(format!("not run: {missing}; fix that, or pass --allow-missing to continue without"))
}

/// The fuzzer, which only the long form of one ring takes.
pub(crate) fn ensure_fuzzer() -> Result<(), String> {
    if succeeds(&["cargo", "fuzz", "--version"]).is_ok() {
        return Ok(());
    }
    println!("missing: installing cargo-fuzz (`cargo install --locked cargo-fuzz`)");
    let mut command = Command::new("cargo");
    command.args(["install", "--locked", "cargo-fuzz"]);
    stream::run(&mut command, &mut Tally::default())
}

/// The variables that name what tests must do without.
pub(crate) fn limits() -> impl Iterator<Item = &'static str> {
    NEEDS.iter().filter(|need| !need.is_met()).map(|need| need.without)
}

impl Need {
    fn is_met(&self) -> bool {
        let here = self.missing_packages().is_empty();
        cfg!(target_os = "linux") && here && (self.allowed)().is_ok()
    }

    fn missing_packages(&self) -> Vec<&'static str> {
        let missing = self.programs.iter().filter(|(program, _)| !is_here(program));
        missing.map(|(_, package)| *package).collect()
    }
}

/// Whether a program can be found; those for administrators are not in every user's path, and Debian's PostgreSQL is
/// in none. Variables name servers that are somewhere else, as the tests look for them (`tenure-engines`).
fn is_here(program: &str) -> bool {
    if let Some(named) = std::env::var_os("TENURE_ETCD").filter(|_| program == "etcd") {
        return Path::new(&named).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<_> = std::env::split_paths(&path).collect();
    dirs.extend(["/usr/sbin".into(), "/sbin".into()]);
    dirs.extend(std::env::var_os("TENURE_POSTGRES_BIN").map(PathBuf::from));
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    dirs.extend(versions.map(|version| version.path().join("bin")));
    dirs.iter().any(|dir| dir.join(program).is_file())
}

/// A real trace: a container may have the program and still forbid what it does.
fn may_trace() -> Result<(), String> {
    succeeds(&["strace", "-o", "/dev/null", "true"])
}

/// A real trace, and a real program under the counter of instructions.
fn may_count() -> Result<(), String> {
    may_trace().and_then(|()| succeeds(&["valgrind", "--tool=none", "true"]))
}

/// A process with its own mounts, numbers and host name, which becomes another user with a limit.
fn may_be_others() -> Result<(), String> {
    let alone = ["unshare", "--mount", "--pid", "--fork", "--uts"];
    let other = ["setpriv", "--reuid=65534", "prlimit", "--nofile=99", "true"];
    succeeds(&[alone, other].concat())
}

/// A real mount, in a namespace of its own that takes it along when it ends.
fn may_mount() -> Result<(), String> {
    for device in ["/dev/loop-control", "/dev/fuse"] {
        if !Path::new(device).exists() {
            return Err(format!("there is no {device}"));
        }
    }
    if !is_root() {
        return Err("only root may mount".into());
    }
    succeeds(&["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"])
}

/// A process that the kernel kills with its parent: no server may outlive a test.
fn may_serve() -> Result<(), String> {
    succeeds(&["setpriv", "--pdeathsig", "KILL", "true"])
}

/// A real pair of network devices, in a namespace of its own.
fn may_network() -> Result<(), String> {
    succeeds(&["unshare", "--net", "ip", "link", "add", "tenure0", "type", "veth"])?;
    succeeds(&["unshare", "--net", "ip", "link", "add", "tenure0", "type", "bridge"])
}

/// The place in memory that Linux has for all users.
fn may_use_memory() -> Result<(), String> {
    let look = "cd /dev/shm && test -w . && test \"$(stat -f -c %T .)\" = tmpfs";
    succeeds(&["sh", "-c", look]).map_err(|why| format!("/dev/shm is not in memory: {why}"))
}

fn succeeds(words: &[&str]) -> Result<(), String> {
    let tried = Command::new(words[0]).args(&words[1..]).output();
    let output = tried.map_err(|err| format!("{}: {err}", words[0]))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().into())
}

fn install(packages: &[&str]) -> Result<(), String> {
    let names = packages.join(", ");
    if !has_apt() {
        return Err(format!("{names}: missing, and there is no apt-get to install it with"));
    }
    if !is_root() {
        return Err(format!("{names}: missing, and only root may install it"));
    }
    println!("missing: installing the Debian packages {names}");
    apt(&["update"])?;
    apt(&[&["install", "-y", "--no-install-recommends"], packages].concat())
}

fn apt(arguments: &[&str]) -> Result<(), String> {
    println!("apt-get {}", arguments.join(" "));
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    stream::run(&mut command, &mut Tally::default())
}

fn has_apt() -> bool {
    let quiet = Command::new("apt-get").arg("--version").stdout(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::{NEEDS, Need, is_here};

    #[test]
    fn a_program_that_nobody_has_is_missing() {
        assert!(is_here("sh"));
        let programs = &[("sh", "dash"), ("no-such-program", "no-such-package")];
        let need = Need { programs, allowed: || Ok(()), ..NEEDS[0] };
        assert_eq!(need.missing_packages(), ["no-such-package"]);
        assert!(!need.is_met());
    }

    #[test]
    fn every_need_has_a_variable_of_its_own() {
        let mut names: Vec<_> = NEEDS.iter().map(|need| need.without).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NEEDS.len());
    }
}
