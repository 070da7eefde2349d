//! Power loss and process death at every operation of a document, and again during the recovery.
//!
//! The production code runs on a simulated disk. A finding names the seed; the same seed gives the
//! same finding.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tenure::options::Durability;
use tenure::{Document, Lock, LockOptions, Value, Wait, WriteOptions, json};
use tenure_testkit::{Broken, CrashKind, Fault, Random, SimFs, Times};

use crate::scratch::seeds;

const PATH: &str = "/d/state.json";
/// Sidecars that may stay; anything else is a left-over.
const MAY_STAY: [&str; 10] = [
    ".gitignore",
    "hold",
    "commit",
    "sync0",
    "sync1",
    "good",
    "ops",
    "damaged.",
    "events",
    ".tenure",
];

/// What a run does between its crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Durable updates only: plain readers are served too.
    Durable,
    /// Durable updates on a file system that cannot exchange two names.
    DurableByRename,
    /// Updates without a sync.
    NoSync,
    /// Durable or not, with and without operation ids, under a lock, restored, unchanged.
    Mixed,
}

/// What must be true of the document.
#[derive(Debug, Clone, Copy, Default)]
struct Model {
    /// The newest version that was ever tried.
    tried: u64,
    /// The newest that was acknowledged: survives any process.
    acked: u64,
    /// The newest that was acknowledged as durable: survives the power.
    synced: u64,
    /// Tried by a process that died, with no change since. If a power loss takes the document, its
    /// temporary file is the newest version there is, and may be used instead.
    dead: u64,
}

#[derive(Clone)]
struct World {
    fs: SimFs,
    model: Model,
    work: Work,
    /// Plain readers are served: no repair of ours is pending.
    plain: bool,
}

type Finding = String;

impl World {
    fn new(work: Work, seed: u64, device: u64, broken: Broken) -> Self {
        let fs = SimFs::new(seed);
        fs.set_device(device);
        fs.add_dir("/d");
        fs.break_promises(broken);
        let poor = matches!(work, Work::NoSync | Work::Mixed) && seed % 4 == 3;
        if work == Work::DurableByRename || poor {
            fs.inject(1, Fault::NoExchange, Times::Forever);
        }
        Self { fs, model: Model::default(), work, plain: true }
    }

    fn fork(&self, seed: u64) -> Self {
        Self { fs: self.fs.fork(seed), ..*self }
    }

    fn document(&self) -> Result<Document, Finding> {
        let opened = Document::open_on(&self.fs.shared(), Path::new(PATH));
        opened.map_err(|error| self.finding(&format!("cannot be opened: {error}")))
    }

    fn finding(&self, what: &str) -> Finding {
        format!("{what}\n{:?}, {:?}\n{}", self.work, self.model, self.fs.history())
    }

    /// One step of the work. An error is fine if the machine is down.
    fn step(&mut self, random: &mut Random) -> Result<(), Finding> {
        let document = self.document()?;
        let nth = self.model.tried + 1;
        let durable = match self.work {
            Work::Durable | Work::DurableByRename => true,
            Work::NoSync => false,
            Work::Mixed => random.chance(96),
        };
        let durability = if durable { Durability::Durable } else { Durability::NoSync };
        let mut options = WriteOptions { wait: Wait::No, durability, ..WriteOptions::default() };
        let mut held = None;
        if self.work == Work::Mixed {
            match random.below(6) {
                0 => options.operation = Some(format!("operation {nth}")),
                1 => {
                    let lock = Lock::open_on(&self.fs.shared(), Path::new(PATH));
                    let how = LockOptions { wait: Wait::No, ..LockOptions::default() };
                    held = lock.and_then(|lock| lock.acquire(&how)).ok();
                    options.fence = held.as_ref().map(tenure::LockGuard::publish_fence);
                }
                2 if self.model.acked > 0 => drop(document.restore(&options)),
                3 => {
                    let same = document.update(&options, |current| Ok(current.cloned()));
                    if same.is_ok() && durable {
                        self.model.synced = self.model.acked;
                    }
                }
                _ => {}
            }
        }
        if self.fs.is_down() {
            return Ok(());
        }
        self.model.tried = nth;
        let done = document.update(&options, |_| Ok(Some(checked(nth))));
        drop(held);
        match done {
            Ok(_) => {
                (self.model.acked, self.model.dead) = (nth, 0);
                if durable {
                    self.model.synced = nth;
                }
                Ok(())
            }
            Err(_) if self.fs.is_down() => Ok(()),
            Err(error) => Err(self.finding(&format!("a step fails without a crash: {error}"))),
        }
    }

