//! Names, links, directories and mounts: which file a document is.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tenure::{Document, ErrorKind, Value, WriteOptions, json};

use crate::document_scratch::{
    Scratch, at_once, bytes_of, count_in, durably, foreign_write, increment,
};
use crate::faulty_fs::{FaultyFs, Op, Verdict};
use crate::roles::{may_mount, play};

#[test]
fn a_symlink_is_followed_and_stays_a_link() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("real")).unwrap();
    foreign_write(scratch.path("real/state.json"), "{\"n\": 1}");
    symlink("real/state.json", scratch.path("link.json")).unwrap();
    symlink("real", scratch.path("dir")).unwrap();
    for spelling in ["link.json", "dir/state.json", "dir/../real/state.json", "./link.json"] {
        let document = scratch.document(spelling);
        assert_eq!(document.path(), scratch.path("real/state.json"), "one target");
        document.update(&at_once(), increment).unwrap();
    }
    assert_eq!(count_in(&scratch.document("real/state.json")), 5);
    assert!(scratch.path("link.json").is_symlink());
    assert!(!scratch.path(".tenure").exists(), "the sidecars are beside the file itself");
}

#[test]
fn a_dangling_symlink_and_a_loop_are_refused() {
    let scratch = Scratch::new();
    symlink("nothing", scratch.path("dangling")).unwrap();
    symlink("loop", scratch.path("loop")).unwrap();
    let error = Document::open(scratch.path("dangling")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("symlink to nothing"), "{error}");
    let error = Document::open(scratch.path("loop")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    for (name, error) in [("dangling", "nothing"), ("loop", "loop")] {
        assert!(scratch.path(name).is_symlink(), "{name} {error}");
    }
    assert_eq!(scratch.listing().len(), 2);
}

#[test]
fn a_missing_directory_is_created_closed_to_others() {
    let scratch = Scratch::new();
    let document = scratch.document("a/b/state.json");
    assert!(document.read().unwrap().is_none());
    assert!(scratch.listing().is_empty());
    document.set(&json!({ "n": 1 }), &durably()).unwrap();
    for dir in ["a", "a/b"] {
        let mode = std::fs::metadata(scratch.path(dir)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{dir}");
    }
}

#[test]
fn g10_a_directory_removed_meanwhile_is_a_clear_error() {
    let scratch = Scratch::new();
    let document = scratch.document("gone/state.json");
    document.set(&json!({ "n": 1 }), &at_once()).unwrap();
    let compute = |current: Option<&Value>| {
        std::fs::remove_dir_all(scratch.path("gone")).unwrap();
        increment(current)
    };
    let error = document.update(&at_once(), compute).unwrap_err();
    assert!(error.path().is_some_and(|path| path.starts_with(scratch.dir())), "{error}");
    assert!(matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Compromised), "{error}");
    assert!(!scratch.path("gone").exists(), "an update does not bring it back behind their back");
    document.update(&at_once(), increment).unwrap();
    assert_eq!(count_in(&document), 1);
}

#[test]
fn names_of_every_kind_work_and_share_nothing() {
    // Sidecar names are made from these; no two of them may collide.
    let scratch = Scratch::new();
    let long = "x".repeat(255);
    let names: Vec<&[u8]> = vec![
        b"state.json",
        b"state.json.commit",
        b"state.json.hold",
        b"state.json.tmp.0000000000000000",
        b"line\nbreak",
        b"line\rbreak",
        b"not-\xff-utf8",
        b"not-\xfe-utf8",
        b"~",
        b"~tilde",
        b"-rf",
        b" ",
        b".hidden",
        b"floor",
        b"probe",
        b".gitignore",
        long.as_bytes(),
        &long.as_bytes()[1..],
        &long.as_bytes()[..180],
        &long.as_bytes()[..181],
    ];
    let path = |name: &[u8]| scratch.dir().join(OsStr::from_bytes(name));
    for (index, name) in names.iter().enumerate() {
        let document = Document::open(path(name)).unwrap();
        document.set(&json!({ "n": index }), &durably()).unwrap();
        // Held while the others are written: a shared lock file would be a deadlock or busy.
        let compute = |_: Option<&Value>| {
            for other in names.iter().filter(|other| *other != name) {
                let other = Document::open(path(other)).unwrap();
                other.update(&at_once(), |value| Ok(value.cloned())).unwrap();
            }
            Ok(None)
        };
        document.update(&at_once(), compute).unwrap();
    }
    for (index, name) in names.iter().enumerate() {
        let document = Document::open(path(name)).unwrap();
        assert_eq!(count_in(&document), index as u64, "{name:?}");
        let shown = document.set(
            &json!({ "n": 0 }),
            &WriteOptions { if_version: Some("0-0".parse().unwrap()), ..at_once() },
        );
        let error = shown.unwrap_err().to_string();
        assert!(!error.contains(['\n', '\r']), "one line: {error}");
    }
}

#[test]
fn a_literal_checksum_name_does_not_meet_the_name_it_is_the_checksum_of() {
    let scratch = Scratch::new();
    scratch.document("line\nbreak").set(&json!(1), &at_once()).unwrap();
    let stem = scratch
        .listing()
        .into_iter()
        .find_map(|path| path.file_name()?.to_str()?.strip_suffix(".commit").map(str::to_owned))
        .unwrap();
    let twin = scratch.document(&stem);
    let compute = |_: Option<&Value>| {
        scratch.document("line\nbreak").set(&json!(2), &at_once()).unwrap();
        Ok(Some(json!(3)))
    };
    twin.update(&at_once(), compute).unwrap();
    assert_eq!(scratch.document("line\nbreak").read().unwrap().unwrap().value, json!(2));
}

#[test]
fn a_hard_linked_document_is_refused_unless_the_link_may_break() {
    let scratch = Scratch::new();
    let (one, two) = (scratch.path("state.json"), scratch.path("other.json"));
    foreign_write(&one, "{\"n\": 1}");
    std::fs::hard_link(&one, &two).unwrap();
    let document = scratch.document("state.json");
    let error = document.update(&at_once(), increment).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(error.path(), Some(one.as_path()));
    assert!(error.to_string().contains("hard link"), "{error}");
    assert_eq!(std::fs::metadata(&one).unwrap().nlink(), 2);
    assert_eq!(count_in(&document), 1, "reading is no problem");

    let broken = WriteOptions {
        file: tenure::file::FileOptions {
            break_link: true,
            ..tenure::file::FileOptions::default()
        },
        ..at_once()
    };
    document.update(&broken, increment).unwrap();
    assert_eq!(bytes_of(&one), b"{\"n\": 2}");
    assert_eq!(bytes_of(&two), b"{\"n\": 1}", "the other name keeps the old version");
    document.update(&at_once(), increment).unwrap();
}

#[test]
fn race_52_g12_a_document_that_is_a_mount_point_is_refused() {
    let scratch = Scratch::new();
    let path = scratch.path("state.json");
    foreign_write(&path, "{\"n\": 7}");
    let mounted = path.clone();
    let fs = FaultyFs::new(|_, _| Verdict::Go).showing(move |path: &Path, mut stat| {
        stat.mount_root |= path == mounted;
        stat
    });
    let document = Document::open_on(&fs.shared(), &path).unwrap();
    let error = document.update(&at_once(), increment).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.next_step().is_some_and(|hint| hint.contains("directory")), "{error}");
    assert_eq!(count_in(&document), 7);

    if may_mount() {
        // The real case, as `docker -v state.json:/data/state.json` does it.
        let launcher = "exec unshare -m sh -c 'mount --bind \"$TENURE_TEST_PATH\" \
                        \"$TENURE_TEST_PATH\" && exec \"$@\"' sh \"$@\"";
        play("refused as a mount point", &path, launcher);
    }
    scratch.document("state.json").update(&at_once(), increment).unwrap();
}

