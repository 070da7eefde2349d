//! The watch on a hold, across `fork`.

use super::*;

/// How long something that does not wait may take on a busy machine.
const FAR_TOO_LONG: Duration = Duration::from_secs(20);

#[test]
fn race_16_a_forked_child_does_not_wait_for_the_watch_of_its_parent() {
    let parents = Watch::start(FAR_TOO_LONG * 10, || {}).unwrap();
    let thread_has_it = parents.over.0.lock().unwrap_or_else(PoisonError::into_inner);
    let childs = Watch { over: parents.over.clone(), process: parents.process + 1 };
    let (done, waiting) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(childs);
        let _ = done.send(());
    });
    assert_eq!(waiting.recv_timeout(FAR_TOO_LONG), Ok(()));
    drop(thread_has_it);
}
