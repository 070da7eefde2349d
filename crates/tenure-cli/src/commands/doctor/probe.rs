//! What the file system of a directory supports, tested in a directory of its own.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure::disk;
use tenure::fs::{Access, Fs, Trust};
use tenure::json::Object;
use tenure::options::Mode;
use tenure::{Value, json};

/// What was found.
#[derive(Debug)]
pub(super) struct FileSystem {
    name: String,
    /// Whether tenure works here with its default options, as far as that was tested.
    pub(super) trusted: bool,
    verdict: String,
    checks: Vec<(&'static str, Check)>,
}

/// The result of one test.
#[derive(Debug)]
enum Check {
    /// It does what the guarantees need.
    Fine,
    /// It is not supported, and tenure works without it.
    Spared(&'static str),
    /// It does something else.
    Broken(&'static str),
    /// It could not be tested, so nothing is known.
    Untried(Arc<tenure::Error>),
}

impl Check {
    fn text(&self) -> String {
        match self {
            Self::Fine => "ok".to_owned(),
            Self::Spared(why) | Self::Broken(why) => (*why).to_owned(),
            Self::Untried(error) => {
                let why = error.io_error().map(ToString::to_string).unwrap_or_default();
                format!("could not be tested: {why}")
            }
        }
    }
}

impl FileSystem {
    pub(super) fn to_json(&self) -> Value {
        let checks: Object =
            self.checks.iter().map(|(name, check)| (name, Value::String(check.text()))).collect();
        json!({
            "type": self.name,
            "trusted": self.trusted,
            "probed": self.is_probed(),
            "verdict": self.verdict,
            "checks": checks,
        })
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("file system  {}: {}", self.name, self.verdict)];
        lines.extend(
            self.checks.iter().map(|(name, check)| format!("  {name:<10} {}", check.text())),
        );
        lines
    }

    /// What to do if something could not be tested.
    pub(super) fn next_step(&self) -> Option<&str> {
        self.checks.iter().find_map(|(_, check)| match check {
            Check::Untried(error) => error.next_step(),
            _ => None,
        })
    }

    /// Whether everything was tested.
    pub(super) fn is_probed(&self) -> bool {
        !self.checks.iter().any(|(_, check)| matches!(check, Check::Untried(_)))
    }
}

/// Tests everything that the guarantees depend on.
pub(super) fn run(dir: &Path) -> FileSystem {
    let fs = disk();
    let name = type_of(dir).unwrap_or_else(|| "unknown".to_owned());
    let checks = match Place::new(&fs, dir) {
        Ok(place) => place.checks(),
        Err(err) => {
            let error = Arc::new(untried(dir, err));
            let untried = |name| (name, Check::Untried(Arc::clone(&error)));
            ["lock", "rename", "exchange", "sync"].map(untried).into()
        }
    };
    let mut found = FileSystem { name, trusted: true, verdict: String::new(), checks };
    let broken = found.checks.iter().find(|(_, check)| matches!(check, Check::Broken(_)));
    (found.trusted, found.verdict) = match (fs.trust(dir), broken) {
        (Ok(Trust::No(name)), _) => {
            let why = format!("NOT trusted: {name} does not keep locks between machines");
            (false, format!("{why}; keep data on a local file system, or use --allow-network"))
        }
        (Err(err), _) => (false, format!("NOT trusted: {err}")),
        (Ok(_), Some((name, _))) => {
            (false, format!("NOT trusted: its {name} failed the self-test"))
        }
        (Ok(Trust::Yes | Trust::Unordered), None) if !found.is_probed() => {
            (true, "a trusted file system, but the self-test could not run here".to_owned())
        }
        (Ok(Trust::Probe), None) if !found.is_probed() => {
            (false, "NOT trusted: unknown file system, and the self-test could not run".to_owned())
        }
        (Ok(Trust::Yes | Trust::Unordered), None) => (true, "trusted".to_owned()),
        (Ok(Trust::Probe), None) => {
            (true, "unknown file system; its lock passed the self-test".to_owned())
        }
    };
    found
}

fn untried(dir: &Path, err: io::Error) -> tenure::Error {
    tenure::Error::io("try out", dir, err)
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
    fn new(fs: &Arc<dyn Fs>, parent: &Path) -> io::Result<Self> {
        // Not by process number: a container reuses it, and a doctor that was killed left its own.
        let number = RandomState::new().build_hasher().finish();
        let dir = parent.join(format!(".tenure-probe-{number:016x}"));
        fs.create_dir(&dir, 0o700)?;
        Ok(Self { fs: fs.clone(), dir })
    }

    fn checks(&self) -> Vec<(&'static str, Check)> {
        let check = |tried: io::Result<Check>| {
            tried.unwrap_or_else(|err| match err.kind() {
                io::ErrorKind::Unsupported => Check::Broken("it has none"),
                _ => Check::Untried(Arc::new(untried(&self.dir, err))),
            })
        };
        vec![
            ("lock", check(self.lock())),
            ("rename", check(self.rename())),
            ("exchange", check(self.exchange())),
            ("sync", check(self.sync())),
        ]
    }

    fn lock(&self) -> io::Result<Check> {
        let open = || self.fs.open(&self.dir.join("one"), Access::Create(0o600));
        let (one, two) = (open()?, open()?);
        if !one.try_lock(Mode::Exclusive)? || two.try_lock(Mode::Exclusive)? {
            return Ok(Check::Broken("it gives one lock to two holders, or to none"));
        }
        Ok(Check::Fine)
    }

    fn rename(&self) -> io::Result<Check> {
        let (two, three) = (self.dir.join("two"), self.dir.join("three"));
        for path in [&two, &three] {
            self.fs.open(path, Access::Create(0o600))?;
        }
        self.fs.rename(&two, &three)?;
        self.fs.open(&two, Access::Create(0o600))?;
        match self.fs.rename_new(&two, &three) {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(Check::Fine),
            Err(err) => Err(err),
            Ok(()) => Ok(Check::Broken("it replaced a file that it must not replace")),
        }
    }

    fn exchange(&self) -> io::Result<Check> {
        let (two, three) = (self.dir.join("two"), self.dir.join("three"));
        for path in [&two, &three] {
            self.fs.open(path, Access::Create(0o600))?;
        }
        match self.fs.exchange(&two, &three) {
            Err(err) if err.kind() == io::ErrorKind::Unsupported => {
                Ok(Check::Spared("not supported; tenure works without it"))
            }
            done => done.map(|()| Check::Fine),
        }
    }

    fn sync(&self) -> io::Result<Check> {
        let file = self.fs.open(&self.dir.join("one"), Access::Create(0o600))?;
        file.write_all_at(b"probe", 0)?;
        file.sync()?;
        self.fs.sync_dir(&self.dir)?;
        Ok(Check::Fine)
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
