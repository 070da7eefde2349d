//! Random command lines for the real command: a known exit code, one line of error, no panic.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tenure_proof::{Form, Tally, seed, tenure};
use tenure_testkit::Random;

use crate::runs::within;
use crate::words::line;

/// Exit codes of the contract. `run` and `lease hold` return the exit code of their command; the
/// commands here end with 0, 126 or 127.
const EXIT_CODES: &[i32] = &[0, 1, 2, 3, 4, 5, 6, 75, 126, 127];

/// This many command lines share one directory; then the next ones get a fresh one.
const PER_DIRECTORY: u64 = 50;

/// No message to a user may contain these.
const PANICS: &[&str] = &["panicked at", "RUST_BACKTRACE", "internal error", "overflow"];

/// The error lines on standard error, by form.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    plain: usize,
    objects: usize,
    /// Neither an error nor a warning, nor the result of a command.
    noise: usize,
}

impl Told {
    fn by(complaint: &str, code: i32) -> Self {
        let mut told = Self::default();
        for line in complaint.lines() {
            if let Ok(Value::Object(object)) = serde_json::from_str(line) {
                // The object that `run --json` prints about its command has a number there, a
                // warning has nothing.
                if object.get("code").is_some_and(Value::is_string) {
                    told.objects += usize::from(object["exit"] == code);
                    told.noise += usize::from(object["exit"] != code);
                }
            } else if line.starts_with("tenure: ") {
                told.plain += usize::from(!line.starts_with("tenure: warning: "));
            } else {
                told.noise += 1;
            }
        }
        told
    }
}

/// Whether a command may fail without an error message: `-e` asks for an exit code only, and
/// `doctor` prints its findings as a result.
fn is_mute(words: &[OsString], code: i32, said: &str) -> bool {
    let has = |names: &[&str]| words.iter().any(|word| names.iter().any(|name| word == name));
    let asked = has(&["get"]) && has(&["-e", "--exit-status"]) && code == 3;
    asked || (has(&["doctor"]) && [5, 6].contains(&code) && !said.is_empty())
}

/// How this violates the contract; `None` if it does not.
fn breach(
    words: &[OsString],
    code: Option<i32>,
    said: &str,
    complaint: &str,
) -> Option<&'static str> {
    let Some(code) = code.filter(|code| EXIT_CODES.contains(code)) else {
        return Some("an exit code that is not in the contract");
    };
    if PANICS.iter().any(|panic| complaint.contains(panic)) {
        return Some("a panic");
    }
    let told = Told::by(complaint, code);
    let json = words.first().is_some_and(|word| word == "--json");
    let could = words.iter().any(|word| word == "--json");
    let errors = told.plain + told.objects;
    match () {
        () if told.noise > 0 => Some("something on standard error that is no message"),
        () if code == 0 && errors > 0 => Some("an error, and an exit code that says there is none"),
        () if code == 0 => None,
        () if errors > 1 => Some("more than one error"),
        () if errors == 0 && !is_mute(words, code, said) => Some("a failure without a word"),
        () if json && told.plain > 0 => Some("an error as text, where JSON was asked for"),
        () if !could && told.objects > 0 => Some("an error as JSON, without --json"),
        () => None,
    }
}

/// What the command lines find.
fn furnish(dir: &Path) {
    std::fs::create_dir_all(dir.join("dir")).expect("a directory");
    let files = [
        ("a.json", "{\"n\": 1, \"set\": [1], \"max\": 2}\n"),
        ("b.json", "[1, 2, 3]\n"),
        ("bad.json", "{\"n\": "),
        ("log.jsonl", "{\"n\":1}\n{\"n\":2}\n"),
        ("dir/key.json", "{}\n"),
    ];
    for (name, text) in files {
        std::fs::write(dir.join(name), text).expect("a file");
    }
}

