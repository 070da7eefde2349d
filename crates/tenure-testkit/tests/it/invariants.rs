//! Random work and random crashes: the disk itself must stay a sound file system.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure::fs::{Access, FileId, Fs, Handle, Kind};
use tenure_testkit::{Broken, CrashKind, Fault, Random, SimFs, Survival, Times};

const DIRS: [&str; 3] = ["/d", "/e", "/d/sub"];
const NAMES: [&str; 4] = ["a", "b", "c", "g"];

fn any_path(random: &mut Random) -> PathBuf {
    Path::new(DIRS[random.index(3)]).join(NAMES[random.index(4)])
}

/// One operation; most fail for good reasons, which is part of the test.
fn any_step(fs: &SimFs, random: &mut Random, open: &mut Vec<Arc<dyn Handle>>) {
    let (path, other) = (any_path(random), any_path(random));
    let picked = (!open.is_empty()).then(|| open[random.index(open.len())].clone());
    let _may_fail = match random.below(14) {
        0..=2 => fs.open(&path, Access::Create(0o600)).map(|file| open.push(file)),
        3 => fs.rename(&path, &other),
        4 => fs.rename_new(&path, &other),
        5 => fs.exchange(&path, &other),
        6 => fs.link(&path, &other),
        7 => fs.remove(&path),
        8 => fs.sync_dir(Path::new(DIRS[random.index(3)])),
        9 => {
            open.truncate(2);
            Ok(())
        }
        10 => fs.create_dir(Path::new("/d/sub"), 0o700),
        step => picked.map_or(Ok(()), |file| match step {
            11 => file.write_all_at(&random.bits().to_le_bytes(), random.below(600)),
            12 => file.set_len(random.below(600)),
            _ => file.sync(),
        }),
    };
}

/// Every file by its path, and a check that the counts of names are right.
fn survey(fs: &SimFs) -> BTreeMap<PathBuf, (FileId, Vec<u8>)> {
    let mut files = BTreeMap::new();
    let mut names: BTreeMap<FileId, u64> = BTreeMap::new();
    let mut todo = vec![PathBuf::from("/")];
    while let Some(dir) = todo.pop() {
        for name in fs.list(&dir).unwrap_or_default() {
            let path = dir.join(name);
            let stat = fs.stat(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            match stat.kind {
                Kind::Directory => todo.push(path),
                Kind::File => {
                    *names.entry(stat.id).or_default() += 1;
                    files.insert(path.clone(), (stat.id, fs.peek(&path).unwrap_or_default()));
                }
                kind => panic!("{} is a {kind:?}", path.display()),
            }
        }
    }
    for path in files.keys() {
        let stat = fs.stat(path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(stat.links, names[&stat.id], "names of {}", path.display());
    }
    files
}

#[test]
fn the_disk_stays_sound_through_any_work_and_any_crash() {
    for seed in 0..3_000 {
        let fs = SimFs::new(seed);
        let _tell = fs.tell_on_panic();
        fs.add_dir("/d");
        fs.add_dir("/e");
        let mut random = Random::new(seed ^ 0xABCD);
        if random.chance(32) {
            fs.break_promises(Broken { break_exchange_atomicity: true, ..Broken::default() });
        }
        for _round in 0..4 {
            let mut open = Vec::new();
            if random.chance(64) {
                fs.inject(1 + random.below(3), Fault::SyncFailure, Times::Once);
            }
            fs.fail_after(1 + random.below(40), CrashKind::Power);
            for _step in 0..40 {
                any_step(&fs, &mut random, &mut open);
                if !fs.is_down() {
                    survey(&fs);
                }
            }
            fs.clear_faults();
            fs.crash();
            survey(&fs);
        }
    }
}

#[test]
fn what_is_synced_whole_or_kept_whole_comes_back_whole() {
    for seed in 0..2_000 {
        let fs = SimFs::new(seed);
        let _tell = fs.tell_on_panic();
        fs.add_dir("/d");
        fs.add_dir("/e");
        let mut random = Random::new(seed ^ 0x1234);
        for round in 0..4 {
            let mut open = Vec::new();
            for _step in 0..30 {
                any_step(&fs, &mut random, &mut open);
            }
            let before = survey(&fs);
            if round % 2 == 0 {
                fs.crash_with(Survival::Everything);
            } else {
                for path in before.keys() {
                    let synced = fs.open(path, Access::Read).and_then(|file| file.sync());
                    assert!(synced.is_ok());
                }
                for dir in ["/", "/d", "/e", "/d/sub"] {
                    // The last one need not exist.
                    let _may_fail = fs.sync_dir(Path::new(dir));
                }
                fs.crash();
            }
            assert_eq!(survey(&fs), before);
        }
    }
}
