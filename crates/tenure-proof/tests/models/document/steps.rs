//! What a call knows and changes, and what a power loss leaves.

mod in_place;
mod keep;
mod publish;

use super::{Fault, Publishing};

/// The bit that foreign edits add.
const FOREIGN: u8 = 0b1000_0000;
/// The initial content, which is different from an empty document.
const FIRST: u8 = 0b0100_0000;

/// A file. The set of changes in it is its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct File {
    id: u8,
    content: u8,
    synced: bool,
    /// A sync of it failed: since then the kernel considers it written, but it is not.
    broken: bool,
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
    Abandon,
    Compare,
    Exchange,
    Look,
    GiveBack,
    Keep,
    Record,
    Remove,
    /// A call that changes nothing, and finds a version that is known to be synced.
    Clear,
    SyncNames,
    /// The sync of the names failed; that is recorded under the lock.
    Doubt,
    /// The known-bad way to make the found version durable: a sync of that file.
    SyncFound,
}

/// What is published: a change, or the existing version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Aim {
    Change,
    /// The last synced version, in place of one that a power loss cut. The call continues after it.
    Restore,
    /// A version that is not known to be synced, as it is.
    Anew,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "what a call knows, one fact each")]
pub(super) struct Process {
    pub(super) at: At,
    pub(super) changes: u8,
    /// Calls that change nothing.
    pub(super) repeats: u8,
    durable: bool,
    bit: u8,
    in_commit: bool,
    /// This call changes nothing.
    repeated: bool,
    /// Another writer has replaced the document since this call read it, and is responsible for
    /// what is there.
    replaced: bool,
    aim: Aim,
    base: Option<File>,
    /// What this call published last.
    placed: Option<File>,
    /// The input of the change: the base, or its last synced version. In the end, what is
    /// acknowledged.
    content: u8,
    /// The new version is synced before it is published.
    syncs: bool,
}

/// What the record says of the published version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Published {
    content: u8,
    /// The exact file (its tag); 0 is none.
    file: u8,
    synced: Synced,
    this_boot: bool,
}

/// As in `record/published.rs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Synced {
    #[default]
    Unknown,
    No,
    Yes,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) processes: Vec<Process>,
    pub(super) names: Names,
    /// The names since the last sync of the directory: the synced ones first, the present ones
    /// last.
    pub(super) history: Vec<Names>,
    record: Published,
    /// The records of this boot: none of them is synced.
    records: Vec<Published>,
    next_id: u8,
    pub(super) kills: u8,
    pub(super) foreign: u8,
    pub(super) resaves: u8,
    pub(super) power_losses: u8,
    pub(super) failures: u8,
    pub(super) acked: u8,
    /// What was in a document that was on the disk, content and name.
    pub(super) on_disk: u8,
    pub(super) published: u8,
    /// What `.damaged.N` keeps: versions that were never read.
    pub(super) aside: u8,
}

impl File {
    /// Written, and not synced.
    fn new(id: u8, content: u8) -> Self {
        Self { id, content, synced: false, broken: false, cut: false }
    }
}

impl Process {
    /// A second change of a process adds a bit of its own.
    fn bit(&self) -> u8 {
        match self.aim {
            Aim::Change if !self.repeated => self.bit << (2 * self.changes),
            _ => 0,
        }
    }

    /// What it publishes.
    fn result(&self) -> u8 {
        self.content | self.bit()
    }

    /// All but what it acknowledges.
    fn forget(&mut self) {
        (self.base, self.placed, self.aim) = (None, None, Aim::Change);
        self.syncs = false;
    }
}

