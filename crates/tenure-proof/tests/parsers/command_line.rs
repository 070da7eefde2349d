//! Random command lines for the real command: a known exit code, one line of error, no panic.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Command, Stdio};
use std::time::Duration;

use tenure_proof::{Form, Tally, seed, tenure};
use tenure_testkit::Random;

use crate::runs::within;

/// Exit codes of the contract. `run` and `lease hold` pass on what their command returned; the commands
/// here end with 0, 126 or 127.
const EXIT_CODES: &[i32] = &[0, 1, 2, 3, 4, 5, 6, 75, 126, 127];

/// Verbs, but none that goes on until it is ended: `watch`, `follow`, `demo`.
const VERBS: &[&[&str]] = &[
    &["run", "--wait", "0"],
    &["doc", "get"],
    &["doc", "set", "--wait", "0"],
    &["doc", "update", "--wait", "0"],
    &["doc", "merge", "--wait", "0"],
    &["doc", "patch", "--wait", "0"],
    &["doc", "version"],
    &["doc", "restore", "--wait", "0"],
    &["journal", "append", "--wait", "0"],
    &["journal", "read"],
    &["journal", "verify"],
    &["journal", "repair", "--wait", "0"],
    &["journal", "rotate", "--wait", "0"],
    &["journal", "compact", "--wait", "0"],
    &["lease", "acquire", "--wait", "0"],
    &["lease", "renew"],
    &["lease", "release"],
    &["lease", "show"],
    &["lease", "take-over", "--wait", "0"],
    &["collection", "list"],
    &["collection", "prune"],
    &["collection", "split"],
    &["who"],
    &["doctor"],
    &["lease", "hold", "--wait", "0"],
    &["completions"],
    &["man"],
    &["no-such-verb"],
    &[],
];

/// What may follow: files, values, filters, and what a shell never gives by itself.
const WORDS: &[&str] = &[
    "a.json",
    "log.jsonl",
    "dir",
    "missing/x",
    "",
    ".",
    "..",
    "--",
    "-",
    "-e",
    "-r",
    "--json",
    "--raw",
    "--shared",
    "--fence",
    "--label",
    "--no-sync",
    "--operation",
    "--if-version",
    "--ttl",
    "--owner",
    "--token",
    "--reason",
    "--from",
    "--limit",
    "--key",
    "--union",
    "--max",
    "--sum",
    "--help",
    "--busy-code",
    "--kind",
    "documents",
    "0",
    "1",
    "-1",
    "18446744073709551616",
    "1e400",
    "60s",
    "1ms",
    "99999999999999d",
    "true",
    "null",
    "{\"a\":1}",
    "{\"a\":1,\"a\":2}",
    "[{\"op\":\"add\"}]",
    "\"x",
    ".",
    ".a",
    ".[",
    "def f: f; 1",
    "reduce .[] as $x (0; . + $x)",
    "input",
    "$ENV",
    "@base64d",
    "..|..",
    "error(\"x\")",
    "limit(3; repeat(1))",
    "\"\\(1/0)\"",
    "1/0",
    "/a/b",
    "/~2",
    "\u{1F600}",
    "a\nb",
    "\u{202e}",
    "%s%n",
    "$(true)",
    "*",
    "~",
    "bash",
    "0123456789abcdef0123456789abcdef",
];

/// What is no text, where text is wanted.
const NO_TEXT: &[&[u8]] = &[
    b"\xff",
    b"-\xff",
    b"--\xff",
    b"--label=\xff",
    b"--token=\xc3\x28",
    b"--if-version=\x80",
    b"a\xfe.json",
    b"{\"a\":\"\xff\"}",
    b".a\xf0\x9f",
    b"\xed\xa0\x80",
];

/// Any bytes that an argument can have; often none at all. No slash, so that no file is made elsewhere.
fn raw(random: &mut Random) -> OsString {
    let byte = |random: &mut Random| match random.index(256).to_le_bytes()[0] {
        0 | b'/' => b'-',
        other => other,
    };
    OsString::from_vec((0..random.index(12)).map(|_| byte(random)).collect())
}

/// The next word.
fn word(random: &mut Random) -> OsString {
    match random.index(8) {
        0 => raw(random),
        1 => OsStr::from_bytes(NO_TEXT[random.index(NO_TEXT.len())]).to_owned(),
        _ => WORDS[random.index(WORDS.len())].into(),
    }
}

/// Nothing like this may be said to a user.
const PANICS: &[&str] = &["panicked at", "RUST_BACKTRACE", "internal error", "overflow"];

#[test]
fn random_command_lines_end_as_the_contract_says() {
    let test = "random_command_lines_end_as_the_contract_says";
    let mut tally = Tally::new("parsers", test);
    let mut random = Random::new(seed("parsers", test));
    let directory = tempfile::tempdir().expect("a directory");
    // What lies above is ours, too: `doctor ..` looks through all of it.
    let path = directory.path().join("here");
    std::fs::create_dir(&path).expect("a directory");
    let command = tenure();
    let cases = Form::asked().pick(200, 10_000);
    for _ in 0..cases {
        let verb = VERBS[random.index(VERBS.len())];
        let mut words: Vec<OsString> = verb.iter().map(OsString::from).collect();
        for _ in 0..random.index(6) {
            words.push(word(&mut random));
        }
        if verb.starts_with(&["run"]) || verb.starts_with(&["lease", "hold"]) {
            let command = ["true", "/", "no-such-command"][random.index(3)];
            words.extend(["--", command].map(OsString::from));
        }
        let mut started = Command::new(command);
        started.args(&words).current_dir(&path).env_clear();
        started.stdin(Stdio::null());
        let output = within(Duration::from_secs(20), &format!("{words:?}"), move || {
            started.output().expect("the command can be started")
        });
        let (said, complaint) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let code = output.status.code();
        let shown = format!("tenure {words:?}: {code:?}\n{said}\n{complaint}");
        assert!(code.is_some_and(|code| EXIT_CODES.contains(&code)), "{shown}");
        assert!(!PANICS.iter().any(|panic| complaint.contains(panic)), "{shown}");
        let failed = code.is_some_and(|code| ![0, 2, 3].contains(&code));
        let errors = complaint.lines().filter(|line| line.starts_with("tenure: ")).count();
        assert!(!failed || errors <= 1, "more than one line of error: {shown}");
        assert!(code != Some(2) || !complaint.is_empty(), "refused without a word: {shown}");
    }
    tally.tried(cases, "command lines");
}
