//! The conditions of a run: machine, file system, sync latency, and the versions of everything.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::time::ClockId;
use serde_json::{Value, json};

use crate::child::{clock, now};
use crate::place::Place;
use crate::round::quantile;
use crate::row::Result;

/// The crates whose versions are reported.
const CRATES: &[&str] = &[
    "tenure",
    "fs4",
    "fd-lock",
    "atomic-write-file",
    "rusqlite",
    "libsqlite3-sys",
    "heed",
    "redb",
    "serde_json",
];

/// How often the sync latency is measured.
const SYNCS: usize = 40;

/// What is the same for all rows of a run.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) date: String,
    pub(crate) file_system: String,
    pub(crate) mount_options: String,
    kernel: String,
    processor: String,
    processors: usize,
    /// Median and 99th percentile of overwriting 4 KiB and syncing them.
    sync_ns: (f64, f64),
    load: String,
    versions: Vec<(String, String)>,
}

/// Determines them.
pub(crate) fn of(place: &Place) -> Result<Settings> {
    let (file_system, mount_options) = mount(place.dir());
    let mut versions: Vec<(String, String)> =
        CRATES.iter().map(|name| ((*name).to_owned(), locked_version(name))).collect();
    versions.push(("SQLite".into(), rusqlite::version().into()));
    let lmdb = heed::lmdb_version();
    versions.push(("LMDB".into(), format!("{}.{}.{}", lmdb.major, lmdb.minor, lmdb.patch)));
    Ok(Settings {
        date: date(clock(ClockId::Realtime) / 1_000_000_000),
        file_system,
        mount_options,
        kernel: first_line("/proc/sys/kernel/osrelease"),
        processor: processor(),
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        sync_ns: sync_latency(place.dir())?,
        load: first_line("/proc/loadavg"),
        versions,
    })
}

impl Settings {
    /// One line for people.
    pub(crate) fn heading(&self) -> String {
        let (median, p99) = self.sync_ns;
        format!(
            "{} ({}), Linux {}, {} x {}; sync of 4 KiB: {:.2} ms, p99 {:.2} ms; load {}",
            self.file_system,
            self.mount_options,
            self.kernel,
            self.processors,
            self.processor,
            median / 1e6,
            p99 / 1e6,
            self.load,
        )
    }

    /// What to say about a machine that is busy with other things.
    #[expect(clippy::cast_precision_loss, reason = "a handful of processors")]
    pub(crate) fn warning(&self) -> Option<String> {
        let load: f64 = self.load.split(' ').next()?.parse().ok()?;
        let busy = load > self.processors as f64 / 2.0;
        busy.then(|| {
            format!("BUSY MACHINE: load {load}; compare ratios of one round, and no times")
        })
    }

    pub(crate) fn json(&self) -> Value {
        let versions: serde_json::Map<String, Value> =
            self.versions.iter().map(|(name, version)| (name.clone(), json!(version))).collect();
        json!({
            "date": self.date,
            "file_system": self.file_system,
            "mount_options": self.mount_options,
            "kernel": self.kernel,
            "processor": self.processor,
            "processors": self.processors,
            "sync_4096_bytes_ns": { "p50": self.sync_ns.0, "p99": self.sync_ns.1 },
            "load_at_start": self.load,
            "versions": versions,
        })
    }

    pub(crate) fn versions(&self) -> String {
        let each = self.versions.iter().map(|(name, version)| format!("{name} {version}"));
        each.collect::<Vec<_>>().join(", ")
    }
}

fn first_line(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    named.map_or("unknown processor", |(_, name)| name).to_owned()
}

/// The file system of a directory and its mount options: the longest mount point above it.
fn mount(dir: &Path) -> (String, String) {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounts = table.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let at = left.split(' ').nth(4)?;
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1)?);
        dir.starts_with(at).then(|| (at.len(), kind.to_owned(), options.to_owned()))
    });
    let longest = mounts.max_by_key(|(length, ..)| *length);
    longest.map_or(("unknown".into(), "unknown".into()), |(_, kind, options)| (kind, options))
}

fn sync_latency(dir: &Path) -> Result<(f64, f64)> {
    let path = dir.join("sync");
    let file = File::create(&path)?;
    file.write_all_at(&[1; 4096], 0)?;
    file.sync_all()?;
    let mut samples = Vec::new();
    for _ in 0..SYNCS {
        let start = now();
        file.write_all_at(&[2; 4096], 0)?;
        file.sync_data()?;
        samples.push(now() - start);
    }
    std::fs::remove_file(path)?;
    samples.sort_unstable();
    Ok((quantile(&samples, 0.5), quantile(&samples, 0.99)))
}

/// The version in this workspace's lock file.
fn locked_version(name: &str) -> String {
    let lock = include_str!("../Cargo.lock");
    let start = format!("name = \"{name}\"\nversion = \"");
    let found = lock.split_once(&start).and_then(|(_, rest)| rest.split('"').next());
    found.unwrap_or("unknown").to_owned()
}

/// The day of a time in seconds since 1970, in UTC (days to civil date, after Howard Hinnant).
fn date(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::{date, locked_version};

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_798_761_599), "2026-12-31");
    }

    #[test]
    fn versions_come_from_the_lock_file() {
        assert_eq!(locked_version("tenure"), env!("CARGO_PKG_VERSION"));
        assert_eq!(locked_version("no-such-crate"), "unknown");
    }
}
