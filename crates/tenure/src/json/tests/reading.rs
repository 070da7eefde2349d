//! What `parse` accepts, refuses, and says about it.

use serde_json::Value;

use super::random::Random;
use super::{text, value};
use crate::json::style::Indent;
use crate::json::{Style, parse};

fn refusal(bytes: &[u8]) -> String {
    let reason = parse(bytes).expect_err("must be refused");
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
        (b"{\"a\":[1,2", "ends too early: EOF while parsing a list at line 1 column 9"),
        (b"{}\n{}", "has more text after its end at line 2 column 1"),
        (b"{}\0\0", "has more text after its end at line 1 column 3"),
        (b"{\"a\":1,\n \"a\":2}", "repeats the key \"a\" at line 2 column 4"),
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
        (r#"{"x at line 9 column 9":1,"x at line 9 column 9":2}"#, "column 9\" at line 1"),
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
        assert!(value.is_object(), "{document}");
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
        let style = Style { indent: Indent::None, final_newline: false };
        assert_eq!(style.render(&deepest).expect("127 levels"), nested(127).into_bytes());

        let reason = refusal(nested(128).as_bytes());
        assert!(reason.starts_with("nests deeper than 127 levels at line 1"), "{reason}");
        let too_deep = Value::Array(vec![deepest]);
        let reason = style.render(&too_deep).expect_err("128 levels");
        assert!(reason.starts_with("nests deeper than 127 levels"), "{reason}");
    }
    refusal("[".repeat(1_000_000).as_bytes());
}

/// An independent judge of the same texts: whatever serde_json reads (save repeated keys) we read
/// to an equal value, and whatever it refuses we refuse, also after random damage.
#[test]
fn damaged_texts_are_judged_like_serde_json_judges_them() {
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
        match (parse(&bytes), serde_json::from_slice::<serde::de::IgnoredAny>(&bytes)) {
            (Ok(value), Ok(_)) => {
                read += 1;
                let again = value.to_string();
                assert_eq!(parse(again.as_bytes()).as_ref(), Ok(&value), "{again}");
            }
            (Err(reason), Ok(_)) => {
                // The judge skips strings without looking for lone surrogates or UTF-8 in them.
                let known = ["repeats the key", "is not valid UTF-8", "surrogate", "hex escape"];
                assert!(known.iter().any(|known| reason.contains(known)), "{reason} {bytes:?}");
            }
            (Ok(value), Err(error)) => panic!("read {value} but: {error}"),
            (Err(_), Err(_)) => refused += 1,
        }
    }
    assert!(read > 5000 && refused > 5000, "both sides met: {read} {refused}");
}
