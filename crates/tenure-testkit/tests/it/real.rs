//! The simulation against a real kernel: the same calls give the same answers.
//!
//! Linux only, since the order of its error checks is what the simulation follows.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure::fs::{Access, Fs, Handle, Kind, Mode};
use tenure_testkit::{Random, SimFs};

/// A directory of this test alone, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> io::Result<Self> {
        let name = format!("tenure-testkit-{test}-{}", std::process::id());
        let path = std::env::temp_dir().canonicalize()?.join(name);
        let _ = fs::remove_dir_all(&path); // Of an earlier process with our number.
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone_or_not = fs::remove_dir_all(&self.0);
    }
}

/// What one side answered: a text that both must agree on.
fn answer<T>(outcome: io::Result<T>, tell: impl FnOnce(T) -> String) -> String {
    match outcome {
        Ok(value) => tell(value),
        Err(error) => format!("{:?}", error.kind()),
    }
}

fn done(outcome: io::Result<()>) -> String {
    answer(outcome, |()| "done".into())
}

/// One side of the comparison: a file system and its open files.
struct Side {
    fs: Arc<dyn Fs>,
    open: Vec<Option<Arc<dyn Handle>>>,
}

impl Side {
    fn new(fs: Arc<dyn Fs>) -> Self {
        Self { fs, open: vec![None, None, None] }
    }

    /// Does the step that the numbers describe. Both sides get the same numbers.
    fn step(&mut self, base: &Path, random: &mut Random) -> String {
        let (path, other) = (any_path(base, random), any_path(base, random));
        let (slot, number) = (random.index(3), random.below(700));
        let bits = u32::try_from(number % 0o100).unwrap_or(0);
        let fs = &self.fs;
        let step = random.below(19);
        let on_names = match step {
            0..=2 => Some(self.open(slot, &path, random)),
            3 => Some(done(fs.rename(&path, &other))),
            // Below itself is refused by both, for different reasons.
            4 if other.starts_with(&path) => None,
            4 => Some(done(fs.rename_new(&path, &other))),
            5 => Some(done(fs.exchange(&path, &other))),
            6 => Some(done(fs.link(&path, &other))),
            7 => Some(done(fs.remove(&path))),
            8 => Some(done(fs.create_dir(&path, 0o750))),
            9 => Some(answer(fs.stat(&path), |stat| tell_stat(&stat))),
            10 => Some(answer(fs.list(&path), |mut names| {
                names.sort();
                format!("{names:?}")
            })),
            11 => Some(answer(fs.resolve(&path), |path| path.display().to_string())),
            12 => Some(done(fs.sync_dir(&path))),
            _ => None,
        };
        if let Some(answered) = on_names {
            return answered;
        }
        let Some(file) = self.open[slot].clone() else { return String::new() };
        match step {
            13 => done(file.write_all_at(&number.to_le_bytes(), number)),
            14 => done(file.set_len(number)),
            15 => done(file.sync().and_then(|()| file.set_mode(0o600 | bits))),
            16 => answer(file.read_range(0, 2_000), |bytes| format!("{bytes:?}")),
            17 => {
                let mode = if number % 2 == 0 { Mode::Shared } else { Mode::Exclusive };
                answer(file.try_lock(mode), |taken| taken.to_string())
            }
            _ => answer(file.stat(), |stat| tell_stat(&stat)),
        }
    }

    fn open(&mut self, slot: usize, path: &Path, random: &mut Random) -> String {
        let access = match random.below(4) {
            0 => Access::ReadWrite,
            1 => Access::CreateNew(0o600),
            _ => Access::Create(0o600),
        };
        // The old one is closed first, with its lock, so that both sides hold the same locks.
        self.open[slot] = None;
        answer(self.fs.open(path, access), |file| {
            self.open[slot] = Some(file);
            "open".into()
        })
    }
}

fn any_path(base: &Path, random: &mut Random) -> PathBuf {
    const PATHS: [&str; 9] = ["a", "b", "c", "s", "s/a", "s/b", "t", "t/a", "s/t"];
    base.join(PATHS[random.index(PATHS.len())])
}

fn tell_stat(stat: &tenure::fs::Stat) -> String {
    if stat.kind == Kind::Directory {
        // How directories count their size and links is up to each file system.
        return format!("directory {:o}", stat.mode);
    }
    format!("{:?} {} bytes, {} names, {:o}", stat.kind, stat.size, stat.links, stat.mode)
}

#[test]
fn the_same_calls_have_the_same_results_as_on_a_real_disk() -> io::Result<()> {
    let scratch = Scratch::new("calls")?;
    for seed in 0..300 {
        let base = scratch.0.join(seed.to_string());
        fs::create_dir(&base)?;
        let sim = SimFs::new(seed);
        let _tell = sim.tell_on_panic();
        sim.add_dir(&base);
        let (mut real, mut simulated) = (Side::new(tenure::disk()), Side::new(sim.shared()));
        let mut random = Random::new(seed);
        for number in 0..200 {
            let mut same = random.clone();
            let expected = real.step(&base, &mut random);
            let found = simulated.step(&base, &mut same);
            if expected == format!("{:?}", ErrorKind::Unsupported) {
                // A file system without exchange: the two would part here.
                break;
            }
            assert_eq!(found, expected, "seed {seed}, step {number}");
            random = same;
        }
        fs::remove_dir_all(&base)?;
    }
    Ok(())
}

#[test]
fn locks_go_the_same_way_as_on_a_real_disk() -> io::Result<()> {
    let scratch = Scratch::new("locks")?;
    let path = scratch.0.join("lock");
    let sim = SimFs::new(0);
    sim.add_dir(&scratch.0);
    let sides: [Arc<dyn Fs>; 2] = [tenure::disk(), sim.shared()];
    let mut random = Random::new(0);
    for round in 0..500 {
        let open = |fs: &Arc<dyn Fs>| -> io::Result<Vec<_>> {
            (0..3).map(|_| fs.open(&path, Access::Create(0o600))).collect()
        };
        let (real, simulated) = (open(&sides[0])?, open(&sides[1])?);
        for step in 0..20 {
            let (which, what) = (random.index(3), random.below(3));
            let act = |file: &Arc<dyn Handle>| match what {
                0 => file.try_lock(Mode::Shared),
                1 => file.try_lock(Mode::Exclusive),
                _ => file.unlock().map(|()| true),
            };
            let (expected, found) = (act(&real[which])?, act(&simulated[which])?);
            assert_eq!(found, expected, "round {round}, step {step}: {what} by {which}");
        }
    }
    Ok(())
}
