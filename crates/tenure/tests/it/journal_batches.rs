//! What can be appended and what is refused, and how an operation is known again.

use tenure::{AppendOptions, ErrorKind, WriteOptions};

use crate::journal::{all, durable, foreign, no_sync, numbered};
use crate::watched_log::Watched;

fn named(name: &str, options: &AppendOptions) -> AppendOptions {
    let write = WriteOptions { operation: Some(name.to_owned()), ..options.write.clone() };
    AppendOptions { write, ..options.clone() }
}

#[test]
fn each_bad_line_is_named_and_nothing_is_touched() {
    let disk = Watched::new();
    let json = AppendOptions { json: true, ..durable() };
    let lines = [
        ("two\nlines", durable(), "line 2 of the batch contains a newline"),
        (" \t\r\0", durable(), "line 2 of the batch is blank"),
        ("{\"open\":", json, "line 2 of the batch is not JSON"),
    ];
    for (line, options, told) in lines {
        let error = disk.journal.append(&["1", line], &options).unwrap_err();
        assert_eq!((error.kind(), error.is_committed()), (ErrorKind::Invalid, Some(false)));
        assert!(error.to_string().contains(told), "{error}");
    }
    let nothing = disk.journal.append(&[] as &[&str], &durable()).unwrap_err();
    assert!(nothing.to_string().contains("the batch is empty"), "{nothing}");
    let mut versioned = durable();
    versioned.write.if_version = Some("0-0".parse().unwrap());
    let error = disk.journal.append(&["1"], &versioned).unwrap_err();
    assert!(error.to_string().contains("a journal has no version"), "{error}");
    let dir = disk.stage.path().parent().unwrap().to_path_buf();
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0);
}

#[test]
fn a_batch_is_at_most_a_gibibyte_with_its_newlines() {
    let disk = Watched::new();
    let line = vec![b'x'; (1 << 20) - 1];
    let mut batch: Vec<&[u8]> = vec![&line; 1024];
    batch[0] = b"not a\nline";
    let rest = vec![b'x'; line.len() + (line.len() - batch[0].len())];
    batch[1] = &rest;
    // Exactly as much as is allowed: what is wrong is the line.
    let error = disk.journal.append(&batch, &durable()).unwrap_err();
    assert!(error.to_string().contains("contains a newline"), "{error}");
    batch[0] = b"not a\n line";
    let error = disk.journal.append(&batch, &durable()).unwrap_err();
    let told = "line 1 of the batch and those after it are larger than 1 GiB together";
    assert!(error.to_string().contains(told), "{error}");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn json_is_asked_for_only_where_it_is_wanted() {
    let disk = Watched::new();
    let json = AppendOptions { json: true, ..no_sync() };
    disk.journal.append(&["{\"a\": [1, 2]}", "null"], &json).unwrap();
    disk.journal.append(&["{"], &no_sync()).unwrap();
    assert_eq!(all(&disk.journal), numbered(&["{\"a\": [1, 2]}", "null", "{"]));
}

#[test]
fn a_header_that_is_there_already_leaves_the_log_as_it_is() {
    let disk = Watched::new();
    let header = AppendOptions { header: Some(b"# head".to_vec()), ..durable() };
    disk.journal.append(&["one"], &header).unwrap();
    let before = std::fs::read(disk.stage.side("wal")).unwrap();
    let done = disk.journal.append(&[] as &[&str], &header).unwrap();
    assert_eq!((done.first, done.last), (2, 1));
    assert!(std::fs::read(disk.stage.side("wal")).unwrap() == before);
    assert_eq!(disk.stage.text(), "# head\none\n");
}

/// Lines of others and closing newlines are logged as well; they are no operations.
#[test]
fn eight_operations_are_remembered_and_nothing_else() {
    for options in [durable(), no_sync()] {
        let disk = Watched::new();
        for number in 1..=8 {
            foreign(&disk.stage.path(), "theirs\n");
            let batch = [format!("{number}"), "more".to_owned()];
            disk.journal.append(&batch, &named(&number.to_string(), &options)).unwrap();
        }
        foreign(&disk.stage.path(), "open");
        disk.journal.repair(&WriteOptions::default()).unwrap();
        disk.journal.append(&["unnamed"], &options).unwrap();
        let before = disk.stage.text();
        for number in 1..=8 {
            let again = disk.journal.append(&["x"], &named(&number.to_string(), &options)).unwrap();
            let first = number * 3 - 1;
            assert_eq!((again.first, again.last, again.replayed), (first, first + 1, true));
        }
        assert_eq!(disk.stage.text(), before);
        disk.journal.append(&["ninth"], &named("9", &options)).unwrap();
        let second = disk.journal.append(&["x"], &named("2", &options)).unwrap();
        assert_eq!((second.first, second.replayed), (5, true));
        let forgotten = disk.journal.append(&["again"], &named("1", &options)).unwrap();
        assert!(!forgotten.replayed && disk.stage.text().ends_with("ninth\nagain\n"));
    }
}
