//! What the agents share: source files, a token, a board of tasks. And what went wrong with it.
//!
//! # Invariants
//!
//! 1. The counts come from what agents reported and from what is in the files at the end, and need no help of either
//!    way to work.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tenure::options::Durability;
use tenure::queue::{AddOptions, Queue};
use tenure::{Value, WriteOptions, json};

use super::Way;

/// The source files: fewer than agents, as the file that everyone needs.
pub(super) const FILES: [&str; 2] = ["src/parser.rs", "src/main.rs"];
/// How many tasks are on the board.
const TASKS: usize = 60;
/// How long a token is fresh.
pub(super) const TOKEN_LIFE: Duration = Duration::from_millis(250);
/// How long the provider takes to answer.
const NETWORK: Duration = Duration::from_millis(15);

/// What was counted in one run.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    pub(super) edits: u64,
    /// Edits that began while another agent edited the same file.
    pub(super) collisions: u64,
    /// Edits that are not in the file at the end.
    pub(super) lost: u64,
    pub(super) refreshes: u64,
    /// Refreshes with a refresh token that was used before: providers end the session for that.
    pub(super) double_refreshes: u64,
    pub(super) claims: u64,
    /// Tasks that were given to a second agent.
    pub(super) double_claims: u64,
    /// Edits that were denied first because another agent had the file.
    pub(super) denied: u64,
}

impl Counts {
    /// Everything that went wrong.
    pub(super) fn wrong(&self) -> u64 {
        self.collisions + self.lost + self.double_refreshes + self.double_claims
    }
}

/// A repository with everything that agents need.
#[derive(Debug)]
pub(super) struct Repository {
    root: PathBuf,
}

impl Repository {
    pub(super) fn create(root: &Path, way: Way) -> io::Result<Self> {
        fs::create_dir_all(root.join(".git"))?;
        fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n")?;
        fs::create_dir(root.join("src"))?;
        for file in FILES {
            fs::write(root.join(file), "// A source file.\n")?;
        }
        write_token(root, 0)?;
        fs::write(provider(root), "")?;
        match way {
            Way::Alone => fs::write(board(root), vec!["open\n"; TASKS].concat())?,
            Way::PluggedIn => add_tasks(root).map_err(io::Error::other)?,
        }
        Ok(Self { root: root.to_path_buf() })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// What went wrong, from the files and from what the agents reported: `edit FILE MARK`, `collision FILE`, `claim
    /// TASK`, `denied FILE`.
    pub(super) fn counts(&self, reports: &[String]) -> io::Result<Counts> {
        let mut counts = Counts::default();
        let mut tasks = HashSet::new();
        for report in reports {
            let mut words = report.split(' ');
            let (verb, first) =
                (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            match verb {
                "edit" => {
                    counts.edits += 1;
                    let text = fs::read_to_string(self.root.join(first))?;
                    let mark = words.next().unwrap_or_default();
                    counts.lost += u64::from(!text.lines().any(|line| line == mark));
                }
                "collision" => counts.collisions += 1,
                "denied" => counts.denied += 1,
                "claim" => {
                    counts.claims += 1;
                    counts.double_claims += u64::from(!tasks.insert(first.to_owned()));
                }
                _ => return Err(io::Error::other(format!("an agent said `{report}`"))),
            }
        }
        let mut used = HashSet::new();
        for generation in fs::read_to_string(provider(&self.root))?.lines() {
            counts.refreshes += 1;
            counts.double_refreshes += u64::from(!used.insert(generation.to_owned()));
        }
        Ok(counts)
    }
}

/// The board of agents that work without tenure: one line per task.
pub(super) fn board(root: &Path) -> PathBuf {
    root.join("tasks.txt")
}

/// What the provider of tokens has seen: one line per refresh, the number of the refresh token.
fn provider(root: &Path) -> PathBuf {
    root.join("provider.log")
}

fn add_tasks(root: &Path) -> tenure::Result<()> {
    let queue = Queue::open(root.join("tasks"))?;
    let write = WriteOptions { durability: Durability::NoSync, ..WriteOptions::default() };
    for number in 0..TASKS {
        let options = AddOptions {
            id: Some(format!("task-{number}")),
            write: write.clone(),
            ..AddOptions::default()
        };
        queue.add(&json!({ "number": number as u64 }), &options)?;
    }
    Ok(())
}

/// The token: its number, and until when it is fresh.
pub(super) fn read_token(root: &Path) -> io::Result<(u64, SystemTime)> {
    let bytes = fs::read(root.join("token.json"))?;
    let token = tenure::json::parse(&bytes).map_err(io::Error::other)?;
    let number = |name: &str| token.get(name).and_then(Value::as_u64).unwrap_or_default();
    Ok((number("generation"), SystemTime::UNIX_EPOCH + Duration::from_millis(number("until_ms"))))
}

fn write_token(root: &Path, generation: u64) -> io::Result<()> {
    let until = SystemTime::now() + TOKEN_LIFE;
    let until = until.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    let token = json!({ "generation": generation, "until_ms": u64::try_from(until).unwrap_or(0) });
    let new = root.join(format!("token.{}", std::process::id()));
    fs::write(&new, token.to_string())?;
    fs::rename(new, root.join("token.json"))
}

/// Asks the provider for a new token with the refresh token of the old one.
pub(super) fn refresh(root: &Path) -> io::Result<()> {
    let (generation, _) = read_token(root)?;
    std::thread::sleep(NETWORK);
    let mut log = OpenOptions::new().append(true).open(provider(root))?;
    log.write_all(format!("{generation}\n").as_bytes())?;
    write_token(root, generation + 1)
}
