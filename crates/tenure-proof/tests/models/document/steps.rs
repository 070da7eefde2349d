//! The steps of a change, the names it changes, and what a power loss leaves of them.

mod in_place;
mod keep;

use super::{Fault, Publishing};

/// The bit that foreign edits add.
const FOREIGN: u8 = 0b1000_0000;

/// A file. The set of changes in it is its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct File {
    id: u8,
    content: u8,
    synced: bool,
    /// A power loss, or a death in the middle of writing in place, left a part of it.
    cut: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Names {
    pub(super) document: Option<File>,
    temp: Option<File>,
    pub(super) good: Option<File>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum At {
    Idle,
    Wait,
    Read,
    Rescue,
    Settle,
    Temp,
    Sync,
    KeepAs,
    Compare,
    Exchange,
    Look,
    GiveBack,
    Keep,
    Record,
    Remove,
    SyncNames,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) at: At,
    pub(super) changes: u8,
    durable: bool,
    bit: u8,
    in_commit: bool,
    base: Option<File>,
    /// What we put in the document's place last.
    placed: Option<File>,
    /// What is computed from: the base, or its last synced version.
    content: u8,
    /// What is displaced becomes the good copy.
    keeps: bool,
}

/// What the record says of the published version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Published {
    content: u8,
    /// The very file (its tag); 0 is none.
    file: u8,
    synced: bool,
    this_boot: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) processes: Vec<Process>,
    pub(super) names: Names,
    /// The names as they were since the last sync of the directory, that one first, now last.
    pub(super) history: Vec<Names>,
    record: Published,
    next_id: u8,
    pub(super) kills: u8,
    pub(super) foreign: u8,
    pub(super) resaves: u8,
    pub(super) power_losses: u8,
    pub(super) acked: u8,
    pub(super) published: u8,
    /// What `.damaged` keeps: versions that nobody has read.
    pub(super) aside: u8,
}

impl State {
    pub(super) fn new(model: Publishing) -> Self {
        let process = |index: usize, durable: bool| Process {
            at: At::Idle,
            changes: model.changes,
            durable,
            bit: 1 << index,
            in_commit: false,
            base: None,
            placed: None,
            content: 0,
            keeps: false,
        };
        let first = File { id: 1, content: 0, synced: true, cut: false };
        let names = Names { document: Some(first), ..Names::default() };
        Self {
            processes: vec![process(0, model.durable[0]), process(1, model.durable[1])],
            names,
            history: vec![names],
            record: Published { content: 0, file: first.id, synced: true, this_boot: true },
            next_id: 2,
            kills: model.kills,
            foreign: model.foreign,
            resaves: model.resaves,
            power_losses: model.power_losses,
            acked: 0,
            published: 0,
            aside: 0,
        }
    }

    pub(super) fn is_whole(file: Option<File>) -> bool {
        file.is_none_or(|file| !file.cut)
    }

    /// What a reader gets: the document, or its last synced version if a power loss cut it.
    pub(super) fn view(&self) -> u8 {
        let candidates = [self.names.document, self.names.temp, self.names.good];
        candidates.into_iter().flatten().find(|file| !file.cut).map_or(0, |file| file.content)
    }

    /// Everything that is not lost: of a foreign version it is enough that it lies where people find it.
    pub(super) fn kept(&self) -> u8 {
        let temp = self.names.temp.map_or(0, |file| file.content);
        self.view() | ((temp | self.aside) & FOREIGN)
    }

    pub(super) fn can_step(&self, index: usize) -> bool {
        match self.processes[index].at {
            At::Idle => false,
            At::Wait => !self.processes.iter().any(|process| process.in_commit),
            _ => true,
        }
    }

    pub(super) fn begin(&mut self, index: usize, fault: Fault) {
        self.processes[index].changes -= 1;
        self.processes[index].at = At::Wait;
        if fault == Fault::ReadOutsideLock {
            self.processes[index].base = self.names.document;
            self.processes[index].content = self.view();
        }
    }

