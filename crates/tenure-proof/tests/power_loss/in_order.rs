//! Where order is enough, the tests on real file systems test that, and not a sync in its place.
//!
//! On ext4 with a journal and on xfs a new version of a document is only written before its name,
//! by `sync_file_range`. If tenure did not recognise the mounts of this ring as such, every
//! shutdown and every cut would test something else.

use std::path::Path;
use std::process::{Command, Stdio};

use tenure_proof::block_log::{BlockLog, Image};
use tenure_proof::mount::{
    BTRFS, EXT4, EXT4_WRITEBACK, Format, Loop, Mounted, Turn, XFS, may_mount, memory,
};
use tenure_proof::{Tally, strace};

use crate::RING;

/// How new versions of documents were written to the disk.
#[derive(Debug, Default, PartialEq, Eq)]
struct Syncs {
    in_order: u64,
    plain: u64,
}

/// What `strace` sees of a victim that changes documents on this file system.
fn syncs_on(mounted: &Mounted, log: &Path) -> Syncs {
    let dir = mounted.directory("traced");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-qq", "-e", "signal=none"]);
    strace.args(["-e", "trace=sync_file_range,fdatasync,fsync", "-o"]).arg(log);
    strace.arg(env!("CARGO_BIN_EXE_victim")).arg(dir);
    strace.args(["--tasks", "document,both,key", "--rounds", "3"]);
    let status = strace.stdin(Stdio::null()).stdout(Stdio::null()).status();
    assert!(status.expect("strace can be started").success());
    let text = std::fs::read_to_string(log).expect("strace has written its log");
    let count = |call: &str| {
        let is_it = |line: &&str| line.contains(call) && line.contains(".json.tmp.");
        text.lines().filter(is_it).count() as u64
    };
    Syncs { in_order: count("sync_file_range("), plain: count("fdatasync(") + count("fsync(") }
}

/// On an image of its own, as `shutdown` mounts it.
fn of_image(format: &Format) -> Syncs {
    let scratch = memory();
    let mounted = format.mount(&format.image(scratch.path()));
    let syncs = syncs_on(&mounted, &scratch.path().join("log"));
    mounted.unmount();
    syncs
}

/// On the recording device, as `block_log` mounts it.
fn of_block_log(format: &Format) -> Syncs {
    let scratch = memory();
    let image = format.image(scratch.path());
    let base = Image::read(&image).expect("the image can be read");
    let log = BlockLog::over(base).expect("the recording device can be mounted");
    let device = Loop::over(&log.disk());
    let mounted = Mounted::new(device.path(), format.kind, format.options);
    let syncs = syncs_on(&mounted, &scratch.path().join("log"));
    mounted.unmount();
    syncs
}

#[test]
fn new_versions_are_written_in_order_where_that_is_enough_and_synced_elsewhere() {
    let test = "new_versions_are_written_in_order";
    if !may_mount(test) || !strace::available() {
        return;
    }
    let _turn = Turn::take();
    let mut tally = Tally::new(RING, test);
    let known = [
        ("shut down", EXT4, of_image(&EXT4)),
        ("shut down", EXT4_WRITEBACK, of_image(&EXT4_WRITEBACK)),
        ("shut down", XFS, of_image(&XFS)),
        ("cut", EXT4, of_block_log(&EXT4)),
        ("cut", XFS, of_block_log(&XFS)),
    ];
    for (how, format, syncs) in known {
        println!("{}, as it is {how}: {syncs:?}", format.name);
        assert!(syncs.in_order >= 9, "{}, {how}: {syncs:?}", format.name);
        assert_eq!(syncs.plain, 0, "{}, {how}", format.name);
        tally.tried(syncs.in_order, "new versions written in order, seen by strace");
    }
    // The other file system, to show that the count distinguishes them.
    let synced = of_block_log(&BTRFS);
    assert!(synced.in_order == 0 && synced.plain >= 9, "btrfs: {synced:?}");
}
