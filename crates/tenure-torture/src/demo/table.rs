//! The result, for people and for programs.

use std::fmt::Write as _;
use std::time::Duration;

use tenure::{Value, json};

use super::contest::Contest;
use super::oracle::Tally;
use super::race::PROCESSES;

/// The result of one contest.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) contest: &'static Contest,
    pub(super) theirs: Tally,
    pub(super) ours: Tally,
}

/// A whole run.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) seed: u64,
    pub(super) quick: bool,
    pub(super) took: Duration,
    pub(super) outcomes: Vec<Outcome>,
}

/// How wide the columns of this table are.
const WIDTHS: [usize; 6] = [35, 10, 8, 7, 8, 9];

/// Colours for a terminal, or none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Palette {
    colour: bool,
}

impl Palette {
    pub(super) const fn new(colour: bool) -> Self {
        Self { colour }
    }

    /// Green for a count of nothing, red for another.
    pub(super) fn count(self, count: &str, cell: &str) -> String {
        let nothing = count == "0" || count.starts_with("0 ");
        self.paint(if nothing { "\x1b[32m" } else { "\x1b[31m" }, cell)
    }

    fn bold(self, text: &str) -> String {
        self.paint("\x1b[1m", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("{code}{text}\x1b[0m") } else { text.to_owned() }
    }
}

impl Report {
    /// The command that runs the same plan again.
    pub(super) fn replay(&self) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        format!("tenure demo{quick} --seed {}", self.seed)
    }

    /// Everything tenure must never do and did, and everything it must do and did not.
    pub(super) fn broken_promises(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for Outcome { contest, ours, .. } in &self.outcomes {
            if ours.violations() > 0 || ours.finished == 0 {
                let reason = ours.complaint.as_deref().unwrap_or("no refusal");
                broken.push(format!(
                    "tenure under the load of {} ({}): {} violations in {} operations; {reason}",
                    contest.system,
                    contest.protects,
                    ours.violations(),
                    ours.finished
                ));
            }
        }
        broken
    }

    /// The table. `colour` is for terminals.
    pub(super) fn text(&self, colour: bool) -> String {
        let palette = Palette::new(colour);
        let kills: u64 = self.outcomes.iter().map(|o| o.theirs.kills + o.ours.kills).sum();
        let mut text = format!(
            "{PROCESSES} processes add to one file, and {} times one is killed at work. First the protocol\n\
             that was shipped, then tenure under the same load. Counted in this run, {:.0} s.\n\n",
            thousands(kills),
            self.took.as_secs_f64()
        );
        text += &row(WIDTHS, ["", "finished", "lost", "torn", "double", "corrupt"], plain);
        text += &row(WIDTHS, ["", "operations", "updates", "reads", "holders", "files"], plain);
        for Outcome { contest, theirs, ours } in &self.outcomes {
            let _ = writeln!(text, "{}: {}", palette.bold(contest.system), contest.protects);
            for (how, tally) in [(contest.how, theirs), (contest.ours_how(), ours)] {
                let cells = cells(tally, contest.theirs.is_lock());
                let cells = [how, &cells[0], &cells[1], &cells[2], &cells[3], &cells[4]];
                text += &row(WIDTHS, cells, |index, cell| match cells[index] {
                    _ if index < 2 => cell,
                    "-" => cell,
                    count => palette.count(count, &cell),
                });
            }
        }
        for Outcome { contest, ours, .. } in &self.outcomes {
            if let Some(complaint) = &ours.complaint {
                let (system, refused) = (contest.system, thousands(ours.refused));
                let _ =
                    writeln!(text, "tenure refused {refused} under {system}'s load: {complaint}");
            }
        }
        text.push('\n');
        text.push_str(&self.conclusion());
        text.push_str("\nThe defects were discussed in public:\n");
        let mut threads: Vec<_> = self.outcomes.iter().map(|one| one.contest).collect();
        threads.dedup_by_key(|contest| contest.thread);
        for contest in threads {
            let _ = writeln!(text, "  {:<14} {}", contest.system, contest.thread);
        }
        let _ = writeln!(
            text,
            "\nreplay: {}     the same load and kills, in the same order; when each process runs is up to the machine",
            self.replay()
        );
        text.push_str("next: tenure run build.lock -- make     one build at a time\n");
        text
    }

    /// What the table says, in one sentence.
    fn conclusion(&self) -> String {
        let sum = |of: fn(&Outcome) -> &Tally| {
            let tallies = || self.outcomes.iter().map(of);
            (tallies().map(|it| it.finished).sum(), tallies().map(Tally::violations).sum())
        };
        let (finished, wrong): (u64, u64) = sum(|outcome| &outcome.theirs);
        let (our_finished, our_wrong): (u64, u64) = sum(|outcome| &outcome.ours);
        format!(
            "The shipped protocols: {} failures in {} operations. tenure: {} failures in {} operations.\n",
            thousands(wrong),
            thousands(finished),
            thousands(our_wrong),
            thousands(our_finished),
        )
    }

    /// The same numbers for programs, and a few more.
    pub(super) fn json(&self) -> Value {
        let outcomes: Vec<Value> = self
            .outcomes
            .iter()
            .map(|Outcome { contest, theirs, ours }| {
                let locks = contest.theirs.is_lock();
                json!({
                    "system": contest.system,
                    "protects": contest.protects,
                    "protocol": contest.theirs.name(),
                    "theirs": counts(theirs, locks),
                    "tenure": counts(ours, locks),
                })
            })
            .collect();
        json!({
            "seed": self.seed,
            "processes": PROCESSES,
            "took_ms": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            "contests": outcomes,
            "replay": self.replay(),
        })
    }
}

