//! The table on the terminal, and how numbers are written.

use std::fmt::Write;

use crate::run::{ContenderResult, GoalResult, Problem, RaceResult, RowResult};

/// A duration in a unit that suits it.
pub(super) fn duration(ns: f64) -> String {
    let (number, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = if number < 9.995 { 2 } else { usize::from(number < 99.95) };
    format!("{number:.digits$} {unit}")
}

/// A ratio or other number.
pub(super) fn number(value: f64, unit: &str) -> String {
    let digits = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    if unit == "x" { format!("{value:.digits$}x") } else { format!("{value:.digits$} {unit}") }
}

/// What a goal came to, in one word.
pub(super) fn outcome(goal: &GoalResult) -> &'static str {
    match (goal.reached(), goal.value) {
        (_, None) => "not measured",
        (None, _) => "",
        (Some(true), _) => "reached",
        (Some(false), _) => "MISSED",
    }
}

/// The value of a goal with its spread.
pub(super) fn value(goal: &GoalResult) -> String {
    goal.value.map_or("-".into(), |(median, least, most)| {
        let unit = if goal.unit == "x" { "" } else { goal.unit };
        let plain = |value| number(value, "x").trim_end_matches('x').to_owned();
        let unit = if unit.is_empty() { "x".to_owned() } else { format!(" {unit}") };
        format!("{}{unit} ({}..{})", plain(median), plain(least), plain(most))
    })
}

/// The columns of a contender: cost with spread, mean, median, p99, p99.9, longest, turns per second.
pub(super) fn columns(race: &RaceResult, one: &ContenderResult) -> Option<[String; 7]> {
    let (cost, least, most) = one.cost(race.measure)?;
    let all = one.together();
    Some([
        format!("{} ({}..{})", duration(cost), duration(least), duration(most)),
        duration(all.mean()),
        duration(all.quantile(0.5)),
        duration(all.quantile(0.99)),
        duration(all.quantile(0.999)),
        duration(all.longest()),
        format!("{:.0}/s", rate(all.turns_inside, all.window_ns)),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(turns: u64, window_ns: u64) -> f64 {
    turns as f64 / (window_ns.max(1) as f64 / 1e9)
}

/// The heads of [`columns`].
pub(super) const HEADS: [&str; 7] =
    ["cost (least..most)", "mean", "p50", "p99", "p99.9", "longest", "rate"];

/// A row for the terminal.
pub(crate) fn table(row: &RowResult) -> String {
    let mut text = format!("\n{} {} ({:.1} s)\n", row.name, row.title, row.seconds);
    for race in &row.races {
        let heads = HEADS.map(str::to_owned);
        let _ = writeln!(text, "\n  {}; cost: {}", race.name, race.measure.words());
        let width = race.contenders.iter().map(|one| one.name.len()).max().unwrap_or(0);
        let mut line = |name: &str, columns: &[String; 7]| {
            let [cost, rest @ ..] = columns;
            let _ = write!(text, "    {name:width$}  {cost:>32}");
            for column in rest {
                let _ = write!(text, "  {column:>8}");
            }
            text.push('\n');
        };
        line("", &heads);
        for one in &race.contenders {
            if let Some(columns) = columns(race, one) {
                line(&one.name, &columns);
            }
        }
        for one in &race.contenders {
            if let Some(problem) = &one.problem {
                let _ = writeln!(text, "    {}: {}", one.name, told(problem));
            }
        }
        for goal in &race.goals {
            let mark = outcome(goal);
            let _ = writeln!(text, "    {:12} {:28} {}", mark, value(goal), goal.words);
        }
    }
    text
}

/// Why there is no result.
pub(super) fn told(problem: &Problem) -> String {
    match problem {
        Problem::NotHere(why) => format!("NOT RUN: {why}"),
        Problem::Failed(why) => format!("FAILED: {why}"),
    }
}

/// The last line of a run.
pub(crate) fn verdict(rows: &[RowResult]) -> String {
    let goals = || rows.iter().flat_map(|row| &row.races).flat_map(|race| &race.goals);
    let count = |wanted| goals().filter(|goal| outcome(goal) == wanted).count();
    format!(
        "\ngoals: {} reached, {} missed, {} not measured",
        count("reached"),
        count("MISSED"),
        count("not measured")
    )
}

#[cfg(test)]
mod tests {
    use super::{duration, number};

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(duration(7.0), "7.00 ns");
        assert_eq!(duration(12_345.0), "12.3 us");
        assert_eq!(duration(999_960.0), "1000 us");
        assert_eq!(duration(2.5e9), "2.50 s");
        assert_eq!(number(1.234, "x"), "1.23x");
        assert_eq!(number(123.4, "ms"), "123 ms");
    }
}
