//! What every source file keeps to: size, header, name, character set, nothing unfinished.

use super::tree::{check_each, files};
use super::{assert_none, assert_one, numbered, words};

const LINES_MAX: usize = 700;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["util", "utils", "helpers", "common", "misc", "manager"];

/// In pieces, so that this file passes its own check.
const UNFINISHED_WORDS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const UNFINISHED_CODE: &[&str] =
    &[concat!("#[", "ignore"), concat!("to", "do!("), concat!("unimple", "mented!(")];

fn size(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    let problem = format!("{path}: {lines} lines, more than {LINES_MAX}; one concept per file");
    (lines > LINES_MAX).then_some(problem).into_iter().collect()
}

fn header(path: &str, text: &str) -> Vec<String> {
    let in_src = path.split('/').any(|part| part == "src");
    let problem = format!("{path}:1: does not start with `//!` and its purpose");
    (in_src && !text.starts_with("//! ")).then_some(problem).into_iter().collect()
}

fn name(path: &str) -> Vec<String> {
    let parts = path.split('/').map(|part| part.split('.').next().unwrap_or(part));
    let empty = parts.filter(|part| EMPTY_NAMES.contains(part));
    empty.map(|part| format!("{path}: `{part}` is no concept; name what it holds")).collect()
}

fn ascii(path: &str, text: &str) -> Vec<String> {
    let bad = numbered(text).filter(|(_, line)| !line.is_ascii());
    bad.map(|(number, line)| format!("{path}:{number}: not ASCII: {}", line.trim())).collect()
}

fn unfinished(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (number, line) in numbered(text) {
        let word = words(line).find(|word| UNFINISHED_WORDS.contains(word));
        let code = UNFINISHED_CODE.iter().copied().find(|code| line.contains(code));
        for found in word.into_iter().chain(code) {
            problems.push(format!("{path}:{number}: `{found}`: finish it or leave it out"));
        }
    }
    problems
}

fn sleep(path: &str, text: &str) -> Vec<String> {
    if !path.split('/').any(|part| part == "tests") {
        return Vec::new();
    }
    let bad = numbered(text).filter(|(_, line)| line.contains("thread::sleep"));
    bad.map(|(number, _)| format!("{path}:{number}: a test sleeps; wait for an event")).collect()
}

#[test]
fn source_files_are_short() {
    assert_none(&check_each(&["rs"], size));
    assert_none(&size("a.rs", &"x\n".repeat(LINES_MAX)));
    assert_one(&size("a.rs", &"x\n".repeat(LINES_MAX + 1)), "701 lines");
}

#[test]
fn source_files_start_with_their_purpose() {
    assert_none(&check_each(&["rs"], header));
    assert_one(&header("crates/a/src/b.rs", "use std::fs;\n"), "does not start");
}

#[test]
fn file_names_are_concepts() {
    assert_none(&files().iter().flat_map(|file| name(&file.path)).collect::<Vec<_>>());
    assert_one(&name("crates/a/src/utils.rs"), "utils");
    assert_one(&name("crates/a/tests/common/mod.rs"), "common");
}

#[test]
fn sources_are_ascii() {
    assert_none(&check_each(&["rs", "toml", "sh"], ascii));
    assert_one(&ascii("a.rs", "fine\n// caf\u{e9}\n"), "a.rs:2: not ASCII");
}

#[test]
fn nothing_is_left_unfinished() {
    assert_none(&check_each(&["rs", "toml", "sh", "py", "js", "mjs", "ts"], unfinished));
    for bad in UNFINISHED_WORDS.iter().chain(UNFINISHED_CODE) {
        assert_one(&unfinished("a.rs", &format!("let x = 1;\n// {bad}\n")), "a.rs:2");
    }
    assert_none(&unfinished("a.rs", "mktemp name.XXXXXX\n"));
}

#[test]
fn tests_do_not_sleep() {
    assert_none(&check_each(&["rs"], sleep));
    assert_one(&sleep("crates/a/tests/it/b.rs", "std::thread::sleep(time);\n"), "sleeps");
}
