//! Where the targets of this command are: on local files, or in the store that `--store` or `TENURE_STORE` names.
//!
//! # Invariants
//!
//! 1. A command has one place, [`here`]. Its command line and its environment choose it before anything is opened.
//!    Only `copy` names others.
//! 2. Without a store, no system call is made here, and no code of an engine runs.
//! 3. The URL may contain a password. It goes to the engine and to the environment of a command below `run` or
//!    `lease hold`, and nowhere else: people see the name of the store.

use std::sync::OnceLock;

use tenure_remote::{Place, RemoteStore};

use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::shell;

/// The default of `--store`.
pub(crate) const VARIABLE: &str = "TENURE_STORE";
/// Names the local files, where `TENURE_STORE` names another store.
const FILES: &str = "files";

static HERE: OnceLock<Place> = OnceLock::new();
/// The name of the store, if it is not in the environment, where a command that a hint shows would find it.
static NAMED_BY_FLAG: OnceLock<String> = OnceLock::new();

/// The place of this command.
pub fn here() -> &'static Place {
    static FILES: Place = Place::files();
    HERE.get().unwrap_or(&FILES)
}

/// Chooses the place of this command: that of `--store`, else that of the environment, else the local files.
pub(crate) fn choose(flag: Option<&str>) -> Result<()> {
    let url = match flag {
        Some(flag) => Some(flag.to_owned()),
        None => from_environment()?,
    };
    if let Some(url) = url.filter(|url| !url.is_empty() && url != FILES) {
        let _ = HERE.set(Place::open(&url)?); // Chosen once, before any use.
        if let Some(name) = here().name().filter(|_| flag.is_some()) {
            let _ = NAMED_BY_FLAG.set(name.to_owned());
        }
    }
    Ok(())
}

/// The text with `--store` in the commands that it shows, if that is how this command found its store.
pub(crate) fn with_store(text: String) -> String {
    let Some(name) = NAMED_BY_FLAG.get() else { return text };
    let name = shell::word(name.as_ref());
    text.replace("`tenure ", &format!("`tenure --store {} ", name.to_string_lossy()))
}

fn from_environment() -> Result<Option<String>> {
    match std::env::var(VARIABLE) {
        Ok(url) => Ok(Some(url)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => {
            let detail = "it is not UTF-8";
            Err(Failure::usage("read TENURE_STORE", detail).hint("unset it or set it right"))
        }
    }
}

/// The store of this command, where only a store will do.
pub(crate) fn require_store(action: &'static str) -> Result<&'static RemoteStore> {
    here().remote().ok_or_else(|| {
        Failure::usage(action, "no store is named")
            .hint("name it by its URL, with --store or in TENURE_STORE")
    })
}

/// Refuses what only local files have.
pub(crate) fn require_files(action: &'static str) -> Result<()> {
    if here().name().is_none() {
        return Ok(());
    }
    let detail = "a store keeps no plain files";
    Err(Failure::new(ExitCode::Unsupported, "unsupported", action, detail)
        .hint("use it on local files: --store files"))
}
