//! ext4 and xfs, shut down under working victims and mounted again: what was only in memory is
//! lost, and the journal of the file system is really replayed.

use tenure_proof::mount::{EXT4, EXT4_WRITEBACK, Format, Turn, XFS, may_mount, memory, shut_down};
use tenure_proof::victim::{Broken, survivors};
use tenure_proof::{Form, Tally, seed};
use tenure_testkit::Random;

use crate::RING;
use crate::victims::{Crowd, Scene};

/// How many power losses one directory gets.
const LOSSES: u64 = 4;

/// The results of some cycles of work, shutdown and mount.
#[derive(Default)]
struct Cycles {
    acks: u64,
    done: u64,
    finding: Option<String>,
}

/// Works, cuts, mounts and checks, until something is wrong or `cycles` are over.
fn run(format: &Format, cycles: u64, broken: Option<Broken>, random: &mut Random) -> Cycles {
    let scratch = memory();
    let image = format.image(scratch.path());
    let mut result = Cycles::default();
    // One directory survives several power losses, and everything ever acknowledged in it counts.
    let mut kept = Vec::new();
    while result.done < cycles && result.finding.is_none() {
        let losses = result.done % LOSSES;
        let name = format!("directory-{}", result.done / LOSSES);
        let mounted = format.mount(&image);
        if losses == 0 {
            if let Some(before) = (result.done / LOSSES).checked_sub(1) {
                // Otherwise the disk is full before a long run is over.
                let before = mounted.path().join(format!("directory-{before}"));
                std::fs::remove_dir_all(before).expect("what is done with can be removed");
            }
            mounted.directory(&name);
            kept.clear();
        }
        let dir = mounted.path().join(&name);
        let crowd = Crowd::start(&Scene { dir: &dir, losses, broken }, 3);
        // Only acknowledgements read before the cut count: a sync in flight may return although it
        // is lost.
        let acks = crowd.wait_for(1 + random.index(150));
        shut_down(mounted.path()).expect("the file system can be shut down");
        drop(crowd);
        mounted.unmount();
        result.acks += acks.len() as u64;
        kept.extend(acks);
        kept = survivors(&kept);
        let mounted = format.mount(&image);
        let dir = mounted.path().join(&name);
        match (Scene { dir: &dir, losses, broken }).check(&kept) {
            Ok(more) => kept.extend(more),
            Err(finding) => result.finding = Some(finding),
        }
        result.done += 1;
        mounted.unmount();
    }
    result
}

fn survives(test: &str, format: &Format, cycles: u64) {
    if !may_mount(test) {
        return;
    }
    let mut random = Random::new(seed(RING, test));
    let _turn = Turn::take();
    let mut tally = Tally::new(RING, test);
    let result = run(format, cycles, None, &mut random);
    let finding = result.finding;
    assert!(finding.is_none(), "{}, cycle {}: {finding:?}", format.name, result.done);
    println!("{}: {} cycles, {} acknowledgements", format.name, result.done, result.acks);
    tally.tried(result.done, &format!("shutdowns of {}", format.name));
    tally.tried(result.acks, "acknowledgements checked");
}

#[test]
fn g8_acknowledged_work_survives_the_shutdown_of_ext4() {
    survives("shutdown_of_ext4", &EXT4, Form::asked().pick(12, 300));
}

#[test]
fn g8_acknowledged_work_survives_the_shutdown_of_ext4_with_writeback() {
    survives("shutdown_of_ext4_with_writeback", &EXT4_WRITEBACK, Form::asked().pick(8, 200));
}

#[test]
fn g8_acknowledged_work_survives_the_shutdown_of_xfs() {
    survives("shutdown_of_xfs", &XFS, Form::asked().pick(8, 200));
}

/// The windows of the others are too short to be hit by a cut from outside; `states` finds them.
#[test]
fn broken_victims_are_found_out_by_a_shutdown() {
    let test = "broken_victims_are_found_out_by_a_shutdown";
    if !may_mount(test) {
        return;
    }
    let mut random = Random::new(seed(RING, test));
    let _turn = Turn::take();
    let mut tally = Tally::new(RING, test);
    for format in [EXT4, XFS] {
        for broken in [Broken::NoFileSync, Broken::NoDirSync, Broken::NoLogSync] {
            let result = run(&format, 40, Some(broken), &mut random);
            let name = broken.name();
            let found = result.finding;
            let found = found.unwrap_or_else(|| panic!("{}: {name} is not found out", format.name));
            println!("{}: {name} after {} cycles: {found}", format.name, result.done);
            tally.caught(&format!("{name}, by a shutdown of {}", format.name));
        }
    }
}