impl State {
    pub(super) fn new(model: Publishing) -> Self {
        let process = |index: usize, durable: bool| Process {
            at: At::Idle,
            changes: model.changes[index],
            repeats: if durable { model.repeats } else { 0 },
            durable,
            bit: 1 << index,
            in_commit: false,
            repeated: false,
            replaced: false,
            aim: Aim::Change,
            base: None,
            placed: None,
            content: 0,
            syncs: false,
        };
        let first = File { synced: true, ..File::new(1, FIRST) };
        let names = Names { document: Some(first), ..Names::default() };
        Self {
            processes: vec![process(0, model.durable[0]), process(1, model.durable[1])],
            names,
            history: vec![names],
            record: Published {
                content: FIRST,
                file: first.id,
                synced: Synced::Yes,
                this_boot: true,
            },
            records: Vec::new(),
            next_id: 2,
            kills: model.kills,
            foreign: model.foreign,
            resaves: model.resaves,
            power_losses: model.power_losses,
            failures: model.failures,
            acked: FIRST,
            on_disk: FIRST,
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

    /// Everything that is not lost: for a foreign version it is enough that it is kept where people
    /// find it.
    pub(super) fn kept(&self) -> u8 {
        let temp = self.names.temp.map_or(0, |file| file.content);
        self.view() | ((temp | self.aside) & FOREIGN)
    }

    pub(super) fn can_step(&self, index: usize) -> bool {
        match self.processes[index].at {
            At::Idle => false,
            At::Wait | At::Doubt => !self.processes.iter().any(|process| process.in_commit),
            _ => true,
        }
    }

    /// A durable call whose result equals the document.
    pub(super) fn repeat(&mut self, index: usize) {
        let process = &mut self.processes[index];
        process.repeats -= 1;
        (process.at, process.repeated) = (At::Wait, true);
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
        (process.at, process.in_commit, process.repeated) = (At::Idle, false, false);
        (process.content, process.replaced) = (0, false);
        process.forget();
    }

    fn rename(&mut self, change: impl FnOnce(&mut Names)) {
        change(&mut self.names);
        self.history.push(self.names);
    }

    /// Content belongs to the file, whatever its names: a sync shows under all of them, now and in
    /// the past.
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

    /// A file whose sync failed once reports success, and nothing is written.
    fn sync_file(&mut self, id: u8) {
        self.change_file(id, |file| file.synced |= !file.broken);
    }

    fn fail_sync(&mut self, id: u8) {
        self.change_file(id, |file| file.broken |= !file.synced);
    }

    fn sync_names(&mut self) {
        self.history = vec![self.names];
    }

    /// Ordered content is there under the names from now on: earlier names after a power loss may
    /// be without it.
    fn sync_content(&mut self, id: u8, in_order: bool) {
        let past = self.history.clone();
        self.sync_file(id);
        if in_order {
            self.history = past;
        }
    }

    /// The tags of files have no meaning except identity: renumber them, so that equal states are
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
        self.records.push(self.record);
        for record in self.records.iter_mut().chain([&mut self.record]) {
            // All removed files are alike.
            let tag = known.iter().position(|id| *id == record.file).map_or(0, |index| index + 1);
            record.file = u8::try_from(tag).expect("few files");
        }
        self.records.sort_unstable();
        self.records.dedup();
        self.next_id = 100;
        self.history.dedup();
        let on_disk = |file: &File| file.synced && !file.cut;
        if self.power_losses == 0 {
            self.sync_names(); // The past does not matter any more.
            self.records.clear();
        } else if self.history.len() == 1 {
            self.on_disk |= self.names.document.filter(on_disk).map_or(0, |file| file.content);
        }
    }

    /// An editor's save: a new file with what was there and one bit more, renamed over.
    pub(super) fn edit(&mut self) {
        self.foreign -= 1;
        let content = self.view() | FOREIGN;
        self.replace_by(File::new(self.next_id, content));
        self.published |= FOREIGN;
    }

    /// The same without a change: the bytes are known, the file is not.
    pub(super) fn save_again(&mut self) {
        self.resaves -= 1;
        self.replace_by(File::new(self.next_id, self.view()));
    }

    /// A process that publishes a file that is not synced is responsible for what was there before.
    fn replace_by(&mut self, file: File) {
        self.rename(|names| names.document = Some(file));
        (self.acked, self.on_disk) = (0, 0);
        for process in &mut self.processes {
            process.replaced = process.in_commit || process.at == At::SyncNames;
        }
    }

    /// The call returns: everything that it found and made is durable.
    fn acknowledge(&mut self, process: &Process) {
        if !process.replaced {
            self.acked |= process.content;
        }
    }

    /// What a power loss can leave: the names after one of their changes, any of their unsynced
    /// files cut, and any record of this boot, or none.
    pub(super) fn losses(&self, mut found: impl FnMut(usize, u8, usize)) {
        for (names, past) in self.history.iter().enumerate() {
            let files = [past.document, past.temp, past.good];
            let unsynced = |file: &Option<File>| file.is_some_and(|file| !file.synced);
            let bits = files.iter().zip([1, 2, 4]).filter(|(file, _)| unsynced(file));
            let unsynced: u8 = bits.map(|(_, bit)| bit).sum();
            for cut in (0..8).filter(|cut| cut & !unsynced == 0) {
                (0..=self.records.len()).for_each(|record| found(names, cut, record));
            }
        }
    }

    pub(super) fn lose_power(&mut self, names: usize, cut: u8, record: usize) {
        self.power_losses -= 1;
        self.names = self.history[names];
        let files = [&mut self.names.document, &mut self.names.temp, &mut self.names.good];
        for (file, bit) in files.into_iter().zip([1, 2, 4]) {
            let Some(file) = file else { continue };
            file.cut |= cut & bit != 0;
            (file.synced, file.broken) = (true, false);
        }
        self.sync_names();
        self.record = self.records.get(record).copied().unwrap_or_default();
        self.record.this_boot = false;
        self.records.clear();
        for index in 0..self.processes.len() {
            self.end(index);
        }
    }

    fn same(one: Option<File>, other: Option<File>) -> bool {
        one.map(|file| file.id) == other.map(|file| file.id)
    }
}
