//! What a power loss leaves of the bytes of a file.

use std::io;
use std::path::Path;

use tenure::fs::{Access, Fs};
use tenure_testkit::{Survival, Times};

use crate::{after_power_loss, contents, machine, outcome, sync, write};

#[test]
fn synced_bytes_always_stay() -> io::Result<()> {
    let work = |fs: &_| {
        write(fs, "/d/a", b"kept")?;
        sync(fs, "/d/a")?;
        Fs::sync_dir(fs, Path::new("/d"))
    };
    let found = after_power_loss(work, contents(["/d/a"]))?;
    assert_eq!(found, [outcome([Some("kept")])].into());
    Ok(())
}

#[test]
fn unsynced_bytes_are_there_or_gone_or_zeros_or_torn() -> io::Result<()> {
    let work = |fs: &_| {
        write(fs, "/d/a", b"xyz")?;
        Fs::sync_dir(fs, Path::new("/d"))
    };
    let found = after_power_loss(work, contents(["/d/a"]))?;
    for expected in ["", "xyz", "\0\0\0", "x", "xy", "x\0\0", "\0\0z"] {
        assert!(found.contains(&outcome([Some(expected)])), "{expected:?} in {found:?}");
    }
    assert!(!found.contains(&outcome([None])));
    Ok(())
}

#[test]
fn an_overwrite_leaves_old_bytes_where_the_new_ones_are_lost() -> io::Result<()> {
    let work = |fs: &tenure_testkit::SimFs| {
        fs.add_file("/d/a", "aaaa");
        write(fs, "/d/a", b"bb")
    };
    let found = after_power_loss(work, contents(["/d/a"]))?;
    let expected = ["aaaa", "bbaa", "baaa", "abaa"].map(|text| outcome([Some(text)]));
    assert_eq!(found, expected.into());
    Ok(())
}

#[test]
fn writes_survive_in_any_combination() -> io::Result<()> {
    let work = |fs: &tenure_testkit::SimFs| {
        fs.add_file("/d/a", "...");
        let file = fs.open(Path::new("/d/a"), Access::ReadWrite)?;
        file.write_all_at(b"1", 0)?;
        file.write_all_at(b"2", 1)?;
        file.write_all_at(b"3", 2)
    };
    let found = after_power_loss(work, contents(["/d/a"]))?;
    assert_eq!(found.len(), 8, "{found:?}");
    Ok(())
}

#[test]
fn a_long_write_can_lose_a_sector_in_the_middle() -> io::Result<()> {
    let work = |fs: &tenure_testkit::SimFs| {
        fs.add_file("/d/a", vec![b'o'; 2048]);
        write(fs, "/d/a", &[b'n'; 2048])
    };
    let sectors = |fs: &tenure_testkit::SimFs| {
        let bytes = fs.peek("/d/a").unwrap_or_default();
        [0, 512, 1024, 1536].map(|start| {
            let sector = &bytes[start..start + 512];
            if sector.iter().all(|byte| *byte == sector[0]) { sector[0] } else { b'?' }
        })
    };
    let found = after_power_loss(work, sectors)?;
    assert!(found.contains(b"nono"), "{found:?}");
    assert!(found.contains(b"noon"));
    assert!(found.iter().any(|sectors| sectors.contains(&b'?')), "torn inside a sector");
    Ok(())
}

#[test]
fn a_truncation_is_pending_like_a_write() -> io::Result<()> {
    let work = |fs: &tenure_testkit::SimFs| {
        fs.add_file("/d/a", "12345");
        fs.open(Path::new("/d/a"), Access::ReadWrite)?.set_len(2)
    };
    let found = after_power_loss(work, contents(["/d/a"]))?;
    assert_eq!(found, ["12345", "12"].map(|text| outcome([Some(text)])).into());

    let synced = |fs: &_| work(fs).and_then(|()| sync(fs, "/d/a"));
    let found = after_power_loss(synced, contents(["/d/a"]))?;
    assert_eq!(found, [outcome([Some("12")])].into());
    Ok(())
}

#[test]
fn a_sync_is_of_one_file_only() -> io::Result<()> {
    let work = |fs: &tenure_testkit::SimFs| {
        fs.add_file("/d/a", "");
        fs.add_file("/d/b", "");
        write(fs, "/d/a", b"A")?;
        write(fs, "/d/b", b"B")?;
        sync(fs, "/d/b")
    };
    let found = after_power_loss(work, contents(["/d/a", "/d/b"]))?;
    assert!(found.iter().all(|[_, b]| b.as_deref() == Some("B")));
    assert!(found.iter().any(|[a, _]| a.as_deref() == Some("")));
    Ok(())
}

