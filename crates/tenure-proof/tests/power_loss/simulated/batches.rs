//! The batches of a simulated journal: what was attempted, and what must be there.

use tenure::outcome::Entry;
use tenure_proof::Tally;
use tenure_testkit::Random;

/// A batch that a call attempted to append.
#[derive(Debug, Clone)]
pub(crate) struct Tried {
    pub(crate) id: u64,
    lines: u64,
    pad: usize,
    /// Its own append was a durable one.
    synced: bool,
    /// It must survive a power loss: it was synced, or a later batch was synced before the power
    /// loss.
    durable: bool,
    /// It has an operation id.
    once: bool,
    /// The first number, once acknowledged.
    pub(crate) acked: Option<u64>,
    dropped: Dropped,
}

/// Whether a compaction leaves a batch out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dropped {
    No,
    /// It may be gone as a whole.
    Tried,
    /// It was acknowledged: the batch stays removed.
    Done,
    /// Another tool has cut the journal: any part of it may be gone.
    Cut,
}

/// All of them, in the order of the attempts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batches {
    tried: Vec<Tried>,
    next_id: u64,
    /// Lines of a batch may be there once more. Another tool wrote where it was expected, and then
    /// a power loss removed its beginning: the rest cannot be distinguished from lines of other
    /// tools (a limit).
    leftovers: bool,
}

impl Batches {
    /// For a journal that another tool appends to, too.
    pub(crate) fn may_leave_lines(&mut self) {
        self.leftovers = true;
    }

    /// A new batch.
    pub(crate) fn begin(&mut self, lines: u64, pad: usize, durable: bool) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let (once, acked, dropped) = (false, None, Dropped::No);
        let synced = durable;
        self.tried.push(Tried { id, lines, pad, synced, durable, once, acked, dropped });
        id
    }

    /// A new batch with an operation id.
    pub(crate) fn begin_once(&mut self, lines: u64, pad: usize, durable: bool) -> u64 {
        let id = self.begin(lines, pad, durable);
        if let Some(tried) = self.tried.last_mut() {
            tried.once = true;
        }
        id
    }

    /// The operation that is repeated now, if any: a caller that got no answer asks again.
    pub(crate) fn to_repeat(&self, random: &mut Random) -> Option<&Tried> {
        let once: Vec<&Tried> = self.tried.iter().filter(|tried| tried.once).collect();
        if let Some(open) = once.iter().find(|tried| tried.acked.is_none()) {
            return Some(open);
        }
        // A repetition returns where the entries were, whether or not they are still there.
        let again = random.coin() && !once.is_empty();
        again.then(|| once[random.index(once.len())])
    }

    pub(crate) fn lines_of(&self, id: u64) -> Vec<String> {
        let Some(Tried { lines, pad, .. }) = self.tried.iter().find(|tried| tried.id == id) else {
            return Vec::new();
        };
        (0..*lines).map(|at| format!("B {id} {at} {lines} {}", "x".repeat(*pad))).collect()
    }

    fn pad_of(&self, id: u64) -> Option<usize> {
        self.tried.iter().find(|tried| tried.id == id).map(|tried| tried.pad)
    }

    pub(crate) fn acknowledge(&mut self, id: u64, first: u64) {
        if let Some(tried) = self.tried.iter_mut().find(|tried| tried.id == id) {
            tried.acked = Some(first);
        }
    }

    /// A durable call returned that the batch is there, whichever process had appended it and how.
    pub(crate) fn acknowledge_durably(&mut self, id: u64, first: u64) {
        for tried in self.tried.iter_mut().filter(|tried| tried.id == id) {
            (tried.acked, tried.synced, tried.durable) = (Some(first), true, true);
        }
    }

    /// It is attempted once more. A batch without an answer is from now on at most as durable as
    /// this call: the leftovers of the call before may not be synced.
    pub(crate) fn begin_again(&mut self, id: u64, durable: bool) {
        let open = |tried: &&mut Tried| tried.id == id && tried.acked.is_none();
        for tried in self.tried.iter_mut().filter(open) {
            tried.durable &= durable;
        }
    }

    /// A batch without an answer need not survive a power loss.
    pub(crate) fn doubt(&mut self) {
        for tried in &mut self.tried {
            tried.durable &= tried.acked.is_some();
        }
    }

    /// Some batch is left out from now on: its id and its lines.
    pub(crate) fn begin_drop(&mut self, random: &mut Random) -> Option<(u64, u64)> {
        let there = |tried: &&mut Tried| {
            tried.acked.is_some() && matches!(tried.dropped, Dropped::No | Dropped::Tried)
        };
        let mut there: Vec<&mut Tried> = self.tried.iter_mut().filter(there).collect();
        if there.is_empty() {
            return None;
        }
        let tried = there.swap_remove(random.index(there.len()));
        tried.dropped = Dropped::Tried;
        Some((tried.id, tried.lines))
    }

    /// The compaction was acknowledged, and had the whole batch.
    pub(crate) fn dropped(&mut self, id: u64) {
        for tried in self.tried.iter_mut().filter(|tried| tried.id == id) {
            tried.dropped = Dropped::Done;
        }
    }

    /// Another tool has cut the journal. No caller asks again for its batches.
    pub(crate) fn cut(&mut self) {
        for tried in &mut self.tried {
            (tried.dropped, tried.once) = (Dropped::Cut, false);
        }
    }

    /// A power loss may keep any part of batches without a sync, unless a durable one came after
    /// them: then they are in the log before it.
    pub(crate) fn lose_power(&mut self) {
        let durable = self.tried.iter().filter(|tried| tried.durable);
        let last = durable.filter_map(|tried| tried.acked).max();
        for tried in &mut self.tried {
            tried.durable |= tried.acked.is_some() && tried.acked < last;
        }
        self.tried.retain(|tried| tried.durable);
    }

    /// Whether these entries are what must be there.
    pub(crate) fn judge(&self, entries: &[Entry]) -> Result<(), String> {
        let mut last = 0;
        let mut lines: Vec<(u64, u64, u64)> = Vec::new();
        for entry in entries {
            if entry.seq <= last {
                return Err(format!("number {} after {last}", entry.seq));
            }
            last = entry.seq;
            // Lines that a power loss cut, or cut out of a batch without a sync, belong to no
            // batch.
            let whole = |(id, _): &(u64, u64)| {
                self.pad_of(*id).is_none_or(|pad| pad == pad_in(&entry.line))
            };
            lines.extend(parse(&entry.line).filter(whole).map(|(id, at)| (entry.seq, id, at)));
        }
        for tried in &self.tried {
            let mut mine: Vec<_> = lines.iter().filter(|(_, id, _)| *id == tried.id).collect();
            let begins = |at: &usize| {
                let from = &mine[*at..];
                let in_order = |(at, line): (usize, &&(u64, u64, u64))| {
                    line.2 == at as u64 && line.0 == from[0].0 + at as u64
                };
                let whole = from.iter().enumerate().take_while(|line| in_order(*line)).count();
                whole as u64 >= tried.lines
            };
            let start = (0..mine.len()).find(begins);
            if let (Some(start), true) = (start, self.leftovers) {
                let lines = usize::try_from(tried.lines).unwrap_or(usize::MAX);
                mine = mine[start..].iter().copied().take(lines).collect();
            }
            let whole = start == Some(0) && mine.len() as u64 == tried.lines;
            let whole = whole || (self.leftovers && start.is_some());
            if let Some(first) = tried.acked {
                let numbers = first..first + tried.lines;
                let taken = lines.iter().find(|it| it.1 != tried.id && numbers.contains(&it.0));
                if let Some(taken) = taken {
                    return Err(format!("a number came again: {tried:?}, there is {taken:?}"));
                }
            }
            let is_right = match tried.acked {
                _ if tried.dropped == Dropped::Cut => true,
                _ if tried.dropped == Dropped::Done => mine.is_empty(),
                Some(_) if tried.dropped == Dropped::Tried && mine.is_empty() => true,
                Some(first) => whole && mine[0].0 == first,
                None => whole || mine.is_empty(),
            };
            if !is_right {
                let kind = if tried.synced { "a durable" } else { "a loose" };
                return Err(format!("{kind} batch: {tried:?}, there is {mine:?}"));
            }
        }
        Ok(())
    }
}

