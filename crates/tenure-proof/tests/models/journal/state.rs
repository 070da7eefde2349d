//! The state of the model of an append: the logs and their names, the journal, the note, the
//! callers.
//!
//! # Invariants
//!
//! 1. States without a relevant difference are equal ([`State::tidy`]).

use super::Appending;

/// A part of a file, and whether the disk has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Page {
    Dirty,
    Durable,
    /// A sync failed: the kernel considers it clean, and the disk does not have it.
    Lost,
    /// A power loss removed it.
    Gone,
}

/// A batch in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Record {
    pub(super) batch: u8,
    pub(super) page: Page,
}

/// Half of a batch in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Line {
    pub(super) number: u8,
    pub(super) batch: u8,
    pub(super) page: Page,
}

/// The state slot of a log, valid while the machine runs. Numbers count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Known {
    /// The newest batch that counts.
    pub(super) newest: u8,
    /// The newest batch that is in the journal.
    pub(super) placed: u8,
    pub(super) applying: u8,
    pub(super) named: bool,
    pub(super) log_doubt: bool,
    pub(super) journal_doubt: bool,
}

/// A log. Batches before `first` are in the index: the journal alone has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Log {
    pub(super) first: u8,
    pub(super) header: Page,
    pub(super) records: Vec<Record>,
    /// `None`: of another boot.
    pub(super) known: Option<Known>,
}

/// The value for "no log".
pub(super) const NO_LOG: usize = 0;
const EMPTY: Log = Log { first: 1, header: Page::Durable, records: Vec::new(), known: None };

/// The note of the shared sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Note {
    pub(super) generation: u8,
    pub(super) subject: usize,
    pub(super) synced: u8,
    pub(super) began: bool,
    pub(super) doubt: u8,
}

/// The next step of a caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum At {
    #[default]
    Idle,
    WaitCommit,
    Enter,
    Work,
    Log,
    Count,
    // The checkpoint.
    NoteJournal,
    SyncJournal,
    WriteLog,
    SyncLog,
    Rename,
    SyncNames,
    // Writing batches to the journal.
    Apply,
    Applying,
    Push,
    // The shared sync.
    ReadNote,
    Follow,
    WaitLead,
    Lead,
    SyncBegin,
    SyncEnd,
    WriteNote,
    Settle,
}

/// Why a caller takes the commit lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Task {
    #[default]
    Append,
    /// Write batches up to `reach` to the journal.
    Bring,
    /// Begin a new log, and write its batches to the journal.
    Renew,
}

/// What follows a checkpoint, or a sync of the names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Then {
    #[default]
    Log,
    /// Recovery: everything that is pending is placed.
    Place,
    Apply,
    Applying,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) at: At,
    /// How many batches it is still going to append.
    pub(super) batches: u8,
    pub(super) task: Task,
    pub(super) then: Then,
    pub(super) in_commit: bool,
    /// The state in the memory of the writer.
    pub(super) known: Known,
    /// The log that it writes.
    pub(super) new: usize,
    /// Its batch: number, identity, and the log that it was written to.
    pub(super) mine: u8,
    pub(super) batch: u8,
    pub(super) log: usize,
    pub(super) leads: bool,
    /// The generation that it leads, or waits for.
    pub(super) generation: u8,
    /// It has seen the end of the leader of this generation.
    pub(super) outlived: bool,
    /// How far its sync reaches, and how many records the log had when it began.
    pub(super) reach: u8,
    pub(super) covered: usize,
    pub(super) synced: bool,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) processes: Vec<Process>,
    pub(super) logs: Vec<Log>,
    /// The logs that had the name since the directory was synced. The last one has it now.
    pub(super) names: Vec<usize>,
    /// A sync of the directory has something to write.
    pub(super) names_dirty: bool,
    pub(super) journal: Vec<Line>,
    pub(super) note: Note,
    pub(super) batches: u8,
    pub(super) kills: u8,
    pub(super) sync_errors: u8,
    pub(super) power_losses: u8,
    pub(super) checkpoints: u8,
    /// The batch of each number that was acknowledged, and that a reader has seen; 0 is none.
    pub(super) acked: Vec<u8>,
    pub(super) seen: Vec<u8>,
    /// A sync and the new log after it failed: batches are visible that no log certainly holds.
    pub(super) excused: bool,
    pub(super) given_twice: bool,
    pub(super) torn: bool,
    pub(super) false_success: bool,
    pub(super) served: bool,
}

