//! What a record says of a holder, and what it must not say.

use super::*;

#[test]
fn what_a_record_says_reaches_no_terminal_as_control_characters() {
    let holder = Holder::from_record(br#"{"p":1,"h":"\u001b[2J","l":"a\nb","c":"\u009b"}"#);
    let text = format!("{}{}{}", holder.host, holder.label, holder.command);
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

#[test]
fn a_token_on_the_command_line_does_not_reach_the_record() {
    let words = ["tenure", "lease", "renew", "t", "--token", "secret", "--token=secret"];
    let shown = without_secrets(words.into_iter().map(Into::into));
    assert_eq!(shown, "tenure lease renew t --token *** --token=***");
}
