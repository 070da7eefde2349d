//! Once: one caller acts, the others get its result.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tenure::blob::Blob;
use tenure::once::{Asked, OUTPUT_BYTES_MAX, Once, Turn};
use tenure::{ErrorKind, Result};

use crate::asking::{A_MOMENT, LONG, PATIENCE, patient, together, trying, until, waiting};
use crate::failure::{Failure, Outcome, ensure, equal, refused};
use crate::subject::Subject;

fn once(subject: &Subject, handle: usize) -> Result<Once> {
    Once::on(subject.handle(handle).as_ref(), subject.name("token"))
}

fn turn(asked: Asked) -> std::result::Result<Turn, Failure> {
    match asked {
        Asked::Turn(turn) => Ok(turn),
        other => Err(Failure::new(format!("a turn was expected: {other:?}"))),
    }
}

fn fresh(asked: Asked) -> std::result::Result<Vec<u8>, Failure> {
    match asked {
        Asked::Fresh(output) => Ok(output),
        other => Err(Failure::new(format!("a result was expected: {other:?}"))),
    }
}

pub(super) fn one_caller_acts_for_many(subject: &Subject) -> Outcome {
    let (runs, start) = (AtomicUsize::new(0), Barrier::new(5));
    together(5, |number| {
        let once = once(subject, number)?;
        start.wait();
        match once.ask(&waiting())? {
            Asked::Turn(turn) => {
                runs.fetch_add(1, Ordering::SeqCst);
                ensure!(turn.succeed(b"token 1", LONG)?, "the result was not stored");
            }
            asked => equal!(fresh(asked)?, b"token 1", "the result"),
        }
        Ok(())
    })?;
    equal!(runs.load(Ordering::SeqCst), 1, "callers that acted");
    equal!(fresh(once(subject, 1)?.ask(&trying())?)?, b"token 1", "the result, later");
    Ok(())
}

pub(super) fn a_failure_reaches_those_who_wait(subject: &Subject) -> Outcome {
    let runner = turn(once(subject, 0)?.ask(&trying())?)?;
    refused(once(subject, 1)?.ask(&trying()), ErrorKind::Busy, "a turn of another caller")?;
    let (answer, answered) = mpsc::channel();
    thread::scope(|scope| {
        for number in 0..2 {
            let answer = answer.clone();
            scope.spawn(move || {
                let asked = once(subject, number).and_then(|once| once.ask(&waiting()));
                drop(answer.send(asked.map(|asked| matches!(asked, Asked::Failed(7)))));
            });
        }
        let early = answered.recv_timeout(A_MOMENT);
        ensure!(early.is_err(), "two callers have the turn: {early:?}");
        runner.fail(7)?;
        for _ in 0..2 {
            let failed = answered.recv_timeout(PATIENCE);
            let failed = failed.map_err(|_| Failure::new("a caller waits for ever"))??;
            ensure!(failed, "a caller that waited did not get the failure");
        }
        Ok(())
    })?;
    turn(once(subject, 1)?.ask(&trying())?)?.succeed(b"2", LONG)?;
    equal!(fresh(once(subject, 0)?.ask(&trying())?)?, b"2", "the result after a failure");
    Ok(())
}

pub(super) fn a_turn_that_is_dropped_goes_to_the_next(subject: &Subject) -> Outcome {
    drop(turn(once(subject, 0)?.ask(&trying())?)?);
    let next = turn(once(subject, 1)?.ask(&trying())?)?;
    let long = vec![b'x'; OUTPUT_BYTES_MAX + 1];
    ensure!(!next.succeed(&long, LONG)?, "a long result was stored");
    turn(once(subject, 0)?.ask(&trying())?)?.succeed(b"", LONG)?;
    equal!(fresh(once(subject, 1)?.ask(&trying())?)?, b"", "an empty result");
    Ok(())
}

pub(super) fn a_result_expires_and_is_erased(subject: &Subject) -> Outcome {
    let once = once(subject, 0)?;
    turn(once.ask(&trying())?)?.succeed(b"secret", Duration::from_millis(30))?;
    let stored = Blob::on(subject.handle(1).as_ref(), subject.name("token~once"))?;
    let mut taken = None;
    until("a result expires", || {
        if let Asked::Turn(turn) = once.ask(&trying())? {
            taken = Some(turn);
        }
        Ok(taken.is_some())
    })?;
    let left = stored.read()?.ok_or_else(|| Failure::new("no result"))?.bytes;
    ensure!(!String::from_utf8_lossy(&left).contains("secret"), "an expired result is there");
    drop(taken);
    stored.put(b"{\"other\":1}", &patient())?;
    refused(once.ask(&trying()), ErrorKind::Damaged, "a document of another kind")?;
    Ok(())
}

pub(super) fn results_survive_byte_for_byte(subject: &Subject) -> Outcome {
    let results: [&[u8]; 4] = [b"a\n\0\"\\", b"\xff\xfe\0", "\u{e4}\u{2028}".as_bytes(), b"-"];
    for (number, result) in results.into_iter().enumerate() {
        let name = subject.name(&format!("result-{number}"));
        let [one, other] = [0, 1].map(|handle| Once::on(subject.handle(handle).as_ref(), &name));
        turn(one?.ask(&trying())?)?.succeed(result, LONG)?;
        equal!(fresh(other?.ask(&trying())?)?, result, "the result");
    }
    Ok(())
}

pub(super) fn a_result_that_was_cut_is_none(subject: &Subject) -> Outcome {
    let once = once(subject, 0)?;
    let stored = Blob::on(subject.handle(1).as_ref(), subject.name("token~once"))?;
    turn(once.ask(&trying())?)?.succeed(b"a result", LONG)?;
    let whole = stored.read()?.ok_or_else(|| Failure::new("no result"))?.bytes;
    let zeros = vec![0; whole.len()];
    let mut torn = whole.clone();
    torn.truncate(whole.len() - 4);
    torn.extend([0; 4]);
    for bytes in [&whole[..whole.len() - 1], &whole[..10], b"", &zeros, &torn] {
        stored.put(bytes, &patient())?;
        drop(turn(once.ask(&trying())?)?);
    }
    stored.put(&whole, &patient())?;
    equal!(fresh(once.ask(&trying())?)?, b"a result", "the result");
    Ok(())
}
