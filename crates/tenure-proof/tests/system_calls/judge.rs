//! What may be seen after a command met a fault, and what may not.

use serde_json::Value;
use tenure_proof::bounded::Ended;
use tenure_proof::strace::{Case, Fault};

use super::cases::must_be_survived;
use super::job::{Subject, View};
use super::place::is_named;
use super::sweep::{Sweep, names_below};
use super::trouble::Trouble;

/// The message for a visible change whose sync failed.
const NOT_DURABLE: &str = "visible but may not survive a power loss";
/// The message for a batch that is logged, but not in the journal yet.
const LATER: &str = "the next write makes it visible";

/// Fails the surrounding function with a message, unless the first argument holds.
macro_rules! ensure {
    ($good:expr, $($told:tt)*) => {
        if !$good {
            return Err(format!($($told)*));
        }
    };
}

/// Nothing, or what is wrong.
pub(crate) type Verdict = Result<(), String>;

/// What the command said about its failure.
#[derive(Default)]
struct Said {
    message: String,
    /// Whether its change was made, according to the command.
    committed: Option<bool>,
}

/// What the command left behind.
struct Outcome {
    /// Whether its change can be seen.
    done: bool,
    /// What tenure's readers see.
    seen: String,
    /// Why it failed, according to the command.
    message: String,
    /// For people.
    about: String,
}

/// Judges the directory of `sweep` after its command met `trouble` and `ended`.
pub(crate) fn judge(sweep: &Sweep, trouble: &Trouble, ended: &Ended) -> Verdict {
    let Sweep { job, dir, old, new, .. } = sweep;
    let about = format!("{trouble:?} in {:?}{}: {ended:?}", job.args, sweep.after());
    let Said { message, committed } = judge_end(sweep, trouble, ended, &about)?;
    let seen = job.view(dir);
    let plain = job.plain_is_whole(&seen.plain, &old.plain, &new.plain)
        || seen.plain == sweep.settled.plain;
    ensure!(plain, "a plain reader sees {:?} after {about}", seen.plain);
    let (is_old, is_new) = (seen.ours == old.ours, job.is_seen(&seen.ours, &new.ours));
    let is_settled = !is_old && seen.ours == sweep.settled.ours;
    let is_part = job.is_part(&seen.ours, &old.ours, &new.ours) || is_settled;
    ensure!(is_old || is_new || is_part, "tenure sees {:?} after {about}", seen.ours);
    let is_done = job.is_left(&seen, new) || old.ours == new.ours;
    ensure!(is_done || ended.code != Some(0), "acknowledged, but not there after {about}");
    if old.ours != new.ours {
        let right = match committed {
            Some(true) => is_new || is_part || message.contains(LATER),
            Some(false) => is_old || is_part,
            None => true,
        };
        ensure!(right, "it says committed: {committed:?}, but done: {is_new} after {about}");
    }
    let outcome = Outcome { done: is_new && old != new, seen: seen.ours, message, about };
    judge_next(sweep, &outcome)?;
    judge_rest(sweep, &outcome)
}

/// How it ended, and its error line.
fn judge_end(sweep: &Sweep, trouble: &Trouble, ended: &Ended, about: &str) -> Result<Said, String> {
    let job = &sweep.job;
    ensure!(!ended.stderr.contains("panicked"), "a panic: {about}");
    let Some(code) = ended.code else {
        ensure!(trouble.kills() && ended.signal == Some(9), "killed by something else: {about}");
        return Ok(Said::default());
    };
    ensure!(job.is_documented(code), "undocumented exit code: {about}");
    ensure!(!trouble.kills() || code != 0, "it was killed, and says that it is done: {about}");
    let repeated = !matches!(trouble, Trouble::Call(case) if must_be_survived(case)) || code == 0;
    ensure!(repeated, "an interrupted call was not repeated: {about}");
    let mut lines: Vec<_> = ended.stderr.lines().collect();
    // 137 is the killed command of `run`; nothing needs to be added.
    let failed = code != 0 && code != 137 && !is_verdict(sweep, code) && !is_mute(trouble);
    let line = if failed { lines.pop().unwrap_or_default() } else { "" };
    let json = trouble.is_json(job);
    let warning = if json { "{\"warning\":" } else { "tenure: warning: " };
    ensure!(lines.iter().all(|line| line.starts_with(warning)), "not one line: {about}");
    let mut said = Said::default();
    if failed && json {
        let object: Value = serde_json::from_str(line).map_err(|_| format!("no JSON: {about}"))?;
        ensure!(object["exit"] == code, "two exit codes: {about}");
        said.message = format!("tenure: {}", object["message"].as_str().unwrap_or_default());
        said.committed = object["committed"].as_bool();
    } else {
        line.clone_into(&mut said.message);
    }
    // A busy target is named first.
    let step =
        ["tenure: failed to ", "tenure: /"].iter().any(|step| said.message.starts_with(step));
    let told = !failed || step;
    ensure!(told, "it does not say at which step: {about}");
    // A thread has no path.
    let thread = matches!(trouble, Trouble::Call(case) if case.call == "clone3");
    let placed = !failed || thread || is_named(sweep, &said.message);
    ensure!(placed, "it does not say where: {about}");
    Ok(said)
}

