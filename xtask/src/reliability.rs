//! The table in `docs/RELIABILITY.md`: what each ring tried in its last long run.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::prove::{failed, record_of};
use crate::root;

const DOCUMENT: &str = "docs/RELIABILITY.md";
const BEGIN: &str = "<!-- begin: written by `cargo xtask prove` -->\n";
const END: &str = "<!-- end -->";

/// A test binary of the proof crate.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Of the binary.
    pub(crate) name: &'static str,
    /// What it is, for people.
    pub(crate) title: &'static str,
}

/// Every ring, in the order of the table.
pub(crate) const RINGS: &[Ring] = &[
    Ring { name: "race_book", title: "every known race, theirs and ours" },
    Ring { name: "puppets", title: "timelines of processes in every language" },
    Ring { name: "torture", title: "kill and pause, histories checked" },
    Ring { name: "system_calls", title: "a fault at every system call" },
    Ring { name: "power_loss", title: "power loss, simulated and on real file systems" },
    Ring { name: "models", title: "models, checked exhaustively" },
    Ring { name: "identity", title: "identity and time" },
    Ring { name: "parsers", title: "parsers, damage and properties" },
    Ring { name: "file_systems", title: "file systems" },
    Ring { name: "security", title: "other users" },
];

/// What the records of one ring add up to.
#[derive(Debug, Default)]
struct Sum {
    form: String,
    tests: usize,
    tried: Vec<(u64, String)>,
    caught: Vec<String>,
    seconds: f64,
}

impl Sum {
    fn of(record: &str) -> Result<Self, String> {
        let mut sum = Self::default();
        for line in record.lines() {
            let line: Value = serde_json::from_str(line).map_err(|err| format!("{err}: {line}"))?;
            sum.add(&line).ok_or_else(|| format!("not a record: {line}"))?;
        }
        if sum.tests == 0 {
            return Err("no test has written a record".into());
        }
        Ok(sum)
    }

    fn add(&mut self, line: &Value) -> Option<()> {
        self.tests += 1;
        line["form"].as_str()?.clone_into(&mut self.form);
        self.seconds += line["seconds"].as_f64()?;
        for tried in line["tried"].as_array()? {
            let (cases, what) = (tried["cases"].as_u64()?, tried["what"].as_str()?);
            match self.tried.iter_mut().find(|(_, known)| known == what) {
                Some((sum, _)) => *sum += cases,
                None => self.tried.push((cases, what.to_owned())),
            }
        }
        for caught in line["caught"].as_array()? {
            let caught = caught.as_str()?.to_owned();
            if !self.caught.contains(&caught) {
                self.caught.push(caught);
            }
        }
        Some(())
    }
}

/// The table from the records that are kept.
fn table() -> Result<String, String> {
    let mut rows = String::from(
        "| ring | form | tests | what was tried | deliberate faults and old protocols it caught | violations | seconds |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for Ring { name, title } in RINGS {
        let path = record_of(name);
        let row = match std::fs::read_to_string(&path) {
            Ok(record) => row(name, title, &record)?,
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
                format!("| `{name}`: {title} | | | no run is on record | | | |\n")
            }
            Err(err) => return Err(failed("read", &path)(err)),
        };
        rows.push_str(&row);
    }
    Ok(rows)
}

fn row(name: &str, title: &str, record: &str) -> Result<String, String> {
    let mut sum = Sum::of(record).map_err(|problem| format!("{name}: {problem}"))?;
    sum.tried.sort_by_key(|(cases, _)| std::cmp::Reverse(*cases));
    sum.caught.sort();
    let mut tried = String::new();
    for (cases, what) in &sum.tried {
        let separator = if tried.is_empty() { "" } else { "; " };
        write!(tried, "{separator}{} {what}", grouped(*cases)).map_err(|err| err.to_string())?;
    }
    let caught = match sum.caught.len() {
        0 => "-".to_owned(),
        count => format!("{count}: {}", sum.caught.join(", ")),
    };
    // A run with a violation fails and is not kept.
    let (form, tests, seconds) = (sum.form, sum.tests, sum.seconds);
    let head = format!("`{name}`: {title} | {form} | {tests}");
    Ok(format!("| {head} | {tried} | {caught} | 0 | {seconds:.0} |\n"))
}

/// Whether this is the record of a long run.
pub(crate) fn is_long(record: &Path) -> bool {
    let sum = std::fs::read_to_string(record).ok().and_then(|record| Sum::of(&record).ok());
    sum.is_some_and(|sum| sum.form == "long")
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
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

/// `document` with `table` between its two markers.
fn with_table(document: &str, table: &str) -> Result<String, String> {
    let missing = || format!("{DOCUMENT} has lost the markers of its table");
    let (before, rest) = document.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

/// Writes the table into the document.
#[expect(clippy::disallowed_methods, reason = "a file of the repository; git has the old version")]
pub(crate) fn rewrite() -> Result<(), String> {
    let path = root().join(DOCUMENT);
    let document = std::fs::read_to_string(&path).map_err(failed("read", &path))?;
    let document = with_table(&document, &table()?)?;
    std::fs::write(&path, document).map_err(failed("write", &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_what_the_records_say() {
        let document = std::fs::read_to_string(root().join(DOCUMENT)).unwrap();
        let expected = with_table(&document, &table().unwrap()).unwrap();
        assert!(document == expected, "the table in {DOCUMENT} was not made from the records");
    }

    #[test]
    fn records_add_up() {
        let record = concat!(
            r#"{"form":"long","tried":[{"cases":1200,"what":"kills"}],"caught":["b"],"seconds":1.5}"#,
            "\n",
            r#"{"form":"long","tried":[{"cases":34,"what":"kills"},{"cases":2,"what":"x"}],"caught":["a","b"],"seconds":2}"#,
        );
        let row = row("torture", "t", record).unwrap();
        assert_eq!(row, "| `torture`: t | long | 2 | 1,234 kills; 2 x | 2: a, b | 0 | 4 |\n");
        assert!(Sum::of("").is_err() && Sum::of("{}").is_err() && Sum::of("x").is_err());
    }

    #[test]
    fn a_document_without_markers_is_left_alone() {
        assert!(with_table("# Reliability\n", "| |").is_err());
    }
}
