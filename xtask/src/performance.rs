//! `cargo xtask bench --table`: what the kept records of the benchmark say, in `README.md` (pictures) and
//! `bench/README.md` (every goal).
//!
//! A record is a directory below `bench/runs`. Its name starts with its date and file system; of
//! each file system the newest record counts, a full run before a quick one. The documents name the
//! records that they were made from, and a test makes them again from these: a run in another
//! checkout does not change what is printed here until this is called.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::prove::failed;
use crate::root;

const RUNS: &str = "bench/runs";
const FRONT: &str = "README.md";
const TABLE: &str = "bench/README.md";
const BEGIN: &str = "<!-- begin measured";
const BEGIN_ENDS: &str = "-->\n";
const END: &str = "<!-- end measured -->";

/// The rows whose pictures are on the front page, and what each shows.
const PICTURES: &[(&str, &str)] = &[
    ("p1", "Lock and unlock while no other process wants the lock."),
    ("p2", "One new process changes a document of 500 keys."),
    ("p3", "Eight processes change one document of 12 KB, without syncs."),
    ("p4", "The same, durable, by 1, 8 and 32 processes."),
    ("p5", "A line of 300 bytes is appended, with and without syncs."),
];

/// How many rows there are: a record with fewer is a part.
const ROWS: usize = 11;

/// One goal of a record: its row, its race and its words; and what was measured.
type Goals = Vec<([String; 3], String)>;

/// The records that count, by file system.
fn newest() -> Result<BTreeMap<String, String>, String> {
    let dir = root().join(RUNS);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&dir).map_err(failed("read", &dir))? {
        names.extend(entry.map_err(failed("read", &dir))?.file_name().into_string());
    }
    Ok(choose(names))
}

/// Of each file system the newest full run, or the newest quick one. `2026-11-16-ext4`,
/// `2026-11-16-ext4-quick`; whatever has more words is a part of a run.
fn choose(mut names: Vec<String>) -> BTreeMap<String, String> {
    names.sort();
    let mut chosen: BTreeMap<String, String> = BTreeMap::new();
    for full in [false, true] {
        for name in &names {
            let words: Vec<&str> = name.split('-').collect();
            match words[..] {
                [_, _, _, system, "quick"] if !full => chosen.insert(system.into(), name.clone()),
                [_, _, _, system] if full => chosen.insert(system.into(), name.clone()),
                _ => None,
            };
        }
    }
    chosen
}

/// The goals of a record, in order.
fn goals(record: &Path) -> Result<Goals, String> {
    let mut goals = Vec::new();
    for number in 1..=ROWS {
        let path = record.join(format!("p{number}.json"));
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let row: Value =
            serde_json::from_str(&text).map_err(|err| format!("{}: {err}", path.display()))?;
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        for race in list(&row["races"]) {
            for goal in list(&race["goals"]) {
                let words = [&row["row"], &race["race"], &goal["goal"]]
                    .map(|value| value.as_str().unwrap_or_default().to_owned());
                goals.push((words, cell(&goal)));
            }
        }
    }
    Ok(goals)
}

/// What was measured, and whether that is enough.
fn cell(goal: &Value) -> String {
    let Some(value) = goal["median_least_most"][0].as_f64() else { return "not measured".into() };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    let unit = goal["unit"].as_str().unwrap_or_default();
    let unit = if unit == "x" { "x".to_owned() } else { format!(" {unit}") };
    let outcome = match goal["reached"].as_bool() {
        Some(true) => ", reached",
        Some(false) => ", **missed**",
        None => "",
    };
    format!("{value:.digits$}{unit}{outcome}")
}

/// Every goal of every record, a column for each.
fn table(records: &[(String, Goals)]) -> String {
    let mut text = String::from("| row | race | goal |");
    for (name, _) in records {
        let _ = write!(text, " [{name}](runs/{name}/summary.md) |");
    }
    let _ = writeln!(text, "\n|{}", " --- |".repeat(3 + records.len()));
    let mut seen: Vec<&[String; 3]> = Vec::new();
    for (words, _) in records.iter().flat_map(|(_, goals)| goals) {
        if seen.contains(&words) {
            continue;
        }
        seen.push(words);
        let _ = write!(text, "| {} |", words.join(" | "));
        for (_, goals) in records {
            let found = goals.iter().find(|(other, _)| other == words);
            let _ = write!(text, " {} |", found.map_or("-", |(_, cell)| cell));
        }
        text.push('\n');
    }
    text
}

