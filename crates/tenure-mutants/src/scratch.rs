//! A copy of the workspace with the mutants, and its builds.
//!
//! # Invariants
//!
//! 1. Nothing is written outside of the scratch directory, and a file that would not change is not
//!    written, so that a second run builds little.
//! 2. All mutants are built once. Those that the compiler rejects are left out, round by round,
//!    until it accepts the rest.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::points::Point;
use crate::rewrite::Rewritten;

const CORE: &str = "crates/tenure";
/// The check whether a mutant is on.
const PROBE: &str = include_str!("probe.rs.txt");
/// More rounds than errors can hide behind other errors.
const ROUNDS_MAX: usize = 40;

/// The copy.
#[derive(Debug)]
pub(crate) struct Scratch {
    dir: PathBuf,
}

/// A program of tests.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Where it is started.
    pub(crate) dir: PathBuf,
}

impl Scratch {
    /// Copies the files of the repository at `root`.
    pub(crate) fn copy(root: &Path, dir: PathBuf) -> Result<Self, String> {
        let scratch = Self { dir };
        let listing = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let listed = Command::new("git").arg("-C").arg(root).args(listing).output();
        let listed = listed.map_err(|err| format!("cannot run git: {err}"))?;
        for name in String::from_utf8_lossy(&listed.stdout).split('\0') {
            let from = root.join(name);
            let mutated = name.starts_with(&format!("{CORE}/src/")) || name == "Cargo.lock";
            if !name.is_empty() && !mutated && from.is_file() {
                let bytes = std::fs::read(&from).map_err(|err| format!("{name}: {err}"))?;
                scratch.write(name, &bytes)?;
            }
        }
        let manifest = scratch.dir.join(CORE).join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest).map_err(|err| format!("manifest: {err}"))?;
        // The probe marks what was reached in shared memory.
        let text = text.replace("\"system\", \"event\"]", "\"system\", \"event\", \"mm\"]");
        if !text.contains("\"mm\"") {
            return Err("the features of rustix are not where they were".to_owned());
        }
        scratch.write(&format!("{CORE}/Cargo.toml"), text.as_bytes())?;
        let lock = std::fs::read(root.join("Cargo.lock")).map_err(|err| format!("lock: {err}"))?;
        scratch.write("Cargo.lock", &lock)?;
        Ok(scratch)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes a file of the copy, unless it has that content already.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        write_if_new(&self.dir.join(name), bytes)
    }

    /// Writes the sources with these mutants until the compiler accepts them all. Returns the
    /// accepted ones.
    pub(crate) fn settle(
        &self,
        sources: &[(String, String)],
        mut points: Vec<Point>,
    ) -> Result<Vec<Point>, String> {
        for round in 1..=ROUNDS_MAX {
            let written = self.write_sources(sources, &points)?;
            let refused = self.refused(&written, &points)?;
            println!("round {round}: {} mutants, {} refused", points.len(), refused.len());
            if refused.is_empty() {
                return Ok(points);
            }
            points.retain(|point| !refused.contains(&point.number));
        }
        Err("the compiler refuses too much".to_owned())
    }

    fn write_sources(
        &self,
        sources: &[(String, String)],
        points: &[Point],
    ) -> Result<Vec<(String, Rewritten)>, String> {
        self.write(&format!("{CORE}/src/mutant.rs"), PROBE.as_bytes())?;
        let mut written = Vec::new();
        for (file, text) in sources {
            let own: Vec<&Point> = points.iter().filter(|point| point.file == *file).collect();
            let mut new = Rewritten::new(text, &own);
            if file == "lib.rs" {
                new.text.push_str("\nmod mutant;\n");
            }
            let name = format!("{CORE}/src/{file}");
            self.write(&name, new.text.as_bytes())?;
            written.push((name, new));
        }
        Ok(written)
    }

    fn cargo(&self, arguments: &[&str]) -> Result<(bool, Vec<Value>), String> {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        command.args(arguments).args(["--message-format=json", "--quiet"]).current_dir(&self.dir);
        // The checks make clumsy conditions; lints do not matter here.
        command.env("RUSTFLAGS", "--cap-lints=allow").stderr(Stdio::inherit());
        let done = command.output().map_err(|err| format!("cannot run cargo: {err}"))?;
        let text = String::from_utf8_lossy(&done.stdout);
        let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok((done.status.success(), messages))
    }

    /// The mutants that do not compile.
    fn refused(
        &self,
        written: &[(String, Rewritten)],
        points: &[Point],
    ) -> Result<BTreeSet<u32>, String> {
        let drops = points.iter().filter(|point| point.what.starts_with("without `drop("));
        let drops: BTreeSet<u32> = drops.map(|point| point.number).collect();
        let (good, messages) = self.cargo(&["check", "--package", "tenure", "--lib"])?;
        let mut refused = BTreeSet::new();
        for message in &messages {
            let message = &message["message"];
            if message["level"] != "error" {
                continue;
            }
            let found = culprits(message, written, &drops);
            if found.is_empty() && message["spans"].as_array().is_some_and(|all| !all.is_empty()) {
                return Err(format!("not of a mutant: {}", message["rendered"]));
            }
            refused.extend(found);
        }
        if !good && refused.is_empty() {
            return Err("the core does not build, and no mutant is to blame".to_owned());
        }
        Ok(refused)
    }

    /// Builds test programs and returns their paths.
    pub(crate) fn programs(&self, arguments: &[&str]) -> Result<Vec<Program>, String> {
        let (good, messages) = self.cargo(&[&["test", "--no-run"], arguments].concat())?;
        if !good {
            let errors =
                messages.iter().filter_map(|message| message["message"]["rendered"].as_str());
            return Err(errors.collect::<String>());
        }
        let program = |message: &Value| {
            let path = message["executable"].as_str()?;
            let manifest = Path::new(message["manifest_path"].as_str()?);
            (message["profile"]["test"] == true).then(|| Program {
                name: message["target"]["name"].as_str().unwrap_or_default().to_owned(),
                path: path.into(),
                dir: manifest.parent().unwrap_or(&self.dir).to_path_buf(),
            })
        };
        Ok(messages.iter().filter_map(program).collect())
    }
}

