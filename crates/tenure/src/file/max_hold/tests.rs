//! The watch on a hold, across `fork`.

use super::*;

/// How long something that does not wait may take on a busy machine.
const FAR_TOO_LONG: Duration = Duration::from_secs(20);

fn start() -> (Watch, std::sync::mpsc::Receiver<()>) {
    let (act, acted) = channel();
    let watch = Watch::start(Duration::from_millis(200), move || act.send(()).unwrap()).unwrap();
    (watch, acted)
}

#[test]
fn a_watch_acts_unless_it_is_dropped() {
    let (watch, acted) = start();
    assert_eq!(acted.recv_timeout(FAR_TOO_LONG), Ok(()));
    drop(watch);
    let (watch, acted) = start();
    drop(watch);
    assert_eq!(acted.recv_timeout(FAR_TOO_LONG), Err(RecvTimeoutError::Disconnected));
}

/// The child must not touch the channel: the watch of its parent continues.
#[test]
fn race_16_a_forked_child_leaves_the_watch_of_its_parent_alone() {
    let (mut parents, acted) = start();
    drop(Watch { over: parents.over.take(), process: parents.process + 1 });
    assert_eq!(acted.recv_timeout(FAR_TOO_LONG), Ok(()));
}
