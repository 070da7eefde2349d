//! Declaring rules.

use crate::error::ErrorKind;
use crate::json::Rules;

fn refusal(result: crate::error::Result<Rules>) -> String {
    let error = result.expect_err("must be refused");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    error.to_string()
}

#[test]
fn pointers_are_checked() {
    for pointer in ["a", "a/b", "#/a", " /a", "/~", "/a~", "/a/~2b", "/~~0"] {
        assert!(refusal(Rules::new().union(pointer)).contains("JSON Pointer"), "{pointer}");
    }
    for pointer in ["", "/", "/a", "/a/b", "/~0", "/~1", "/~01", "/a//b", "/0", "/-", "/\u{e9}"] {
        Rules::new().max(pointer).expect(pointer);
    }
}

#[test]
fn one_rule_per_place() {
    let rules = || Rules::new().max("/a").expect("first");
    assert!(refusal(rules().max("/a")).contains("two rules"));
    assert!(refusal(rules().union("/a")).contains("two rules"));
    assert!(refusal(Rules::new().last("").expect("root").min("")).contains("two rules"));
    rules().max("/b").expect("another").sum("/c/a").expect("another").min("/A").expect("another");
}

#[test]
fn a_rule_that_could_never_apply_is_refused() {
    let outer = Rules::new().last("/a").expect("outer");
    assert!(refusal(outer.max("/a/b/c")).contains("never apply"));
    let inner = Rules::new().max("/a/b/c").expect("inner");
    let reason = refusal(inner.last("/a"));
    assert!(reason.contains("never apply") && reason.contains("/a/b/c"), "{reason}");
    let inner = Rules::new().max("/a").expect("inner");
    assert!(refusal(inner.last("")).contains("never apply"));
}
