//! The naive way: read, change, write, without protection. The judges must find every fault.

#![expect(clippy::disallowed_methods, reason = "what must not be done is the point here")]

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{Answer, Change, Grant, Guard, Hold, Read, Refused, Subject, path_of};

/// Without locks, atomic writes or fences.
#[derive(Debug)]
pub(in super::super) struct Naive;

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

fn now_ms() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Half a file counts as none, as in the programs that this code represents.
fn read(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

impl Subject for Naive {
    /// A file with a process number in it. If it is too old, its owner is not checked.
    fn lock(&self, path: &Path, _shared: bool) -> Answer<Hold> {
        let file = beside(path, ".lock");
        for _ in 0..100 {
            if OpenOptions::new().write(true).create_new(true).open(&file).is_ok() {
                break;
            }
            std::thread::yield_now();
        }
        let fence = fs::read_to_string(&file).unwrap_or_default().trim().parse().unwrap_or(0) + 1;
        fs::write(&file, format!("{fence}"))?;
        Ok(Hold { fence: Some(fence), guard: Guard::Nothing })
    }

    fn acquire(&self, path: &Path, ttl: Duration) -> Answer<Grant> {
        let file = beside(path, ".lease");
        let last = read(&file).unwrap_or_default();
        let fence = last["fence"].as_u64().unwrap_or(0) + 1;
        let until = now_ms() + u64::try_from(ttl.as_millis()).unwrap_or(0);
        fs::write(&file, json!({ "fence": fence, "until": until }).to_string())?;
        Ok(Grant { token: String::new(), fence, ttl })
    }

    fn take_over(&self, path: &Path, ttl: Duration) -> Answer<Grant> {
        self.acquire(path, ttl)
    }

    fn renew(&self, _path: &Path, _grant: &Grant, _ttl: Duration) -> Answer<()> {
        Ok(())
    }

    fn release(&self, _path: &Path, _grant: &Grant) -> Answer<()> {
        Ok(())
    }

    fn update(&self, path: &Path, _durable: bool, change: Change<'_>) -> Answer<()> {
        let value = change(read(path).as_ref());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(fs::write(path, serde_json::to_vec(&value).map_err(io::Error::from)?)?)
    }

    fn read(&self, path: &Path) -> Answer<Option<Read>> {
        Ok(read(path).map(|value| Read { version: value.to_string(), value }))
    }

    fn compare_and_set(&self, path: &Path, version: &str, value: &Value) -> Answer<bool> {
        if read(path) != serde_json::from_str(version).ok() {
            return Ok(false);
        }
        self.update(path, false, &mut |_| value.clone())?;
        Ok(true)
    }

    fn append(
        &self,
        path: &Path,
        lines: &[String],
        _durable: bool,
        _fence: Option<u64>,
    ) -> Answer<Option<u64>> {
        let count = fs::read(path).unwrap_or_default().split(|byte| *byte == b'\n').count();
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        for line in lines {
            file.write_all(line.as_bytes())?;
            file.write_all(b"\n")?;
        }
        Ok(Some(count as u64))
    }

    fn entries(&self, path: &Path, from: u64) -> Answer<Vec<(u64, Vec<u8>)>> {
        let text = fs::read(path).unwrap_or_default();
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let numbered = (1..).zip(lines.map(<[u8]>::to_vec));
        Ok(numbered.filter(|(number, _)| *number >= from).collect())
    }

    fn rotate(&self, _path: &Path) -> Answer<()> {
        Ok(())
    }

    fn compact(&self, _path: &Path) -> Answer<()> {
        Ok(())
    }

    fn remove(&self, dir: &Path, key: &str) -> Answer<()> {
        Ok(fs::remove_file(path_of(dir, key))?)
    }

    fn prune(&self, _dir: &Path) -> Answer<()> {
        Ok(())
    }
}
