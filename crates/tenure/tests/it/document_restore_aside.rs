//! A restore after the damage was copied aside: the copy was never synced, or its sync failed.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure::fs::Access;
use tenure::{Document, json};
use tenure_testkit::{CrashKind, Fault, SimFs, Times};

use crate::document_scratch::{at_once, durably, increment};
use crate::document_unsynced::{PATH, machine, open};
use crate::faulty_fs::{FaultyFs, Op, Verdict};

const DAMAGE: &[u8] = b"{\"n\": 2, and a line that somebody still wants";

/// Two versions, and then something that is none, which is on the disk.
fn damaged(seed: u64) -> SimFs {
    let fs = machine(seed);
    for n in [1, 2] {
        open(&fs).set(&json!({ "n": n }), &durably()).unwrap();
    }
    let file = fs.shared().open(Path::new(PATH), Access::ReadWrite).unwrap();
    file.set_len(0).unwrap();
    file.write_all_at(DAMAGE, 0).unwrap();
    file.sync().unwrap();
    fs
}

fn is_kept(fs: &SimFs) -> bool {
    let names = ["/d/.tenure/state.json.damaged.1", "/d/.tenure/state.json.damaged.2", PATH];
    names.iter().any(|name| fs.peek(name).as_deref() == Some(DAMAGE))
}

/// A change found the damage and copied it, and the power fails at any step of the restore that
/// follows.
#[test]
fn race_27_a_restore_does_not_rely_on_a_copy_that_nobody_has_synced() {
    for (seed, exchanges, durable) in (0..8).map(|seed| (seed, seed & 1 == 0, seed & 2 == 0)) {
        let options = if durable { durably() } else { at_once() };
        let start = damaged(seed);
        if !exchanges {
            start.inject(1, Fault::NoExchange, Times::Forever);
        }
        open(&start).update(&durably(), increment).unwrap_err();
        for nth in 1.. {
            let fs = start.fork(seed + nth);
            fs.fail_after(nth, CrashKind::Power);
            let _ = open(&fs).restore(&options);
            let died = fs.is_down();
            fs.crash();
            let _ = open(&fs).restore(&options);
            open(&fs).set(&json!({ "n": 4 }), &options).unwrap();
            assert!(is_kept(&fs), "seed {seed}, step {nth}\n{}", fs.history());
            if !died {
                break;
            }
        }
    }
}

/// Where names can be neither exchanged nor linked, the copy is all that is left.
#[test]
fn race_54_a_copy_aside_whose_sync_failed_is_made_anew() {
    for seed in 0..20 {
        let sim = damaged(seed);
        let (disk, armed) = (sim.clone(), AtomicU64::new(1));
        let poor = FaultyFs::on(sim.shared(), move |op, path| {
            let is_copy = op == Op::Sync && path.to_string_lossy().ends_with(".damaged.1");
            if is_copy && armed.swap(0, Ordering::Relaxed) > 0 {
                disk.inject(1, Fault::FileSyncFailure, Times::Once);
            }
            match op {
                Op::Exchange | Op::Link => Verdict::Fail(io::ErrorKind::Unsupported.into()),
                _ => Verdict::Go,
            }
        });
        let document = Document::open_on(&poor.shared(), Path::new(PATH)).unwrap();
        document.restore(&durably()).unwrap_err();
        document.restore(&durably()).unwrap();
        sim.crash();
        assert!(is_kept(&sim), "seed {seed}\n{}", sim.history());
    }
}
