//! What became of the mutants in earlier runs, kept in the scratch directory.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use crate::hunt::Fate;
use crate::points::Point;

/// The file that remembers.
#[derive(Debug)]
pub(crate) struct Fates {
    file: Mutex<std::fs::File>,
    known: BTreeMap<String, Fate>,
}

impl Fates {
    /// Opens the memory, empty unless earlier runs count.
    pub(crate) fn open(path: &Path, earlier: bool) -> Result<Self, String> {
        let failed = |err: std::io::Error| format!("{}: {err}", path.display());
        if !earlier && path.exists() {
            std::fs::remove_file(path).map_err(failed)?;
        }
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let known = text.lines().filter_map(parse).collect();
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        Ok(Self { file: Mutex::new(file.map_err(failed)?), known })
    }

    /// Whether it was noticed before.
    pub(crate) fn noticed(&self, point: &Point) -> Option<&Fate> {
        let fate = self.known.get(&point.key());
        fate.filter(|fate| matches!(fate, Fate::Killed(_) | Fate::Hung))
    }

    /// Remembers.
    pub(crate) fn keep(&self, point: &Point, fate: &Fate) {
        let told = match fate {
            Fate::Killed(by) => format!("killed\t{by}"),
            Fate::Hung => "hung\t".to_owned(),
            Fate::Survived(tests) => format!("survived\t{tests}"),
            Fate::Unreached => "unreached\t".to_owned(),
        };
        if let Ok(mut file) = self.file.lock() {
            let _ = writeln!(file, "{}\t{told}", point.key());
        }
    }
}

fn parse(line: &str) -> Option<(String, Fate)> {
    let cells: Vec<&str> = line.split('\t').collect();
    let [file, within, what, fate, by] = cells[..] else { return None };
    let fate = match fate {
        "killed" => Fate::Killed(by.to_owned()),
        "hung" => Fate::Hung,
        "survived" => Fate::Survived(by.parse().ok()?),
        _ => Fate::Unreached,
    };
    Some((format!("{file}\t{within}\t{what}"), fate))
}
