//! Other tools append to the journal, beside appenders, followers and rotation through tenure.
//!
//! The other tools do what `>>` does: open with `O_APPEND`, one `write` for a whole line, close.
//! Their lines are about 3 KB, so they cross page boundaries. Every complete line must reach every
//! follower once, as one entry, under a final number; so must every acknowledged batch. The
//! processes that use tenure are killed.
//!
//! # Invariants
//!
//! 1. At most one rotation happens while another tool has the file open: a line that arrives even
//!    later is outside the guarantee. So the rotator waits until each tool has closed the file that
//!    it had open at the previous rotation.
//! 2. The other tools are not killed: an unterminated line would be their own fault.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use tenure::options::Durability;
use tenure::{AppendOptions, Journal, Wait, WriteOptions};

use super::entries::{Given, Id, Promised, agree, foreign_line};
use super::player::{Ended, PATIENCE, Player, bad, end_with_parent, found, say};
use super::{Round, number, other, path};
use crate::demo::Dice;
use crate::torture::content;
use crate::torture::finding::Fault;
use crate::torture::memory::Memory;

const WRITERS: usize = 3;
const APPENDERS: usize = 2;
const FOLLOWERS: usize = 2;
/// Processes of a round at a time: these, and the rotator.
pub(super) const PLAYERS: usize = WRITERS + APPENDERS + FOLLOWERS + 1;
/// Lines of each of the other tools in a round.
const LINES: u64 = 120;
/// The place of the rotator, which appends as well.
const ROTATOR: usize = APPENDERS;
/// The place of the last appender, after all others.
const CLOSER: usize = APPENDERS + 1;
/// The marker of a tool that is done.
const DONE: u64 = u64::MAX;
/// The shortest time between rotations.
const APART: Duration = Duration::from_millis(15);
/// A follower that has seen the last batch ends when no line comes for this long.
const QUIET: Duration = Duration::from_millis(300);

fn journal_of(dir: &Path) -> PathBuf {
    dir.join("j.jsonl")
}

fn memory_of(dir: &Path) -> PathBuf {
    dir.join("closed.memory")
}

fn pause(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    {
        std::thread::park_timeout(left);
    }
}

fn options(durable: bool) -> WriteOptions {
    let durability = if durable { Durability::Durable } else { Durability::NoSync };
    WriteOptions { wait: Wait::Forever, durability, ..WriteOptions::default() }
}

/// Appends a batch and reports the number of its first line.
pub(super) fn append_batch(
    journal: &Journal,
    slot: usize,
    batch: u64,
    lines: u64,
    durable: bool,
) -> tenure::Result<()> {
    let options = AppendOptions { write: options(durable), ..AppendOptions::default() };
    let done = journal.append(&content::batch(slot, batch, lines, 0), &options)?;
    // If the parent is gone, the acknowledgement was not received and does not count.
    let _ = say(&format!("a {slot} {batch} {} {lines}", done.first));
    Ok(())
}

/// The other tool: `DIRECTORY WRITER LINES SEED`.
pub(super) fn write(words: &[&str]) -> io::Result<()> {
    let (dir, writer, lines) = (path(words, 0)?, number(words, 1)?, number(words, 2)?);
    let mut dice = Dice::new(number(words, 3)?);
    let place = usize::try_from(writer).map_err(other)?;
    let closed = Memory::open(&memory_of(dir))?.word(place);
    end_with_parent()?;
    let mut next = 0;
    while next < lines {
        let mut file = OpenOptions::new().create(true).append(true).open(journal_of(dir))?;
        // One tool opens the file for each line; the others keep it open for several, or wait a
        // little first.
        let together = if writer == 1 { dice.between(1, 6) } else { 1 };
        let end = (next + together).min(lines);
        while next < end {
            if writer == 2 {
                pause(Duration::from_micros(dice.between(0, 3000)));
            }
            let text = format!("{}\n", foreign_line(writer, next));
            let written = file.write(text.as_bytes())?;
            say(&format!("{} {writer} {next}", if written == text.len() { "w" } else { "short" }))?;
            next += 1;
            pause(Duration::from_micros(dice.between(0, 1500)));
        }
        drop(file);
        closed.fetch_add(1, SeqCst);
    }
    closed.store(DONE, SeqCst);
    Ok(())
}

