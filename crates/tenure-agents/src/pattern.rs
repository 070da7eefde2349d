//! Patterns of file names, and whether two of them can mean the same file.
//!
//! `*` and `?` stay within a directory, `**` crosses directories, `[...]` is one letter, `{a,b}` is
//! either. A name that ends with `/` is everything below it.
//!
//! # Invariants
//!
//! 1. Two patterns overlap if some name matches both. The answer is never a wrong "no". A class `[...]`
//!    counts as any letter, so the answer can be a wrong "yes" for it.
//! 2. Time and memory are bounded by the product of both lengths, which are bounded.

use tenure::{Error, ErrorKind, Result};

/// Longer than any name of a file.
const BYTES_MAX: usize = 4096;
/// How many patterns braces may stand for.
const ALTERNATIVES_MAX: usize = 32;

/// Whether the text has letters that make it a pattern.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '{']) || text.ends_with('/')
}

/// The pattern that means this name, and perhaps a few more.
pub(crate) fn literal(name: &str) -> String {
    name.chars().fold(String::with_capacity(name.len()), |mut text, letter| {
        if "*?[".contains(letter) {
            text.extend(['[', letter, ']']);
        } else {
            text.push(letter);
        }
        text
    })
}

/// The directories before the first special letter of a pattern without braces, and the rest.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let plain = text.find(['*', '?', '[']).unwrap_or(text.len());
    text.split_at(text[..plain].rfind('/').map_or(0, |at| at + 1))
}

/// The patterns without braces that `text` stands for.
pub fn expand(text: &str) -> Result<Vec<String>> {
    let invalid = |detail: String| Err(Error::new(ErrorKind::Invalid, "read pattern", detail));
    let mut open = vec![text.to_owned()];
    let mut done = Vec::new();
    while let Some(text) = open.pop() {
        if text.len() > BYTES_MAX {
            return invalid(format!("a pattern has at most {BYTES_MAX} bytes"));
        }
        match braces(&text) {
            None if text.contains('{') => {
                return invalid(format!("`{text}` has an unclosed brace"));
            }
            None => done.push(text),
            Some((before, inside, after)) => {
                open.extend(inside.split(',').rev().map(|each| format!("{before}{each}{after}")));
            }
        }
        if open.len() + done.len() > ALTERNATIVES_MAX {
            return invalid(format!("braces stand for at most {ALTERNATIVES_MAX} patterns"));
        }
    }
    Ok(done)
}

/// The innermost pair of braces that closes first, and what is around it.
fn braces(text: &str) -> Option<(&str, &str, &str)> {
    let close = text.find('}')?;
    let open = text[..close].rfind('{')?;
    Some((&text[..open], &text[open + 1..close], &text[close + 1..]))
}

/// What a name or a pattern consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// This letter.
    Letter(char),
    /// Any letter but `/`.
    One,
    /// Any number of letters but `/`.
    Many,
    /// Any number of letters.
    Any,
    /// The two tokens after this one, or neither.
    Optional,
}

/// Whether some name matches both. `true` marks a pattern; a plain name matches itself only.
pub(crate) fn overlap((left, left_is): (&str, bool), (right, right_is): (&str, bool)) -> bool {
    if !left_is && !right_is {
        return left == right;
    }
    if !same_start(left, right) {
        return false;
    }
    meet(&tokens(left, left_is), &tokens(right, right_is))
}

/// Whether the letters before the first special one of either can be the same.
fn same_start(left: &str, right: &str) -> bool {
    let special = |byte: &u8| b"*?[".contains(byte);
    let pairs = left.bytes().zip(right.bytes());
    pairs.take_while(|(a, b)| !special(a) && !special(b)).all(|(a, b)| a == b)
}

fn tokens(text: &str, is_pattern: bool) -> Vec<Token> {
    if !is_pattern {
        return text.chars().map(Token::Letter).collect();
    }
    let mut tokens = Vec::with_capacity(text.len() + 2);
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let starts_part = tokens.is_empty() || tokens.last() == Some(&Token::Letter('/'));
        let (token, length) = match letter {
            '*' if starts_part && rest.starts_with("**/") => {
                tokens.extend([Token::Optional, Token::Any]);
                (Token::Letter('/'), 3)
            }
            '*' if rest.starts_with("**") => (Token::Any, 2),
            '*' => (Token::Many, 1),
            '?' => (Token::One, 1),
            '[' => match rest.find(']') {
                Some(end) => (Token::One, end + 1),
                None => (Token::Letter('['), 1),
            },
            letter => (Token::Letter(letter), letter.len_utf8()),
        };
        tokens.push(token);
        rest = &rest[length..];
    }
    if text.ends_with('/') {
        tokens.push(Token::Any);
    }
    tokens
}

