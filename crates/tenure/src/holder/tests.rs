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

#[test]
fn the_password_of_a_store_does_not_reach_the_record() {
    let words = [
        "tenure",
        "--store=postgres://me:secret@db/app",
        "postgres://me:se/cr@et@db:5432/app",
        "etcd://a:2379/prefix",
        "a@b:c",
    ];
    let shown = without_secrets(words.into_iter().map(Into::into));
    assert_eq!(
        shown,
        "tenure --store=postgres://me:***@db/app postgres://me:***@db:5432/app etcd://a:2379/prefix a@b:c"
    );
}
