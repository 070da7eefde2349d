//! The last look, given up if it hangs: it works on everything once more, and a thing may be shut.

use std::io;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::{judge_rest, judge_thing};
use crate::torture::finding::{Fault, Thing};
use crate::torture::ledger::Ledger;
use crate::torture::subject::Subject;

/// Judges everything that was worked on in `scratch`. A thing that takes longer than `patience` stands
/// still; what was not judged by then is not.
pub(in crate::torture) fn judge(
    mut ledger: Ledger,
    subject: &'static dyn Subject,
    scratch: &Path,
    things: &[Thing],
    patience: Duration,
) -> io::Result<Ledger> {
    let mut outline = ledger.outline();
    let (scratch, all) = (scratch.to_path_buf(), things.to_vec());
    let (tell, told) = channel();
    let look = move || {
        for thing in &all {
            judge_thing(*thing, &mut ledger, subject, &scratch);
            let _ = tell.send(None); // Nobody listens any more to one that was given up.
        }
        judge_rest(&mut ledger, subject, &scratch, &all);
        let _ = tell.send(Some(ledger));
    };
    std::thread::Builder::new().name("last look".into()).spawn(look)?;
    for thing in things.iter().chain(things.last()) {
        match told.recv_timeout(patience) {
            Ok(None) => {}
            Ok(Some(ledger)) => return Ok(ledger),
            Err(_) => {
                let seconds = patience.as_secs();
                let detail =
                    format!("the last look, with nobody else alive, took over {seconds} s");
                outline.found(*thing, Fault::Stuck, detail);
                break;
            }
        }
    }
    Ok(outline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::subject::Author;

    #[test]
    fn a_thing_that_is_shut_for_ever_is_found_and_not_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let look = |patience| {
            let subject = Author::Leaky(Thing::Lock).subject();
            let mut ledger = Ledger::new(1);
            ledger.reads = 7;
            let things = [Thing::Document, Thing::Lock, Thing::Journal];
            judge(ledger, subject, dir.path(), &things, patience).expect("judged")
        };
        assert_eq!(look(Duration::from_secs(60)).findings, []);
        std::fs::File::create(dir.path().join("lock.gate")).expect("shut");
        let ledger = look(Duration::from_secs(2));
        let found: Vec<_> = ledger.findings.iter().map(|one| (one.thing, one.fault)).collect();
        assert_eq!(found, [(Thing::Lock, Fault::Stuck)]);
        assert_eq!(ledger.reads, 7);
    }
}
