//! One command, its directory, and every fault that it meets.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tenure_proof::strace::{self, Calls, Case, Fault, Struck};
use tenure_proof::{Form, Tally, seed};
use tenure_testkit::Random;

use super::cases::{Sample, cases};
use super::job::{Job, Subject, View, names, tenure};
use super::judge::{Verdict, judge};
use super::trouble::{Trouble, log_of, traced};

/// The name of this ring.
pub(crate) const RING: &str = "system_calls";
/// What is tried at the calls of a command.
const PLAIN: Sample = Sample { kills: 3, others: 1, anything: true, moments: 2, only: &[] };
/// And while recovering from a crash.
const RECOVERING: Sample = Sample { kills: 1, anything: false, moments: 1, ..PLAIN };
/// The same at the first of the crashes, where the long form tries everything.
const RECOVERING_FIRST: Sample = Sample { anything: true, ..RECOVERING };
/// Deaths alone.
const ONE_KILL: Sample = Sample { kills: 1, others: 0, anything: false, moments: 0, only: &[] };

/// Of a hundred faults, this many may not occur: how often a command waits, or reads other
/// processes, differs between runs.
const MISSED_MAX: u64 = 3;
/// And this many in any case: in a small sweep, three in a hundred would be none.
const MISSED_ANYWAY: u64 = 3;
/// How often a fault that does not occur is retried: some calls are made only by a command that was
/// delayed.
const ATTEMPTS: usize = 5;

/// The kinds of faults, for the tally.
const KILLS: &str = "kills at a call";
const ERRORS: &str = "errors of a call";
const MOMENTS: &str = "moments from which many kinds of calls fail";
const MISSED: &str = "faults that did not come about";

/// From how many kinds of crashes the long form recovers.
const CRASHES: usize = 4;

/// One job, its directory, and its results without a fault.
pub(crate) struct Sweep {
    pub(crate) job: Job,
    /// Where an earlier command of the same kind was killed, if any.
    crash: Option<Case>,
    _root: Option<tempfile::TempDir>,
    pub(crate) dir: PathBuf,
    /// Before the command, after it, and after it was repeated.
    pub(crate) old: View,
    pub(crate) new: View,
    pub(crate) newer: View,
    /// When only what an earlier crash, or another process, left half done is completed.
    pub(crate) settled: View,
    /// How the second command ends.
    pub(crate) again: Option<i32>,
    /// Every file that the command touches, except those with random names.
    pub(crate) files: Vec<String>,
    /// Every name that is there in the end.
    pub(crate) names: Vec<String>,
    /// Every name that was there at some time.
    pub(crate) seen: Vec<String>,
    /// What kills left, one of each kind, to recover from.
    crashes: RefCell<BTreeMap<String, Case>>,
    /// How many faults did not occur.
    pub(crate) missed: Cell<u64>,
}

impl Sweep {
    /// In its own directory, in memory if possible: what is tested here does not depend on a disk.
    pub(crate) fn new(job: Job) -> Self {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let root = tempfile::tempdir_in(parent).unwrap();
        let dir = root.path().canonicalize().unwrap().join("work");
        Self { _root: Some(root), ..Self::at(job, dir, None).unwrap() }
    }

    /// In `dir`, after a crash. `None` if there is nothing to do after it.
    pub(crate) fn at(job: Job, dir: PathBuf, crash: Option<Case>) -> Option<Self> {
        let nothing = || View { plain: String::new(), ours: String::new() };
        let (old, new, newer, settled) = (nothing(), nothing(), nothing(), nothing());
        let mut sweep = Self {
            job,
            crash,
            _root: None,
            dir,
            old,
            new,
            newer,
            settled,
            again: None,
            files: Vec::new(),
            names: Vec::new(),
            seen: Vec::new(),
            crashes: RefCell::default(),
            missed: Cell::new(0),
        };
        sweep.look().then_some(sweep)
    }

