//! File systems on a device of their own, and in memory.

use tenure_proof::mount::{
    BTRFS, EXT4, EXT4_SMALL_BLOCKS, EXT4_WRITEBACK, Format, Mounted, Turn, XFS, may_mount, memory,
};

use crate::{read_only, suite};

fn on_a_device(format: &Format) {
    if !may_mount(format.name) {
        return;
    }
    let _turn = Turn::take();
    let scratch = memory();
    let mounted = format.mount(&format.image(scratch.path()));
    on(format.name, mounted);
}

fn on(name: &str, mounted: Mounted) {
    let mut tally = suite::run(name, mounted.path());
    read_only::after_remount(&mounted, &mut tally);
    mounted.unmount();
}

#[test]
fn ext4() {
    on_a_device(&EXT4);
}

#[test]
fn ext4_with_small_blocks() {
    on_a_device(&EXT4_SMALL_BLOCKS);
}

#[test]
fn ext4_with_writeback() {
    on_a_device(&EXT4_WRITEBACK);
}

#[test]
fn xfs() {
    on_a_device(&XFS);
}

#[test]
fn btrfs() {
    on_a_device(&BTRFS);
}

#[test]
fn tmpfs() {
    if may_mount("tmpfs") {
        let _turn = Turn::take();
        on("tmpfs", Mounted::new("none".as_ref(), "tmpfs", "size=24m"));
    }
}
