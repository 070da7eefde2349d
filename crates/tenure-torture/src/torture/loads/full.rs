//! A full disk: a rotation, compaction or header that fails for lack of space frees the space it
//! used.
//!
//! It works in a small file system of its own, which only its process sees. After the failure as
//! much space is free as before; the next append and the next document fit into it; and everything
//! that was acknowledged is still there.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::UnshareFlags;
use serde_json::json;
use tenure::{AppendOptions, Document, Journal, Wait, WriteOptions};

use super::entries::{Id, Promised};
use super::player::{PATIENCE, Player, bad, end_with_parent, say};
use super::users::is_root;
use super::{Round, number, other, path};
use crate::demo::Dice;
use crate::torture::content;
use crate::torture::finding::Fault;

/// How large the disk is.
const SIZE: u64 = 1024 * 1024;
/// The length of the journal: a second one does not fit.
const LONG: u64 = 300 * 1024;
/// Small files of tenure's own may have grown by this much.
const SLACK: u64 = 16 * 1024;
/// An append and a small document fit into this.
const ROOM: u64 = 64 * 1024;
/// Nothing fits into this.
const TIGHT: u64 = 12 * 1024;

/// One round.
pub(super) fn round(dir: &Path, seed: u64) -> io::Result<Round> {
    if !is_root() {
        return Ok(Round::not_run("a small disk takes root"));
    }
    let words = [dir.to_string_lossy().into_owned(), seed.to_string()];
    let ended = Player::start("full", dir, &words)?.wait(PATIENCE)?;
    let mut round = Round::default();
    for line in &ended.lines {
        if let Some((fault, detail)) = super::player::found(line) {
            round.found(fault, detail);
        } else if line.starts_with("a ") {
            round.operations += 1;
        }
    }
    round.findings.extend(ended.finding);
    Ok(round)
}

/// `DIRECTORY SEED`.
pub(super) fn work(words: &[&str]) -> io::Result<()> {
    let (dir, mut dice) = (path(words, 0)?, Dice::new(number(words, 1)?));
    #[expect(unsafe_code, reason = "there is no safe form of this call")]
    // SAFETY: only the view of mounts is unshared; descriptors stay shared.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let options = CString::new(format!("size={SIZE}")).map_err(other)?;
    mount("none", dir, "tmpfs", MountFlags::empty(), &*options)?;
    end_with_parent()?;
    let mut disk = Disk { dir: dir.to_path_buf(), promised: Promised::default(), batch: 0 };
    let journal = Journal::open(disk.journal()).map_err(other)?;
    disk.fill_journal(&journal)?;
    for what in ["compact", "rotate", "header"] {
        for room in [dice.between(0, TIGHT), ROOM + dice.between(0, ROOM)] {
            disk.fill(room)?;
            disk.replace(&journal, what)?;
            fs::remove_file(disk.filler())?;
            disk.must_append(&journal, "with room again")?;
        }
    }
    disk.judge(&journal)
}

struct Disk {
    dir: PathBuf,
    promised: Promised,
    batch: u64,
}

impl Disk {
    fn journal(&self) -> PathBuf {
        self.dir.join("j.jsonl")
    }

    fn filler(&self) -> PathBuf {
        self.dir.join("filler")
    }

    fn free(&self) -> io::Result<u64> {
        let found = rustix::fs::statvfs(&self.dir)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Fills the disk and leaves this much space.
    fn fill(&self, room: u64) -> io::Result<()> {
        let length = self.free()?.saturating_sub(room);
        let mut file = File::create(self.filler())?;
        file.write_all(&vec![0; usize::try_from(length).map_err(other)?])
    }

    fn append(&mut self, journal: &Journal, lines: u64) -> tenure::Result<()> {
        self.batch += 1;
        let options = AppendOptions { write: options(), ..AppendOptions::default() };
        let first = journal.append(&content::batch(0, self.batch, lines, 0), &options)?.first;
        let _ = say(&format!("a {first}"));
        self.promised.batches.insert((0, self.batch), (first, lines));
        Ok(())
    }

    fn fill_journal(&mut self, journal: &Journal) -> io::Result<()> {
        while fs::metadata(self.journal()).map_or(0, |found| found.len()) < LONG {
            self.append(journal, 400).map_err(other)?;
        }
        Ok(())
    }

    fn must_append(&mut self, journal: &Journal, when: &str) -> io::Result<()> {
        match self.append(journal, 1) {
            Ok(()) => Ok(()),
            Err(error) => bad(Fault::Failed, &format!("an append {when}: {error}")),
        }
    }

    /// Tries to rewrite the journal where there is no space for a new file.
    fn replace(&mut self, journal: &Journal, what: &str) -> io::Result<()> {
        let before = self.free()?;
        let done = match what {
            "compact" => journal.compact(&options(), |_| true).map(drop),
            "rotate" => journal.rotate(&options()).map(drop),
            _ => {
                let header = Some(format!("\"header {}\"", self.batch).into_bytes());
                let options =
                    AppendOptions { write: options(), header, ..AppendOptions::default() };
                journal.append(&[""; 0], &options).map(drop)
            }
        };
        let Err(error) = done else { return say(&format!("{what} was done")) };
        let after = self.free()?;
        if after + SLACK < before {
            let left = self.names()?;
            let detail =
                format!("{what} failed ({error}) and keeps {} bytes: {left}", before - after);
            bad(Fault::LeftOver, &detail)?;
        }
        if before < ROOM {
            return Ok(());
        }
        self.must_append(journal, &format!("after {what} failed, {after} bytes free"))?;
        let document = Document::open(self.dir.join("doc.json")).map_err(other)?;
        if let Err(error) = document.set(&json!({ "n": self.batch }), &options()) {
            let detail = format!("a document after {what} failed, {after} bytes free: {error}");
            bad(Fault::Failed, &detail)?;
        }
        Ok(())
    }

    /// Tenure's own files, and their lengths.
    fn names(&self) -> io::Result<String> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.dir.join(".tenure"))? {
            let entry = entry?;
            let length = entry.metadata()?.len();
            names.push(format!("{} ({length})", entry.file_name().to_string_lossy()));
        }
        names.sort_unstable();
        Ok(names.join(", "))
    }

    fn judge(&self, journal: &Journal) -> io::Result<()> {
        let mut given = Vec::new();
        for entry in journal.read(1, None).map_err(other)? {
            let entry = entry.map_err(other)?;
            given.push((entry.seq, Id::of(&entry.line)));
        }
        let mut faults = self.promised.judge("a reader", &given);
        faults.extend(self.promised.judge_plain(&self.journal()));
        let report = journal.verify().map_err(other)?;
        if !report.is_sound() {
            faults.push((Fault::Corrupt, format!("verify: {:?}", report.damaged)));
        }
        faults.iter().try_for_each(|(fault, detail)| bad(*fault, detail))
    }
}

fn options() -> WriteOptions {
    WriteOptions { wait: Wait::Forever, ..WriteOptions::default() }
}