#[test]
fn the_chosen_luck_is_what_comes() -> io::Result<()> {
    let cases = [
        (Survival::Nothing, Some("old"), None),
        (Survival::Everything, Some("new"), Some("more")),
        (Survival::NamesOnly, Some("old"), Some("")),
        (Survival::DataOnly, Some("new"), None),
    ];
    for (survival, first, second) in cases {
        let fs = machine(7);
        fs.add_file("/d/a", "old");
        write(&fs, "/d/a", b"new")?;
        write(&fs, "/d/b", b"more")?;
        fs.crash_with(survival);
        assert_eq!(contents(["/d/a", "/d/b"])(&fs), outcome([first, second]), "{survival:?}");
    }
    Ok(())
}

#[test]
fn an_ordered_disk_never_has_the_later_without_the_earlier() -> io::Result<()> {
    for seed in 0..500 {
        let fs = machine(seed);
        write(&fs, "/d/a", b"1")?;
        write(&fs, "/d/b", b"2")?;
        fs.crash_with(Survival::Prefix);
        if fs.peek("/d/b").is_some() {
            assert_eq!(fs.peek("/d/a").as_deref(), Some(b"1".as_slice()), "{}", fs.history());
        }
    }
    Ok(())
}

#[test]
fn a_failed_sync_forgets_its_pages() -> io::Result<()> {
    let work = |fs: &tenure_testkit::SimFs| {
        fs.add_file("/d/a", "old");
        let file = fs.open(Path::new("/d/a"), Access::ReadWrite)?;
        file.write_all_at(b"new", 0)?;
        fs.inject(1, tenure_testkit::Fault::SyncFailure, Times::Once);
        assert!(file.sync().is_err());
        assert_eq!(fs.peek("/d/a").as_deref(), Some(b"new".as_slice()), "still visible");
        // The second sync finds nothing to do and reports success.
        file.sync()
    };
    let found = after_power_loss(work, contents(["/d/a"]))?;
    assert!(found.contains(&outcome([Some("old")])), "{found:?}");
    assert!(found.contains(&outcome([Some("new")])), "{found:?}");
    Ok(())
}

#[test]
fn bytes_written_again_after_a_failed_sync_are_safe_after_the_next() -> io::Result<()> {
    let work = |fs: &tenure_testkit::SimFs| {
        fs.add_file("/d/a", "old");
        let file = fs.open(Path::new("/d/a"), Access::ReadWrite)?;
        file.write_all_at(b"bad", 0)?;
        fs.inject(1, tenure_testkit::Fault::Io, Times::Once);
        assert!(file.sync().is_err());
        file.write_all_at(b"new", 0)?;
        file.sync()
    };
    let found = after_power_loss(work, contents(["/d/a"]))?;
    assert_eq!(found, [outcome([Some("new")])].into());
    Ok(())
}

/// For every kind of sync: the one that failed, once more, and then the power fails.
#[test]
fn every_kind_of_sync_forgets_what_it_failed_to_write() -> io::Result<()> {
    type Sync = fn(&(dyn tenure::fs::Handle + 'static)) -> io::Result<()>;
    let kinds: [(&str, Sync); 2] =
        [("sync", |file| file.sync()), ("sync_in_order", |file| file.sync_in_order())];
    for (name, sync) in kinds {
        let work = |fs: &tenure_testkit::SimFs| {
            let file = fs.open(Path::new("/d/a"), Access::Create(0o600))?;
            file.write_all_at(b"new", 0)?;
            fs.inject(1, tenure_testkit::Fault::SyncFailure, Times::Once);
            assert!(sync(file.as_ref()).is_err(), "{name}");
            sync(file.as_ref())?;
            fs.link(Path::new("/d/a"), Path::new("/d/b"))?;
            fs.sync_dir(Path::new("/d"))
        };
        let found = after_power_loss(work, contents(["/d/b"]))?;
        assert!(found.contains(&outcome([Some("")])), "{name}: {found:?}");
        assert!(found.contains(&outcome([Some("new")])), "{name}: {found:?}");
    }
    Ok(())
}
