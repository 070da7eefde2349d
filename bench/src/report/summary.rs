//! `summary.md`: the goals of a run, its figures, and every setting.

use std::fmt::Write;

use super::words::{HEADS, columns, outcome, told, value};
use crate::row::Form;
use crate::run::RowResult;
use crate::settings::Settings;

/// The whole summary.
pub(super) fn markdown(form: Form, settings: &Settings, rows: &[RowResult]) -> String {
    let mut text = format!(
        "# Run of {} on {}\n\nForm: {}. {}.\n\nVersions: {}.\n\n",
        settings.date,
        settings.file_system,
        form.pick("quick", "full"),
        settings.heading(),
        settings.versions(),
    );
    text.push_str(
        "Ratios are made of heats of the same round; a value is the median of all rounds, with the \
         smallest and the largest.\n\n## Goals\n\n",
    );
    text.push_str("| row | race | goal | measured | |\n| --- | --- | --- | --- | --- |\n");
    for row in rows {
        for race in &row.races {
            for goal in &race.goals {
                let (words, value, outcome) = (&goal.words, value(goal), outcome(goal));
                let (row, race) = (row.name, race.name);
                let _ = writeln!(text, "| {row} | {race} | {words} | {value} | {outcome} |");
            }
        }
    }
    for row in rows {
        section(&mut text, row);
    }
    text
}

fn section(text: &mut String, row: &RowResult) {
    let _ = writeln!(text, "\n## {}: {}\n", row.name, row.title);
    let name = row.name.to_lowercase();
    let _ = writeln!(text, "![{}]({name}.svg)", row.name);
    for race in &row.races {
        let _ = writeln!(text, "\n### {}\n\nCost: {}.\n", race.name, race.measure.words());
        let _ = writeln!(text, "| | {} |", HEADS.join(" | "));
        let _ = writeln!(text, "| --- |{}", " --- |".repeat(HEADS.len()));
        for one in &race.contenders {
            if let Some(columns) = columns(race, one) {
                let _ = writeln!(text, "| {} | {} |", one.name, columns.join(" | "));
            }
            if let Some(problem) = &one.problem {
                let _ = writeln!(text, "| {} | {} |", one.name, told(problem));
            }
        }
        text.push('\n');
        for one in &race.contenders {
            if !one.settings.is_empty() {
                let _ = writeln!(text, "- {}: {}", one.name, one.settings);
            }
        }
    }
}