impl State {
    pub(super) fn new(model: &Appending) -> Self {
        let numbers = usize::from(model.batches) * model.processes + 1;
        Self {
            processes: vec![
                Process { batches: model.batches, ..Process::default() };
                model.processes
            ],
            logs: vec![EMPTY],
            names: vec![NO_LOG],
            names_dirty: false,
            journal: Vec::new(),
            note: Note::default(),
            batches: 0,
            kills: model.kills,
            sync_errors: model.sync_errors,
            power_losses: model.power_losses,
            checkpoints: model.checkpoints,
            acked: vec![0; numbers],
            seen: vec![0; numbers],
            excused: false,
            given_twice: false,
            torn: false,
            false_success: false,
            served: false,
        }
    }

    /// The log that has the name.
    pub(super) fn named(&self) -> usize {
        *self.names.last().expect("there is always a name")
    }

    /// The batch that the journal has under `number`, if it is whole there.
    pub(super) fn in_journal(&self, number: u8, is_there: impl Fn(Page) -> bool) -> Option<u8> {
        let at = 2 * usize::from(number - 1);
        let lines = self.journal.get(at..at + 2)?;
        let fits = |line: &Line| {
            is_there(line.page) && (line.number, line.batch) == (number, lines[0].batch)
        };
        lines.iter().all(fits).then_some(lines[0].batch)
    }

    /// What a reader gets (`view.rs`): placed batches from the journal, pending ones from the log.
    /// After a restart only the log counts.
    pub(super) fn view(&self, number: u8) -> Option<u8> {
        let log = &self.logs[self.named()];
        let (placed, applying) =
            log.known.map_or((0, u8::MAX), |known| (known.placed, known.applying));
        if number < log.first || number <= placed {
            return self.in_journal(number, |page| page != Page::Gone);
        }
        let record = log.records.get(usize::from(number - log.first));
        record.filter(|_| number <= applying).map(|record| record.batch)
    }

    /// Whether a reader gets each of these batches under its number.
    pub(super) fn shows(&self, batches: &[u8]) -> bool {
        let mut numbered = (1..).zip(&batches[1..]).filter(|(_, batch)| **batch != 0);
        numbered.all(|(number, batch)| self.view(number) == Some(*batch))
    }

    /// Whether every batch that the log calls placed is whole in the journal.
    pub(super) fn is_whole(&self) -> bool {
        let log = &self.logs[self.named()];
        let placed = log.known.map_or(0, |known| known.placed).max(log.first - 1);
        !self.torn
            && (1..=placed)
                .all(|number| self.in_journal(number, |page| page != Page::Gone).is_some())
    }

    /// Whether any power loss leaves this batch under this number.
    pub(super) fn is_durable(&self, number: u8, batch: u8) -> bool {
        self.power_losses == 0
            || self.names.iter().all(|name| {
                let log = &self.logs[*name];
                if number < log.first {
                    return self.in_journal(number, |page| page == Page::Durable) == Some(batch);
                }
                let chain = log.records.get(..=usize::from(number - log.first));
                log.header == Page::Durable
                    && chain.is_some_and(|chain| {
                        chain.iter().all(|record| record.page == Page::Durable)
                            && chain.last().is_some_and(|record| record.batch == batch)
                    })
            })
    }

    /// What a power loss can leave: the log that has the name, how many of its records, and which lines of the journal.
    pub(super) fn losses(&self, mut found: impl FnMut(usize, usize, u32)) {
        let dirty = self.journal.iter().enumerate();
        let dirty: u32 =
            dirty.filter(|(_, line)| line.page == Page::Dirty).map(|(at, _)| 1 << at).sum();
        for (name, log) in self.names.iter().enumerate() {
            let log = &self.logs[*log];
            // The chain ends at the first hole.
            let run = |dirty: bool| {
                let is_kept = |page| page == Page::Durable || (dirty && page == Page::Dirty);
                let kept = log.records.iter().take_while(|record| is_kept(record.page)).count();
                if is_kept(log.header) { kept + 1 } else { 0 }
            };
            for chain in run(false)..=run(true) {
                // Every subset of the dirty lines.
                let mut kept = dirty;
                loop {
                    found(name, chain, kept);
                    if kept == 0 {
                        break;
                    }
                    kept = (kept - 1) & dirty;
                }
            }
        }
    }

