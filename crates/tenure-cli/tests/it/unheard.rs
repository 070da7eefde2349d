//! Results that cannot be printed: the change is done, and the error says so.

use std::fs::File;
use std::process::Stdio;

use crate::bench::{Bench, Ran};

/// Runs it with a standard output that refuses everything.
fn unheard(bench: &Bench, args: &[&str]) -> Ran {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = bench.command(args).with_stdout(full).unstarted();
    Ran::new(command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap())
}

/// Runs it with a standard output that is no longer read.
fn unread(bench: &Bench, args: &[&str]) -> Ran {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = bench.command(args).unstarted();
    let ran = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    Ran::new(ran.wait_with_output().unwrap())
}

#[test]
fn a_change_whose_result_could_not_be_printed_is_made_and_the_error_says_so() {
    let bench = Bench::new();
    bench.tenure(&["doc", "set", "s.json", r#"{"n":1}"#]).ok();
    bench.file("index.json", r#"{"a":{}}"#);
    bench.tenure(&["lease", "acquire", "l", "--ttl", "1h", "--token-file", "token"]).ok();
    let writes: &[&[&str]] = &[
        &["doc", "update", "s.json", ".n += 1"],
        &["doc", "set", "t.json", "1"],
        &["doc", "merge", "s.json", "{}"],
        &["doc", "patch", "s.json", "[]"],
        &["doc", "restore", "s.json"],
        &["doc", "history", "s.json", "--keep", "2"],
        &["journal", "append", "j", "line"],
        &["journal", "repair", "j"],
        &["journal", "rotate", "j"],
        &["journal", "compact", "j", "--from", "1"],
        &["collection", "split", "index.json", "all"],
        &["collection", "prune", "all", "--max-count", "0"],
        &["lease", "renew", "l", "--token-file", "token"],
        &["lease", "acquire", "l", "--ttl", "1h", "--token-file", "token"],
        &["lease", "release", "l", "--token-file", "token"],
        &["lease", "take-over", "t", "--ttl", "1h", "--reason", "r"],
    ];
    for args in writes {
        let error = unheard(&bench, &[args, &["--json"][..]].concat()).exits(1).error();
        assert_eq!((&error["code"], &error["committed"]), (&"io".into(), &true.into()), "{args:?}");
        assert_eq!(error["exit"], 1, "{args:?}");
    }
    bench.tenure(&["doc", "get", "s.json", ".n"]).ok().says("2");
    bench.tenure(&["doc", "get", "t.json"]).ok().says("1");
    bench.tenure(&["collection", "list", "all"]).ok().says("");
    bench.tenure(&["lease", "show", "l"]).ok().says("free");
    bench.tenure(&["journal", "append", "j", "another"]).ok();
    unheard(&bench, &["journal", "rotate", "j"]).exits(1).complains("the change itself was made");
    let read = unheard(&bench, &["doc", "get", "s.json", "--json"]).exits(1).error();
    assert!(read["committed"].is_null(), "{read}");
}

#[test]
fn a_lease_whose_token_could_not_be_printed_is_released() {
    let bench = Bench::new();
    let args = ["lease", "acquire", "l", "--ttl", "1h"];
    unheard(&bench, &args).exits(1).complains("released again");
    bench.tenure(&["lease", "show", "l"]).ok().says("free");
    let error = unheard(&bench, &[&args[..], &["--json"]].concat()).exits(1).error();
    assert_eq!(error["committed"], false);
    // No reader: that is no failure of a read, but it is one here.
    unread(&bench, &args).exits(1).complains("released again");
    bench.tenure(&["lease", "show", "l"]).ok().says("free");
}

/// A take-over is on record with its reason, and stays; so the caller must learn that its token is lost.
#[test]
fn a_take_over_whose_token_could_not_be_printed_is_an_error_and_stays() {
    let bench = Bench::new();
    let args = ["lease", "take-over", "l", "--ttl", "1h", "--reason", "r"];
    unread(&bench, &args).exits(1).complains("its token could not be printed");
    let shown = bench.tenure(&["lease", "show", "l", "--json"]).ok().json();
    assert_eq!(shown["leased"], true);
    // A change without a token is none.
    unread(&bench, &["doc", "set", "s.json", "1", "--json"]).ok();
}
