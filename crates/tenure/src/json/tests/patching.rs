//! Patching: RFC 6902 by its own examples, and the promises that go beyond it.

use super::random::Random;
use super::{text, value};
use crate::json::{PatchError, patch};

fn patched(document: &str, ops: &str) -> String {
    text(&patch(&value(document), &value(ops)).expect("applies"))
}

fn invalid(document: &str, ops: &str) -> String {
    match patch(&value(document), &value(ops)) {
        Err(PatchError::Invalid(reason)) => reason,
        other => panic!("{ops}: {other:?}"),
    }
}

fn test_failed(document: &str, ops: &str) -> String {
    match patch(&value(document), &value(ops)) {
        Err(PatchError::TestFailed(reason)) => reason,
        other => panic!("{ops}: {other:?}"),
    }
}

#[test]
fn rfc_6902_appendix_a() {
    for (document, ops, result) in [
        (
            r#"{"foo":"bar"}"#,
            r#"[{"op":"add","path":"/baz","value":"qux"}]"#,
            r#"{"foo":"bar","baz":"qux"}"#,
        ),
        (
            r#"{"foo":["bar","baz"]}"#,
            r#"[{"op":"add","path":"/foo/1","value":"qux"}]"#,
            r#"{"foo":["bar","qux","baz"]}"#,
        ),
        (r#"{"baz":"qux","foo":"bar"}"#, r#"[{"op":"remove","path":"/baz"}]"#, r#"{"foo":"bar"}"#),
        (
            r#"{"foo":["bar","qux","baz"]}"#,
            r#"[{"op":"remove","path":"/foo/1"}]"#,
            r#"{"foo":["bar","baz"]}"#,
        ),
        (
            r#"{"baz":"qux","foo":"bar"}"#,
            r#"[{"op":"replace","path":"/baz","value":"boo"}]"#,
            r#"{"baz":"boo","foo":"bar"}"#,
        ),
        (
            r#"{"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}"#,
            r#"[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]"#,
            r#"{"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}"#,
        ),
        (
            r#"{"foo":["all","grass","cows","eat"]}"#,
            r#"[{"op":"move","from":"/foo/1","path":"/foo/3"}]"#,
            r#"{"foo":["all","cows","eat","grass"]}"#,
        ),
        (
            r#"{"baz":"qux","foo":["a",2,"c"]}"#,
            r#"[{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}]"#,
            r#"{"baz":"qux","foo":["a",2,"c"]}"#,
        ),
        (
            r#"{"foo":"bar"}"#,
            r#"[{"op":"add","path":"/child","value":{"grandchild":{}}}]"#,
            r#"{"foo":"bar","child":{"grandchild":{}}}"#,
        ),
        (
            r#"{"foo":"bar"}"#,
            r#"[{"op":"add","path":"/baz","value":"qux","xyz":123}]"#,
            r#"{"foo":"bar","baz":"qux"}"#,
        ),
        (r#"{"/":9,"~1":10}"#, r#"[{"op":"test","path":"/~01","value":10}]"#, r#"{"/":9,"~1":10}"#),
        (
            r#"{"foo":["bar"]}"#,
            r#"[{"op":"add","path":"/foo/-","value":["abc","def"]}]"#,
            r#"{"foo":["bar",["abc","def"]]}"#,
        ),
    ] {
        assert_eq!(patched(document, ops), result);
    }
    // A.9, A.15: a test that fails. A.12: no place for the new value.
    test_failed(r#"{"baz":"qux"}"#, r#"[{"op":"test","path":"/baz","value":"bar"}]"#);
    test_failed(r#"{"/":9,"~1":10}"#, r#"[{"op":"test","path":"/~01","value":"10"}]"#);
    invalid(r#"{"foo":"bar"}"#, r#"[{"op":"add","path":"/baz/bat","value":"qux"}]"#);
}

#[test]
fn more_operations() {
    for (document, ops, result) in [
        ("{}", "[]", "{}"),
        ("1", r#"[{"op":"add","path":"","value":[1]}]"#, "[1]"),
        (r#"{"a":1}"#, r#"[{"op":"add","path":"/a","value":null}]"#, r#"{"a":null}"#),
        (
            r#"{"a":[1]}"#,
            r#"[{"op":"copy","from":"/a","path":"/b"},{"op":"add","path":"/b/0","value":0}]"#,
            r#"{"a":[1],"b":[0,1]}"#,
        ),
        (r#"{"a":1,"b":2}"#, r#"[{"op":"move","from":"/a","path":"/a"}]"#, r#"{"a":1,"b":2}"#),
        (r#"{"a":{"b":[7]}}"#, r#"[{"op":"move","from":"/a/b/0","path":"/a"}]"#, r#"{"a":7}"#),
        (r#"{"a":1,"ab":2}"#, r#"[{"op":"move","from":"/a","path":"/ab"}]"#, r#"{"ab":1}"#),
        ("{}", r#"[{"op":"add","path":"/n","value":1E400}]"#, r#"{"n":1E400}"#),
        (r#"{"a":{}}"#, r#"[{"op":"add","path":"/a/","value":1}]"#, r#"{"a":{"":1}}"#),
        (r#"{"a":1}"#, r#"[{"op":"add","path":"/0","value":2}]"#, r#"{"a":1,"0":2}"#),
        ("[0,1,2,3]", r#"[{"op":"remove","path":"/1"},{"op":"remove","path":"/2"}]"#, "[0,2]"),
        ("[[],1]", r#"[{"op":"move","from":"/1","path":"/0/-"}]"#, "[[1]]"),
        (r#"{"a":{"b":1}}"#, r#"[{"op":"move","from":"/a/b","path":""}]"#, "1"),
        (
            "{}",
            r#"[{"op":"add","path":"/n","value":{"$serde_json::private::Number":"1"}}]"#,
            r#"{"n":{"$serde_json::private::Number":"1"}}"#,
        ),
    ] {
        assert_eq!(patched(document, ops), result);
    }
}

#[test]
fn keys_keep_their_order() {
    let document = r#"{"a":1,"b":2,"c":3,"d":4}"#;
    assert_eq!(patched(document, r#"[{"op":"remove","path":"/a"}]"#), r#"{"b":2,"c":3,"d":4}"#);
    let ops = r#"[{"op":"move","from":"/b","path":"/e"}]"#;
    assert_eq!(patched(document, ops), r#"{"a":1,"c":3,"d":4,"e":2}"#);
}

#[test]
fn tests_compare_by_value() {
    let document = r#"{"a":{"x":1.0,"y":[100]}}"#;
    patched(document, r#"[{"op":"test","path":"/a","value":{"y":[1e2],"x":1}}]"#);
    for other in [
        r#"{"x":1,"y":[101]}"#,
        r#"{"x":1}"#,
        r#"{"x":1,"y":[100],"z":0}"#,
        r#"{"x":"1","y":[100]}"#,
    ] {
        let ops = format!(r#"[{{"op":"test","path":"/a","value":{other}}}]"#);
        assert!(test_failed(document, &ops).contains("operation 0 (test)"));
    }
    let absent = r#"[{"op":"add","path":"/b","value":1},{"op":"test","path":"/c","value":null}]"#;
    assert!(
        test_failed(document, absent).contains("operation 1 (test): there is nothing at \"/c\"")
    );
}

#[test]
fn malformed_patches_are_invalid_whatever_the_document_holds() {
    for (operation, part) in [
        ("7", "number"),
        (r#"{"path":"/a"}"#, "\"op\" is missing"),
        (r#"{"op":"add","path":"/a"}"#, "\"value\" is missing"),
        (r#"{"op":"test","path":"/a"}"#, "\"value\" is missing"),
        (r#"{"op":"remove"}"#, "\"path\" is missing"),
        (r#"{"op":"remove","path":7}"#, "\"path\" is number"),
        (r#"{"op":"remove","path":"a"}"#, "not a JSON Pointer"),
        (r#"{"op":"remove","path":"/~2"}"#, "not a JSON Pointer"),
        (r#"{"op":"move","path":"/a"}"#, "\"from\" is missing"),
        (r#"{"op":"Add","path":"/a","value":1}"#, "unknown \"op\" \"Add\""),
    ] {
        // The failing test comes first; the malformed operation is still what is reported.
        let ops = format!(r#"[{{"op":"test","path":"/a","value":2}},{operation}]"#);
        let reason = invalid(r#"{"a":1}"#, &ops);
        assert!(reason.contains("operation 1 is malformed") && reason.contains(part), "{reason}");
    }
    assert!(invalid("{}", "{}").contains("not object"));
}

#[test]
fn places_that_do_not_exist_are_invalid() {
    for operation in [
        r#"{"op":"remove","path":"/x"}"#,
        r#"{"op":"remove","path":""}"#,
        r#"{"op":"remove","path":"/l/-"}"#,
        r#"{"op":"remove","path":"/l/2"}"#,
        r#"{"op":"remove","path":"/l/00"}"#,
        r#"{"op":"remove","path":"/l/1e0"}"#,
        r#"{"op":"replace","path":"/l/-1","value":1}"#,
        r#"{"op":"replace","path":"/l/+1","value":1}"#,
        r#"{"op":"add","path":"/l/x","value":1}"#,
        r#"{"op":"copy","from":"/l/-","path":"/y"}"#,
        r#"{"op":"replace","path":"/x","value":1}"#,
        r#"{"op":"add","path":"/l/3","value":1}"#,
        r#"{"op":"add","path":"/l/01","value":1}"#,
        r#"{"op":"add","path":"/s/x","value":1}"#,
        r#"{"op":"copy","from":"/x","path":"/y"}"#,
        r#"{"op":"move","from":"/x","path":"/y"}"#,
        r#"{"op":"move","from":"/o","path":"/o/p"}"#,
        r#"{"op":"move","from":"","path":"/o"}"#,
        r#"{"op":"move","from":"/l/0","path":"/l/0/x"}"#,
    ] {
        let reason = invalid(r#"{"l":[1,{}],"s":"t","o":{"p":1}}"#, &format!("[{operation}]"));
        assert!(reason.contains("operation 0 cannot be applied"), "{reason}");
    }
}

/// Undoing what was done, by the patch itself, must give the same bytes: no operation disturbs
/// anything beside its own place.
#[test]
fn adding_and_removing_again_leaves_no_trace() {
    let mut random = Random(4);
    for _ in 0..2000 {
        let document = random.object(3);
        let added = text(&random.value(2));
        let ops = format!(
            r#"[{{"op":"add","path":"/new","value":{added}}},{{"op":"test","path":"/new","value":{added}}},
                {{"op":"copy","from":"/new","path":"/copy"}},{{"op":"remove","path":"/new"}},
                {{"op":"move","from":"/copy","path":"/moved"}},{{"op":"remove","path":"/moved"}}]"#
        );
        let result = patch(&document, &value(&ops)).expect("applies");
        assert_eq!(text(&result), text(&document));
    }
}
