//! The house rules that a program can check, as tests.
//!
//! # Invariants
//!
//! 1. A check is a function from text to problems (`path:line: what is wrong`), so that each has
//!    two tests: the repository has no problem, and a bad sample has one.
//! 2. A file that a check needs and that does not exist is a problem, not a reason to skip.

mod citations;
mod dependencies;
mod documents;
mod imports;
mod release;
mod seam;
mod source;
mod tree;

/// Fails the test with one line per problem.
fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "problems: {}\n{}", problems.len(), problems.join("\n"));
}

/// Fails the test unless a check of a bad sample found exactly one problem, about `words`.
fn assert_one(problems: &[String], words: &str) {
    assert!(matches!(problems, [one] if one.contains(words)), "not one `{words}`: {problems:?}");
}

/// The words of `text`: runs of letters, digits and underscores.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Lines with their numbers, from 1.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}
