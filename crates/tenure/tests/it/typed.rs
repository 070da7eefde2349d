//! Documents as types of the caller, and changes that return the caller's own result or error.

use serde::{Deserialize, Serialize};
use tenure::{Document, Error, ErrorKind, WriteOptions, json};

use crate::scratch::Scratch;

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Session {
    turns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default)]
    limits: Limits,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Limits {
    seconds: f64,
}

/// The caller's own error, which an error of tenure converts into.
#[derive(Debug)]
enum Failure {
    Full,
    Tenure(ErrorKind),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Tenure(error.kind())
    }
}

fn document(scratch: &Scratch) -> Document {
    Document::open(scratch.target()).unwrap()
}

fn text(scratch: &Scratch) -> String {
    std::fs::read_to_string(scratch.target()).unwrap()
}

#[test]
fn an_edit_returns_a_result_and_passes_on_an_error_of_the_callers() {
    let scratch = Scratch::new();
    let (document, options) = (document(&scratch), WriteOptions::default());
    let take = |limit: usize| {
        document.edit(&options, json!({ "taken": [] }), |value| {
            let taken = value["taken"].as_array_mut().unwrap();
            if taken.len() == limit {
                return Err(Failure::Full);
            }
            taken.push(json!(taken.len()));
            Ok(taken.len())
        })
    };
    assert_eq!(take(2).unwrap(), 1);
    assert_eq!(take(2).unwrap(), 2);
    let before = text(&scratch);
    assert!(matches!(take(2), Err(Failure::Full)));
    assert_eq!(text(&scratch), before, "an error leaves the document as it is");
    let version = document.read().unwrap().map(|found| found.version).unwrap();
    document.set(&json!(1), &options).unwrap();
    let stale = WriteOptions { if_version: Some(version), ..options.clone() };
    let refused = document.edit(&stale, json!(0), |_| Ok::<_, Failure>(()));
    assert!(matches!(refused, Err(Failure::Tenure(ErrorKind::Conflict))));
    let named = WriteOptions { operation: Some("id".into()), ..options };
    let refused = document.edit(&named, json!(0), |_| Ok::<_, Failure>(()));
    assert!(matches!(refused, Err(Failure::Tenure(ErrorKind::Invalid))), "a result is not kept");
}

#[test]
fn race_37_a_typed_edit_keeps_what_the_type_does_not_know() {
    let scratch = Scratch::new();
    let old = "{\n  \"theirs\": 1.10,\n  \"turns\": 1,\n  \"title\": \"a\",\n  \"limits\": { \"seconds\": 1.50, \"more\": [1] }\n}\n";
    std::fs::write(scratch.target(), old).unwrap();
    let (document, options) = (document(&scratch), WriteOptions::default());
    let typed = document.typed::<Session>();
    let turns = typed.edit(&options, Session::default, |session| {
        session.turns += 1;
        session.title = None;
        Ok::<_, Error>(session.turns)
    });
    assert_eq!(turns.unwrap(), 2);
    let new = old.replace("\"turns\": 1", "\"turns\": 2").replace("  \"title\": \"a\",\n", "");
    assert_eq!(text(&scratch), new, "unknown fields, digits and layout survive");
    let read = typed.read().unwrap().unwrap();
    assert_eq!((read.turns, read.title, read.limits.seconds), (2, None, 1.5));
}

#[test]
fn a_typed_document_begins_as_the_caller_says_and_refuses_what_does_not_fit() {
    let scratch = Scratch::new();
    let (document, options) = (document(&scratch), WriteOptions::default());
    let typed = document.typed::<Session>();
    assert_eq!(typed.read().unwrap(), None);
    let begun = typed.edit(
        &options,
        || Session { turns: 7, ..Session::default() },
        |session| Ok::<_, Error>(session.turns),
    );
    assert_eq!(begun.unwrap(), 7);
    document.set(&json!({ "turns": "many" }), &options).unwrap();
    let error = typed.read().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("Session"), "{error}");
    let refused = typed.edit(&options, Session::default, |_| Ok::<_, Error>(()));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Damaged);
    assert_eq!(document.read().unwrap().unwrap().value, json!({ "turns": "many" }));
}

#[test]
fn race_37_elements_of_arrays_keep_what_the_type_does_not_know() {
    #[derive(Serialize, Deserialize)]
    struct Item {
        n: u64,
        #[serde(default)]
        done: bool,
    }
    type Change = fn(&mut Vec<Item>);
    let item = |n| Item { n, done: false };
    let old = json!([{ "n": 1, "theirs": 1 }, { "n": 2, "theirs": 2 }, { "n": 3, "theirs": 3 }]);
    let cases: [(Change, tenure::Value); 6] = [
        (|_| (), old.clone()),
        (
            |items| items[1].done = true,
            json!([
                { "n": 1, "theirs": 1 },
                { "n": 2, "theirs": 2, "done": true },
                { "n": 3, "theirs": 3 }
            ]),
        ),
        (
            |items| items.retain(|item| item.n != 1),
            json!([{ "n": 2, "theirs": 2 }, { "n": 3, "theirs": 3 }]),
        ),
        (
            |items| items.reverse(),
            json!([{ "n": 3, "theirs": 3 }, { "n": 2, "theirs": 2 }, { "n": 1, "theirs": 1 }]),
        ),
        (
            |items| items[2].n = 4,
            json!([{ "n": 1, "theirs": 1 }, { "n": 2, "theirs": 2 }, { "n": 4, "theirs": 3 }]),
        ),
        // It is not known which one was changed.
        (
            |items| {
                items.remove(0);
                items[0].n = 5;
            },
            json!([{ "n": 5, "done": false }, { "n": 3, "theirs": 3 }]),
        ),
    ];
    let scratch = Scratch::new();
    let (document, options) = (document(&scratch), WriteOptions::default());
    for (number, (change, expected)) in cases.into_iter().enumerate() {
        document.set(&old, &options).unwrap();
        let edited = document.typed::<Vec<Item>>().edit(&options, Vec::new, |items| {
            change(items);
            Ok::<_, Error>(())
        });
        edited.unwrap();
        let found = document.read().unwrap().unwrap().value;
        assert_eq!(found, expected, "case {number}");
    }
    document.set(&old, &options).unwrap();
    let pushed = document.typed::<Vec<Item>>().edit(&options, Vec::new, |items| {
        items[0].n = 7;
        items.push(item(8));
        Ok::<_, Error>(())
    });
    pushed.unwrap();
    let found = document.read().unwrap().unwrap().value;
    assert_eq!(found[0], json!({ "n": 7, "theirs": 1 }));
    assert_eq!(found[3], json!({ "n": 8, "done": false }));
}

#[test]
fn an_error_prints_well_from_main_and_names_its_source() {
    use std::error::Error as _;
    let scratch = Scratch::new();
    std::fs::write(scratch.target(), "{}").unwrap();
    let below = scratch.target().join("below-a-file.json");
    let error = Document::open(&below).and_then(|document| document.read()).unwrap_err();
    let line = format!("{error:?}");
    assert_eq!(line, error.to_string());
    assert!(!line.contains('\n') && !line.contains("Inner"), "{line}");
    assert!(line.contains("below-a-file.json"), "{line}");
    assert!(error.source().is_some(), "{error:#?}");
}
