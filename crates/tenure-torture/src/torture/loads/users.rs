//! A second user: a document and a journal of the first, opened to their group with `chmod 660`.
//!
//! The second user's change succeeds and reports success, or it is refused and not done, and the
//! files of the first user are unchanged. After the first user has worked on them again, it
//! succeeds. Then both work at once, killed at random, and nothing is lost.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::process::{Gid, Uid, geteuid};
use tenure::options::Durability;
use tenure::{Document, Journal, Wait, WriteOptions};

use super::foreign::{Told, append_batch};
use super::player::{PATIENCE, Player, bad, end_with_parent, say};
use super::{Round, number, other, path};
use crate::demo::Dice;
use crate::torture::content::Counts;
use crate::torture::finding::Fault;

/// Users that no machine has.
pub(super) const FIRST: u32 = 61_001;
const SECOND: u32 = 61_002;
/// Their group.
const GROUP: u32 = 61_000;
/// Changes of each user while both work.
const CHANGES: u64 = 60;

const DOCUMENT: &str = "doc.json";
const JOURNAL: &str = "j.jsonl";

pub(super) fn is_root() -> bool {
    geteuid().is_root()
}

/// Whether other users can enter this directory.
pub(super) fn can_be_entered(dir: &Path) -> bool {
    dir.ancestors().all(|part| fs::metadata(part).is_ok_and(|found| found.mode() & 0o001 != 0))
}

/// Switches this process to that user; it has only one thread yet.
pub(super) fn become_user(user: u32, group: u32) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    #[cfg(target_os = "linux")]
    {
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(group, group, group)?;
        rustix::thread::set_thread_res_uid(user, user, user)?;
        Ok(())
    }
    #[cfg(not(target_os = "linux"))]
    Err(other(format!("becoming user {user:?} of {group:?} takes Linux")))
}

/// One round.
pub(super) fn round(dir: &Path, seed: u64) -> io::Result<Round> {
    if !cfg!(target_os = "linux") || !is_root() {
        return Ok(Round::not_run("a second user takes root, and Linux"));
    }
    if !can_be_entered(dir) {
        return Ok(Round::not_run("other users may not enter this directory"));
    }
    let shared = dir.join("shared");
    fs::create_dir(&shared)?;
    std::os::unix::fs::chown(&shared, Some(FIRST), Some(GROUP))?;
    fs::set_permissions(&shared, Permissions::from_mode(0o2770))?;
    let mut scene = Scene {
        dir: &shared,
        dice: Dice::new(seed),
        generation: 0,
        told: Told::default(),
        updates: BTreeMap::new(),
        cut: BTreeMap::new(),
        kills: 0,
    };
    scene.play()?;
    Ok(scene.told.into_round(scene.kills))
}

struct Scene<'a> {
    dir: &'a Path,
    dice: Dice,
    generation: u64,
    told: Told,
    /// Acknowledged updates of each user.
    updates: BTreeMap<u32, u64>,
    /// How many of a user's processes were killed, each during at most one update.
    cut: BTreeMap<u32, u64>,
    kills: u64,
}

