//! A file or directory of a report, and what to say about it.

use std::fmt;
use std::path::PathBuf;

use tenure::status::Unseen;
use tenure::{Value, json};

/// What is wrong with it, or why it could not be read.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) path: PathBuf,
    pub(super) why: String,
}

impl Finding {
    pub(super) fn to_json(&self) -> Value {
        json!({ "path": self.path.to_string_lossy(), "why": self.why })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.path.display().to_string().escape_debug(), self.why)
    }
}

impl From<Unseen> for Finding {
    fn from(unseen: Unseen) -> Self {
        Self { path: unseen.path, why: unseen.error.to_string() }
    }
}
