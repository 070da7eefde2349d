//! What people see of a run: a table, and a directory with everything that was measured.

mod plot;
mod raw;
mod summary;
mod words;

use std::path::{Path, PathBuf};

use crate::row::{Form, Result};
use crate::rows::ALL;
use crate::run::{Problem, RowResult};
use crate::settings::Settings;

pub(crate) use self::words::{table, verdict};

/// Whether a contender did not do its job.
pub(crate) fn has_failure(row: &RowResult) -> bool {
    let mut contenders = row.races.iter().flat_map(|race| &race.contenders);
    contenders.any(|contender| matches!(contender.problem, Some(Problem::Failed(_))))
}

/// Writes the record of a run: a directory with `summary.md`, `settings.json`, and per row its raw
/// data and a plot. Its name has the date, the file system, and how it differs from a full run of
/// all rows; a similar run of the same day replaces it.
#[expect(clippy::disallowed_methods, reason = "a report is neither shared nor precious")]
pub(crate) fn write(
    runs: &Path,
    form: Form,
    settings: &Settings,
    rows: &[RowResult],
) -> Result<PathBuf> {
    let mut name = format!("{}-{}", settings.date, settings.file_system);
    if form == Form::Quick {
        name.push_str("-quick");
    }
    if rows.len() < ALL.len() {
        name.extend(rows.iter().map(|row| format!("-{}", row.name.to_lowercase())));
    }
    let dir = runs.join(name);
    std::fs::create_dir_all(&dir)?;
    let mut known = settings.json();
    known["form"] = form.pick("quick", "full").into();
    std::fs::write(dir.join("settings.json"), format!("{known:#}\n"))?;
    for row in rows {
        let name = row.name.to_lowercase();
        std::fs::write(dir.join(format!("{name}.json")), format!("{}\n", raw::json(row)))?;
        std::fs::write(dir.join(format!("{name}.svg")), plot::svg(row))?;
    }
    std::fs::write(dir.join("summary.md"), summary::markdown(form, settings, rows))?;
    Ok(dir)
}
