//! A journal that cannot be replaced: its name is too long for an archive, it is append-only, or
//! the user may not change its directory.
//!
//! A rotation, compaction or header may be refused there. But it is done or abandoned, and never
//! blocks the journal: every later append works, and everything that was acknowledged stays where
//! it is.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure::{AppendOptions, Journal, Wait, WriteOptions};

use super::foreign::{Told, append_batch};
use super::player::{PATIENCE, Player, bad, end_with_parent, say};
use super::users::{FIRST, become_user, can_be_entered, is_root};
use super::{Round, number, other, path};
use crate::demo::Dice;
use crate::torture::finding::Fault;

/// The obstacle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    /// A name of 254 bytes: the name of an archive would exceed the limit.
    Name,
    /// `chattr +a`: the file can neither be renamed nor removed.
    AppendOnly,
    /// The user may not change the directory.
    Directory,
}

impl Obstacle {
    const ALL: [Self; 3] = [Self::Name, Self::AppendOnly, Self::Directory];

    fn journal(self, dir: &Path) -> PathBuf {
        match self {
            Self::Name => dir.join("n".repeat(254)),
            Self::AppendOnly | Self::Directory => dir.join("j.jsonl"),
        }
    }

    /// Sets up the obstacle, or removes it; returns why it cannot.
    fn put(self, dir: &Path, there: bool) -> Result<(), String> {
        match self {
            Self::Name => Ok(()),
            Self::AppendOnly => append_only(&self.journal(dir), there),
            Self::Directory => {
                let mode = if there { 0o555 } else { 0o755 };
                let set = std::fs::set_permissions(dir, Permissions::from_mode(mode));
                set.map_err(|err| format!("the directory cannot be closed: {err}"))
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn append_only(journal: &Path, there: bool) -> Result<(), String> {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    let set = std::fs::File::open(journal).and_then(|file| {
        let mut flags = ioctl_getflags(&file)?;
        flags.set(IFlags::APPEND, there);
        Ok(ioctl_setflags(&file, flags)?)
    });
    set.map_err(|err| format!("no file can be made append-only here: {err}"))
}

#[cfg(not(target_os = "linux"))]
fn append_only(_: &Path, _: bool) -> Result<(), String> {
    Err("making a file append-only takes Linux".to_owned())
}

/// One round: each obstacle once, in a directory of its own; half of them with a kill on the way.
pub(super) fn round(dir: &Path, seed: u64) -> io::Result<Round> {
    let mut dice = Dice::new(seed);
    let mut all = Round::default();
    for (place, obstacle) in Obstacle::ALL.into_iter().enumerate() {
        let dir = dir.join(place.to_string());
        std::fs::create_dir(&dir)?;
        let round = play(obstacle, &dir, &mut dice);
        // The files must be removable at the end, kept or not.
        let _ = obstacle.put(&dir, false);
        let round = round?;
        all.operations += round.operations;
        all.kills += round.kills;
        all.findings.extend(round.findings);
        all.not_run = all.not_run.or(round.not_run);
    }
    Ok(all)
}

fn play(obstacle: Obstacle, dir: &Path, dice: &mut Dice) -> io::Result<Round> {
    let user = if obstacle == Obstacle::Directory && is_root() {
        if !can_be_entered(dir) {
            return Ok(Round::not_run("a closed directory: other users may not enter this one"));
        }
        std::os::unix::fs::chown(dir, Some(FIRST), Some(FIRST))?;
        FIRST
    } else {
        0
    };
    let mut told = Told::default();
    let mut kills = 0;
    let moment = Duration::from_micros(dice.between(0, 8000));
    let mut start = |generation: u64, phase: &str| {
        let seed = dice.roll();
        let place = Obstacle::ALL.iter().position(|one| *one == obstacle).unwrap_or(0);
        let words = [place as u64, generation, u64::from(user), seed].map(|word| word.to_string());
        let words = [&[dir.to_string_lossy().into_owned()], &words[..], &[phase.to_owned()]];
        Player::start("stuck", dir, &words.concat())
    };
    told.hear_end(start(1, "begin")?.wait(PATIENCE)?);
    if let Err(why) = obstacle.put(dir, true) {
        return Ok(Round::not_run(why));
    }
    let killed = start(2, "work")?;
    std::thread::park_timeout(moment);
    kills += 1;
    told.hear(&killed.kill());
    told.hear_end(start(3, "work")?.wait(PATIENCE)?);
    let journal = obstacle.journal(dir);
    let words = [journal.to_string_lossy().into_owned()];
    let read = told.hear_end(Player::start("reader", dir, &words)?.wait(PATIENCE)?);
    let what = format!("{obstacle:?}");
    let mut findings = told.promised.judge(&what, &read);
    findings.extend(told.promised.judge_plain(&journal));
    told.findings.extend(findings);
    // Without the obstacle everything works again.
    obstacle.put(dir, false).map_err(other)?;
    told.hear_end(start(4, "end")?.wait(PATIENCE)?);
    told.findings.iter_mut().for_each(|(_, detail)| *detail = format!("{what}: {detail}"));
    Ok(told.into_round(kills))
}

/// `DIRECTORY OBSTACLE GENERATION USER SEED PHASE`.
pub(super) fn work(words: &[&str]) -> io::Result<()> {
    let dir = path(words, 0)?;
    let obstacle =
        usize::try_from(number(words, 1)?).ok().and_then(|place| Obstacle::ALL.get(place));
    let obstacle = obstacle.ok_or_else(super::stranger)?;
    let (generation, user) = (number(words, 2)?, number(words, 3)?);
    let mut dice = Dice::new(number(words, 4)?);
    if user > 0 {
        become_user(FIRST, FIRST)?;
    }
    end_with_parent()?;
    let journal = Journal::open(obstacle.journal(dir)).map_err(other)?;
    let mut batch = generation << 32;
    let mut append = || {
        batch += 1;
        append_batch(&journal, 0, batch, 1 + batch % 3, batch % 4 == 0)
    };
    match words.get(5) {
        Some(&"begin") => (0..10).try_for_each(|_| append().map_err(other)),
        Some(&"work") => {
            for _ in 0..3 {
                let (what, done) = replace(&journal, &mut dice);
                // Both outcomes are fine, as long as later appends work.
                let how =
                    done.map_or_else(|err| format!("refused ({err})"), |()| "done".to_owned());
                say(&format!("{what} {how}"))?;
                for _ in 0..3 {
                    if let Err(err) = append() {
                        return bad(
                            Fault::Failed,
                            &format!("an append after {what} was {how}: {err}"),
                        );
                    }
                }
            }
            Ok(())
        }
        _ => {
            append().map_err(other)?;
            if *obstacle != Obstacle::Name {
                journal
                    .rotate(&WriteOptions { wait: Wait::Forever, ..WriteOptions::default() })
                    .map_err(other)?;
            }
            append().map_err(other)
        }
    }
}

/// Tries to rewrite the journal as a new file.
fn replace(journal: &Journal, dice: &mut Dice) -> (&'static str, tenure::Result<()>) {
    let write = WriteOptions { wait: Wait::Forever, ..WriteOptions::default() };
    match dice.between(0, 3) {
        0 => ("rotate", journal.rotate(&write).map(drop)),
        1 => ("compact", journal.compact(&write, |_| true).map(drop)),
        _ => {
            let header = Some(format!("\"header {}\"", dice.roll()).into_bytes());
            let options = AppendOptions { write, header, ..AppendOptions::default() };
            ("header", journal.append(&[""; 0], &options).map(drop))
        }
    }
}
