//! Agents that know nothing of each other: files are read, decided upon and written, as most tools do.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use tenure_shipped::Dice;

use super::agent::Manners;
use super::repository::{board, read_token, refresh};

/// Without tenure.
pub(super) struct Alone {
    root: PathBuf,
    dice: Dice,
}

impl Alone {
    pub(super) fn new(root: &Path, seed: u64) -> Self {
        Self { root: root.to_path_buf(), dice: Dice::new(seed) }
    }
}

impl Manners for Alone {
    fn claim(&mut self) -> io::Result<Option<String>> {
        let text = fs::read_to_string(board(&self.root))?;
        let mut tasks: Vec<_> = text.lines().collect();
        let Some(open) = tasks.iter().position(|task| *task == "open") else { return Ok(None) };
        // The model decides to take it.
        thread::sleep(Duration::from_millis(self.dice.between(2, 8)));
        tasks[open] = "done";
        let new = self.root.join(format!("tasks.{}", std::process::id()));
        fs::write(&new, tasks.join("\n"))?;
        fs::rename(new, board(&self.root))?;
        Ok(Some(format!("task-{open}")))
    }

    fn token(&mut self) -> io::Result<()> {
        let (_, until) = read_token(&self.root)?;
        if SystemTime::now() < until { Ok(()) } else { refresh(&self.root) }
    }

    fn before_edit(&mut self, _file: &str) -> io::Result<bool> {
        Ok(false)
    }

    fn after_edit(&mut self, _file: &str) -> io::Result<()> {
        Ok(())
    }

    fn end_turn(&mut self) -> io::Result<()> {
        Ok(())
    }
}
