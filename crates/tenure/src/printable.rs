//! Text for terminals: nothing in a name moves the cursor, splits a line or turns it around.

use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

/// Seconds that the caller's local time is ahead of UTC; [`UNKNOWN`] until it says so.
static OFFSET: AtomicI64 = AtomicI64::new(UNKNOWN);
const UNKNOWN: i64 = i64::MAX;

/// Control characters, and those that change the direction of the text around them.
pub(crate) fn is_deceptive(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with control characters, and those that change the direction of text, escaped.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_deceptive(letter) {
            let _ = write!(shown, "{}", letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// The text without the passwords of the URLs in it: `postgres://user:***@host/db`. What is hidden ends at the last
/// `@` of a word, since a password that was not encoded may contain anything.
pub fn without_passwords(text: &str) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("://") {
        let (scheme, behind) = rest.split_at(at + "://".len());
        let end = behind.find(char::is_whitespace).unwrap_or(behind.len());
        let (word, next) = behind.split_at(end);
        shown.push_str(scheme);
        match word.rsplit_once('@').map(|(login, hosts)| (login.split_once(':'), hosts)) {
            Some((Some((user, _)), hosts)) => {
                let _ = write!(shown, "{user}:***@{hosts}");
            }
            _ => shown.push_str(word),
        }
        rest = next;
    }
    shown.push_str(rest);
    shown
}

/// From now on times in texts for people are local: so many seconds ahead of UTC. The core does not read
/// the zone of the machine itself; until it is set they are UTC, and say so.
pub fn show_times_ahead_of_utc(seconds: i64) {
    OFFSET.store(seconds, Ordering::Relaxed);
}

/// `14:02:11`, of microseconds of the wall clock.
pub(crate) fn clock_time(us: u64) -> String {
    let (ahead, zone) = match OFFSET.load(Ordering::Relaxed) {
        UNKNOWN => (0, " UTC"),
        ahead => (ahead, ""),
    };
    let second = (i64::try_from(us / 1_000_000).unwrap_or(0) + ahead).rem_euclid(86400);
    format!("{:02}:{:02}:{:02}{zone}", second / 3600, second / 60 % 60, second % 60)
}

/// A command about a file, as it is typed.
pub(crate) fn command(words: &str, path: &Path) -> String {
    command_with(words, path, "")
}

/// The same, with words after the file.
pub(crate) fn command_with(words: &str, path: &Path, rest: &str) -> String {
    let path = path.to_string_lossy();
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./+=:@%,".contains(letter);
    let space = if rest.is_empty() { "" } else { " " };
    if path.chars().all(is_plain) {
        format!("`tenure {words} {path}{space}{rest}`")
    } else {
        let path = printable(&path.replace('\'', "'\\''"));
        format!("`tenure {words} '{path}'{space}{rest}`")
    }
}

/// The command that creates the document at `path`.
pub(crate) fn to_create(path: &Path) -> String {
    command_with("doc set", path, "JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_turns_the_line_around() {
        assert_eq!(printable("a\u{202e}b\u{1b}[2J\n"), "a\\u{202e}b\\u{1b}[2J\\n");
        assert_eq!(printable("\u{e4} \"quoted\" \\ \u{65e5}"), "\u{e4} \"quoted\" \\ \u{65e5}");
    }

    #[test]
    fn details_and_hints_of_errors_are_escaped_as_paths_are() {
        let error = crate::Error::new(crate::ErrorKind::Invalid, "try", "a\u{202e}b");
        let line = error.at(Path::new("c\u{202e}d")).hint("e\u{202e}f\ng").to_string();
        assert_eq!(line, "failed to try `c\\u{202e}d`: a\\u{202e}b; e\\u{202e}f\\ng");
    }

    #[test]
    fn a_password_of_a_url_is_hidden() {
        for (text, shown) in [
            ("run postgres://me:secret@h/db -- x", "run postgres://me:***@h/db -- x"),
            ("--store=etcd://u:se/cr#et?@a:1,b:2/p", "--store=etcd://u:***@a:1,b:2/p"),
            ("etcd://a:1,b:2/p and https://x/y", "etcd://a:1,b:2/p and https://x/y"),
            ("postgres://me@h/db", "postgres://me@h/db"),
            ("a://b:c@d e://f:g@h", "a://b:***@d e://f:***@h"),
            ("no URL", "no URL"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
    }

    #[test]
    fn a_command_is_one_that_a_shell_takes() {
        assert_eq!(command("who", Path::new("/a/b.json")), "`tenure who /a/b.json`");
        assert_eq!(command("who", Path::new("/a b")), "`tenure who '/a b'`");
        assert_eq!(command("who", Path::new("/it's")), "`tenure who '/it'\\''s'`");
        assert_eq!(to_create(Path::new("/a b")), "`tenure doc set '/a b' JSON`");
    }
}