fn plain(_index: usize, cell: String) -> String {
    cell
}

/// A line of a table: the first cell to the left, the others to the right.
pub(super) fn row(
    widths: [usize; 6],
    cells: [&str; 6],
    paint: impl Fn(usize, String) -> String,
) -> String {
    let mut line = String::new();
    for (index, (cell, width)) in cells.into_iter().zip(widths).enumerate() {
        let padded =
            if index == 0 { format!("  {cell:<width$}") } else { format!("{cell:>width$}") };
        line.push_str(&paint(index, padded));
    }
    format!("{}\n", line.trim_end())
}

fn cells(tally: &Tally, locks: bool) -> [String; 5] {
    let double = if locks { thousands(tally.double) } else { "-".to_owned() };
    [
        thousands(tally.finished),
        thousands(tally.lost),
        thousands(tally.torn),
        double,
        format!("{} of {}", tally.corrupt, tally.rounds),
    ]
}

fn counts(tally: &Tally, locks: bool) -> Value {
    json!({
        "rounds": tally.rounds,
        "finished": tally.finished,
        "refused": tally.refused,
        "kills": tally.kills,
        "reads": tally.reads,
        "lost": tally.lost,
        "torn": tally.torn,
        "double": locks.then_some(tally.double),
        "corrupt": tally.corrupt,
    })
}

/// `1234567` as `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::contest::CONTESTS;
    use super::super::oracle::Tally;
    use super::{Outcome, Report, thousands};

    fn report(ours: Tally) -> Report {
        let theirs = Tally { rounds: 3, finished: 1200, lost: 17, corrupt: 1, ..Tally::default() };
        let outcomes = vec![Outcome { contest: &CONTESTS[0], theirs, ours }];
        Report { seed: 7, quick: true, took: Duration::from_secs(6), outcomes }
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(thousands(7), "7");
        assert_eq!(thousands(1234), "1,234");
        assert_eq!(thousands(1_234_567), "1,234,567");
    }

    #[test]
    fn the_last_lines_replay_the_run_and_say_what_is_next() {
        let text = report(Tally { finished: 1, ..Tally::default() }).text(false);
        let last: Vec<_> = text.lines().rev().take(2).collect();
        assert!(last[0].starts_with("next: tenure run build.lock -- make"), "{text}");
        assert!(last[1].starts_with("replay: tenure demo --quick --seed 7     the same"), "{text}");
        let expected = "The shipped protocols: 18 failures in 1,200 operations. tenure: 0 failures in 1 operations.";
        assert!(text.lines().any(|line| line == expected), "{text}");
        assert!(text.contains("https://github.com/"), "{text}");
        assert!(text.is_ascii() && !text.contains('\x1b'));
    }

    #[test]
    fn a_violation_or_an_idle_race_breaks_the_promise() {
        let broken = |ours| report(ours).broken_promises().len();
        assert_eq!(broken(Tally { finished: 9, ..Tally::default() }), 0);
        assert_eq!(broken(Tally { finished: 9, torn: 1, ..Tally::default() }), 1);
        assert_eq!(broken(Tally::default()), 1);
    }
}
