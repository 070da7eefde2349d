//! `reasons.md`: how many mutants of each file were noticed, and why the others may survive.
//!
//! # Invariants
//!
//! 1. The reasons are written by people. A new run keeps them for the mutants that are still the
//!    same: file, function and change.
//! 2. A survivor without a reason makes the run fail.
//! 3. Each file has its own row, with the commit at which it was tested. A run replaces the rows of
//!    the files for which it knows every mutant's fate, and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use crate::hunt::Fate;
use crate::points::Point;

const BEGIN: &str = "<!-- begin: written by `cargo xtask mutants` -->";
const END: &str = "<!-- end -->";

/// The function and the change.
type Place = (String, String);

/// The data of one file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Row {
    commit: String,
    all: usize,
    killed: usize,
    hung: usize,
    /// The survivors, in the order of the source, with the reason; empty if there is none yet.
    alive: Vec<(Place, String)>,
}

/// The document, by file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    rows: BTreeMap<String, Row>,
}

impl Report {
    pub(crate) fn read(document: &Path) -> Result<Self, String> {
        let (_, tables, _) = parts(document)?;
        Ok(Self::parse(&tables))
    }

    /// The commit at which a file was tested.
    pub(crate) fn commit_of(&self, file: &str) -> Option<&str> {
        self.rows.get(file).map(|row| row.commit.as_str())
    }

    fn parse(text: &str) -> Self {
        let mut rows: BTreeMap<String, Row> = BTreeMap::new();
        for line in text.lines().filter(|line| line.starts_with("| `")) {
            let line = line.replace("\\|", "\0");
            let cells = line.split('|').map(|cell| cell.trim().replace('\0', "|"));
            let cells: Vec<String> = cells.collect();
            let bare = |cell: &str| cell.trim_matches('`').to_owned();
            match &cells[..] {
                [_, file, commit, all, killed, hung, _alive, _] => {
                    let number = |cell: &String| cell.parse().unwrap_or_default();
                    let row = rows.entry(bare(file)).or_default();
                    row.commit.clone_from(commit);
                    (row.all, row.killed, row.hung) = (number(all), number(killed), number(hung));
                }
                [_, file, within, what, reason, _] => {
                    let place = (bare(within), what.clone());
                    rows.entry(bare(file)).or_default().alive.push((place, reason.clone()));
                }
                _ => {}
            }
        }
        Self { rows }
    }

    /// Adds the fates of the mutants; `None` is not known. Returns the survivors without a reason.
    fn update(&mut self, commit: &str, fates: &[(&Point, Option<Fate>)]) -> Vec<String> {
        let files: BTreeSet<&str> = fates.iter().map(|(point, _)| point.file.as_str()).collect();
        let mut unexplained = Vec::new();
        for file in files {
            let own = || fates.iter().filter(|(point, _)| point.file == file);
            if own().any(|(_, fate)| fate.is_none()) {
                continue;
            }
            let old = self.rows.remove(file).unwrap_or_default();
            let reasons: BTreeMap<Place, String> = old.alive.into_iter().collect();
            let mut row = Row { commit: commit.to_owned(), all: own().count(), ..Row::default() };
            for (point, fate) in own() {
                match fate {
                    Some(Fate::Killed(_)) => row.killed += 1,
                    Some(Fate::Hung) => row.hung += 1,
                    fate => {
                        let place = (point.within.clone(), point.what.clone());
                        let reason = reasons.get(&place).cloned().unwrap_or_default();
                        if reason.is_empty() {
                            let Point { file, line, within, what, .. } = point;
                            unexplained.push(format!("{file}:{line} {within}: {what}: {fate:?}"));
                        }
                        row.alive.push((place, reason));
                    }
                }
            }
            self.rows.insert(file.to_owned(), row);
        }
        unexplained
    }

