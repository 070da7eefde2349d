//! Platform code and unsafe code of the core live in one directory.

use super::tree::check_each;
use super::{assert_none, assert_one, numbered, words};

const CORE: &str = "crates/tenure/src/";
const SEAM: &str = "crates/tenure/src/sys/";

fn check(path: &str, text: &str) -> Vec<String> {
    if !path.starts_with(CORE) || path.starts_with(SEAM) {
        return Vec::new();
    }
    let code = without_comments(text);
    let mut problems = Vec::new();
    for (number, line) in numbered(&code) {
        if words(line).any(|word| word == "unsafe") {
            problems.push(format!("{path}:{number}: `unsafe` outside sys/"));
        }
    }
    for (number, condition) in conditions(&code) {
        let platform =
            |word: &&str| matches!(*word, "unix" | "windows") || word.starts_with("target_");
        if let Some(word) = words(&condition).find(platform) {
            problems.push(format!("{path}:{number}: `cfg` of `{word}` outside sys/"));
        }
    }
    problems
}

/// The same lines without `// ...`. A `//` after a colon is part of an address.
fn without_comments(text: &str) -> String {
    let code_of = |line: &str| {
        let starts = line.match_indices("//").map(|(at, _)| at);
        let comment = starts.into_iter().find(|at| !line[..*at].ends_with(':'));
        format!("{}\n", &line[..comment.unwrap_or(line.len())])
    };
    text.lines().map(code_of).collect()
}

/// What is in the parentheses of each `cfg(..)`, `cfg!(..)` and `cfg_attr(..)`, without strings,
/// and the line it starts on.
fn conditions(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("cfg") {
        let before = code[..at].chars().next_back();
        let after = code[at + 3..].trim_start_matches("_attr").trim_start_matches('!');
        let starts_word = before.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        if starts_word && after.starts_with('(') {
            let line = code[..at].matches('\n').count() + 1;
            found.push((line, parenthesised(after)));
        }
    }
    found
}

/// The text from `(` to its partner, without what is in quotes.
fn parenthesised(text: &str) -> String {
    let mut depth = 0_usize;
    let mut quoted = false;
    let mut inside = String::new();
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' => depth += 1,
            ')' if depth <= 1 => break,
            ')' => depth -= 1,
            _ => inside.push(c),
        }
        if matches!(c, '(' | ')' | '"') {
            inside.push(' ');
        }
    }
    inside
}

#[test]
fn platform_code_is_below_sys() {
    assert_none(&check_each(&["rs"], check));
}

#[test]
fn platform_code_elsewhere_is_noticed() {
    let path = "crates/tenure/src/lock.rs";
    for bad in [
        "#[cfg(unix)]\nfn f() {}\n",
        "#[cfg(not(any(\n    windows,\n    test,\n)))]\n",
        "#![cfg_attr(target_os = \"linux\", warn(missing_docs))]\n",
        "if cfg!(target_pointer_width = \"32\") {}\n",
    ] {
        assert_one(&check(path, bad), "outside sys/");
        assert_none(&check("crates/tenure/src/sys/unix.rs", bad));
    }
    assert_one(&check(path, "fn f() {}\nunsafe { g() }\n"), "lock.rs:2");
}

#[test]
fn tests_features_and_comments_are_fine() {
    for good in [
        "#[cfg(test)]\nmod tests;\n",
        "#[cfg_attr(test, expect(dead_code, reason = \"windows only\"))]\n",
        "/// Works on unix without unsafe code.\n",
        "#![expect(unsafe_code)]\n",
        "let x = \"http://a\"; // unsafe\n",
    ] {
        assert_none(&check("crates/tenure/src/lock.rs", good));
    }
}