    /// Checks what a crash left, as a plain reader and as a tenure reader.
    fn examine(&mut self, kind: CrashKind) -> Result<(), Finding> {
        let dead = self.model.dead.max(self.model.tried);
        let allowed = match kind {
            CrashKind::Power => self.model.synced..=dead,
            CrashKind::Process => self.model.acked..=self.model.tried,
        };
        let durable_only = matches!(self.work, Work::Durable | Work::DurableByRename);
        let plain = self.fs.peek(PATH);
        if kind == CrashKind::Power && !durable_only {
            // It may be cut, until the next change repairs it.
            self.plain = plain.as_ref().is_none_or(|bytes| number_in(bytes).is_some());
        } else if self.plain {
            let number = plain.as_ref().map_or(Some(0), |bytes| number_in(bytes));
            if !number.is_some_and(|number| allowed.contains(&number)) {
                let text = plain.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                return Err(self.finding(&format!("a plain reader finds {text:?}")));
            }
        }
        let read = self.document()?.read();
        let read = read.map_err(|error| self.finding(&format!("a reader fails: {error}")))?;
        let number = read.as_ref().map_or(Some(0), |found| number_in(&found.bytes));
        let Some(number) = number.filter(|number| allowed.contains(number)) else {
            let found = read.map(|found| found.value);
            return Err(self.finding(&format!("a reader finds {found:?}, allowed {allowed:?}")));
        };
        self.model = match kind {
            // After a power loss, whatever can be read is on the disk.
            CrashKind::Power => Model { tried: number, acked: number, synced: number, dead },
            CrashKind::Process => Model { tried: number, acked: number, dead, ..self.model },
        };
        Ok(())
    }

    /// The next change: builds on what the readers saw, and cleans up.
    fn recover(&mut self) -> Result<(), Finding> {
        let (document, before) = (self.document()?, self.model.tried);
        let mut seen = None;
        self.model.tried += 1;
        let options = WriteOptions { wait: Wait::No, ..WriteOptions::default() };
        let done = document.update(&options, |current| {
            let number = current.map_or(Some(0), number_of);
            seen = Some(number);
            Ok(Some(checked(number.unwrap_or(0) + 1)))
        });
        if seen.is_some_and(|number| number != Some(before)) {
            return Err(self.finding(&format!("read {before}, but the update found {seen:?}")));
        }
        match done {
            Err(_) if self.fs.is_down() => return Ok(()),
            Err(error) => return Err(self.finding(&format!("the next change fails: {error}"))),
            Ok(_) => {}
        }
        let done = self.model.tried;
        self.model = Model { tried: done, acked: done, synced: done, dead: 0 };
        self.plain = true;
        let plain = self.fs.peek(PATH).and_then(|bytes| number_in(&bytes));
        if plain != Some(self.model.tried) {
            return Err(self.finding(&format!("after the next change the file has {plain:?}")));
        }
        self.left_over().map_or(Ok(()), |name| Err(self.finding(&format!("left over: {name}"))))
    }

    fn left_over(&self) -> Option<String> {
        let names = self.fs.shared().list(Path::new("/d/.tenure")).unwrap_or_default();
        let mut names = names.iter().map(|name| name.to_string_lossy().into_owned());
        let end = |name: &String| name.trim_start_matches("state.json.").to_owned();
        names.find(|name| !MAY_STAY.iter().any(|stays| end(name).starts_with(stays)))
    }

    fn die(&self, kind: CrashKind) {
        match kind {
            CrashKind::Power => self.fs.crash(),
            CrashKind::Process => self.fs.process_crash(),
        }
    }
}

/// Version `number`: every byte depends on it, and lengths differ by sectors.
fn checked(number: u64) -> Value {
    let length = usize::try_from(number * 997 % 1500).unwrap_or(0);
    let letter = char::from(b'a' + u8::try_from(number % 26).unwrap_or(0));
    json!({ "n": number, "pad": letter.to_string().repeat(length), "end": number })
}

fn number_of(value: &Value) -> Option<u64> {
    let number = value["n"].as_u64()?;
    (*value == checked(number)).then_some(number)
}

fn number_in(bytes: &[u8]) -> Option<u64> {
    serde_json::from_slice(bytes).ok().as_ref().and_then(number_of)
}

/// Crashes one seed's work at every operation, `lucks` times each, and again during the recovery.
fn crash_everywhere(
    start: &World,
    seed: u64,
    kind: CrashKind,
    lucks: u64,
    crashes: &AtomicU64,
) -> Result<(), Finding> {
    for nth in 1.. {
        let mut world = start.fork(seed);
        world.fs.fail_after(nth, kind);
        let mut random = Random::new(seed);
        for _ in 0..3 {
            if !world.fs.is_down() {
                world.step(&mut random)?;
            }
        }
        if !world.fs.is_down() {
            return Ok(());
        }
        for luck in 0..lucks {
            let mut random = Random::new(seed ^ (nth << 32) ^ (luck << 48));
            let mut world = world.fork(random.bits());
            world.die(kind);
            world.examine(kind)?;
            crashes.fetch_add(1, Ordering::Relaxed);
            if random.chance(96) {
                crash_again(world, &mut random, crashes)?;
            }
        }
    }
    Ok(())
}

/// What follows a crash: a repair or more work, which may crash again, and a repair at the end.
fn crash_again(mut world: World, random: &mut Random, crashes: &AtomicU64) -> Result<(), Finding> {
    for _ in 0..=random.below(3) {
        let kind = if random.coin() { CrashKind::Power } else { CrashKind::Process };
        world.fs.fail_after(1 + random.below(24), kind);
        if random.coin() {
            world.recover()?;
        } else {
            world.step(random)?;
        }
        if world.fs.is_down() || random.coin() {
            world.die(kind);
            world.examine(kind)?;
            crashes.fetch_add(1, Ordering::Relaxed);
        }
    }
    // Only the repair is left; no crash is armed any more.
    world.fs.process_crash();
    world.examine(CrashKind::Process)?;
    world.recover()
}