/// Appends through tenure: `DIRECTORY SLOT GENERATION COUNT SEED`; without a count, until it is killed.
pub(super) fn append(words: &[&str]) -> io::Result<()> {
    let (dir, slot) = (path(words, 0)?, usize::try_from(number(words, 1)?).map_err(other)?);
    let (generation, count) = (number(words, 2)?, number(words, 3)?);
    let mut dice = Dice::new(number(words, 4)?);
    end_with_parent()?;
    let journal = Journal::open(journal_of(dir)).map_err(other)?;
    for turn in 0.. {
        if count > 0 && turn == count {
            break;
        }
        let (lines, durable) = (dice.between(1, 4), dice.between(0, 20) == 0);
        append_batch(&journal, slot, (generation << 32) + turn, lines, durable).map_err(other)?;
        pause(Duration::from_micros(dice.between(0, 2000)));
    }
    Ok(())
}

/// Rotates: `DIRECTORY GENERATION`, until it is killed.
pub(super) fn rotate(words: &[&str]) -> io::Result<()> {
    let (dir, generation) = (path(words, 0)?, number(words, 1)?);
    let memory = Memory::open(&memory_of(dir))?;
    end_with_parent()?;
    let journal = Journal::open(journal_of(dir)).map_err(other)?;
    // It finishes a rotation in which its predecessor was killed.
    append_batch(&journal, ROTATOR, generation << 32, 1, false).map_err(other)?;
    loop {
        let closed = |place: usize| memory.word(place).load(SeqCst);
        let before: Vec<_> = (0..WRITERS).map(closed).collect();
        pause(APART);
        while (0..WRITERS).any(|place| closed(place) != DONE && closed(place) == before[place]) {
            pause(Duration::from_millis(1));
        }
        journal.rotate(&options(false)).map_err(other)?;
    }
}

/// Follows: `DIRECTORY FROM`, until the last batch has come and no more lines follow.
pub(super) fn follow(words: &[&str]) -> io::Result<()> {
    let (dir, from) = (path(words, 0)?, number(words, 1)?);
    end_with_parent()?;
    let mut follow = Journal::open(journal_of(dir)).and_then(|journal| journal.follow(from));
    let follow = follow.as_mut().map_err(other)?;
    let mut wait = Wait::For(Duration::from_secs(1));
    loop {
        let Some(entry) = follow.next(wait).map_err(other)? else {
            if wait == Wait::For(QUIET) {
                return Ok(());
            }
            continue;
        };
        let id = Id::of(&entry.line);
        say(&format!("e {} {id}", entry.seq))?;
        if matches!(id, Id::Ours { slot: CLOSER, .. }) {
            wait = Wait::For(QUIET);
        }
    }
}

/// Reads a journal from its first entry on, and verifies it: `JOURNAL`.
pub(super) fn read(words: &[&str]) -> io::Result<()> {
    let journal = Journal::open(path(words, 0)?).map_err(other)?;
    for entry in journal.read(1, None).map_err(other)? {
        let entry = entry.map_err(other)?;
        say(&format!("e {} {}", entry.seq, Id::of(&entry.line)))?;
    }
    let report = journal.verify().map_err(other)?;
    if !report.is_sound() {
        bad(Fault::Corrupt, &format!("verify: {:?}", report.damaged))?;
    }
    Ok(())
}

/// What players have reported.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) promised: Promised,
    pub(super) findings: Vec<(Fault, String)>,
    pub(super) operations: u64,
}

impl Told {
    /// Records the reports of a player; returns the entries that it got.
    pub(super) fn hear(&mut self, lines: &[String]) -> Given {
        let mut given = Vec::new();
        for line in lines {
            self.findings.extend(found(line));
            let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
            if verb == "e" {
                let entry = rest
                    .split_once(' ')
                    .and_then(|(number, id)| Some((number.parse().ok()?, Id::parse(id)?)));
                given.extend(entry);
                continue;
            }
            let numbers: Vec<u64> = rest.split(' ').filter_map(|word| word.parse().ok()).collect();
            match (verb, numbers.as_slice()) {
                ("a", &[slot, batch, first, lines]) => {
                    let slot = usize::try_from(slot).unwrap_or(usize::MAX);
                    self.promised.batches.insert((slot, batch), (first, lines));
                }
                ("w", &[writer, number]) => self.promised.foreign.push((writer, number)),
                _ => continue,
            }
            self.operations += 1;
        }
        given
    }

    /// The same for a player that has ended.
    pub(super) fn hear_end(&mut self, ended: Ended) -> Given {
        self.findings.extend(ended.finding);
        self.hear(&ended.lines)
    }

    /// The result of the round.
    pub(super) fn into_round(self, kills: u64) -> Round {
        let Self { findings, operations, .. } = self;
        Round { operations, kills, findings, not_run: None }
    }
}

