//! What every package carries beside its code: manual pages, completions, licences and the README.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Job, files, notices, output_of};
use crate::{root, target_dir};

/// The licences of tenure, at the top of the repository.
pub(super) const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];
/// The licences of what is linked in.
pub(super) const NOTICES: &str = "THIRD-PARTY-LICENSES.txt";
/// Shells, and what the file with their completions is called.
const SHELLS: [(&str, &str); 3] = [("bash", "tenure"), ("zsh", "_tenure"), ("fish", "tenure.fish")];

/// Files that are ready to be packed, and how they lie in `share/`.
#[derive(Debug)]
pub(super) struct Contents {
    /// `tenure` and `tenure-lab`.
    pub(super) programs: [PathBuf; 2],
    /// A directory with `man/` and `completions/`.
    pub(super) made: PathBuf,
}

impl Contents {
    /// Lets the command write what it knows about itself.
    pub(super) fn make(job: &Job, programs: &[PathBuf; 2]) -> Result<Self, String> {
        let made = target_dir().join("contents");
        files::empty(&made)?;
        let man = made.join("man");
        files::directory(&man)?;
        output_of(Command::new(&programs[0]).arg("man").arg(&man))?;
        for (shell, name) in SHELLS {
            let text = output_of(Command::new(&programs[0]).args(["completions", shell]))?;
            files::write(&made.join("completions").join(name), &text)?;
        }
        for licence in LICENCES {
            files::copy(&root().join(licence), &made.join(licence))?;
        }
        let linked = ["tenure-cli", "tenure-torture", "tenure-node", "tenure-python"];
        files::write(&made.join(NOTICES), &notices::of(&linked, job.platform.target)?)?;
        Ok(Self { programs: programs.clone(), made })
    }

    /// The licences of tenure and of what is linked in.
    pub(super) fn licences(&self) -> impl Iterator<Item = PathBuf> {
        LICENCES.into_iter().chain([NOTICES]).map(|name| self.made.join(name))
    }

    /// Copies the licences into a directory.
    pub(super) fn put_licences(&self, to: &Path) -> Result<(), String> {
        self.licences().try_for_each(|path| files::copy(&path, &to.join(name(&path))))
    }

    /// Copies the programs into a directory.
    pub(super) fn put_programs(&self, to: &Path) -> Result<(), String> {
        self.programs.iter().try_for_each(|path| files::copy(path, &to.join(name(path))))
    }

    /// Copies manual pages and completions to where a system looks for them below `share/`.
    pub(super) fn put_share(&self, share: &Path) -> Result<(), String> {
        files::copy_all(&self.made.join("man"), &share.join("man/man1"))?;
        let places =
            ["bash-completion/completions", "zsh/vendor-completions", "fish/vendor_completions.d"];
        for ((_, name), place) in SHELLS.iter().zip(places) {
            let from = self.made.join("completions").join(name);
            files::copy(&from, &share.join(place).join(name))?;
        }
        Ok(())
    }
}

/// The last part of a path.
pub(super) fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("?")
}