/// The pictures of one record.
fn pictures(name: &str) -> String {
    let mut text = format!("Measured: [{RUNS}/{name}]({RUNS}/{name}/summary.md).\n");
    for (row, caption) in PICTURES {
        let path = format!("{RUNS}/{name}/{row}.svg");
        if root().join(&path).is_file() {
            let _ =
                write!(text, "\n**{}.** {caption}\n\n![{caption}]({path})\n", row.to_uppercase());
        }
    }
    text
}

/// The document with what was measured between its markers, made from these records.
fn with_measured(document: &str, names: &[&str], body: &str) -> Result<String, String> {
    let missing = || "a document has lost the markers of what was measured".to_owned();
    let (before, rest) = document.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    let named: String = names.iter().flat_map(|name| [" ", *name]).collect();
    Ok(format!("{before}{BEGIN}{named} {BEGIN_ENDS}\n{body}\n{END}{after}"))
}

/// Both documents as they should be.
fn expected(front: &str, table_in: &str, names: &[&str]) -> Result<[String; 2], String> {
    let mut records = Vec::new();
    for name in names {
        records.push(((*name).to_owned(), goals(&root().join(RUNS).join(name))?));
    }
    // The file system that most people have.
    let shown: Vec<&str> = names.iter().copied().filter(|name| name.contains("-ext4")).collect();
    let body: String = shown.iter().map(|name| pictures(name)).collect();
    Ok([with_measured(front, &shown, &body)?, with_measured(table_in, names, &table(&records))?])
}

fn read(path: &str) -> Result<String, String> {
    let path = root().join(path);
    std::fs::read_to_string(&path).map_err(failed("read", &path))
}

/// Writes both from the newest records.
#[expect(clippy::disallowed_methods, reason = "files of the repository; git has the old version")]
pub(crate) fn rewrite() -> Result<(), String> {
    let chosen = newest()?;
    let names: Vec<&str> = chosen.values().map(String::as_str).collect();
    if names.is_empty() {
        return Err(format!("there is no whole record below {RUNS}"));
    }
    let documents = expected(&read(FRONT)?, &read(TABLE)?, &names)?;
    for (path, document) in [FRONT, TABLE].into_iter().zip(documents) {
        let path = root().join(path);
        std::fs::write(&path, document).map_err(failed("write", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_documents_are_what_their_records_say() {
        let (front, table) = (read(FRONT).unwrap(), read(TABLE).unwrap());
        let (_, marker) = table.split_once(BEGIN).unwrap();
        let names: Vec<&str> =
            marker.split(BEGIN_ENDS).next().unwrap().split_whitespace().collect();
        if !names.is_empty() {
            let [front_expected, table_expected] = expected(&front, &table, &names).unwrap();
            assert!(front == front_expected, "{FRONT}: call `cargo xtask bench --table`");
            assert!(table == table_expected, "{TABLE}: call `cargo xtask bench --table`");
        }
    }

    #[test]
    fn the_newest_whole_run_counts_and_a_full_one_first() {
        let names = [
            "2026-01-02-ext4",
            "2026-03-01-ext4-quick",
            "2026-01-03-ext4-p1",
            "2026-01-01-xfs-quick",
            "2026-01-01-ext4",
        ];
        let chosen = choose(names.map(str::to_owned).to_vec());
        assert_eq!(
            chosen.into_values().collect::<Vec<_>>(),
            ["2026-01-02-ext4", "2026-01-01-xfs-quick"]
        );
    }

    #[test]
    fn a_cell_tells_value_and_outcome() {
        let goal = json!({ "median_least_most": [1.234, 1.0, 2.0], "unit": "x", "reached": false });
        assert_eq!(cell(&goal), "1.23x, **missed**");
        let told = json!({ "median_least_most": [123.4, 1.0, 2.0], "unit": "ms", "reached": null });
        assert_eq!(cell(&told), "123 ms");
        assert_eq!(cell(&json!({ "median_least_most": null })), "not measured");
    }

    #[test]
    fn what_was_measured_stands_between_the_markers() {
        let document = format!("a\n{BEGIN} old -->\nx\n{END}\nb\n");
        let new = with_measured(&document, &["one", "two"], "y\n").unwrap();
        assert_eq!(new, format!("a\n{BEGIN} one two -->\n\ny\n\n{END}\nb\n"));
        assert!(with_measured("a", &[], "").is_err());
    }
}
