//! Names and numbers that other files promise to mention: error codes and races.

use super::tree::{check_each, files, text};
use super::{assert_none, assert_one, numbered};

/// How many known failure modes there are; tests name the number they cover (`race_03_...`).
const RACES: u32 = 69;
/// Those up to here have a test in the race book; the newer ones have theirs beside the mechanism.
const RACES_IN_BOOK: u32 = 54;

/// Where each of them has a test of its own.
const RACE_BOOK: &str = "crates/tenure-proof/tests/race_book/";

/// The stable codes in the source of `ErrorKind`.
fn codes(source: &str) -> Vec<&str> {
    let after = source.split("=> \"").skip(1);
    after.filter_map(|rest| rest.split('"').next()).filter(|code| !code.is_empty()).collect()
}

/// A code is documented where it is in backticks or quotes; the bare word may be English.
fn documented(codes: &[&str], documents: &str) -> Vec<String> {
    if codes.is_empty() {
        return vec!["crates/tenure/src/error.rs: no error code found".into()];
    }
    let missing = codes.iter().filter(|code| {
        !documents.contains(&format!("`{code}`")) && !documents.contains(&format!("\"{code}\""))
    });
    missing.map(|code| format!("README.md, docs/: error code `{code}` is in neither")).collect()
}

fn races(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (number, line) in numbered(text) {
        for race in cited(&line.to_lowercase()) {
            if !(1..=RACES).contains(&race) {
                problems.push(format!("{path}:{number}: race {race} is not one of 1..{RACES}"));
            }
        }
    }
    problems
}

/// The numbers in `race_3_...`, `race 3`, `race #3` and `races 3, 4 and 5`.
fn cited(line: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for (at, word) in line.match_indices("race") {
        if line[..at].ends_with(char::is_alphanumeric) {
            continue;
        }
        let after = &line[at + word.len()..];
        let after = after.strip_prefix('s').unwrap_or(after);
        let mut rest = after.trim_start_matches(['_', ' ', '#']);
        if rest.len() == after.len() {
            continue;
        }
        while let Some((number, remaining)) = leading_number(rest) {
            found.push(number);
            let separator = [", ", " and ", "-"].into_iter().find(|s| remaining.starts_with(s));
            rest = separator.map_or("", |separator| &remaining[separator.len()..]);
        }
    }
    found
}

fn leading_number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[test]
fn every_error_code_is_documented() {
    let source = text("crates/tenure/src/error.rs").expect("the error type");
    let is_document = |path: &str| path == "README.md" || path.starts_with("docs/");
    let documents = files().iter().filter(|file| is_document(&file.path));
    let documents = documents.filter(|file| file.has_extension(&["md"]));
    let together: String = documents.map(|file| file.text.as_str()).collect();
    assert_none(&documented(&codes(source), &together));
}

#[test]
fn an_undocumented_code_is_noticed() {
    let source = "match self {\n    Self::Busy => \"busy\",\n    Self::Io => \"io\",\n}\n";
    assert_eq!(codes(source), ["busy", "io"]);
    assert_none(&documented(&codes(source), "`busy` and {\"code\":\"io\"}"));
    assert_one(&documented(&codes(source), "too busy; `io`"), "`busy`");
    assert_one(&documented(&codes(""), "`busy`"), "no error code");
}

#[test]
fn cited_races_exist() {
    assert_none(&check_each(&["rs", "py", "js", "mjs", "ts"], races));
}

/// Numbers for which no test of the race book is named `race_NN_...`.
fn untold(tests: &str) -> Vec<String> {
    let told = |race: &u32| tests.contains(&format!("fn race_{race:02}_"));
    let missing = (1..=RACES_IN_BOOK).filter(|race| !told(race));
    missing.map(|race| format!("{RACE_BOOK}: no test `race_{race:02}_...`")).collect()
}

#[test]
fn every_race_has_a_test_in_the_race_book() {
    let book = files().iter().filter(|file| file.path.starts_with(RACE_BOOK));
    let tests: String = book.map(|file| file.text.as_str()).collect();
    assert_none(&untold(&tests));
}

#[test]
fn a_race_without_a_test_is_noticed() {
    let tests: Vec<_> =
        (1..RACES_IN_BOOK).map(|race| format!("fn race_{race:02}_x() {{}}")).collect();
    assert_one(&untold(&tests.join("\n")), &format!("race_{RACES_IN_BOOK:02}_"));
}

#[test]
fn a_race_that_does_not_exist_is_noticed() {
    assert_eq!(
        cited("fn race_03_x() // races 4, 5 and 6; race #7; race 8-9"),
        [3, 4, 5, 6, 7, 8, 9]
    );
    assert_eq!(cited("trace_12 races on; a race of 99; race54"), [0_u32; 0]);
    for bad in [0, RACES + 1] {
        assert_one(&races("a.rs", &format!("\nfn race_{bad:02}_x() {{}}\n")), "a.rs:2");
    }
}