    /// Records what the command does without a fault. Returns whether it works.
    fn look(&mut self) -> bool {
        let dir = self.dir.clone();
        self.files = self.files();
        self.job.set_up(&dir);
        self.seen = names_below(&dir);
        self.set_up();
        self.files = self.files();
        self.old = self.job.view(&dir);
        let ended = self.job.run(&dir);
        if self.crash.is_some() && !ended.is_done() {
            return false;
        }
        assert!(ended.is_done(), "{:?}: {ended:?}", self.job);
        self.new = self.job.view(&dir);
        self.again = self.job.run(&dir).code;
        self.newer = self.job.view(&dir);
        self.files = self.files();
        self.job.change(&dir).unwrap();
        self.names = names_below(&dir);
        self.seen.extend(self.names.iter().cloned());
        self.settled = self.old.clone();
        if matches!(self.job.subject, Subject::Journal | Subject::Rotated) {
            self.set_up();
            // A journal that does not exist yet has nothing to complete.
            let _ = tenure(&dir, &["journal", "repair", "j.jsonl"]);
            self.settled = self.job.view(&dir);
        }
        true
    }

    fn set_up(&self) {
        self.job.set_up(&self.dir);
        let Some(crash) = &self.crash else { return };
        for _ in 0..ATTEMPTS {
            if self.strike(&Trouble::Call(crash.clone())).ended.signal == Some(9) {
                return;
            }
            self.job.set_up(&self.dir);
        }
        panic!("it does not die of {crash:?}");
    }

    /// Runs the command with the fault.
    fn strike(&self, trouble: &Trouble) -> Struck {
        trouble.strike(&self.job, &self.dir)
    }

    /// For people.
    pub(crate) fn after(&self) -> String {
        self.crash.as_ref().map(|crash| format!(" after {crash:?}")).unwrap_or_default()
    }

    /// The calls that the command makes.
    pub(crate) fn calls(&self) -> Calls {
        self.set_up();
        traced(&self.job, &self.dir, self.job.args, &log_of(&self.dir)).calls()
    }

    /// A death of the command, to recover from.
    pub(crate) fn a_crash(&self, random: &mut Random) -> Case {
        let mut kills = cases(&self.calls(), ONE_KILL, random);
        kills.retain(|case| case.fault == Fault::Kill);
        kills.swap_remove(random.index(kills.len()))
    }

    /// Whether the command only reads, and leaves nothing to recover from.
    pub(crate) fn is_of_a_reader(&self) -> bool {
        self.old == self.new && self.job.subject == Subject::Both
    }

