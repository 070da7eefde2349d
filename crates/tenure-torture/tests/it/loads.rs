//! The loads of `tenure torture --load`: other tools, a second user, a full disk, impossible renames.

use crate::bench::Bench;

const LOADS: [&str; 4] = ["foreign", "users", "full", "stuck"];

/// Loads that the core fails today. A load leaves this list with the change that makes it pass; the
/// option is hidden from the help until the list is empty.
const NOT_YET: &[&str] = &["users"];

#[test]
fn no_load_finds_anything() {
    for load in LOADS.iter().filter(|load| !NOT_YET.contains(load)) {
        let bench = Bench::new();
        // Other users must be able to enter it.
        bench.set_mode(".", 0o755);
        let args = ["torture", "--json", "--minutes", "0.1", "--seed", "7", "--load", load];
        let ran = bench.tenure(&args);
        if !rustix::process::geteuid().is_root() && ran.code == Some(1) {
            assert!(ran.stderr.contains("takes root"), "{ran:?}");
            continue;
        }
        let verdict = ran.exits(0).json();
        assert!(verdict["things"][0]["operations"].as_u64().unwrap() > 0, "{verdict:#}");
    }
}

#[test]
fn a_load_that_cannot_be_run_is_not_called_clean() {
    let bench = Bench::new();
    bench.set_mode(".", 0o755);
    std::fs::create_dir(bench.path("open")).unwrap();
    bench.set_mode("open", 0o777);
    let open = bench.path("open");
    let args = ["torture", open.to_str().unwrap(), "--load", "users,full", "--minutes", "0.01"];
    let ran = bench.as_nobody(&args).exits(1);
    assert!(ran.stderr.contains("warning: not run: users: a second user takes root"), "{ran:?}");
    assert!(
        ran.stderr
            .trim_end()
            .ends_with("; run it as root, in a directory that other users may enter"),
        "{ran:?}"
    );
    assert_eq!(std::fs::read_dir(open).unwrap().count(), 0);
}

#[test]
fn a_load_is_instead_of_everything_else() {
    let bench = Bench::new();
    for other in [&["--ops", "doc"][..], &["--history", "h"], &["--command", "true"]] {
        bench.tenure(&[&["torture", "--load", "foreign"], other].concat()).exits(2);
    }
    bench.tenure(&["torture", "--load", "nonsense"]).exits(2);
}