    fn tables(&self) -> String {
        let mut text = String::from(
            "| file | of commit | mutants | noticed by a failure | noticed by a hang | alive |\n\
             | --- | --- | --- | --- | --- | --- |\n",
        );
        let mut sum = [0; 4];
        for (file, row) in &self.rows {
            let counts = [row.all, row.killed, row.hung, row.all - row.killed - row.hung];
            let [all, killed, hung, alive] = counts;
            let _ = writeln!(
                text,
                "| `{file}` | {} | {all} | {killed} | {hung} | {alive} |",
                row.commit
            );
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        let [all, killed, hung, alive] = sum;
        let _ = writeln!(text, "| all | | {all} | {killed} | {hung} | {alive} |");
        text.push_str("\nAlive, and why that is no gap (or nothing: open):\n\n");
        text.push_str("| file | function | mutant | why |\n| --- | --- | --- | --- |\n");
        for (file, row) in &self.rows {
            for ((within, what), reason) in &row.alive {
                let what = what.replace('|', "\\|");
                let _ = writeln!(text, "| `{file}` | `{within}` | {what} | {reason} |");
            }
        }
        text
    }
}

/// Writes the tables into the document, for the files that `is_there`; returns the survivors
/// without a reason.
pub(crate) fn write(
    document: &Path,
    commit: &str,
    is_there: impl Fn(&str) -> bool,
    fates: &[(&Point, Option<Fate>)],
) -> Result<Vec<String>, String> {
    let (before, tables, after) = parts(document)?;
    let mut report = Report::parse(&tables);
    report.rows.retain(|file, _| is_there(file));
    let unexplained = report.update(commit, fates);
    let text = format!("{before}{BEGIN}\n\n{}\n{after}", report.tables());
    #[expect(clippy::disallowed_methods, reason = "a document that only people read")]
    std::fs::write(document, text).map_err(|err| format!("{}: {err}", document.display()))?;
    Ok(unexplained)
}

/// The text before the tables, the tables, and the text after them.
fn parts(document: &Path) -> Result<(String, String, String), String> {
    let text = std::fs::read_to_string(document)
        .map_err(|err| format!("{}: {err}", document.display()))?;
    let (Some(begin), Some(end)) = (text.find(BEGIN), text.find(END)) else {
        return Err(format!("{}: no place for the tables", document.display()));
    };
    let part = |range: std::ops::Range<usize>| text[range].to_owned();
    Ok((part(0..begin), part(begin + BEGIN.len()..end), part(end..text.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(file: &str, what: &str) -> Point {
        let text = "fn f(a: bool) -> bool {\n    a\n}\n";
        let mut points = crate::points::find(file, text, 1).expect("a source");
        let mut point = points.remove(0);
        what.clone_into(&mut point.what);
        point
    }

    #[test]
    fn a_run_replaces_only_the_files_that_it_knows_all_of() {
        let (one, two) = (point("a.rs", "never `x || y`"), point("a.rs", "always `x`"));
        let other = point("b.rs", "never `z`");
        let mut report = Report::default();
        let survived = || Some(Fate::Survived(3));
        let first = [&one, &two, &other].map(|point| (point, survived()));
        assert_eq!(report.update("1111", &first).len(), 3, "none has a reason");
        for row in report.rows.values_mut() {
            row.alive.iter_mut().for_each(|(_, reason)| *reason = "same: a | b".replace('|', "or"));
        }
        let mut report = Report::parse(&report.tables());
        let killed = || Some(Fate::Killed("t".to_owned()));
        let second = [(&one, survived()), (&two, killed()), (&other, None)];
        assert_eq!(report.update("2222", &second), Vec::<String>::new(), "the reason is kept");
        assert_eq!(report.commit_of("a.rs"), Some("2222"));
        assert_eq!(report.commit_of("b.rs"), Some("1111"), "not all of it is known");
        let tables = report.tables();
        assert!(tables.contains("| `a.rs` | 2222 | 2 | 1 | 0 | 1 |"), "{tables}");
        assert!(
            tables.contains("| `a.rs` | `f` | never `x \\|\\| y` | same: a or b |"),
            "{tables}"
        );
        assert_eq!(Report::parse(&tables), report, "what is written is what is read");
    }
}
