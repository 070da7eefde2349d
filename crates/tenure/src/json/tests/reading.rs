//! What the parser accepts, refuses, and says about it.

use serde_json::Value as SerdeValue;

use super::random::Random;
use super::{text, value};
use crate::json::{Value, print, read, rewrite};

fn refusal(bytes: &[u8]) -> String {
    let reason = read(bytes).expect_err("must be refused");
    assert!(!reason.contains('\n'), "one line: {reason:?}");
    reason
}

#[test]
fn damage_has_a_name() {
    for (bytes, expected) in [
        (&b""[..], "is empty"),
        (b" \r\n\t ", "contains only whitespace"),
        (b"\0\0\0\0", "contains only zero bytes, as after a power loss"),
        (b"\xEF\xBB\xBF{}", "starts with a UTF-8 byte order mark"),
        (b"{\"a\":\"\xFF\"}", "is not valid UTF-8 at byte 6"),
        (b"\xFF\xFE{\0}\0", "is not valid UTF-8 at byte 0"),
        (b"{\"a\":1,\n\"b\" 2}", "has a syntax error: expected `:` at line 2 column 5"),
        (b"{\"a\":[1,2", "ends too early at line 1 column 10"),
        (b"{}\n{}", "has more text after its end at line 2 column 1"),
        (b"{}\0\0", "has more text after its end at line 1 column 3"),
        (b"{\"a\":1,\n \"a\":2}", "repeats the key \"a\" in the object at line 1 column 1"),
    ] {
        assert_eq!(refusal(bytes), expected);
    }
}

#[test]
fn sloppy_texts_are_refused() {
    for sloppy in [
        "01",
        "+1",
        ".5",
        "1.",
        "1e",
        "1e+",
        "-",
        "NaN",
        "Infinity",
        "0x1",
        "1_000",
        "tru",
        "nul",
        "'a'",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "// c\n1",
        "[1 2]",
        "\"\t\"",
        "\"\\x\"",
        "\"\\ud800\"",
        "\"open",
        "{1:2}",
        "{null:1}",
        "[",
        "{",
        "]",
        ",",
        "\"a\" \"b\"",
        "\u{a0}1",
    ] {
        refusal(sloppy.as_bytes());
    }
}

