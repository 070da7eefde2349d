//! The table in `docs/RELIABILITY.md`: what each ring tried in the run that is on record. A file beside the records lists
//! everything that was tried, by ring.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::prove::{failed, record_of};
use crate::root;

const DOCUMENT: &str = "docs/RELIABILITY.md";
const BEGIN: &str = "<!-- begin: written by `cargo xtask prove` -->\n";
const END: &str = "<!-- end -->";
/// Everything that was tried.
const DETAILS: &str = "crates/tenure-proof/record/tried.md";
const DETAILS_HEAD: &str = "# Everything that was tried

Written by `cargo xtask prove` from the records in this directory: what each ring tried in the run that is on record, and the
deliberate faults and old protocols that it caught. [RELIABILITY.md](../../../docs/RELIABILITY.md) has the table and what it means.
";

/// The table names this many kinds of attacks of a ring; the other file names all.
const ROW_MAX: usize = 4;

/// A test binary of the proof crate.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Of the binary.
    pub(crate) name: &'static str,
    /// What it is, for people.
    pub(crate) title: &'static str,
    /// Tests of the ring itself, which try nothing and write no record.
    pub(crate) silent: &'static [&'static str],
    /// Tests that only the long form runs.
    pub(crate) long: &'static [&'static str],
}

/// Every ring, in the order of the table.
pub(crate) const RINGS: &[Ring] = &[
    Ring { name: "race_book", title: "every known race, theirs and ours", silent: &[], long: &[] },
    Ring {
        name: "puppets",
        title: "timelines of processes in every language",
        silent: &["every_timeline_is_played"],
        long: &[],
    },
    Ring { name: "torture", title: "kill and pause, histories checked", silent: &[], long: &[] },
    Ring { name: "system_calls", title: "a fault at every system call", silent: &[], long: &[] },
    Ring {
        name: "power_loss",
        title: "power loss, simulated and on real file systems",
        silent: &[],
        long: &[],
    },
    Ring { name: "models", title: "models, checked exhaustively", silent: &[], long: &[] },
    Ring { name: "identity", title: "identity and time", silent: &[], long: &[] },
    Ring {
        name: "parsers",
        title: "parsers, damage and properties",
        silent: &[],
        long: &["corpus::the_fuzzer_finds_nothing_new"],
    },
    Ring { name: "file_systems", title: "file systems", silent: &[], long: &[] },
    Ring { name: "security", title: "other users", silent: &[], long: &[] },
    Ring {
        name: "stores",
        title: "PostgreSQL and etcd, killed, paused, parted and promoted",
        silent: &[],
        long: &[],
    },
];

