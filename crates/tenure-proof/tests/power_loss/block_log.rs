//! The block device under ext4, xfs and btrfs, cut between any two of its writes and flushes.

use tenure_proof::block_log::{BlockLog, Cut, Image, Step};
use tenure_proof::mount::{BTRFS, EXT4, Format, Loop, Mounted, Turn, XFS, may_mount, memory};
use tenure_proof::victim::Broken;
use tenure_proof::{Form, Tally, seed};
use tenure_testkit::Random;

use crate::RING;
use crate::victims::{Scene, Victim, tell_to};

/// A recorded run of victims.
struct Run {
    base: Image,
    steps: Vec<Step>,
}

const DIR: &str = "work";
/// A long run cuts before and after this many flushes, spread over the whole run.
const LONG_FLUSHES: usize = 150;

fn record(format: &Format, rounds: u64, broken: Option<Broken>) -> Run {
    let scratch = memory();
    let image = format.image(scratch.path());
    let mounted = format.mount(&image);
    mounted.directory(DIR);
    mounted.unmount();
    let base = Image::read(&image).expect("the image can be read");
    let log = BlockLog::over(base.clone()).expect("the recording device can be mounted");
    // Dropped in the opposite order: victims killed, unmounted, detached; then the device.
    let device = Loop::over(&log.disk());
    let mounted = Mounted::new(device.path(), format.kind, format.options);
    let dir = mounted.path().join(DIR);
    let scene = Scene { dir: &dir, losses: 0, broken };
    let start = |nth| Victim::start(&scene, nth, Some(rounds), tell_to(&log.ack()));
    let victims: Vec<Victim> = (1..=3).map(start).collect();
    victims.into_iter().for_each(Victim::finish);
    let steps = log.steps();
    mounted.unmount();
    drop(device);
    Run { base, steps }
}

/// What is wrong with a disk after a cut.
#[derive(Debug)]
enum Found {
    /// The file system itself does not survive; none of the three has shown that on a disk that
    /// writes its [`Format::atom`] atomically.
    FileSystem(String),
    /// Something that was acknowledged is not there, or not whole.
    Victim(String),
}

fn finding(run: &Run, format: &Format, at: usize, random: &mut Random) -> Option<Found> {
    let cut = Cut::after(&run.base, &run.steps, at, format.atom, random);
    let scratch = memory();
    let path = scratch.path().join("image");
    cut.image.save(&path).expect("the cut image can be written");
    let mounted = match Mounted::try_new(&path, format.kind, &format.with("loop")) {
        Ok(mounted) => mounted,
        Err(problem) => return Some(Found::FileSystem(problem)),
    };
    let dir = mounted.path().join(DIR);
    let scene = Scene { dir: &dir, losses: 0, broken: None };
    let found = scene.check(&cut.acks).err();
    mounted.unmount();
    found.map(|found| Found::Victim(format!("cut after step {at} of {}: {found}", run.steps.len())))
}

/// How many steps come before each flush.
fn flushes_of(run: &Run) -> Vec<usize> {
    let steps = run.steps.iter().enumerate();
    steps.filter(|(_, step)| matches!(step, Step::Flush)).map(|(at, _)| at).collect()
}

/// At most this many of these, from all parts of the run.
fn some_of(all: Vec<usize>, most: usize) -> Vec<usize> {
    let step = all.len().div_ceil(most.max(1)).max(1);
    all.into_iter().step_by(step).collect()
}

fn survives(test: &str, format: &Format, cuts: u64, quick_flushes: usize) {
    if !may_mount(test) {
        return;
    }
    let mut random = Random::new(seed(RING, test));
    let _turn = Turn::take();
    let mut tally = Tally::new(RING, test);
    let run = record(format, Form::asked().pick(4, 15), None);
    let count = |is: fn(&Step) -> bool| run.steps.iter().filter(|step| is(step)).count();
    let writes = count(|step| matches!(step, Step::Write { .. }));
    let flushes = flushes_of(&run).len();
    let told = count(|step| matches!(step, Step::Told(_)));
    println!("{}: {writes} writes, {flushes} flushes, {told} acknowledgements", format.name);
    assert!(flushes > 20 && told > 20, "the device sees what the victims do");
    let mut cut = |at: usize, random: &mut Random, what: &str| {
        let found = finding(&run, format, at, random);
        assert!(found.is_none(), "{}: {found:?}", format.name);
        tally.tried(1, &format!("{what} of a block device under {}", format.name));
    };
    for _ in 0..cuts {
        cut(random.index(run.steps.len() + 1), &mut random, "cuts");
    }
    // Before each flush most writes are pending, and after it none may be.
    let flushes = flushes_of(&run);
    let most = Form::asked().pick(quick_flushes, LONG_FLUSHES);
    for at in some_of(flushes, most) {
        cut(at, &mut random, "cuts before a flush");
        cut(at + 1, &mut random, "cuts after a flush");
    }
}

#[test]
fn g8_a_disk_that_is_cut_under_ext4_loses_nothing_acknowledged() {
    survives("a_disk_that_is_cut_under_ext4", &EXT4, Form::asked().pick(40, 1500), 8);
}

#[test]
fn g8_a_disk_that_is_cut_under_xfs_loses_nothing_acknowledged() {
    survives("a_disk_that_is_cut_under_xfs", &XFS, Form::asked().pick(15, 500), 3);
}

#[test]
fn g8_a_disk_that_is_cut_under_btrfs_loses_nothing_acknowledged() {
    survives("a_disk_that_is_cut_under_btrfs", &BTRFS, Form::asked().pick(15, 500), 3);
}

#[test]
fn broken_victims_are_found_out_by_cutting_the_disk() {
    let test = "broken_victims_are_found_out_by_cutting_the_disk";
    if !may_mount(test) {
        return;
    }
    let mut random = Random::new(seed(RING, test));
    let _turn = Turn::take();
    let mut tally = Tally::new(RING, test);
    let cases = [
        (EXT4, Broken::NoFileSync),
        (EXT4, Broken::NoDirSync),
        (EXT4, Broken::NoLogSync),
        (BTRFS, Broken::NoFileSync),
        (XFS, Broken::NoFileSync),
    ];
    for (format, broken) in cases {
        let run = record(&format, 4, Some(broken));
        let cut = |_| {
            let at = random.index(run.steps.len() + 1);
            match finding(&run, &format, at, &mut random)? {
                Found::Victim(found) => Some(found),
                Found::FileSystem(problem) => panic!("{}: {problem}", format.name),
            }
        };
        let name = broken.name();
        let found = (0..80).find_map(cut);
        let found = found.unwrap_or_else(|| panic!("{}: {name} is not found out", format.name));
        println!("{}: {name}: {found}", format.name);
        tally.caught(&format!("{name}, by a cut of the disk under {}", format.name));
    }
}
