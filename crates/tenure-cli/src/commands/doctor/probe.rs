//! What the file system of a directory does, tried out in a directory of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tenure::Mode;
use tenure::fs::{Access, Fs, Trust, disk};

/// What was found.
#[derive(Debug)]
pub(super) struct FileSystem {
    name: String,
    /// Whether tenure works here without being told to.
    pub(super) trusted: bool,
    verdict: String,
    /// Each with what happened: `ok`, or why not.
    checks: Vec<(&'static str, String)>,
}

impl FileSystem {
    pub(super) fn to_json(&self) -> Value {
        let checks: serde_json::Map<_, _> = self
            .checks
            .iter()
            .map(|(name, result)| ((*name).to_owned(), Value::String(result.clone())))
            .collect();
        json!({
            "type": self.name,
            "trusted": self.trusted,
            "verdict": self.verdict,
            "checks": checks,
        })
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("file system  {}: {}", self.name, self.verdict)];
        lines.extend(self.checks.iter().map(|(name, result)| format!("  {name:<10} {result}")));
        lines
    }
}

/// Tries everything that the guarantees rest on.
pub(super) fn run(dir: &Path) -> FileSystem {
    let fs = disk();
    let name = type_of(dir).unwrap_or_else(|| "unknown".to_owned());
    let (mut trusted, mut verdict) = match fs.trust(dir) {
        Ok(Trust::Yes) => (true, "trusted".to_owned()),
        Ok(Trust::Probe) => (true, "not known; its lock passed the self-test".to_owned()),
        Ok(Trust::No(name)) => {
            let why = format!("NOT trusted: {name} does not keep locks between machines");
            (false, format!("{why}; keep data on a local file system, or use --allow-network"))
        }
        Err(err) => (false, format!("NOT trusted: {err}")),
    };
    let checks = match Place::new(&fs, dir) {
        Ok(place) => place.checks(),
        Err(why) => vec![("probe", why)],
    };
    let lock_fails = |(name, result): &(&str, String)| *name == "lock" && result != "ok";
    if trusted && checks.iter().any(lock_fails) {
        trusted = false;
        "NOT trusted: its lock failed the self-test".clone_into(&mut verdict);
    }
    FileSystem { name, trusted, verdict, checks }
}

/// A directory of our own, removed at the end with what we put into it.
struct Place {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
}

impl Drop for Place {
    fn drop(&mut self) {
        for name in ["one", "two", "three"] {
            let _ = self.fs.remove(&self.dir.join(name));
        }
        let _ = std::fs::remove_dir(&self.dir);
    }
}

impl Place {
    fn new(fs: &Arc<dyn Fs>, parent: &Path) -> Result<Self, String> {
        let dir = parent.join(format!(".tenure-probe-{}", std::process::id()));
        fs.create_dir(&dir, 0o700).map_err(|err| format!("not possible: {err}"))?;
        Ok(Self { fs: fs.clone(), dir })
    }

    fn checks(&self) -> Vec<(&'static str, String)> {
        let text = |result: std::io::Result<()>| match result {
            Ok(()) => "ok".to_owned(),
            Err(err) => err.to_string(),
        };
        vec![
            ("lock", text(self.lock())),
            ("rename", text(self.rename())),
            ("exchange", text(self.exchange())),
            ("sync", text(self.sync())),
        ]
    }

    fn lock(&self) -> std::io::Result<()> {
        let open = || self.fs.open(&self.dir.join("one"), Access::Create(0o600));
        let (one, two) = (open()?, open()?);
        if !one.try_lock(Mode::Exclusive)? || two.try_lock(Mode::Exclusive)? {
            return Err(std::io::Error::other("it gives one lock to two holders"));
        }
        Ok(())
    }

    fn rename(&self) -> std::io::Result<()> {
        let (two, three) = (self.dir.join("two"), self.dir.join("three"));
        for path in [&two, &three] {
            self.fs.open(path, Access::Create(0o600))?;
        }
        self.fs.rename(&two, &three)?;
        self.fs.open(&two, Access::Create(0o600))?;
        match self.fs.rename_new(&two, &three) {
            Err(err) if err.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            Err(err) => Err(err),
            Ok(()) => Err(std::io::Error::other("it replaced a file that it must not replace")),
        }
    }

    fn exchange(&self) -> std::io::Result<()> {
        let (two, three) = (self.dir.join("two"), self.dir.join("three"));
        for path in [&two, &three] {
            self.fs.open(path, Access::Create(0o600))?;
        }
        match self.fs.exchange(&two, &three) {
            Err(err) if err.kind() == std::io::ErrorKind::Unsupported => {
                Err(std::io::Error::other("not supported; tenure works without it"))
            }
            done => done,
        }
    }

    fn sync(&self) -> std::io::Result<()> {
        let file = self.fs.open(&self.dir.join("one"), Access::Create(0o600))?;
        file.write_all_at(b"probe", 0)?;
        file.sync()?;
        self.fs.sync_dir(&self.dir)
    }
}

/// The type of the file system that is mounted nearest above `dir`, on Linux.
fn type_of(dir: &Path) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mut best: Option<(usize, String)> = None;
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(point), Some(name)) = (fields.next(), fields.next()) else { continue };
        let point = point.replace("\\040", " ");
        if dir.starts_with(&point) && best.as_ref().is_none_or(|(len, _)| point.len() >= *len) {
            best = Some((point.len(), name.to_owned()));
        }
    }
    best.map(|(_, name)| name)
}