/// On FUSE servers that do not support the flags of rename, a new file gets its name by a link. A
/// creator that is killed right after the link leaves the document with the temporary name as well.
#[test]
fn g2_a_document_whose_maker_died_with_two_names_can_be_changed() {
    let scratch = Scratch::new();
    let document = scratch.document("state.json");
    document.update(&at_once(), |_| Ok(None)).unwrap();
    let temp = scratch.path(".tenure/state.json.tmp.0000000000000000");
    foreign_write(&temp, "{\n  \"n\": 1\n}\n");
    std::fs::hard_link(&temp, document.path()).unwrap();
    document.update(&durably(), increment).unwrap();
    assert_eq!(count_in(&document), 2);
    let kept = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.contains(".tmp.") || name.contains(".damaged")
    };
    let left = scratch.listing().into_iter().find(kept);
    assert_eq!(left, None, "it was the document, and nothing that has to be kept");
}

/// A new document got its name, but the reply was lost, as when a server restarts. The document
/// exists.
#[test]
fn g10_a_creation_that_has_happened_is_not_told_as_failed() {
    let scratch = Scratch::new();
    let temp = scratch.path(".tenure/state.json.tmp.0000000000000000");
    let fs = FaultyFs::new(move |op, path| match op {
        Op::RenameNew if path.ends_with("state.json") => {
            std::fs::rename(&temp, path).unwrap();
            Verdict::Fail(std::io::Error::from_raw_os_error(5))
        }
        _ => Verdict::Go,
    });
    let document = Document::open_on(&fs.shared(), &scratch.path("state.json")).unwrap();
    for _ in 0..2 {
        document.update(&at_once(), increment).unwrap();
    }
    assert_eq!(count_in(&document), 2);
}