    /// The machine restarts. `chain` counts the header.
    pub(super) fn lose_power(&mut self, name: usize, chain: usize, kept: u32) {
        self.power_losses -= 1;
        let mut log = self.logs[self.names[name]].clone();
        log.records.truncate(chain.saturating_sub(1));
        if chain == 0 {
            log = EMPTY;
        }
        log.records.iter_mut().for_each(|record| record.page = Page::Durable);
        (log.header, log.known) = (Page::Durable, None);
        for (at, line) in self.journal.iter_mut().enumerate() {
            let is_kept = line.page == Page::Durable || kept >> at & 1 == 1;
            line.page = if is_kept { Page::Durable } else { Page::Gone };
        }
        while self.journal.last().is_some_and(|line| line.page == Page::Gone) {
            self.journal.pop();
        }
        // Recovery takes lines that no log knows for lines of another tool. The model drops them.
        let until = 2 * (usize::from(log.first - 1) + log.records.len());
        self.torn |= self.journal.len() > until && !self.excused;
        self.journal.truncate(until);
        if self.excused {
            self.seen.clone_from(&self.acked);
        }
        let named = if chain == 0 { NO_LOG } else { 1 };
        (self.logs, self.names) = (vec![EMPTY, log], vec![named]);
        (self.names_dirty, self.excused) = (false, false);
        self.note = Note::default();
        for index in 0..self.processes.len() {
            self.end(index);
        }
    }

    /// The call is over, or its process.
    pub(super) fn end(&mut self, index: usize) {
        let batches = self.processes[index].batches;
        self.processes[index] = Process { batches, ..Process::default() };
    }

    /// A durable append returns success.
    pub(super) fn acknowledge(&mut self, index: usize) {
        let Process { mine, batch, .. } = self.processes[index];
        self.false_success |= !self.is_durable(mine, batch);
        self.acked[usize::from(mine)] = batch;
    }

    /// A reader looks.
    pub(super) fn look(&mut self) {
        for number in 1..self.seen.len() {
            if let Some(batch) = self.view(u8::try_from(number).expect("few batches")) {
                let seen = std::mem::replace(&mut self.seen[number], batch);
                self.given_twice |= ![0, batch].contains(&seen);
            }
        }
    }

    /// Makes states equal that have no relevant difference.
    pub(super) fn tidy(&mut self) {
        self.processes.sort_unstable();
        if self.power_losses == 0 {
            // The content of the disk does not matter any more.
            self.names = vec![self.named()];
            self.names_dirty = false;
            let records = self.logs.iter_mut().flat_map(|log| &mut log.records);
            records.for_each(|record| record.page = Page::Durable);
            self.journal.iter_mut().for_each(|line| line.page = Page::Durable);
            self.logs.iter_mut().for_each(|log| log.header = Page::Durable);
        }
        // Logs are renumbered, without those that are gone.
        let mut kept = vec![NO_LOG];
        for log in self
            .names
            .iter()
            .copied()
            .chain(self.processes.iter().flat_map(|process| [process.new, process.log]))
        {
            if !kept.contains(&log) {
                kept.push(log);
            }
        }
        let place = |log: usize| kept.iter().position(|kept| *kept == log);
        let names: Vec<usize> = self.names.iter().filter_map(|log| place(*log)).collect();
        let mut logs: Vec<Log> = kept.iter().map(|log| self.logs[*log].clone()).collect();
        for process in &mut self.processes {
            process.log = place(process.log).unwrap_or_default();
            process.new = place(process.new).unwrap_or_default();
        }
        let Note { generation, subject, .. } = self.note;
        self.note = match place(subject) {
            Some(subject) => Note { subject, ..self.note },
            None => Note { generation, ..Note::default() },
        };
        for (at, log) in logs.iter_mut().enumerate() {
            let is_new = self.processes.iter().any(|process| process.new == at);
            if !names.contains(&at) && !is_new {
                // No name leads to it: its callers only read its state.
                let known = log.known.map(|Known { newest, placed, .. }| Known {
                    newest,
                    placed,
                    ..Known::default()
                });
                *log = Log { known, ..EMPTY };
            }
        }
        (self.names, self.logs) = (names, logs);
    }
}