    /// Limits for the length of a file that cut a write of the command short, or refuse it.
    pub(crate) fn file_sizes(&self) -> Vec<u64> {
        self.set_up();
        let writes = traced(&self.job, &self.dir, self.job.args, &log_of(&self.dir)).writes();
        let whole = self.files.iter().filter_map(|file| std::fs::metadata(file).ok());
        let whole = whole.map(|found| (found.len(), found.len()));
        let ends = writes.into_iter().chain(whole).filter(|(_, length)| *length > 1);
        let cuts = |(end, length): (u64, u64)| [end - 1, end - length / 2, end - length];
        let mut sizes: Vec<_> = ends.flat_map(cuts).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Runs the command with each fault and judges what it left. Returns all findings, because one
    /// cause often shows in several places.
    pub(crate) fn findings(&self, troubles: &[Trouble]) -> Vec<String> {
        troubles.iter().filter_map(|trouble| self.put_through(trouble).err()).collect()
    }

    #[expect(clippy::print_stdout, reason = "for a failure with too many misses")]
    fn put_through(&self, trouble: &Trouble) -> Verdict {
        for _ in 0..ATTEMPTS {
            self.set_up();
            let struck = self.strike(trouble);
            // A limit that the command does not reach is no fault; the result is still judged.
            let is_limit = !matches!(trouble, Trouble::Call(_));
            if is_limit && !struck.came_about {
                self.missed.set(self.missed.get() + 1);
            }
            if is_limit || struck.came_about {
                self.remember(trouble, &struck);
                return judge(self, trouble, &struck.ended);
            }
        }
        println!("did not come about: {trouble:?}{}", self.after());
        self.missed.set(self.missed.get() + 1);
        Ok(())
    }

    /// A death may be one to recover from.
    fn remember(&self, trouble: &Trouble, struck: &Struck) {
        if let (Trouble::Call(case), Some(9)) = (trouble, struck.ended.signal) {
            self.crashes.borrow_mut().entry(self.shape()).or_insert_with(|| case.clone());
        }
    }

    /// Every call of the command with every fault, or a sample of them. Returns all findings.
    pub(crate) fn all_calls(&self, random: &mut Random, tally: &mut Tally) -> Vec<String> {
        self.sampled_calls(PLAIN, "", random, tally)
    }

    /// The calls of the command with the faults that `sample` names, in the given `state`.
    pub(crate) fn sampled_calls(
        &self,
        sample: Sample,
        state: &str,
        random: &mut Random,
        tally: &mut Tally,
    ) -> Vec<String> {
        let cases = cases(&self.calls(), sample, random);
        let mut found = Vec::new();
        for kind in [KILLS, MOMENTS, ERRORS] {
            let ours = cases.iter().filter(|case| kind_of(case) == kind);
            let ours = ours.cloned().map(Trouble::Call);
            let troubles: Vec<_> = ours.collect();
            found.extend(self.findings(&troubles));
            let missed = self.missed.take();
            tally.tried(troubles.len() as u64 - missed, &format!("{kind}{state}"));
            if missed > 0 {
                tally.tried(missed, MISSED);
            }
        }
        found
    }

    /// Names, sizes and data, without what differs between runs.
    fn shape(&self) -> String {
        let mut names = names_below(&self.dir);
        names.sort();
        let tell = |name: &String| {
            let size = std::fs::metadata(self.dir.join(name)).map_or(0, |found| found.len());
            format!("{name} {size}\n")
        };
        let data = ["d.json", "j.jsonl"].map(|name| std::fs::read(self.dir.join(name)).ok());
        names.iter().map(tell).chain([format!("{data:?}")]).collect()
    }

    fn files(&self) -> Vec<String> {
        let mut files: Vec<_> = names_below(&self.dir);
        files.push(".tenure/d.json.tmp.0000000000000000".to_owned());
        let path = |name: &String| self.dir.join(name).into_os_string().into_string().unwrap();
        let mut files: Vec<_> = files.iter().map(path).collect();
        files.push("/proc/sys/kernel/random/boot_id".to_owned());
        files
    }
}

/// The label of the count.
fn kind_of(case: &Case) -> &'static str {
    match case.fault {
        Fault::Kill => KILLS,
        _ if case.with.is_empty() => ERRORS,
        _ => MOMENTS,
    }
}

/// Every file below `dir`, by its path from there.
pub(crate) fn names_below(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for name in names(dir) {
        if dir.join(&name).is_dir() {
            let below = names_below(&dir.join(&name));
            found.extend(below.into_iter().map(|below| format!("{name}/{below}")));
        } else {
            found.push(name);
        }
    }
    found
}

/// Sweeps one command: every call, and again while recovering from each kind of crash.
pub(crate) fn sweep(test: &str, job: Job) {
    if !strace::available() {
        return;
    }
    let mut tally = Tally::new(RING, test);
    let mut random = Random::new(seed(RING, test));
    let sweep = Sweep::new(job);
    let mut bad = sweep.all_calls(&mut random, &mut tally);
    let mut crashes: Vec<_> = sweep.crashes.take().into_values().collect();
    if sweep.is_of_a_reader() {
        crashes.clear();
    }
    while crashes.len() > Form::asked().pick(1, CRASHES) {
        crashes.swap_remove(random.index(crashes.len()));
    }
    let mut sample = RECOVERING_FIRST;
    for crash in crashes {
        let Some(again) = Sweep::at(job, sweep.dir.clone(), Some(crash)) else { continue };
        let state = " while recovering from a crash";
        bad.extend(again.sampled_calls(sample, state, &mut random, &mut tally));
        sample = RECOVERING;
    }
    conclude(&bad, &tally);
}

/// There are no findings, and enough was tried.
pub(crate) fn conclude(bad: &[String], tally: &Tally) {
    assert!(bad.is_empty(), "{} bad:\n{}", bad.len(), bad.join("\n"));
    let missed = tally.cases_of(MISSED);
    assert!(tally.cases() - missed > 20, "too little to tell: {tally:?}");
    let most = tally.cases() * MISSED_MAX / 100 + MISSED_ANYWAY;
    assert!(missed <= most, "too many {MISSED}: {tally:?}");
}
