//! The final check with a time limit. It ends if it hangs or is interrupted: it operates on
//! everything once more, and one thing may be stuck.
//!
//! What it found until then is kept, and what it did not check is reported as not judged.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::{judge_thing, left_over, tidy_up};
use crate::torture::finding::{Fault, Thing};
use crate::torture::ledger::Ledger;
use crate::torture::panics;
use crate::torture::subject::Subject;

/// How often progress is checked.
const TICK: Duration = Duration::from_millis(100);

/// How the final check runs.
pub(in crate::torture) struct Look<'a> {
    pub(in crate::torture) subject: &'static dyn Subject,
    pub(in crate::torture) scratch: &'a Path,
    pub(in crate::torture) things: &'a [Thing],
    /// A check of a thing that takes longer is a standstill.
    pub(in crate::torture) patience: &'a dyn Fn(Thing) -> Duration,
    /// Whether the user has interrupted it.
    pub(in crate::torture) enough: &'a dyn Fn() -> bool,
    /// Called with the thing that is being checked, and for how long.
    pub(in crate::torture) show: &'a dyn Fn(Thing, Duration),
}

/// The result.
#[derive(Debug)]
pub(in crate::torture) struct Judged {
    /// What the verdict shows.
    pub(in crate::torture) ledger: Ledger,
    pub(in crate::torture) unjudged: BTreeSet<Thing>,
}

/// Judges everything that was worked on in the scratch directory.
pub(in crate::torture) fn judge(mut ledger: Ledger, look: &Look<'_>) -> io::Result<Judged> {
    let unjudged = look.things.iter().copied().collect();
    let mut judged = Judged { ledger: ledger.outline(), unjudged };
    let (subject, scratch, all) = (look.subject, look.scratch.to_path_buf(), look.things.to_vec());
    let (tell, told) = channel();
    let work = move || {
        let mut known = ledger.findings.len();
        let mut say = |ledger: &Ledger, judged: bool| {
            // There is no receiver any more after the check was given up.
            let _ = tell.send((judged, ledger.findings[known..].to_vec()));
            known = ledger.findings.len();
        };
        for thing in &all {
            let judged = judge_thing(*thing, &mut ledger, subject, &scratch);
            say(&ledger, judged);
        }
        for (place, thing) in all.iter().enumerate() {
            tidy_up(*thing, &mut ledger, subject, &scratch);
            if place + 1 == all.len() {
                left_over(&mut ledger, &scratch);
            }
            say(&ledger, true);
        }
    };
    let work = std::thread::Builder::new().name(panics::LAST_LOOK.into()).spawn(work)?;
    for (step, thing) in look.things.iter().chain(look.things).enumerate() {
        let (begun, patience) = (Instant::now(), (look.patience)(*thing));
        let (whole, found) = loop {
            (look.show)(*thing, begun.elapsed());
            let told = told.recv_timeout(TICK);
            if let Some(why) = panics::in_last_look() {
                judged.ledger.found(*thing, Fault::Failed, format!("the final check {why}"));
                return Ok(judged);
            }
            match told {
                Ok(told) => break told,
                Err(RecvTimeoutError::Disconnected) => {
                    let why = work
                        .join()
                        .map_or_else(|panic| panics::reason(&*panic), |()| "ended".into());
                    judged.ledger.found(*thing, Fault::Failed, format!("the final check {why}"));
                    return Ok(judged);
                }
                Err(RecvTimeoutError::Timeout) if (look.enough)() => return Ok(judged),
                Err(RecvTimeoutError::Timeout) if begun.elapsed() > patience => {
                    let seconds = patience.as_secs();
                    let detail =
                        format!("the final check, with no worker alive, took over {seconds} s");
                    judged.ledger.found(*thing, Fault::Stuck, detail);
                    return Ok(judged);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        judged.ledger.findings.extend(found);
        if whole && step < look.things.len() {
            judged.unjudged.remove(thing);
        }
    }
    Ok(judged)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;
    use crate::torture::jobs;
    use crate::torture::subject::{Answer, Author, Hold};

    const THINGS: [Thing; 3] = [Thing::Document, Thing::Lock, Thing::Journal];

    fn look(dir: &Path, subject: &'static dyn Subject, patience: u64, enough: bool) -> Judged {
        let mut ledger = Ledger::new(1);
        ledger.reads = 7;
        let look = Look {
            subject,
            scratch: dir,
            things: &THINGS,
            patience: &|_| Duration::from_secs(patience),
            enough: &|| enough,
            show: &|_, _| {},
        };
        judge(ledger, &look).expect("judged")
    }

    fn faults(judged: &Judged) -> Vec<(Thing, Fault)> {
        judged.ledger.findings.iter().map(|one| (one.thing, one.fault)).collect()
    }

    #[test]
    fn a_thing_that_is_shut_for_ever_is_found_and_what_was_judged_before_it_is_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let subject = Author::Leaky(Thing::Lock).subject();
        let judged = look(dir.path(), subject, 60, false);
        assert_eq!((faults(&judged), judged.unjudged.len()), (vec![], 0));
        File::create(dir.path().join("lock.gate")).expect("shut");
        let mut document = File::create(dir.path().join(jobs::DOCUMENT)).expect("a file");
        document.write_all(b"{").expect("half of it");
        let judged = look(dir.path(), subject, 2, false);
        assert_eq!(
            faults(&judged),
            [(Thing::Document, Fault::Corrupt), (Thing::Lock, Fault::Stuck)]
        );
        assert_eq!(judged.unjudged, BTreeSet::from([Thing::Lock, Thing::Journal]));
        assert_eq!(judged.ledger.reads, 7);
    }

    #[test]
    fn who_has_had_enough_is_told_what_is_known() {
        let dir = tempfile::tempdir().expect("a directory");
        File::create(dir.path().join("lock.gate")).expect("shut");
        let judged = look(dir.path(), Author::Leaky(Thing::Lock).subject(), 3600, true);
        assert_eq!(faults(&judged), []);
        assert!(
            judged.unjudged.contains(&Thing::Lock) && judged.unjudged.contains(&Thing::Journal)
        );
    }

    #[test]
    fn a_panic_is_a_failure_and_no_standstill() {
        struct Panics;
        impl Subject for Panics {
            fn lock(&self, _path: &Path, _shared: bool) -> Answer<Hold> {
                panic!("on purpose")
            }
        }
        let dir = tempfile::tempdir().expect("a directory");
        let judged = look(dir.path(), &Panics, 3600, false);
        assert_eq!(faults(&judged), [(Thing::Lock, Fault::Failed)]);
        assert_eq!(judged.ledger.findings[0].detail, "the final check panicked: on purpose");
        assert_eq!(judged.unjudged, BTreeSet::from([Thing::Lock, Thing::Journal]));
    }
}