/// What the records of one ring add up to.
#[derive(Debug, Default)]
struct Sum {
    form: String,
    /// Of the code that was attacked.
    commit: String,
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
        sum.tried.sort_by_key(|(cases, _)| std::cmp::Reverse(*cases));
        sum.caught.sort();
        Ok(sum)
    }

    fn add(&mut self, line: &Value) -> Option<()> {
        self.tests += 1;
        line["form"].as_str()?.clone_into(&mut self.form);
        line["commit"].as_str().unwrap_or("-").clone_into(&mut self.commit);
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

/// What the document takes from the records.
#[derive(Debug)]
struct Tables {
    /// Between the markers.
    rows: String,
    /// The other file.
    details: String,
}

/// The tables of the document, from the records that are kept.
fn tables() -> Result<Tables, String> {
    let mut rows = String::from(
        "| ring | form | commit | tests | what was tried, mostly | deliberate faults and old protocols it caught | seconds |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let mut details = DETAILS_HEAD.to_owned();
    for Ring { name, title, .. } in RINGS {
        let path = record_of(name);
        match std::fs::read_to_string(&path) {
            Ok(record) => {
                let sum = Sum::of(&record).map_err(|problem| format!("{name}: {problem}"))?;
                rows.push_str(&sum.row(name, title));
                details.push_str(&sum.details(name, title));
            }
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
                let row = format!("| `{name}`: {title} | | | | no run is on record | | |\n");
                rows.push_str(&row);
            }
            Err(err) => return Err(failed("read", &path)(err)),
        }
    }
    Ok(Tables { rows, details })
}

impl Sum {
    fn row(&self, name: &str, title: &str) -> String {
        let Self { form, commit, tests, tried, caught, seconds } = self;
        let tried = listed(&tried[..tried.len().min(ROW_MAX)]);
        let caught = caught.len();
        let head = format!("`{name}`: {title} | {form} | {commit} | {tests}");
        format!("| {head} | {tried} | {caught} | {seconds:.0} |\n")
    }

    fn details(&self, name: &str, title: &str) -> String {
        let tried = listed(&self.tried);
        let mut text = format!("\n## `{name}`: {title}\n\nTried: {tried}.\n");
        if !self.caught.is_empty() {
            let _ = write!(text, "\nCaught:\n\n- {}\n", self.caught.join("\n- "));
        }
        text
    }
}

/// `1,234 kills; 2 pauses`.
fn listed(tried: &[(u64, String)]) -> String {
    let each: Vec<String> =
        tried.iter().map(|(cases, what)| format!("{} {what}", grouped(*cases))).collect();
    each.join("; ")
}

/// A record that names the commit of the code that it is about.
pub(crate) fn stamped(record: &str, commit: &str) -> Result<String, String> {
    let mut stamped = String::new();
    for line in record.lines() {
        let mut line: Value = serde_json::from_str(line).map_err(|err| format!("{err}: {line}"))?;
        line["commit"] = commit.into();
        let _ = writeln!(stamped, "{line}");
    }
    Ok(stamped)
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

/// `document` with the table between its two markers.
fn with_table(document: &str, rows: &str) -> Result<String, String> {
    let missing = || format!("{DOCUMENT} has lost the markers of its table");
    let (before, rest) = document.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}\n{rows}\n{END}{after}"))
}

/// Writes the table into the document, and the file beside the records.
#[expect(clippy::disallowed_methods, reason = "a file of the repository; git has the old version")]
pub(crate) fn rewrite() -> Result<(), String> {
    let path = root().join(DOCUMENT);
    let document = std::fs::read_to_string(&path).map_err(failed("read", &path))?;
    let Tables { rows, details } = tables()?;
    let document = with_table(&document, &rows)?;
    std::fs::write(&path, document).map_err(failed("write", &path))?;
    let path = root().join(DETAILS);
    std::fs::write(&path, details).map_err(failed("write", &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_what_the_records_say() {
        let document = std::fs::read_to_string(root().join(DOCUMENT)).unwrap();
        let Tables { rows, details } = tables().unwrap();
        let expected = with_table(&document, &rows).unwrap();
        assert!(document == expected, "the table in {DOCUMENT} was not made from the records");
        let found = std::fs::read_to_string(root().join(DETAILS)).unwrap();
        assert!(found == details, "{DETAILS} was not made from the records");
    }

    #[test]
    fn records_add_up() {
        let record = concat!(
            r#"{"form":"long","tried":[{"cases":1200,"what":"kills"}],"caught":["b"],"seconds":1.5}"#,
            "\n",
            r#"{"form":"long","tried":[{"cases":34,"what":"kills"},{"cases":2,"what":"x"}],"caught":["a","b"],"seconds":2}"#,
        );
        let sum = Sum::of(&stamped(record, "abc").unwrap()).unwrap();
        let row = sum.row("torture", "t");
        assert_eq!(row, "| `torture`: t | long | abc | 2 | 1,234 kills; 2 x | 2 | 4 |\n");
        let details = sum.details("torture", "t");
        assert_eq!(
            details,
            "\n## `torture`: t\n\nTried: 1,234 kills; 2 x.\n\nCaught:\n\n- a\n- b\n"
        );
        assert!(Sum::of("").is_err() && Sum::of("{}").is_err() && Sum::of("x").is_err());
    }

    #[test]
    fn a_document_without_markers_is_left_alone() {
        let rows = "| |\n";
        assert!(with_table("# Reliability\n", rows).is_err());
        assert!(with_table(BEGIN, rows).is_err());
        let whole = format!("{BEGIN}old{END}\nmore");
        assert_eq!(with_table(&whole, rows).unwrap(), format!("{BEGIN}\n| |\n\n{END}\nmore"));
    }
}
