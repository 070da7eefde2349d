//! The table of file systems in `docs/PLATFORM.md`: what the ring `file_systems` has shown of each.
//!
//! Each test of that ring is one file system, and each thing that it tried is a column. Below it
//! are the known-bad locks and writers that the same tests caught. Both are made from the kept
//! record of the ring and nothing else; a test compares the two.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use crate::prove::{failed, record_of};
use crate::root;

const DOCUMENT: &str = "docs/PLATFORM.md";
const RING: &str = "file_systems";
const BEGIN: &str = "<!-- begin generated -->\n";
const END: &str = "<!-- end generated -->";

/// What the ring tries, by the words of its record.
const COLUMNS: &[&str] = &[
    "one holder",
    "death frees",
    "no lost update, whole batches",
    "lease",
    "watch and follow",
    "torture",
    "full disk",
    "read-only",
];
/// What tenure thinks of the file system before it was tried.
const VERDICTS: &[&str] = &["trusted", "tested at first use", "refused"];

/// The table of a record, and the controls that it caught.
fn table(record: &str) -> Result<String, String> {
    let mut rows = Vec::new();
    let mut caught = BTreeSet::new();
    for line in record.lines() {
        let line: Value = serde_json::from_str(line).map_err(|err| format!("{err}: {line}"))?;
        rows.extend(row(&line)?);
        let controls = line["caught"].as_array().into_iter().flatten();
        caught.extend(controls.filter_map(Value::as_str).map(|control| format!("- {control}\n")));
    }
    rows.sort();
    let mut table = format!("| file system | {} | verdict |\n", COLUMNS.join(" | "));
    writeln!(table, "|{}", " --- |".repeat(COLUMNS.len() + 2)).map_err(|err| err.to_string())?;
    table.extend(rows);
    if !caught.is_empty() {
        table.push_str("\nThe same tests caught these known-bad programs:\n\n");
        table.extend(caught);
    }
    Ok(table)
}

/// The row of a test, if it is one of a file system.
fn row(line: &Value) -> Result<Option<String>, String> {
    let (Some(name), Some(tried)) = (line["test"].as_str(), line["tried"].as_array()) else {
        return Err(format!("not a record: {line}"));
    };
    let tried: Vec<&str> = tried.iter().filter_map(|tried| tried["what"].as_str()).collect();
    if !tried.iter().any(|what| COLUMNS.contains(what) || VERDICTS.contains(what)) {
        return Ok(None);
    }
    let cells = COLUMNS.iter().map(|column| if tried.contains(column) { "kept" } else { "-" });
    let cells: Vec<&str> = cells.collect();
    let verdict = VERDICTS.iter().find(|verdict| tried.contains(verdict));
    // What cannot be written is only ever read, and needs no verdict.
    let verdict = verdict.unwrap_or(&"readable, every write is refused");
    Ok(Some(format!("| {name} | {} | {verdict} |\n", cells.join(" | "))))
}

/// The document with the table between its markers.
fn with_table(document: &str, table: &str) -> Result<String, String> {
    let missing = || format!("{DOCUMENT} has lost the markers of its table");
    let (before, rest) = document.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

/// The document as it should be; `None` if no long run is on record yet.
fn expected(document: &str) -> Result<Option<String>, String> {
    let path = record_of(RING);
    match std::fs::read_to_string(&path) {
        Ok(record) => with_table(document, &table(&record)?).map(Some),
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(err) => Err(failed("read", &path)(err)),
    }
}

/// Writes the table into the document.
#[expect(clippy::disallowed_methods, reason = "a file of the repository; git has the old version")]
pub(crate) fn rewrite() -> Result<(), String> {
    let path = root().join(DOCUMENT);
    let document = std::fs::read_to_string(&path).map_err(failed("read", &path))?;
    match expected(&document)? {
        Some(document) => std::fs::write(&path, document).map_err(failed("write", &path)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_file_systems_is_what_the_record_says() {
        let document = std::fs::read_to_string(root().join(DOCUMENT)).unwrap();
        if let Some(expected) = expected(&document).unwrap() {
            assert!(document == expected, "the table in {DOCUMENT} was not made from the record");
        }
    }

    #[test]
    fn a_row_has_a_cell_for_everything_that_was_tried() {
        let record = concat!(
            r#"{"test":"xfs","tried":[{"cases":1,"what":"one holder"},{"cases":1,"what":"trusted"}]}"#,
            "\n",
            r#"{"test":"erofs","tried":[{"cases":1,"what":"read-only"}]}"#,
            "\n",
            r#"{"test":"others","tried":[{"cases":7,"what":"not tried"}]}"#,
        );
        let table = table(record).unwrap();
        let rows: Vec<&str> = table.lines().skip(2).collect();
        let erofs =
            "| erofs | - | - | - | - | - | - | - | kept | readable, every write is refused |";
        assert_eq!(rows, [erofs, "| xfs | kept | - | - | - | - | - | - | - | trusted |"]);
        assert!(super::table("{}").is_err());
    }

    #[test]
    fn controls_are_listed_below_and_are_no_file_systems() {
        let record = concat!(
            r#"{"test":"b","tried":[],"caught":["two holders","a lost update"]}"#,
            "\n",
            r#"{"test":"xfs","tried":[{"cases":1,"what":"torture"}],"caught":["two holders"]}"#,
        );
        let table = table(record).unwrap();
        let (rows, caught) = table.split_once("\n\n").unwrap();
        assert_eq!(rows.lines().count(), 3, "{rows}");
        assert!(rows.contains("| xfs | - | - | - | - | - | kept | - |"), "{rows}");
        assert!(caught.ends_with("programs:\n\n- a lost update\n- two holders\n"), "{caught}");
    }
}