#[test]
fn repeated_keys_are_refused_at_every_level() {
    for (text, key) in [
        (r#"[{"x":{"k":1,"l":2,"k":1}}]"#, r#""k""#),
        (r#"{"a":{},"a":{}}"#, r#""a""#),
        (r#"{"\u0061":1,"a":2}"#, r#""a""#),
        (r#"{"":1,"":2}"#, r#""""#),
        (r#"{"line\n":1,"line\n":2}"#, r#""line\n""#),
        (
            r#"{"x at line 9 column 9":1,"x at line 9 column 9":2}"#,
            "column 9\" in the object at line 1",
        ),
    ] {
        let reason = refusal(text.as_bytes());
        assert!(reason.starts_with("repeats the key") && reason.contains(key), "{reason}");
    }
    value(r#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}"#);
    let long = "k".repeat(10_000);
    assert!(refusal(format!("{{\"{long}\":1,\"{long}\":2}}").as_bytes()).len() < 200);
}

#[test]
fn the_private_number_key_is_an_ordinary_key() {
    for document in [
        r#"{"$serde_json::private::Number":"1"}"#,
        r#"{"$serde_json::private::Number":1e5}"#,
        r#"{"$serde_json::private::Number":{"$serde_json::private::Number":[2]},"b":3}"#,
        r#"{"a":1,"$serde_json::private::Number":"not a number"}"#,
        r#"{"$serde_json::private::RawValue":"{}"}"#,
    ] {
        let value = value(document);
        assert!(value.as_object().is_some(), "{document}");
        assert_eq!(text(&value), document);
    }
    let twice = r#"{"$serde_json::private::Number":"1","$serde_json::private::Number":"1"}"#;
    assert!(refusal(twice.as_bytes()).starts_with("repeats the key"));
}

#[test]
fn numbers_keep_their_text() {
    for number in [
        "1e400",
        "1E400",
        "1e+400",
        "1E-7",
        "0.1000",
        "12345678901234567890123",
        "-0.0",
        "-0",
        "0",
        "0e0",
        "1.0e05",
        "0.00000000000000000000000000000000000000001",
        "9007199254740993",
        "-18446744073709551616",
    ] {
        assert_eq!(text(&value(number)), number);
        let inside =
            format!(r#"{{"1e5 \" e5\\":[true,{number},false,"E9",{number}],"e":{number}}}"#);
        assert_eq!(text(&value(&inside)), inside);
    }
}

#[test]
fn depth_is_limited_alike_in_reading_and_writing() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |levels: usize| format!("{}1{}", open.repeat(levels), close.repeat(levels));
        let deepest = value(&nested(127));
        assert_eq!(text(&deepest), nested(127));
        let printed = print(&deepest).expect("127 levels");
        assert_eq!(read(&printed).as_ref(), Ok(&deepest));

        let reason = refusal(nested(128).as_bytes());
        assert!(reason.starts_with("nests deeper than 127 levels at line 1"), "{reason}");
        let too_deep = Value::Array(vec![deepest.clone()]);
        let old = value("[2,[]]");
        for refused in [
            print(&too_deep).map(Some),
            rewrite(b"[2,[]]", &old, &Value::Array(vec![deepest.clone(), value("[]")])),
            rewrite(b"[2,[]]", &old, &Value::Array(vec![value("2"), deepest.clone()])),
            rewrite(b"[2,[]]", &old, &Value::Array(vec![value("2"), value("[]"), deepest.clone()])),
        ] {
            let reason = refused.expect_err("128 levels");
            assert!(reason.starts_with("nests deeper than 127 levels"), "{reason}");
        }
    }
    refusal("[".repeat(1_000_000).as_bytes());
}

/// Compares with serde_json: what it reads we read to an equal value, and what it refuses we
/// refuse. It keeps the last of two equal keys, and has no number beyond a float. Returns whether
/// the text was read.
fn judge(bytes: &[u8]) -> bool {
    let shown = String::from_utf8_lossy(bytes);
    match (read(bytes), serde_json::from_slice::<SerdeValue>(bytes)) {
        (Ok(value), Ok(judged)) => {
            assert_eq!(SerdeValue::try_from(&value).expect("it was read"), judged, "{shown}");
            assert_eq!(read(text(&value).as_bytes()).as_ref(), Ok(&value), "{shown}");
            true
        }
        (Ok(_), Err(error)) => {
            assert!(error.to_string().contains("number out of range"), "read {shown} but: {error}");
            true
        }
        (Err(reason), Ok(_)) => {
            assert!(reason.starts_with("repeats the key"), "{reason}: {shown}");
            false
        }
        (Err(_), Err(_)) => false,
    }
}

#[test]
fn texts_are_judged_like_serde_json_judges_them() {
    for text in [
        "null",
        " true ",
        "false\n",
        "tru",
        "nulls",
        "0",
        "-0",
        "-0.0",
        "01",
        "1.",
        ".1",
        "1e5",
        "1E+05",
        "1e",
        "-",
        "+1",
        "1E400",
        "123456789012345678901234567890.10",
        "\"\"",
        "\"a",
        "\"a\tb\"",
        "\"a\\tb\"",
        "\"\\u0041\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud83d\"",
        "\"\\ude00\"",
        "\"\\ud83dx\"",
        "\"\\ud83d\\n\"",
        "\"\\ud83d\\u0041\"",
        "\"\\ud83d\\ue000\"",
        "\"\\ud83d\\ud83d\\ude00\"",
        "\"\\u00g0\"",
        "\"\\u00",
        "\"\\",
        "\"\\x\"",
        "\"\\u+123\"",
        "\"\u{1F600}e\u{301}\"",
        "\"\\/\\b\\f\\n\\r\"",
        "[]",
        "[ ]",
        "[1]",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1",
        "{}",
        "{ }",
        "{\"a\":1}",
        "{\"a\":1,}",
        "{\"a\" : [ {} , {\"b\":null} ]}",
        "{a:1}",
        "{\"a\"}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1 \"b\":2}",
        "{\"\\u0061\":1,\"a\":2}",
        "1 2",
        "",
        " ",
        "\u{feff}1",
        "\"\u{7f}\"",
        "\"1234567\u{1}\"",
        "\u{a0}1",
        "\u{b}1",
        "\"12345678\\\"90\"",
    ] {
        judge(text.as_bytes());
    }
    for depth in [1, 126, 127, 128, 129] {
        judge(format!("{}1{}", "[".repeat(depth), "]".repeat(depth)).as_bytes());
        judge(format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)).as_bytes());
    }
}

#[test]
fn mangled_texts_are_judged_like_serde_json_judges_them() {
    let seeds = [
        "{\"name\": \"a\\u00e9 \\\"x\\\"\", \"n\": [1, -2.50, 3E+7, true, null], \"deep\": {\"a\": {}}}",
        "[\"\u{1F600}\", {\"k\":\"0123456789abcdef\\\\\", \"l\": [[], [[]]]}, false, 0.1e-3]\n",
    ];
    for seed in seeds {
        for at in 0..seed.len() {
            for mark in b"\"\\{}[]:,0e.-u \n\t\x01\x7ft\xC3" {
                for cut in [0, 1] {
                    let mut bytes = seed.as_bytes().to_vec();
                    bytes.splice(at..at + cut, [*mark]);
                    judge(&bytes);
                }
            }
            judge(&seed.as_bytes()[..at]);
            judge(&seed.as_bytes()[at..]);
        }
    }
}

#[test]
fn damaged_random_texts_are_judged_like_serde_json_judges_them() {
    let mut random = Random(11);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut bytes = text(&random.value(3)).into_bytes();
        for _ in 0..random.below(3) {
            let at = random.below(bytes.len());
            match random.below(3) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = random.pick(b"\"\\{}[],:e+-0 \n\xC3"),
                _ => bytes.insert(at, random.pick(b"\"\\{}[],:e+-0 \n\xC3")),
            }
        }
        if judge(&bytes) { read += 1 } else { refused += 1 }
    }
    assert!(read > 5000 && refused > 5000, "both sides met: {read} {refused}");
}

/// Few fields are compared one by one, many are sorted.
#[test]
fn objects_of_any_size_find_their_fields() {
    let mut random = Random(12);
    for size in [0, 1, 7, 8, 9, 10, 100, 1000] {
        let mut keys: Vec<String> = (0..size).map(|n| format!("k{n}")).collect();
        for at in (1..size).rev() {
            keys.swap(at, random.below(at + 1));
        }
        let fields: Vec<String> = keys.iter().map(|key| format!("\"{key}\":\"{key}\"")).collect();
        let source = format!("{{{}}}", fields.join(","));
        let Value::Object(mut object) = value(&source) else { panic!("{source}") };
        assert!(object.keys().eq(keys.iter().map(String::as_str)));
        for key in &keys {
            assert_eq!(object.get(key).and_then(Value::as_str), Some(key.as_str()));
            let twice = format!("{{{},\"{key}\":1}}", fields.join(","));
            let part = format!("repeats the key \"{key}\"");
            assert!(refusal(twice.as_bytes()).contains(&part), "{twice}");
            if size > 100 {
                break;
            }
        }
        let mut built = crate::json::Object::new();
        for (at, key) in keys.iter().enumerate() {
            assert_eq!(built.insert(key, at), None);
            assert_eq!(built.insert(key, key), Some(at.into()));
        }
        assert_eq!((built == object, built.keys().eq(object.keys())), (true, true));
        let kept = built.clone();
        while let Some(key) = keys.pop() {
            assert_eq!(object.remove(&key), Some(key.as_str().into()));
            assert_eq!(object.get(&key), None);
            assert!(object.keys().eq(keys.iter().map(String::as_str)));
            if let Some(first) = keys.first().filter(|_| keys.len() % 2 == 0).cloned() {
                object.remove(&first);
                keys.remove(0);
            }
            if let Some(last) = keys.last() {
                assert!(object.contains_key(last), "{last}");
            }
        }
        assert_eq!((object.len(), built == kept), (0, true), "a clone does not see the changes");
        built.retain(|key, _| key.ends_with('7'));
        assert!(built.keys().all(|key| key.ends_with('7') && kept.contains_key(key)));
        assert!(kept.keys().filter(|key| key.ends_with('7')).all(|key| built.contains_key(key)));
    }
}