    pub(super) fn end(&mut self, index: usize) {
        let process = &mut self.processes[index];
        (process.at, process.in_commit) = (At::Idle, false);
        (process.base, process.placed, process.content) = (None, None, 0);
        process.keeps = false;
    }

    /// A second change of a process adds a bit of its own.
    fn bit(process: &Process) -> u8 {
        process.bit << (2 * process.changes)
    }

    fn rename(&mut self, change: impl FnOnce(&mut Names)) {
        change(&mut self.names);
        self.history.push(self.names);
    }

    /// Content is of the file, whatever its names: a sync shows under all of them, now and in the past.
    fn change_file(&mut self, id: u8, change: impl Fn(&mut File)) {
        let all = self.history.iter_mut().chain([&mut self.names]);
        for names in all {
            let files = [&mut names.document, &mut names.temp, &mut names.good];
            files.into_iter().flatten().filter(|file| file.id == id).for_each(&change);
        }
        for process in &mut self.processes {
            let files = [&mut process.base, &mut process.placed];
            files.into_iter().flatten().filter(|file| file.id == id).for_each(&change);
        }
    }

    /// Content in order shows under the names from now on: what a power loss leaves of them as they were
    /// before may be without it.
    fn sync_content(&mut self, id: u8, in_order: bool) {
        let past = self.history.clone();
        self.change_file(id, |file| file.synced = true);
        if in_order {
            self.history = past;
        }
    }

    /// Files are told apart, but their numbers mean nothing: count them anew, so that equal states are
    /// equal.
    pub(super) fn tidy(&mut self) {
        let mut known = Vec::new();
        let mut number = |file: &mut File| {
            let index = known.iter().position(|id| *id == file.id).unwrap_or_else(|| {
                known.push(file.id);
                known.len() - 1
            });
            file.id = u8::try_from(index + 1).expect("few files");
        };
        for names in [&mut self.names].into_iter().chain(&mut self.history) {
            [&mut names.document, &mut names.temp, &mut names.good]
                .into_iter()
                .flatten()
                .for_each(&mut number);
        }
        for process in &mut self.processes {
            [&mut process.base, &mut process.placed].into_iter().flatten().for_each(&mut number);
        }
        // One that is gone is like any other that is.
        let tag = known.iter().position(|id| *id == self.record.file).map_or(0, |index| index + 1);
        self.record.file = u8::try_from(tag).expect("few files");
        self.next_id = 100;
        self.history.dedup();
        if self.power_losses == 0 {
            self.history = vec![self.names]; // Nobody will ask for the past any more.
        }
    }

    /// An editor's save: a new file with what was there and one bit more, renamed over.
    pub(super) fn edit(&mut self) {
        self.foreign -= 1;
        let content = self.view() | FOREIGN;
        let edited = File { id: self.next_id, content, synced: false, cut: false };
        self.rename(|names| names.document = Some(edited));
        self.published |= FOREIGN;
    }

    /// The same without a change: the bytes are known, the file is not.
    pub(super) fn save_again(&mut self) {
        self.resaves -= 1;
        let edited = File { id: self.next_id, content: self.view(), synced: false, cut: false };
        self.rename(|names| names.document = Some(edited));
    }