/// The mutants that an error is about: by the location that it names first, then by the others. A
/// borrow error may name locations before and after a removed `drop`, but not the `drop`.
fn culprits(message: &Value, written: &[(String, Rewritten)], drops: &BTreeSet<u32>) -> Vec<u32> {
    let children = message["children"].as_array().into_iter().flatten();
    let all = std::iter::once(message).chain(children);
    let mut spans: Vec<&Value> =
        all.flat_map(|part| part["spans"].as_array().into_iter().flatten()).collect();
    spans.sort_by_key(|span| span["is_primary"] != true);
    let places: Vec<(&Rewritten, Range<usize>)> = spans
        .iter()
        .filter_map(|span| {
            let file = span["file_name"].as_str()?;
            let (_, text) = written.iter().find(|(name, _)| file.ends_with(name))?;
            let byte = |key: &str| usize::try_from(span[key].as_u64()?).ok();
            Some((text, byte("byte_start")?..byte("byte_end")?))
        })
        .collect();
    if let Some(number) = places.iter().find_map(|(text, bytes)| text.culprit(bytes)) {
        return vec![number];
    }
    let Some((text, _)) = places.first() else { return Vec::new() };
    let start = places.iter().map(|(_, bytes)| bytes.start).min().unwrap_or_default();
    let end = places.iter().map(|(_, bytes)| bytes.end).max().unwrap_or_default();
    let between = text.within(&(start..end));
    let dropping: Vec<u32> =
        between.iter().copied().filter(|number| drops.contains(number)).collect();
    if dropping.is_empty() { between } else { dropping }
}

fn write_if_new(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if std::fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let failed = |err: std::io::Error| format!("cannot write {}: {err}", path.display());
    std::fs::create_dir_all(path.parent().unwrap_or(path)).map_err(failed)?;
    #[expect(clippy::disallowed_methods, reason = "a scratch file of this process only")]
    std::fs::write(path, bytes).map_err(failed)
}
