//! Merging: RFC 7396 by its own examples, the rules by example and by their laws.

use std::cmp::Ordering;

use super::random::Random;
use super::{text, value};
use crate::json::{Number, Object, Rules, Value, merge};

fn merged(current: &str, patch: &str, rules: &Rules) -> String {
    text(&merge(&value(current), &value(patch), rules).expect("merges"))
}

fn refusal(current: &str, patch: &str, rules: &Rules) -> String {
    merge(&value(current), &value(patch), rules).expect_err("must be refused")
}

/// All five kinds at once, on fields of their own.
fn rules() -> Rules {
    let rules = Rules::new().union("/set").and_then(|rules| rules.max("/max"));
    let rules = rules.and_then(|rules| rules.min("/in/min")).and_then(|rules| rules.sum("/sum"));
    rules.and_then(|rules| rules.last("/last")).expect("valid rules")
}

#[test]
fn rfc_7396_appendix_a() {
    for (original, patch, result) in [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
        (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
        (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
        (r#"{"a":"foo"}"#, "null", "null"),
        (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
        (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
        ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
        ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
    ] {
        assert_eq!(merged(original, patch, &Rules::new()), result);
    }
}

#[test]
fn rfc_7396_section_3() {
    let original = r#"{"title":"Goodbye!","author":{"givenName":"John","familyName":"Doe"},"tags":["example","sample"],"content":"This will be unchanged"}"#;
    let patch = r#"{"title":"Hello!","phoneNumber":"+01-123-456-7890","author":{"familyName":null},"tags":["example"]}"#;
    let result = r#"{"title":"Hello!","author":{"givenName":"John"},"tags":["example"],"content":"This will be unchanged","phoneNumber":"+01-123-456-7890"}"#;
    assert_eq!(merged(original, patch, &Rules::new()), result);
}

#[test]
fn keys_keep_their_order() {
    let original = r#"{"z":1,"y":2,"x":3,"w":4}"#;
    let patch = r#"{"n":1,"w":0,"z":null,"b":2}"#;
    assert_eq!(merged(original, patch, &Rules::new()), r#"{"y":2,"x":3,"w":0,"n":1,"b":2}"#);
}

#[test]
fn rules_by_example() {
    for (current, patch, result) in [
        (r#"{"set":[3,1]}"#, r#"{"set":[2,1,2]}"#, r#"{"set":[3,1,2]}"#),
        (
            r#"{"set":[{"a":1,"b":2}]}"#,
            r#"{"set":[{"b":2.0,"a":1e0}]}"#,
            r#"{"set":[{"a":1,"b":2}]}"#,
        ),
        (
            r#"{"set":["1",[1],true]}"#,
            r#"{"set":[1,[[1]],false]}"#,
            r#"{"set":["1",[1],true,1,[[1]],false]}"#,
        ),
        ("{}", r#"{"set":[1,1]}"#, r#"{"set":[1]}"#),
        (r#"{"set":[1]}"#, "{}", r#"{"set":[1]}"#),
        (r#"{"max":5}"#, r#"{"max":6}"#, r#"{"max":6}"#),
        (r#"{"max":5.0}"#, r#"{"max":5}"#, r#"{"max":5.0}"#),
        (
            r#"{"max":9007199254740993}"#,
            r#"{"max":9007199254740992}"#,
            r#"{"max":9007199254740993}"#,
        ),
        (r#"{"max":1e400}"#, r#"{"max":1e401}"#, r#"{"max":1e401}"#),
        (
            r#"{"in":{"min":-1}}"#,
            r#"{"in":{"min":-2,"other":1}}"#,
            r#"{"in":{"min":-2,"other":1}}"#,
        ),
        ("[]", r#"{"in":{"min":4}}"#, r#"{"in":{"min":4}}"#),
        (r#"{"in":7}"#, r#"{"in":{"min":4}}"#, r#"{"in":{"min":4}}"#),
        (r#"{"sum":9223372036854775807}"#, r#"{"sum":1}"#, r#"{"sum":9223372036854775808}"#),
        (r#"{"sum":1}"#, r#"{"sum":-3}"#, r#"{"sum":-2}"#),
        (r#"{"sum":1.5}"#, r#"{"sum":2}"#, r#"{"sum":3.5}"#),
        ("{}", r#"{"sum":0.10}"#, r#"{"sum":0.10}"#),
        (
            r#"{"sum":null,"max":null,"set":null}"#,
            r#"{"sum":1,"max":2,"set":[3]}"#,
            r#"{"sum":1,"max":2,"set":[3]}"#,
        ),
        (r#"{"last":{"a":1}}"#, r#"{"last":{"b":null}}"#, r#"{"last":{"b":null}}"#),
        (
            r#"{"set":[1],"max":1,"sum":1,"last":1}"#,
            r#"{"set":null,"max":null,"sum":null,"last":null}"#,
            "{}",
        ),
        (r#"{"plain":[1],"other":2}"#, r#"{"plain":[2],"other":1}"#, r#"{"plain":[2],"other":1}"#),
    ] {
        assert_eq!(merged(current, patch, &rules()), result);
    }
    let root = Rules::new().union("").expect("valid");
    assert_eq!(merged("[1,2]", "[3,2]", &root), "[1,2,3]");
    assert_eq!(merged("[1,2]", "null", &root), "null");
    let escaped = Rules::new().sum("/a~1b/m~0n/~01").expect("valid");
    assert_eq!(
        merged(r#"{"a/b":{"m~n":{"~1":1}}}"#, r#"{"a/b":{"m~n":{"~1":1}}}"#, &escaped),
        r#"{"a/b":{"m~n":{"~1":2}}}"#
    );
}

#[test]
fn union_brings_deletions_back_as_documented() {
    let rules = Rules::new().union("/approved").expect("valid");
    let after_revocation = r#"{"approved":["ls"]}"#;
    let from_a_stale_reader = r#"{"approved":["ls","rm"]}"#;
    let result = merged(after_revocation, from_a_stale_reader, &rules);
    assert_eq!(result, from_a_stale_reader);
}

#[test]
fn wrong_types_are_refused_by_name() {
    for (current, patch, parts) in [
        (r#"{"set":"a"}"#, r#"{"set":[1]}"#, ["union", "\"/set\"", "string", "array"]),
        (r#"{"set":[1]}"#, r#"{"set":{}}"#, ["union", "\"/set\"", "array", "object"]),
        ("{}", r#"{"set":1}"#, ["union", "\"/set\"", "null", "number"]),
        (r#"{"max":"2020"}"#, r#"{"max":1}"#, ["max", "\"/max\"", "string", "number"]),
        (
            r#"{"in":{"min":1}}"#,
            r#"{"in":{"min":true}}"#,
            ["min", "\"/in/min\"", "number", "boolean"],
        ),
        (r#"{"sum":1}"#, r#"{"ok":1,"sum":[1]}"#, ["sum", "\"/sum\"", "number", "array"]),
        ("{}", r#"{"sum":"1"}"#, ["sum", "\"/sum\"", "null", "string"]),
    ] {
        let reason = refusal(current, patch, &rules());
        let mut rest = reason.as_str();
        for part in parts {
            rest = rest.split_once(part).unwrap_or_else(|| panic!("{part} in {reason}")).1;
        }
    }
}

#[test]
fn sums_at_the_limits() {
    let sum = |a: &str, b: &str| {
        let add = |number: &str| format!(r#"{{"sum":{number}}}"#);
        merge(&value(&add(a)), &value(&add(b)), &rules()).map(|value| text(&value["sum"]))
    };
    let largest = i128::MAX.to_string();
    assert_eq!(sum(&largest, "-1").expect("fits"), (i128::MAX - 1).to_string());
    let beyond = sum(&largest, "1").expect("as f64").parse::<f64>().expect("a number");
    assert_eq!(beyond.total_cmp(&2_f64.powi(127)), Ordering::Equal);
    for (a, b) in [("1e400", "1"), ("1", "-1e400"), ("1.7e308", "1.7e308")] {
        assert!(sum(a, b).expect_err("beyond f64").contains("\"/sum\""));
    }
}

#[test]
fn numbers_compare_by_value() {
    let ascending = [
        "-1e999999999999999999999999999999999999999999999",
        "-1e99999999999999999999",
        "-1e400",
        "-12345678901234567890124",
        "-12345678901234567890123.5",
        "-2",
        "-1.5",
        "-1e-400",
        "-1e-999999999999999999999999999999999999999999999",
        "0",
        "1e-400",
        "0.001",
        "0.01",
        "1",
        "1.5",
        "2",
        "10",
        "9007199254740992",
        "9007199254740993",
        "12345678901234567890123",
        "1e23",
        "1e400",
        "1.1e400",
        "1e999999999999999999999999999999999999999999999",
    ];
    let numbers: Vec<Number> = ascending.iter().map(|text| number_of(text)).collect();
    for (i, left) in numbers.iter().enumerate() {
        for (j, right) in numbers.iter().enumerate() {
            assert_eq!(left.compare(right), i.cmp(&j), "{left} {right}");
        }
    }
    for same in [
        ["0", "-0"],
        ["0e9", "0.00"],
        ["1", "10e-1"],
        ["100", "1E2"],
        ["-0.10", "-1e-1"],
        ["1e+400", "10e399"],
    ] {
        let [left, right] = same.map(value);
        assert!(left == right, "{same:?}");
    }
}

fn number_of(text: &str) -> Number {
    match value(text) {
        Value::Number(number) => number,
        other => panic!("{other}"),
    }
}

/// A random document or patch for [`rules`]; in a patch, fields may be missing or null.
fn random_fields(random: &mut Random) -> Value {
    let mut object = Object::new();
    for key in ["z", "set", "max", "in", "sum", "last", "a"] {
        if random.below(4) == 0 {
            continue;
        }
        let value = match key {
            "set" => random.array(2),
            "max" => random.number(),
            "in" => Value::Object([("min", random.number())].into_iter().collect()),
            "sum" => random.integer(),
            _ => random.value(2),
        };
        object.insert(key, value);
    }
    Value::Object(object)
}

#[test]
fn merging_twice_is_merging_once_except_for_sums() {
    let mut random = Random(2);
    for _ in 0..3000 {
        let (current, mut patch) = (random_fields(&mut random), random_fields(&mut random));
        patch.as_object_mut().expect("an object").remove("sum");
        if random.below(4) == 0 {
            patch["set"] = Value::Null;
        }
        let once = merge(&current, &patch, &rules()).expect("merges");
        let twice = merge(&once, &patch, &rules()).expect("merges");
        assert_eq!(text(&once), text(&twice));
        let untouched = merge(&current, &value("{}"), &rules()).expect("merges");
        assert_eq!(text(&untouched), text(&current));
    }
    assert_eq!(merged(r#"{"sum":1}"#, r#"{"sum":1}"#, &rules()), r#"{"sum":2}"#);
}

#[test]
fn the_order_of_patches_does_not_matter_where_documented() {
    let mut random = Random(3);
    for _ in 0..3000 {
        let current = random_fields(&mut random);
        let [first, second] = [(); 2].map(|()| {
            let mut patch = random_fields(&mut random);
            let fields = patch.as_object_mut().expect("an object");
            fields.retain(|key, _| !["z", "a", "last"].contains(&key));
            patch
        });
        let both = |a: &Value, b: &Value| {
            let merged = merge(&current, a, &rules()).and_then(|once| merge(&once, b, &rules()));
            sorted_set(merged.expect("merges"))
        };
        let (one, other) = (both(&first, &second), both(&second, &first));
        assert_eq!(one, other);
    }
}

/// The document with its set in an order that depends on the elements' values alone.
fn sorted_set(mut document: Value) -> Value {
    if let Some(set) = document["set"].as_array_mut() {
        set.sort_by_cached_key(hash);
    }
    document
}

fn hash(value: &Value) -> u64 {
    use std::hash::BuildHasher;
    std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default().hash_one(value)
}