/// One round.
pub(super) fn round(dir: &Path, seed: u64) -> io::Result<Round> {
    Memory::create(&memory_of(dir))?;
    let mut scene =
        Scene { dir, dice: Dice::new(seed), generation: 0, kills: 0, told: Told::default() };
    let first = scene.appender(CLOSER + 1, 1)?;
    scene.told.hear_end(first.wait(PATIENCE)?);
    scene.play()?;
    Ok(scene.told.into_round(scene.kills))
}

struct Scene<'a> {
    dir: &'a Path,
    dice: Dice,
    generation: u64,
    kills: u64,
    told: Told,
}

impl Scene<'_> {
    fn start(&self, role: &'static str, words: &[u64]) -> io::Result<Player> {
        let mut all = vec![self.dir.to_string_lossy().into_owned()];
        all.extend(words.iter().map(u64::to_string));
        Player::start(role, self.dir, &all)
    }

    fn appender(&mut self, slot: usize, count: u64) -> io::Result<Player> {
        self.generation += 1;
        let seed = self.dice.roll();
        self.start("appender", &[slot as u64, self.generation, count, seed])
    }

    fn rotator(&mut self) -> io::Result<Player> {
        self.generation += 1;
        self.start("rotator", &[self.generation])
    }

    fn follower(&self, given: &Given) -> io::Result<Player> {
        let from = given.last().map_or(1, |(number, _)| number + 1);
        self.start("follower", &[from])
    }

    fn play(&mut self) -> io::Result<()> {
        let mut writers = Vec::new();
        for writer in 0..WRITERS as u64 {
            let seed = self.dice.roll();
            writers.push(self.start("writer", &[writer, LINES, seed])?);
        }
        let mut appenders = Vec::new();
        for slot in 0..APPENDERS {
            appenders.push(self.appender(slot, 0)?);
        }
        let mut rotator = Some(self.rotator()?);
        let mut followers: Vec<(Player, Given)> = Vec::new();
        for _ in 0..FOLLOWERS {
            followers.push((self.follower(&Vec::new())?, Vec::new()));
        }
        let begun = Instant::now();
        let all = LINES * WRITERS as u64;
        while writers.iter().map(Player::said).sum::<usize>() < usize::try_from(all).unwrap_or(0)
            && begun.elapsed() < PATIENCE
        {
            pause(Duration::from_millis(self.dice.between(2, 30)));
            let place = self.dice.between(0, 2);
            let place = usize::try_from(place).unwrap_or(0);
            match self.dice.between(0, 8) {
                0 => {
                    let next = self.appender(place, 0)?;
                    self.end(std::mem::replace(&mut appenders[place], next));
                }
                1 => {
                    // The next one starts when it is dead: it finishes what the dead one had begun.
                    if let Some(player) = rotator.take() {
                        self.end(player);
                    }
                    rotator = Some(self.rotator()?);
                }
                2 => {
                    let (player, mut given) = followers.swap_remove(place);
                    self.kills += 1;
                    given.extend(self.told.hear(&player.kill()));
                    followers.push((self.follower(&given)?, given));
                }
                _ => {}
            }
        }
        for writer in writers {
            let ended = writer.wait(PATIENCE)?;
            self.told.hear_end(ended);
        }
        appenders.into_iter().chain(rotator).for_each(|player| self.end(player));
        let closer = self.appender(CLOSER, 1)?.wait(PATIENCE)?;
        self.told.hear_end(closer);
        self.judge(followers)
    }

    fn end(&mut self, player: Player) {
        self.kills += 1;
        let lines = player.kill();
        self.told.hear(&lines);
    }

    /// The final check: all followers, one more reader, and the plain files.
    fn judge(&mut self, followers: Vec<(Player, Given)>) -> io::Result<()> {
        let journal = journal_of(self.dir);
        let words = [journal.to_string_lossy().into_owned()];
        let reader = Player::start("reader", self.dir, &words)?.wait(PATIENCE)?;
        let read = self.told.hear_end(reader);
        let mut findings = self.told.promised.judge("a reader", &read);
        for (place, (player, mut given)) in followers.into_iter().enumerate() {
            let ended = player.wait(PATIENCE)?;
            given.extend(self.told.hear_end(ended));
            let name = format!("follower {place}");
            findings.extend(self.told.promised.judge(&name, &given));
            findings.extend(agree((&name, &given), ("a reader", &read)));
            self.told.operations += given.len() as u64;
        }
        findings.extend(self.told.promised.judge_plain(&journal));
        self.told.findings.extend(findings);
        Ok(())
    }
}
