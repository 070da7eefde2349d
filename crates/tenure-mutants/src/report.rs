//! `docs/MUTANTS.md`: how many mutants of each file were noticed, and why the others may live.
//!
//! # Invariants
//!
//! 1. The reasons are written by people. A new run keeps them for the mutants that are still the
//!    same: file, function and what is done there.
//! 2. A mutant that lives without a reason makes the run fail.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::hunt::Fate;
use crate::points::Point;

const BEGIN: &str = "<!-- begin: written by `cargo xtask mutants` -->";
const END: &str = "<!-- end -->";

/// File, function, and what is done there.
type Key = (String, String, String);

/// Mutants of one file.
#[derive(Debug, Default)]
struct Count {
    all: usize,
    killed: usize,
    hung: usize,
}

/// Writes the tables into the document; returns the survivors that nobody has explained.
pub(crate) fn write(
    document: &Path,
    commit: &str,
    fates: &[(&Point, Fate)],
) -> Result<Vec<String>, String> {
    let failed = |err: std::io::Error| format!("{}: {err}", document.display());
    let text = std::fs::read_to_string(document).map_err(failed)?;
    let (Some(begin), Some(end)) = (text.find(BEGIN), text.find(END)) else {
        return Err(format!("{}: no place for the tables", document.display()));
    };
    let reasons = reasons(&text[begin..end]);
    let (tables, unexplained) = tables(commit, fates, &reasons);
    let text = format!("{}{BEGIN}\n\n{tables}\n{}", &text[..begin], &text[end..]);
    #[expect(clippy::disallowed_methods, reason = "a document that only people read")]
    std::fs::write(document, text).map_err(failed)?;
    Ok(unexplained)
}

/// The reasons in the table of survivors.
fn reasons(text: &str) -> BTreeMap<Key, String> {
    let mut reasons = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<String> = line
            .replace("\\|", "\0")
            .split('|')
            .map(|cell| cell.trim().replace('\0', "|"))
            .collect();
        if let [_, file, within, what, reason, _] = &cells[..] {
            let bare = |cell: &str| cell.trim_matches('`').to_owned();
            reasons.insert((bare(file), bare(within), what.clone()), reason.clone());
        }
    }
    reasons
}

fn tables(
    commit: &str,
    fates: &[(&Point, Fate)],
    reasons: &BTreeMap<Key, String>,
) -> (String, Vec<String>) {
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    let (mut rows, mut unexplained) = (String::new(), Vec::new());
    for (point, fate) in fates {
        let count = counts.entry(&point.file).or_default();
        count.all += 1;
        match fate {
            Fate::Killed(_) => count.killed += 1,
            Fate::Hung => count.hung += 1,
            Fate::Survived(_) | Fate::Unreached => {
                let key = (point.file.clone(), point.within.clone(), point.what.clone());
                let reason = reasons.get(&key).cloned().unwrap_or_default();
                if reason.is_empty() {
                    let Point { file, line, within, what, .. } = point;
                    unexplained.push(format!("{file}:{line} {within}: {what}: {fate:?}"));
                }
                let what = point.what.replace('|', "\\|");
                let _ = writeln!(rows, "| `{}` | `{}` | {what} | {reason} |", key.0, key.1);
            }
        }
    }
    let mut text = format!("Of commit {commit}.\n\n");
    text.push_str("| file | mutants | noticed by a failure | noticed by a hang | alive |\n");
    text.push_str("| --- | --- | --- | --- | --- |\n");
    let mut sum = Count::default();
    for (file, count) in &counts {
        row(&mut text, &format!("`{file}`"), count);
        sum.all += count.all;
        sum.killed += count.killed;
        sum.hung += count.hung;
    }
    row(&mut text, "all", &sum);
    text.push_str("\nAlive, and why that is no gap:\n\n");
    text.push_str("| file | function | mutant | why |\n| --- | --- | --- | --- |\n");
    text.push_str(&rows);
    (text, unexplained)
}

fn row(text: &mut String, name: &str, count: &Count) {
    let Count { all, killed, hung } = count;
    let _ = writeln!(text, "| {name} | {all} | {killed} | {hung} | {} |", all - killed - hung);
}