/// Locks are known by device and inode in the whole process, so each thread has a device.
static DEVICES: AtomicU64 = AtomicU64::new(1000);

/// Crashes the seeds of `work` on several threads until one finds something.
fn hunt(
    work: Work,
    seeds: &[u64],
    lucks: u64,
    threads: u64,
    broken: Broken,
) -> Result<u64, Finding> {
    let (crashes, next, found) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let (crashes, next, found) = (&crashes, &next, &found);
    let one = |seed: u64, device: u64| -> Result<(), Finding> {
        let mut random = Random::new(seed);
        let mut world = World::new(work, seed, device, broken);
        for _ in 0..random.below(5) {
            world.step(&mut random)?;
        }
        let kind = if random.chance(192) { CrashKind::Power } else { CrashKind::Process };
        crash_everywhere(&world, seed, kind, lucks, crashes)
    };
    let outcome = std::thread::scope(|scope| {
        let run = |device: u64| {
            move || -> Result<(), Finding> {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let seed = seeds.get(usize::try_from(index).unwrap_or(usize::MAX)).copied();
                    let Some(seed) = seed.filter(|_| !found.load(Ordering::Relaxed)) else {
                        return Ok(());
                    };
                    one(seed, device).map_err(|mut finding| {
                        found.store(true, Ordering::Relaxed);
                        let _ = write!(finding, "work {work:?}, seed {seed}");
                        finding
                    })?;
                }
            }
        };
        let threads: Vec<_> = (0..threads)
            .map(|_| scope.spawn(run(DEVICES.fetch_add(1, Ordering::Relaxed))))
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    });
    outcome.map(|()| crashes.load(Ordering::Relaxed))
}

/// Seeds with which long runs once found a defect.
const KNOWN: [u64; 8] = [87, 111, 119, 175, 242, 769, 1432, 1621];

/// `TENURE_CRASH_FACTOR` makes it a long run: so many times the seeds.
fn survives(work: Work, count: u64, lucks: u64, threads: u64, at_least: u64) {
    let factor = std::env::var("TENURE_CRASH_FACTOR").ok().and_then(|text| text.parse().ok());
    let asked = seeds(0..count * factor.unwrap_or(1));
    let whole = asked.end >= count;
    let known = KNOWN.into_iter().filter(|seed| whole && *seed >= count);
    match hunt(work, &asked.chain(known).collect::<Vec<_>>(), lucks, threads, Broken::default()) {
        Ok(crashes) => assert!(crashes >= at_least || !whole, "{crashes} crashes of {work:?}"),
        Err(finding) => panic!("{finding}"),
    }
}

#[test]
fn race_26_g5_g8_durable_updates_survive_power_loss_and_process_death_anywhere() {
    survives(Work::Durable, 300, 12, 2, 150_000);
}

#[test]
fn race_26_g5_g8_durable_updates_survive_without_an_exchange_of_names_too() {
    survives(Work::DurableByRename, 60, 12, 2, 30_000);
}

#[test]
fn race_26_g5_updates_without_a_sync_fall_back_to_the_last_synced_version() {
    survives(Work::NoSync, 60, 6, 48, 10_000);
}

#[test]
fn race_26_g5_g8_any_mixture_of_changes_survives_in_its_own_sense() {
    survives(Work::Mixed, 60, 6, 48, 10_000);
}

#[test]
fn a_disk_that_breaks_its_promises_is_noticed() {
    let seeds: Vec<u64> = (0..20).collect();
    let broken = |broken| hunt(Work::Durable, &seeds, 10, 2, broken);
    for lie in [
        Broken { ignore_sync: true, ..Broken::default() },
        Broken { ignore_sync_dir: true, ..Broken::default() },
        Broken { break_exchange_atomicity: true, ..Broken::default() },
    ] {
        let finding = broken(lie).expect_err("a lie must be found");
        assert!(finding.contains("seed"), "{lie:?}: {finding}");
    }
}

#[test]
fn race_26_g5_a_bare_number_is_never_cut_by_a_power_loss() {
    // Half of any other document cannot be parsed; half of 1234567 is a number.
    for seed in seeds(0..2000) {
        let fs = SimFs::new(seed);
        let _told = fs.tell_on_panic();
        fs.set_device(999);
        fs.add_dir("/d");
        let open = || Document::open_on(&fs.shared(), Path::new(PATH)).unwrap();
        let options = WriteOptions { durability: Durability::NoSync, ..WriteOptions::default() };
        let numbers = [json!(1_234_567), json!(-7_654_321), json!(2.625_281_8)];
        for number in &numbers {
            open().set(number, &options).unwrap();
        }
        fs.crash();
        let found = open().read().unwrap().map(|found| found.value);
        assert!(found.is_none_or(|found| numbers.contains(&found)), "it was never written");
    }
}