fn run(words: &[OsString], dir: &Path) -> Output {
    let mut command = Command::new(tenure());
    command.args(words).current_dir(dir).stdin(Stdio::null());
    // No command ends the leases of earlier lines.
    command.env_clear().env("TENURE_WAIT", "1ms");
    // A busy machine may delay a process for long.
    within(Duration::from_secs(60), &format!("{words:?}"), move || {
        command.output().expect("the command can be started")
    })
}

#[test]
fn random_command_lines_end_as_the_contract_says() {
    let test = "random_command_lines_end_as_the_contract_says";
    let mut tally = Tally::new("parsers", test);
    let mut random = Random::new(seed("parsers", test));
    let directory = tempfile::tempdir().expect("a directory");
    let mut codes = std::collections::BTreeMap::<i32, u64>::new();
    let cases = Form::asked().pick(250, 10_000);
    for case in 0..cases {
        // The parent directory is ours, too: `doctor ..` reads all of it.
        let dir = directory.path().join((case / PER_DIRECTORY).to_string()).join("here");
        if case % PER_DIRECTORY == 0 {
            furnish(&dir);
        }
        let words = line(&mut random);
        let output = run(&words, &dir);
        let (said, complaint) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let code = output.status.code();
        *codes.entry(code.unwrap_or(-1)).or_default() += 1;
        if let Some(breach) = breach(&words, code, &said, &complaint) {
            panic!("{breach}: tenure {words:?}: {code:?}\n{said}\n{complaint}");
        }
    }
    println!("exit codes: {codes:?}");
    // A grammar that always fails, or never reaches the data, tests only the argument parser.
    for (code, least) in [(0, cases / 8), (1, 1), (2, 1), (3, 1), (5, 1)] {
        let times = codes.get(&code).copied().unwrap_or(0);
        assert!(times >= least, "exit code {code} only {times} times: {codes:?}");
    }
    tally.tried(cases, "command lines");
}

/// Commands that violate the contract: each must be noticed.
#[test]
fn a_breach_of_the_contract_is_noticed() {
    let mut tally = Tally::new("parsers", "a_breach_of_the_contract_is_noticed");
    let object = |exit| format!("{{\"code\":\"io\",\"message\":\"m\",\"exit\":{exit}}}\n");
    let bad: &[(&[&str], i32, &str, String)] = &[
        (&["doc"], 1, "", String::new()),
        (&["doc"], 3, "", String::new()),
        (&["doctor"], 5, "", String::new()),
        (&["doc"], 1, "half", String::new()),
        (&["doc"], 1, "", "tenure: one\ntenure: two\n".into()),
        (&["doc"], 1, "", "tenure: one\nand more of it\n".into()),
        (&["doc"], 0, "", "tenure: failed\n".into()),
        (&["doc"], 1, "", "thread 'main' panicked at x\n".into()),
        (&["doc"], 101, "", "tenure: one\n".into()),
        (&["--json", "doc"], 1, "", "tenure: one\n".into()),
        (&["doc"], 1, "", object(1)),
        (&["--json", "doc"], 1, "", object(2)),
        (&["doc"], 75, "", "tenure: warning: no more\n".into()),
    ];
    for (words, code, said, complaint) in bad {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let found = breach(&words, Some(*code), said, complaint);
        assert!(found.is_some(), "{words:?} {code} {said:?} {complaint:?}");
    }
    let good: &[(&[&str], i32, &str, String)] = &[
        (&["doc"], 1, "", "tenure: one\n".into()),
        (&["--json", "doc"], 75, "", object(75)),
        (&["doc", "get", "-e"], 3, "", String::new()),
        (&["doctor"], 6, "findings", String::new()),
        (&["doc"], 0, "x", "tenure: warning: late\n".into()),
        (&["--json", "run"], 0, "", "{\"code\":0}\n".into()),
    ];
    for (words, code, said, complaint) in good {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        assert_eq!(breach(&words, Some(*code), said, complaint), None, "{words:?}");
    }
    tally.caught("a command that fails without a word, with two, or in the wrong form");
}
