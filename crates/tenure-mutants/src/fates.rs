//! The fates of the mutants in earlier runs, kept in the scratch directory.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use crate::hunt::Fate;
use crate::points::Point;

/// The file of fates.
#[derive(Debug)]
pub(crate) struct Fates {
    file: Mutex<std::fs::File>,
    known: BTreeMap<String, Fate>,
}

impl Fates {
    /// Opens the file; empty unless earlier runs count.
    pub(crate) fn open(path: &Path, earlier: bool) -> Result<Self, String> {
        let failed = |err: std::io::Error| format!("{}: {err}", path.display());
        if !earlier && path.exists() {
            std::fs::remove_file(path).map_err(failed)?;
        }
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut known = BTreeMap::new();
        for (key, fate) in text.lines().filter_map(parse) {
            // A run with a part of the tests knows less than one with all of them.
            let earlier = known.remove(&key);
            known.insert(key, earlier.map_or(fate.clone(), |earlier| worse(earlier, fate)));
        }
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        Ok(Self { file: Mutex::new(file.map_err(failed)?), known })
    }

    /// Its fate in earlier runs.
    pub(crate) fn of(&self, point: &Point) -> Option<&Fate> {
        self.known.get(&point.key())
    }

    /// Whether it was noticed before.
    pub(crate) fn noticed(&self, point: &Point) -> bool {
        matches!(self.of(point), Some(Fate::Killed(_) | Fate::Hung))
    }

    /// Saves a fate.
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

/// The fate that says more.
fn worse(one: Fate, other: Fate) -> Fate {
    let rank = |fate: &Fate| match fate {
        Fate::Killed(_) => (3, 0),
        Fate::Hung => (2, 0),
        Fate::Survived(tests) => (1, *tests),
        Fate::Unreached => (0, 0),
    };
    if rank(&other) > rank(&one) { other } else { one }
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