/// Whether no output is possible any more, including standard error.
fn is_mute(trouble: &Trouble) -> bool {
    let all = |case: &Case| case.call == "write" && matches!(case.fault, Fault::Always(_));
    matches!(trouble, Trouble::Call(case) if all(case))
}

/// Whether this is a finding of `doctor`, which is its result and no failure.
fn is_verdict(sweep: &Sweep, code: i32) -> bool {
    sweep.job.args == ["doctor"] && code == 6
}

/// No lock is left, and the data is whole: the next command works at once.
fn judge_next(sweep: &Sweep, outcome: &Outcome) -> Verdict {
    let Sweep { job, dir, new, newer, .. } = sweep;
    let Outcome { done, seen, message, about } = outcome;
    let next = job.run(dir);
    let now = job.view(dir);
    // Visible entries are final, and so are their places (J2).
    let appends = job.subject == Subject::Journal && next.is_done();
    ensure!(
        !appends || now.ours.starts_with(seen),
        "the next one changed {seen:?} to {now:?} after {about}"
    );
    // No call promises durability for what a failed sync covers, not even a repetition (S3).
    if message.contains(NOT_DURABLE) && next.stderr.contains(NOT_DURABLE) {
        let part = job.is_part(&now.ours, &sweep.old.ours, &new.ours);
        let right = (job.is_left(&now, newer) && new == newer) || part;
        ensure!(right, "the next one left {now:?}: {next:?} after {about}");
        return Ok(());
    }
    let (code, view): (_, &View) = if *done { (sweep.again, newer) } else { (Some(0), new) };
    // A batch that is logged but not visible yet comes first, whole, with the next write.
    let logged = message.contains(LATER);
    let may_be_logged = job.subject == Subject::Journal && message.is_empty();
    let late = !done && job.is_left(&now, newer) && (logged || may_be_logged);
    ensure!(late || next.code == code, "the next command fails: {next:?} after {about}");
    let right = late || (job.is_left(&now, view) && (*done || !logged));
    ensure!(right, "the next one left {now:?} (done: {done}, wanted {view:?}) after {about}");
    Ok(())
}

/// Nothing is left over when the next change is through.
fn judge_rest(sweep: &Sweep, outcome: &Outcome) -> Verdict {
    let alone = sweep.new != sweep.newer && sweep.job.subject == Subject::Document;
    if !alone {
        // Not every command makes every kind of temporary file.
        let changed = sweep.job.change(&sweep.dir);
        changed.map_err(|why| format!("no further change: {why} after {}", outcome.about))?;
    }
    let mut left = names_below(&sweep.dir);
    left.retain(|name| !sweep.names.contains(name) && !is_kept(name, &sweep.names));
    ensure!(left.is_empty(), "left over: {left:?} after {}", outcome.about);
    Ok(())
}

/// What is kept on purpose: the notes of both turns of a shared sync, and for people the events and
/// what was set aside. A damaged file is there only if it is there without a fault, too; with one
/// it may get a number.
fn is_kept(name: &str, undisturbed: &[String]) -> bool {
    let has = |kind: &str| undisturbed.iter().any(|name| name.contains(kind));
    let damaged = has(".damaged");
    // And files of a test by `doctor` when it was killed: it says what it may remove.
    [".events", ".torn", ".displaced", ".good", ".sync0", ".sync1"]
        .iter()
        .any(|end| name.ends_with(end))
        || (damaged && name.contains(".damaged."))
        // The file before a compaction has its inode in its name.
        || (has(".replaced.") && name.contains(".replaced."))
        // An archive that could not get its name stays, and readers use it.
        || name.contains(".archive.")
        || name.starts_with(".tenure-probe-")
}