impl Scene<'_> {
    fn start(&mut self, user: u32, phase: &str, count: u64) -> io::Result<Player> {
        self.generation += 1;
        let mut words = vec![self.dir.to_string_lossy().into_owned(), phase.to_owned()];
        let numbers = [u64::from(user), self.generation, count, self.dice.roll()];
        words.extend(numbers.iter().map(u64::to_string));
        Player::start("user", self.dir, &words)
    }

    fn run(&mut self, user: u32, phase: &str, count: u64) -> io::Result<()> {
        let ended = self.start(user, phase, count)?.wait(PATIENCE)?;
        self.count(user, &ended.lines);
        self.told.hear_end(ended);
        Ok(())
    }

    fn count(&mut self, user: u32, lines: &[String]) {
        let updates = lines.iter().filter(|line| *line == "u").count() as u64;
        *self.updates.entry(user).or_default() += updates;
        self.told.operations += updates;
    }

    fn play(&mut self) -> io::Result<()> {
        self.run(FIRST, "open", 2)?;
        self.run(SECOND, "try", 1)?;
        self.run(FIRST, "work", 2)?;
        self.run(SECOND, "work", 5)?;
        if self.told.findings.is_empty() {
            self.both()?;
        }
        self.judge()
    }

    /// Both at once; now and then one of them is killed and restarted.
    fn both(&mut self) -> io::Result<()> {
        let mut players = Vec::new();
        for user in [FIRST, SECOND] {
            players.push((user, self.start(user, "work", CHANGES)?));
        }
        for _ in 0..4 {
            std::thread::park_timeout(Duration::from_millis(self.dice.between(5, 40)));
            let (user, player) = players.remove(0);
            let lines = player.kill();
            self.kills += 1;
            *self.cut.entry(user).or_default() += 1;
            self.count(user, &lines);
            self.told.hear(&lines);
            players.push((user, self.start(user, "work", CHANGES)?));
        }
        for (user, player) in players {
            let ended = player.wait(PATIENCE)?;
            self.count(user, &ended.lines);
            self.told.hear_end(ended);
        }
        Ok(())
    }

    fn judge(&mut self) -> io::Result<()> {
        let mut findings = Vec::new();
        match Counts::parse_bytes(&fs::read(self.dir.join(DOCUMENT))?) {
            Err(why) => findings.push((Fault::Corrupt, why)),
            Ok(counts) => {
                for user in [FIRST, SECOND] {
                    let counted = counts.by.get(slot(user)).copied().unwrap_or(0);
                    let told = self.updates.get(&user).copied().unwrap_or(0);
                    let most = told + self.cut.get(&user).copied().unwrap_or(0);
                    let detail =
                        format!("user {user}: {told} updates acknowledged, {counted} counted");
                    if counted < told {
                        findings.push((Fault::Lost, detail));
                    } else if counted > most {
                        findings.push((Fault::Twice, detail));
                    }
                }
            }
        }
        for name in [DOCUMENT, JOURNAL] {
            let found = fs::metadata(self.dir.join(name))?;
            if found.mode() & 0o777 != 0o660 || found.gid() != GROUP {
                let (mode, group) = (found.mode() & 0o777, found.gid());
                let detail = format!("{name} has mode {mode:o} and group {group} after all");
                findings.push((Fault::Failed, detail));
            }
        }
        let journal = self.dir.join(JOURNAL);
        let words = [journal.to_string_lossy().into_owned()];
        let reader = Player::start("reader", self.dir, &words)?.wait(PATIENCE)?;
        let read = self.told.hear_end(reader);
        findings.extend(self.told.promised.judge("a reader", &read));
        self.told.findings.extend(findings);
        Ok(())
    }
}

fn slot(user: u32) -> usize {
    usize::from(user == SECOND)
}

/// `DIRECTORY PHASE USER GENERATION COUNT SEED`.
pub(super) fn work(words: &[&str]) -> io::Result<()> {
    let (dir, phase) = (path(words, 0)?, *words.get(1).ok_or_else(super::stranger)?);
    let user = u32::try_from(number(words, 2)?).map_err(other)?;
    let (generation, count) = (number(words, 3)?, number(words, 4)?);
    let mut dice = Dice::new(number(words, 5)?);
    become_user(user, GROUP)?;
    end_with_parent()?;
    let document = Document::open(dir.join(DOCUMENT)).map_err(other)?;
    let journal = Journal::open(dir.join(JOURNAL)).map_err(other)?;
    for turn in 0..count {
        let durable = dice.between(0, 4) == 0;
        let done = update(&document, slot(user), durable);
        report(phase, "update", done, || say("u"))?;
        let batch = (generation << 32) + turn;
        let done = append_batch(&journal, slot(user), batch, dice.between(1, 4), durable);
        report(phase, "append", done, || Ok(()))?;
    }
    if phase == "open" {
        for name in [DOCUMENT, JOURNAL] {
            fs::set_permissions(dir.join(name), Permissions::from_mode(0o660))?;
        }
    }
    Ok(())
}

fn update(document: &Document, slot: usize, durable: bool) -> tenure::Result<()> {
    let durability = if durable { Durability::Durable } else { Durability::NoSync };
    let options = WriteOptions { wait: Wait::Forever, durability, ..WriteOptions::default() };
    let change = |current: Option<&tenure::Value>| {
        let parse = |value: &tenure::Value| Counts::parse_bytes(value.to_string().as_bytes());
        let counts = current.map_or_else(|| Ok(Counts::default()), parse);
        let mut counts = counts.unwrap_or_default();
        counts.add(slot);
        Ok(Some(counts.to_value().into()))
    };
    document.update(&options, change).map(drop)
}

/// A user that tries may be refused, if nothing was done then. A user that works may not.
fn report(
    phase: &str,
    what: &str,
    done: tenure::Result<()>,
    promised: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let Err(error) = done else { return promised() };
    let committed = error.is_committed() == Some(true);
    if phase == "try" && !committed {
        return say(&format!("refused {what}: {error}"));
    }
    let how = if committed { "is committed, and ended with" } else { "failed:" };
    bad(Fault::Failed, &format!("the {what} of a user who may write the file {how} {error}"))
}
