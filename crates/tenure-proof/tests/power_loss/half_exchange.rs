//! btrfs, cut when it has kept one half of an exchange of names.
//!
//! A sync of a file on btrfs syncs a log of what was synced since the last commit, and of nothing
//! else. If the log includes the document's directory, an exchange adds the new name of the old
//! version, which it knows, but not that of the new version, if that was never synced. A power loss
//! after any process's sync then leaves no file under the document's name. So tenure always syncs a
//! new version there.

use std::fs::File;
use std::path::Path;

use tenure::options::Durability;
use tenure::{Document, Value, WriteOptions, json};
use tenure_proof::block_log::Image;
use tenure_proof::mount::{BTRFS, Mounted, Turn, may_mount, memory};
use tenure_proof::{Tally, not_run};

use crate::RING;

const DOCUMENT: &str = "state.json";
/// Files that another process syncs: beside the document, and elsewhere.
const OTHERS: [&str; 2] = ["d/beside", "elsewhere"];

/// Makes the document, replaces it by `change`, has `other` synced, and cuts the power. `look`
/// checks the result.
fn cut<T>(
    other: &str,
    make: impl FnOnce(&Path),
    change: impl FnOnce(&Path),
    look: impl FnOnce(&Path) -> T,
) -> T {
    let scratch = memory();
    let image = BTRFS.image(scratch.path());
    let mounted = BTRFS.mount(&image);
    let dir = mounted.directory("d");
    let others = OTHERS.map(|name| File::create(mounted.path().join(name)).unwrap());
    make(&dir);
    rustix::fs::syncfs(File::open(&dir).unwrap()).unwrap();
    // From here to the next commit the directory is in the log.
    File::create(dir.join("new")).unwrap();
    File::open(&dir).unwrap().sync_all().unwrap();
    change(&dir);
    let at = OTHERS.iter().position(|name| *name == other).unwrap();
    others[at].set_len(1).unwrap();
    others[at].sync_all().unwrap();
    let left = scratch.path().join("left");
    Image::read(&image).unwrap().save(&left).unwrap();
    drop(others);
    mounted.unmount();
    let mounted = Mounted::new(&left, BTRFS.kind, &BTRFS.with("loop"));
    let found = look(&mounted.path().join("d"));
    mounted.unmount();
    found
}

fn options(durability: Durability) -> WriteOptions {
    WriteOptions { durability, ..WriteOptions::default() }
}

#[test]
fn g5_a_document_keeps_its_name_whatever_half_of_an_exchange_btrfs_keeps() {
    let test = "half_exchange";
    if !may_mount(test) {
        return;
    }
    let _turn = Turn::take();
    let mut tally = Tally::new(RING, test);
    let mut by_half = 0;
    for other in OTHERS {
        let make = |dir: &Path| {
            let temp = dir.join("temp");
            std::fs::create_dir(&temp).unwrap();
            let file = File::create(dir.join(DOCUMENT)).unwrap();
            file.set_len(7).and_then(|()| file.sync_all()).unwrap();
        };
        let exchanges = |dir: &Path| {
            let (new, name) = (dir.join("temp/new"), dir.join(DOCUMENT));
            File::create(&new).unwrap().set_len(8).unwrap();
            let here = rustix::fs::CWD;
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            rustix::fs::renameat_with(here, &new, here, &name, flags).unwrap();
        };
        let left = cut(other, make, exchanges, |dir| dir.join(DOCUMENT).exists());
        if left {
            not_run(&format!("half an exchange, {other} synced: this btrfs keeps exchanges whole"));
        } else {
            by_half += 1;
        }
        let make = |dir: &Path| {
            let document = Document::open(dir.join(DOCUMENT)).unwrap();
            for n in [6, 7] {
                document.set(&json!({ "n": n }), &options(Durability::Durable)).unwrap();
            }
        };
        let changes = |dir: &Path| {
            let document = Document::open(dir.join(DOCUMENT)).unwrap();
            document.set(&json!({ "n": 8 }), &options(Durability::NoSync)).unwrap();
        };
        let look = |dir: &Path| {
            let plain = std::fs::read(dir.join(DOCUMENT)).unwrap();
            let read = Document::open(dir.join(DOCUMENT)).unwrap().read().unwrap();
            (serde_json::from_slice::<Value>(&plain).unwrap(), read.unwrap().value)
        };
        let (plain, read) = cut(other, make, changes, look);
        assert_eq!(plain, read, "{other}: a plain reader finds it, too");
        assert!(read["n"].as_u64() >= Some(7), "{other}: {read}");
        let kept = if left { "whole" } else { "by half" };
        tally.tried(1, &format!("exchanges of names that btrfs kept {kept}"));
    }
    if by_half == OTHERS.len() {
        tally.caught("an exchange of names without a sync of the new file, on btrfs");
    }
}
