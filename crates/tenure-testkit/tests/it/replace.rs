//! A small atomic replacement survives every crash; each broken one of it is found.

use std::io;
use std::path::Path;

use tenure::fs::{Access, Fs};
use tenure_testkit::{Broken, CrashKind, Random, SimFs};

use crate::machine;

/// What a careless author left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    Sync,
    SyncDir,
    Rename,
}

fn replace(fs: &SimFs, value: u64, without: Without) -> io::Result<()> {
    let (target, temp) = (Path::new("/d/value"), Path::new("/d/value.tmp"));
    let text = format!("value {value}.");
    let name = if without == Without::Rename { target } else { temp };
    let file = fs.open(name, Access::Create(0o600))?;
    file.set_len(0)?;
    file.write_all_at(text.as_bytes(), 0)?;
    if without != Without::Sync {
        file.sync()?;
    }
    if without != Without::Rename {
        fs.rename(temp, target)?;
    }
    if without != Without::SyncDir {
        fs.sync_dir(Path::new("/d"))?;
    }
    Ok(())
}

fn read(fs: &SimFs) -> Result<u64, String> {
    let Some(bytes) = fs.peek("/d/value") else { return Ok(0) };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let number = text.strip_prefix("value ").and_then(|text| text.strip_suffix('.'));
    number.and_then(|number| number.parse().ok()).ok_or(text)
}

/// Three lives, each ended at a random operation. What is found after each must be no older than the
/// acknowledged value and no newer than the last attempt. That a value is found does not acknowledge
/// it: after the death of a process it may still not be durable.
fn torture(seed: u64, without: Without, broken: Broken) -> Result<(), String> {
    let fs = machine(seed);
    fs.break_promises(broken);
    let mut random = Random::new(!seed);
    let (mut acknowledged, mut next) = (0, 1);
    for _life in 0..3 {
        let kind = if random.chance(64) { CrashKind::Process } else { CrashKind::Power };
        fs.fail_after(1 + random.below(14), kind);
        while replace(&fs, next, without).is_ok() {
            acknowledged = next;
            next += 1;
        }
        match kind {
            CrashKind::Process => fs.process_crash(),
            CrashKind::Power => fs.crash(),
        }
        let found = read(&fs).map_err(|text| format!("torn {text:?}\n{}", fs.history()))?;
        if found < acknowledged || found > next {
            return Err(format!("{found} after {acknowledged}\n{}", fs.history()));
        }
        next += 1;
    }
    Ok(())
}

fn finds(without: Without, broken: Broken) -> bool {
    (0..1_000).any(|seed| torture(seed, without, broken).is_err())
}

#[test]
fn the_right_order_survives_a_hundred_thousand_crashes() {
    // A quarter of the 135,000 are deaths of the process; the rest are power losses.
    for seed in 0..45_000 {
        if let Err(finding) = torture(seed, Without::Nothing, Broken::default()) {
            panic!("{finding}");
        }
    }
}

#[test]
fn a_missing_step_is_found() {
    for without in [Without::Sync, Without::SyncDir, Without::Rename] {
        assert!(finds(without, Broken::default()));
    }
}

#[test]
fn a_disk_that_lies_is_found() {
    assert!(finds(Without::Nothing, Broken { ignore_sync: true, ..Broken::default() }));
    assert!(finds(Without::Nothing, Broken { ignore_sync_dir: true, ..Broken::default() }));
}

#[test]
fn every_operation_is_a_place_to_crash() -> io::Result<()> {
    let dry = machine(0);
    replace(&dry, 1, Without::Nothing)?;
    for nth in 1..=dry.operations() + 1 {
        for seed in 0..200 {
            let fs = machine(seed);
            let _tell = fs.tell_on_panic();
            replace(&fs, 1, Without::Nothing)?;
            fs.fail_after(nth, CrashKind::Power);
            let done = replace(&fs, 2, Without::Nothing).is_ok();
            fs.crash();
            let found = read(&fs);
            assert!(found == Ok(2) || (!done && found == Ok(1)), "{nth}: {found:?}");
            replace(&fs, 3, Without::Nothing)?;
            assert_eq!(read(&fs), Ok(3));
        }
    }
    Ok(())
}