/// Whether both can be read to their ends over the same letters: a search over pairs of positions.
fn meet(left: &[Token], right: &[Token]) -> bool {
    let width = right.len() + 1;
    let mut seen = vec![false; (left.len() + 1) * width];
    let mut open = vec![(0, 0)];
    while let Some((i, j)) = open.pop() {
        if i > left.len() || j > right.len() || std::mem::replace(&mut seen[i * width + j], true) {
            continue;
        }
        if i == left.len() && j == right.len() {
            return true;
        }
        // Without a letter: what may be empty is passed over.
        open.extend(without_letter(left, i).map(|i| (i, j)));
        open.extend(without_letter(right, j).map(|j| (i, j)));
        // With a letter that both take.
        if let (Some(a), Some(b)) = (left.get(i), right.get(j))
            && share_letter(*a, *b)
        {
            open.push((after(*a, i), after(*b, j)));
        }
    }
    false
}

/// Where reading can go on without a letter.
fn without_letter(tokens: &[Token], at: usize) -> impl Iterator<Item = usize> {
    let next = match tokens.get(at) {
        Some(Token::Many | Token::Any) => [Some(at + 1), None],
        Some(Token::Optional) => [Some(at + 1), Some(at + 3)],
        _ => [None, None],
    };
    next.into_iter().flatten()
}

/// Where reading goes on after a letter: what takes many stays.
fn after(token: Token, at: usize) -> usize {
    if matches!(token, Token::Many | Token::Any) { at } else { at + 1 }
}

/// Whether a letter exists that both take.
fn share_letter(a: Token, b: Token) -> bool {
    match (a, b) {
        (Token::Letter(a), Token::Letter(b)) => a == b,
        (Token::Optional, _)
        | (_, Token::Optional)
        | (Token::Letter('/'), Token::One | Token::Many)
        | (Token::One | Token::Many, Token::Letter('/')) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(left: &str, right: &str) -> bool {
        let pair = |text| (text, is_pattern(text));
        let answer = overlap(pair(left), pair(right));
        assert_eq!(answer, overlap(pair(right), pair(left)), "{left} and {right}");
        answer
    }

    #[test]
    fn names_and_patterns_that_can_mean_one_file_overlap() {
        for (left, right) in [
            ("src/a.rs", "src/a.rs"),
            ("src/**/*.rs", "src/a.rs"),
            ("src/**/*.rs", "src/x/y/a.rs"),
            ("**/*.rs", "a.rs"),
            ("src/**", "src/a/b"),
            ("src/", "src/a/b"),
            ("src/*.rs", "src/a*"),
            ("src/**/a.rs", "**/lib/*"),
            ("*/b/**", "a/**/c"),
            ("a?c", "ab*"),
            ("a[xy]c", "axc"),
            ("**", "anything/at/all"),
            ("a/**b", "a/x/yb"),
        ] {
            assert!(both(left, right), "{left} and {right}");
        }
    }

    #[test]
    fn others_do_not() {
        for (left, right) in [
            ("src/a.rs", "src/b.rs"),
            ("src/*.rs", "src/x/a.rs"),
            ("src/**/*.rs", "src/a.ts"),
            ("src/**", "lib/a"),
            ("src/", "src2/a"),
            ("*.rs", "*.ts"),
            ("a?c", "a/c"),
            ("a/*/c", "a/b/d/c"),
            ("**/a", "b/*a*/c"),
            ("ab*", "a?"[..1].as_ref()),
        ] {
            assert!(!both(left, right), "{left} and {right}");
        }
    }

    #[test]
    fn a_name_with_special_letters_is_only_itself() {
        assert!(!overlap(("a*", false), ("ab", false)));
        assert!(!overlap(("a*", false), ("ab*", true)));
        assert!(overlap(("app/[id]/page.tsx", false), ("app/**", true)));
    }

    #[test]
    fn braces_stand_for_each_of_their_parts() {
        assert_eq!(expand("src/*.{ts,tsx}").unwrap(), ["src/*.ts", "src/*.tsx"]);
        assert_eq!(expand("{a,b{c,d}}").unwrap(), ["a", "bc", "a", "bd"]);
        assert!(expand("a{b").is_err());
        assert!(expand(&"{a,b}".repeat(20)).is_err());
    }

    #[test]
    fn hostile_patterns_end() {
        let stars = "*a".repeat(1500);
        assert!(!both(&stars, &"*b".repeat(1500)));
        assert!(both(&"**/".repeat(900), "a/b/c/"));
    }
}