/// The batch and the place in it, if the line is whole.
pub(crate) fn parse(line: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(line).ok()?;
    let mut words = text.strip_prefix("B ")?.split(' ');
    let mut number = || words.next()?.parse().ok();
    let (id, at, _lines): (u64, u64, u64) = (number()?, number()?, number()?);
    // A line whose rest another tool has extended is another line.
    words.all(|pad| pad.bytes().all(|byte| byte == b'x')).then_some((id, at))
}

/// How long the rest of the line is.
fn pad_in(line: &[u8]) -> usize {
    line.iter().rev().take_while(|byte| **byte == b'x').count()
}

/// The control of the judge: a batch without a sync is required after a power loss if a durable one
/// came after it, and only then.
#[test]
fn a_batch_that_a_durable_one_came_after_is_missed() {
    let mut tally = Tally::new(
        crate::RING,
        "simulated::batches::a_batch_that_a_durable_one_came_after_is_missed",
    );
    let mut batches = Batches::default();
    let [before, durable, behind] = [false, true, false].map(|synced| batches.begin(1, 0, synced));
    let all = [before, durable, behind].map(|id| {
        batches.acknowledge(id, id + 1);
        Entry { seq: id + 1, line: batches.lines_of(id).concat().into_bytes() }
    });
    assert_eq!(batches.judge(&all), Ok(()));
    batches.lose_power();
    assert_eq!(batches.judge(&all[..2]), Ok(()), "the last one had no sync behind it");
    let found = batches.judge(&all[1..2]).expect_err("the first one is gone");
    assert!(found.starts_with("a loose batch"), "{found}");
    assert!(batches.judge(&all[..1]).is_err(), "the durable one is gone");
    tally.caught("a batch without a sync is gone, and a durable one behind it is there");
}
