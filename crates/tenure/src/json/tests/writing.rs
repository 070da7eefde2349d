//! Layouts are recognised and written back byte for byte.

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Value, json};

use super::random::Random;
use super::value;
use crate::json::style::Indent;
use crate::json::{Style, parse};

#[test]
fn known_layouts_are_recognised() {
    for (bytes, indent, final_newline) in [
        ("{\"a\":1,\"b\":[1,2]}", Indent::None, false),
        ("[1,2]\n", Indent::None, true),
        ("{\"a\": 1, \"b\": [1, 2]}\n", Indent::Separated, true),
        ("[\"a,b: \", 2]", Indent::Separated, false),
        ("{\"a \\\" , : \":1}", Indent::None, false),
        ("[1]", Indent::None, false),
        ("{\n\"a\": 1\n}\n", Indent::Spaces(0), true),
        ("{\n \"a\": 1\n}", Indent::Spaces(1), false),
        ("{\n  \"a\": {\n    \"b\": 1\n  }\n}\n", Indent::Spaces(2), true),
        ("[\n    {\n        \"b\": []\n    },\n    {}\n]", Indent::Spaces(4), false),
        ("{\n\t\"a\": [\n\t\t1\n\t]\n}\n", Indent::Tab, true),
        ("{}\n", Indent::Spaces(2), true),
        ("[]", Indent::Spaces(2), false),
        ("17", Indent::Spaces(2), false),
        ("\"a: b\"\n", Indent::Spaces(2), true),
    ] {
        let style = Style::detect(bytes.as_bytes());
        assert_eq!(style, Style { indent, final_newline }, "{bytes:?}");
        let again = style.render(&value(bytes)).expect("renders");
        assert_eq!(String::from_utf8(again).expect("text"), bytes);
    }
}

#[test]
fn odd_layouts_fall_back() {
    assert_eq!(Style::detect(b""), Style::default());
    assert_eq!(Style::detect(b"{\r\n    \"a\": 1\r\n}\r\n").indent, Indent::Spaces(4));
    assert_eq!(Style::detect(b"\n\n [ \n\n   1]").indent, Indent::Spaces(3));
    let wide = format!("[\n{}1]", " ".repeat(17));
    assert_eq!(Style::detect(wide.as_bytes()).indent, Style::default().indent);
    let endless = " ".repeat(1 << 20);
    assert_eq!(Style::detect(endless.as_bytes()).indent, Style::default().indent);
}

#[test]
fn the_default_is_two_spaces_and_a_newline() {
    let bytes = Style::default().render(&value(r#"{"a":[1],"b":{}}"#)).expect("renders");
    assert_eq!(bytes, b"{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}\n");
}

/// Numbers, key order and layout of random documents: what was written is read and written again
/// without one byte of difference.
#[test]
fn written_documents_survive_the_round_trip() {
    let layouts = [Indent::None, Indent::Separated, Indent::Spaces(2), Indent::Tab];
    let mut random = Random(1);
    for _ in 0..3000 {
        let style = Style { indent: random.pick(&layouts), final_newline: random.below(2) == 0 };
        let written = random.value(4);
        let bytes = style.render(&written).expect("renders");
        let read = parse(&bytes).expect("reads back");
        assert_eq!(read, written);
        let again = style.render(&read).expect("renders");
        assert_eq!(again, bytes);
        let detected = Style::detect(&bytes).render(&read).expect("renders");
        let (detected, bytes) =
            (String::from_utf8_lossy(&detected), String::from_utf8_lossy(&bytes));
        // One element on one line shows no separator, so the two one-line layouts are the same.
        assert_eq!(detected, bytes);
    }
}

#[test]
fn the_text_is_the_one_that_serde_json_writes() {
    let by_serde = |value: &Value, indent: Option<&[u8]>| {
        let mut out = Vec::new();
        let written = match indent {
            None => value.serialize(&mut Serializer::new(&mut out)),
            Some(indent) => {
                let formatter = PrettyFormatter::with_indent(indent);
                value.serialize(&mut Serializer::with_formatter(&mut out, formatter))
            }
        };
        written.expect("a value is always writable");
        String::from_utf8(out).expect("text")
    };
    let mut random = Random(2);
    let every_character: String = (0..0x800).filter_map(char::from_u32).collect();
    let odd = [every_character.as_str(), "", "1234567\"", "12345678\\", "\u{1F600}\u{7F}\u{2028}"];
    let odd = odd.map(|text| json!({ text: [text, {}, [], { "a": [[]] }] }));
    for value in odd.into_iter().chain((0..1000).map(|_| random.value(4))) {
        for (indent, text) in [
            (Indent::None, by_serde(&value, None)),
            (Indent::Spaces(0), by_serde(&value, Some(b""))),
            (Indent::Spaces(3), by_serde(&value, Some(b"   "))),
            (Indent::Tab, by_serde(&value, Some(b"\t"))),
        ] {
            let style = Style { indent, final_newline: false };
            let rendered = style.render(&value).expect("renders");
            assert_eq!(String::from_utf8(rendered).expect("text"), text);
        }
    }
}
