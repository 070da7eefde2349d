//! CLI-Anything's `_locked_save_json`: lock the data file, empty it, write it again.
//!
//! It has three faults. The load is outside the lock, so the last writer erases what others added
//! meanwhile. Readers take no lock and see an empty or half-written file. A kill between the
//! truncation and the last write leaves such a file for good.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Meanwhile, os, state};

/// The buffer of a text file in Python, whose `json.dump` the shipped code calls.
const PYTHON_BUFFER: usize = 8192;

/// The saved session of one project.
#[derive(Debug)]
pub struct Session {
    path: PathBuf,
    /// After the load, before the lock.
    pub loaded: Meanwhile,
    /// After the truncation, before the first byte.
    pub truncated: Meanwhile,
}

impl Session {
    /// The session in `directory`.
    pub fn open(directory: &Path) -> Self {
        let (loaded, truncated) = (Meanwhile::default(), Meanwhile::default());
        Self { path: state::path(directory), loaded, truncated }
    }

    fn open_for_save(&self) -> io::Result<File> {
        match OpenOptions::new().read(true).write(true).open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(parent) = self.path.parent() {
                    fs::create_dir_all(parent)?;
                }
                File::create(&self.path)
            }
            opened => opened,
        }
    }

    fn locked_save(&mut self, data: &Value) -> io::Result<()> {
        let mut file = self.open_for_save()?;
        // The shipped code continues without the lock if there is none. Closing the file releases
        // it.
        let _ = os::flock(&file);
        file.rewind()?;
        file.set_len(0)?;
        self.truncated.now();
        let mut writer = BufWriter::with_capacity(PYTHON_BUFFER, &file);
        serde_json::to_writer_pretty(&mut writer, data)?;
        writer.flush()
    }
}

impl crate::Document for Session {
    fn add(&mut self, key: &str) -> io::Result<()> {
        // A session that cannot be parsed fails the command; it is not overwritten.
        let loaded = state::read(&self.path)?;
        self.loaded.now();
        self.locked_save(&state::with_key(Some(&loaded), key))
    }
}
