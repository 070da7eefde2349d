//! Which processes are gone.

use super::is_gone;

#[test]
fn one_that_has_ended_is_gone_though_nobody_has_waited_for_it() {
    assert!(!is_gone(std::process::id()) && !is_gone(1));
    let mut cat = std::process::Command::new("cat");
    let mut child = cat.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    assert!(!is_gone(pid));
    drop(child.stdin.take());
    if cfg!(any(target_os = "linux", target_os = "android")) {
        while !is_gone(pid) {
            std::thread::yield_now();
        }
    }
    child.wait().unwrap();
    assert!(is_gone(pid));
}
