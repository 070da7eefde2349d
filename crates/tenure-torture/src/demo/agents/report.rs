//! The result, for people and for programs.

use std::fmt::Write as _;
use std::time::Duration;

use tenure::{Value, json};

use super::super::table::{Palette, row, thousands};
use super::AGENTS;
use super::repository::Counts;

/// How wide the columns are.
const WIDTHS: [usize; 6] = [18, 10, 12, 8, 11, 9];

/// Both runs.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) seed: u64,
    pub(super) quick: bool,
    pub(super) took: Duration,
    pub(super) without: Counts,
    pub(super) with: Counts,
}

impl Report {
    /// What tenure must never do and did, or must do and did not.
    pub(super) fn broken_promise(&self) -> Option<String> {
        let (wrong, edits) = (self.with.wrong(), self.with.edits);
        let quick = if self.quick { " --quick" } else { "" };
        (wrong > 0 || edits == 0).then(|| {
            format!(
                "with tenure {wrong} things went wrong in {edits} edits; please report it with \
                 `tenure demo agents{quick} --seed {}`",
                self.seed
            )
        })
    }

    /// The table. `colour` is for terminals.
    pub(super) fn text(&self, colour: bool) -> String {
        let palette = Palette::new(colour);
        let mut text = format!(
            "{AGENTS} agents share a repository of two source files, a board of tasks and one token. Each is a \
             process;\nno model is asked. Counted in this run, {:.0} s.\n\n",
            self.took.as_secs_f64()
        );
        let plain = |_: usize, cell: String| cell;
        text += &row(WIDTHS, ["", "finished", "edits that", "lost", "double", "double"], plain);
        text += &row(WIDTHS, ["", "edits", "collided", "edits", "refreshes", "claims"], plain);
        for (how, counts) in [("without tenure", &self.without), ("with tenure", &self.with)] {
            let cells = cells(counts);
            let cells = [how, &cells[0], &cells[1], &cells[2], &cells[3], &cells[4]];
            text += &row(WIDTHS, cells, |index, cell| match index {
                0 | 1 => cell,
                _ => palette.count(cells[index], &cell),
            });
        }
        let _ = write!(
            text,
            "\nWithout tenure the agents lost {} of {} edits, used {} refresh tokens twice and took {} tasks twice; with \
             it they lost {} of {}, and {} waited for another agent.\n\nnext: tenure init --dry-run     what it \
             would add to the settings of your agent\n",
            thousands(self.without.lost),
            thousands(self.without.edits),
            thousands(self.without.double_refreshes),
            thousands(self.without.double_claims),
            thousands(self.with.lost),
            thousands(self.with.edits),
            thousands(self.with.denied),
        );
        text
    }

    /// The same numbers for programs, and a few more.
    pub(super) fn json(&self) -> Value {
        json!({
            "seed": self.seed,
            "agents": AGENTS,
            "took_ms": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            "without": object(&self.without),
            "with": object(&self.with),
        })
    }
}

fn cells(counts: &Counts) -> [String; 5] {
    let Counts { edits, collisions, lost, double_refreshes, double_claims, .. } = *counts;
    [edits, collisions, lost, double_refreshes, double_claims].map(thousands)
}

fn object(counts: &Counts) -> Value {
    json!({
        "edits": counts.edits,
        "collisions": counts.collisions,
        "lost_edits": counts.lost,
        "refreshes": counts.refreshes,
        "double_refreshes": counts.double_refreshes,
        "claims": counts.claims,
        "double_claims": counts.double_claims,
        "denied": counts.denied,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(with: Counts) -> Report {
        let without = Counts { edits: 90, collisions: 40, lost: 30, ..Counts::default() };
        Report { seed: 7, quick: true, took: Duration::from_secs(5), without, with }
    }

    #[test]
    fn the_table_concludes_with_a_sentence_and_the_next_command() {
        let text = report(Counts { edits: 80, denied: 9, ..Counts::default() }).text(false);
        let said = "lost 30 of 90 edits, used 0 refresh tokens twice and took 0 tasks twice; with it they \
                    lost 0 of 80, and 9 waited";
        assert!(text.contains(said), "{text}");
        assert!(text.lines().last().is_some_and(|line| line.starts_with("next: tenure init")));
        assert!(text.is_ascii() && !text.contains('\x1b'), "{text}");
    }

    #[test]
    fn a_collision_or_an_idle_run_breaks_the_promise() {
        let broken = |with| report(with).broken_promise().is_some();
        assert!(!broken(Counts { edits: 1, ..Counts::default() }));
        assert!(broken(Counts { edits: 1, double_claims: 1, ..Counts::default() }));
        assert!(broken(Counts::default()));
    }
}