    pub(super) fn lose_power(&mut self, names: usize, cut: bool, record: bool) {
        self.power_losses -= 1;
        self.names = self.history[names];
        let files = [&mut self.names.document, &mut self.names.temp, &mut self.names.good];
        for file in files.into_iter().flatten() {
            file.cut |= cut && !file.synced;
            file.synced = true;
        }
        self.history = vec![self.names];
        self.record = if record { self.record } else { Published::default() };
        self.record.this_boot = false;
        for index in 0..self.processes.len() {
            self.end(index);
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm per step, in the order of the protocol")]
    pub(super) fn step(&mut self, index: usize, Publishing { fault, in_order, .. }: Publishing) {
        let process = self.processes[index];
        let mut next = process;
        next.at = match process.at {
            At::Idle => At::Idle,
            At::Wait => {
                next.in_commit = true;
                if fault == Fault::ReadOutsideLock { At::Temp } else { At::Read }
            }
            At::Read => {
                (next.base, next.content) = (self.names.document, self.view());
                let rescue = !Self::is_whole(self.names.document) && self.names.temp.is_some();
                match fault {
                    Fault::InPlace => return self.write_in_place(index),
                    Fault::LeftOverRemoved => At::Settle,
                    _ if rescue => At::Rescue,
                    _ => At::Settle,
                }
            }
            At::Rescue => {
                if let Some(kept) = self.names.temp.filter(|kept| !kept.cut) {
                    self.change_file(kept.id, |file| file.synced = true);
                    self.rename(|names| names.good = names.temp.take());
                }
                At::Settle
            }
            At::Settle => {
                if fault != Fault::FoundNotSettled {
                    self.settle_found(process.base, fault);
                }
                At::Temp
            }
            At::Temp => {
                self.clear_left_over(process.base, fault);
                let content = process.content | Self::bit(&process);
                let new = File { id: self.next_id, content, synced: false, cut: false };
                self.rename(|names| names.temp = Some(new));
                At::Sync
            }
            At::Sync => {
                let skipped = matches!(fault, Fault::ContentNotSynced | Fault::OrderedLate);
                if process.durable && !skipped {
                    let id = self.names.temp.expect("our temporary file").id;
                    self.sync_content(id, in_order);
                }
                let unchecked = matches!(fault, Fault::PlainRename | Fault::ReadOutsideLock);
                if unchecked { At::Exchange } else { At::KeepAs }
            }
            At::KeepAs => {
                next.keeps = self.keep_as(&process, fault);
                At::Compare
            }
            At::Compare if Self::same(self.names.document, process.base) => At::Exchange,
            At::Compare => {
                self.rename(|names| names.temp = None);
                At::Read
            }
            At::Exchange if fault == Fault::PlainRename => {
                next.placed = self.names.temp;
                self.rename(|names| names.document = names.temp.take());
                self.published |= Self::bit(&process);
                At::Record
            }
            At::Exchange => {
                next.placed = self.names.temp;
                self.rename(|names| std::mem::swap(&mut names.document, &mut names.temp));
                match fault {
                    Fault::DisplacedNotChecked | Fault::ReadOutsideLock => At::Keep,
                    _ => At::Look,
                }
            }
            At::Look if Self::same(self.names.temp, process.base) => At::Keep,
            At::Look => At::GiveBack,
            At::GiveBack => {
                let displaced = self.names.temp;
                self.rename(|names| std::mem::swap(&mut names.document, &mut names.temp));
                if Self::same(self.names.temp, process.placed) {
                    self.rename(|names| names.temp = None);
                    At::Read
                } else {
                    // Somebody was faster again: the newest one goes back.
                    next.placed = displaced;
                    At::GiveBack
                }
            }
            At::Keep => {
                self.published |= Self::bit(&process);
                if fault == Fault::OrderedLate {
                    let id = self.names.document.expect("our new version").id;
                    self.sync_content(id, in_order);
                }
                if process.keeps {
                    self.rename(|names| names.good = names.temp.take());
                }
                At::Record
            }
            At::Record => {
                let content = process.content | Self::bit(&process);
                let synced = process.durable && fault != Fault::ContentNotSynced;
                let file = process.placed.map_or(0, |placed| placed.id);
                self.record = Published { content, file, synced, this_boot: true };
                At::Remove
            }
            At::Remove => {
                self.rename(|names| names.temp = None);
                next.in_commit = false;
                match fault {
                    Fault::AckBeforeNames => {
                        self.acked |= Self::bit(&process);
                        At::SyncNames
                    }
                    _ if process.durable => At::SyncNames,
                    _ => return self.end(index),
                }
            }
            At::SyncNames => {
                self.history = vec![self.names];
                self.acked |= Self::bit(&process);
                return self.end(index);
            }
        };
        self.processes[index] = next;
    }

    fn same(one: Option<File>, other: Option<File>) -> bool {
        one.map(|file| file.id) == other.map(|file| file.id)
    }
}
