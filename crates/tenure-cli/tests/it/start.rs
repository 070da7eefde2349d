//! What the start of the process must see to, since Rust's own start does not run (`start.rs`).

use std::process::{Command, Stdio};

use crate::TENURE;
use crate::bench::Bench;

/// Runs `words` with some standard streams closed, through a shell that can do that.
fn with_closed(bench: &Bench, words: &str, closed: &str) -> Option<i32> {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec \"$0\" {words} {closed}"), TENURE]);
    // The others lead nowhere.
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.current_dir(bench.path("")).status().unwrap().code()
}

#[test]
fn what_is_said_into_a_closed_stream_ends_up_in_no_file() {
    for closed in ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-", ">&- 2>&-"] {
        let bench = Bench::new();
        bench.file("state.json", r#"{"n":0}"#);
        assert_eq!(with_closed(&bench, "doc update --json state.json '.n += 1'", closed), Some(0));
        // One that fails has something to say on standard error, and opens as many files before.
        let fails = with_closed(&bench, "doc update state.json 'error(\"no\")'", closed);
        assert_eq!(fails, Some(1), "{closed}");
        // The lock is handed down to the command, and must not be what that one takes for its output.
        with_closed(&bench, "run state.json -- sh -c 'echo said; echo said >&2'", closed);
        assert_eq!(bench.read(".tenure/state.json.hold"), "", "{closed}");
        assert_eq!(bench.read("state.json"), r#"{"n":1}"#, "{closed}");
        for entry in std::fs::read_dir(bench.path(".tenure")).unwrap() {
            let content = std::fs::read(entry.unwrap().path()).unwrap();
            let said = ["tenure: ", "\"version\""].map(str::as_bytes);
            let has = |word: &[u8]| content.windows(word.len()).any(|part| part == word);
            assert!(!said.into_iter().any(has), "{closed}");
        }
        bench.tenure(&["doc", "update", "state.json", ".n += 1"]).ok();
        assert_eq!(bench.read("state.json"), r#"{"n":2}"#, "{closed}");
    }
}

#[test]
fn a_reader_that_went_away_is_not_the_end_by_a_signal() {
    let bench = Bench::new();
    let text = "x".repeat(200_000);
    bench.file("state.json", format!("[\"{text}\"]"));
    let mut command = Command::new(TENURE);
    command.args(["doc", "get", "state.json"]).current_dir(bench.path(""));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    assert!(status.code().is_some(), "{status}");
}
