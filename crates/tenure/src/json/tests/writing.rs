//! A change prints what differs; every other byte of the old text stays.

use std::fmt::Write;

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};

use super::random::Random;
use super::{text, value};
use crate::json;
use crate::json::pointer::{find_mut, tokens};
use crate::json::{Object, Value, print, read, rewrite};

/// The value at `pointer`.
fn at<'v>(value: &'v mut Value, pointer: &str) -> Option<&'v mut Value> {
    find_mut(value, &tokens(pointer).ok()?)
}

/// The text after the value at `pointer` became `new`.
fn replaced(source: &str, pointer: &str, new: &str) -> String {
    changed(source, |value| *at(value, pointer).expect(pointer) = super::value(new))
}

fn changed(source: &str, change: impl FnOnce(&mut Value)) -> String {
    let old = value(source);
    let mut new = old.clone();
    change(&mut new);
    let bytes = rewrite(source.as_bytes(), &old, &new).expect("prints").expect("a change");
    assert_eq!(read(&bytes).map(|read| text(&read)), Ok(text(&new)), "{source}");
    String::from_utf8(bytes).expect("text")
}

#[test]
fn what_is_not_changed_is_copied() {
    let source = "\n {\"a\" :1.50,\r\n\t\"\\u0062\": [ 1E+2 ,{} , { \"k\":\"\\/\\u00e9\" }],\"c\":{ },\n\n\"d\":null}\n\n";
    let same = value(source);
    assert_eq!(rewrite(source.as_bytes(), &same, &same.clone()), Ok(None));
    for (pointer, old, new) in [
        ("/a", "1.50", "1.5"),
        ("/a", "1.50", "\"x\""),
        ("/b/0", "1E+2", "100"),
        ("/b/1", "{}", "false"),
        ("/b/2/k", "\"\\/\\u00e9\"", "\"\u{e9}\""),
        ("/c", "{ }", "[]"),
        ("/d", "null", "0"),
    ] {
        assert_eq!(replaced(source, pointer, new), source.replace(old, new), "{pointer}");
    }
    assert_eq!(replaced(source, "", "7"), "\n 7\n\n");
}

#[test]
fn new_members_look_like_their_neighbours() {
    for (source, expected) in [
        ("{\"a\":1,\"b\":2}", "{\"a\":1,\"b\":2,\"n\":[1,{\"x\":2}]}"),
        ("{\"a\": 1, \"b\": 2}\n", "{\"a\": 1, \"b\": 2, \"n\": [1, {\"x\": 2}]}\n"),
        ("{\"a\": 1}", "{\"a\": 1, \"n\": [1, {\"x\": 2}]}"),
        ("{ \"a\" : 1 }", "{ \"a\" : 1, \"n\" : [1, {\"x\": 2}] }"),
        (
            "{\n  \"a\": 1\n}\n",
            "{\n  \"a\": 1,\n  \"n\": [\n    1,\n    {\n      \"x\": 2\n    }\n  ]\n}\n",
        ),
        (
            "{\n\t\"a\": 1\n}",
            "{\n\t\"a\": 1,\n\t\"n\": [\n\t\t1,\n\t\t{\n\t\t\t\"x\": 2\n\t\t}\n\t]\n}",
        ),
        (
            "{\r\n \"a\": 1\r\n}\r\n",
            "{\r\n \"a\": 1,\r\n \"n\": [\r\n  1,\r\n  {\r\n   \"x\": 2\r\n  }\r\n ]\r\n}\r\n",
        ),
        (
            "{\n\"a\": 1,\n\n\"b\":2\n}",
            "{\n\"a\": 1,\n\n\"b\":2,\n\n\"n\": [\n1,\n{\n\"x\": 2\n}\n]\n}",
        ),
        ("{}\n", "{\n  \"n\": [\n    1,\n    {\n      \"x\": 2\n    }\n  ]\n}\n"),
        ("{ }", "{\n  \"n\": [\n    1,\n    {\n      \"x\": 2\n    }\n  ]\n}"),
    ] {
        assert_eq!(changed(source, |value| value["n"] = json!([1, { "x": 2 }])), expected);
    }
    let wide = format!("[\n{}1]", " ".repeat(17));
    let pushed = changed(&wide, |value| value.as_array_mut().expect("an array").push(json!([2])));
    let space = " ".repeat(17);
    assert_eq!(pushed, format!("[\n{space}1,\n{space}[\n{space}  2\n{space}]]"));
}

#[test]
fn a_line_among_lines_stays_one() {
    let source = "{\n  \"at\": [1, 2],\n  \"empty\": [],\n  \"one\": {\"a\":1}\n}\n";
    let push = |pointer: &str, value: Value| {
        changed(source, |document| {
            at(document, pointer).and_then(Value::as_array_mut).expect("array").push(value);
        })
    };
    assert_eq!(push("/at", json!([3, { "x": 4 }])), source.replace("2]", "2, [3, {\"x\": 4}]]"));
    assert_eq!(push("/empty", json!(1)), source.replace("[]", "[\n    1\n  ]"));
    assert_eq!(
        changed(source, |value| value["one"]["b"] = json!(2)),
        source.replace("{\"a\":1}", "{\"a\":1, \"b\":2}")
    );
    assert_eq!(replaced(source, "/at/0", "[[7]]"), source.replace("[1,", "[[[7]],"));
}

#[test]
fn members_go_with_their_commas() {
    let object = "{ \"a\":1,  \"b\":2 ,\"c\" :3\t}";
    let array = "[ 1,  2 ,3, 4\t]";
    let keep = |source: &str, kept: &[&str]| {
        changed(source, |value| match value {
            Value::Array(values) => values.retain(|value| kept.contains(&text(value).as_str())),
            Value::Object(object) => object.retain(|key, _| kept.contains(&key)),
            _ => {}
        })
    };
    assert_eq!(keep(object, &["b", "c"]), "{ \"b\":2 ,\"c\" :3\t}");
    assert_eq!(keep(object, &["a", "c"]), "{ \"a\":1,  \"c\" :3\t}");
    assert_eq!(keep(object, &["a", "b"]), "{ \"a\":1,  \"b\":2\t}");
    assert_eq!(keep(object, &["c"]), "{ \"c\" :3\t}");
    assert_eq!(keep(object, &[]), "{}");
    assert_eq!(keep(array, &["2", "3", "4"]), "[ 2 ,3, 4\t]");
    assert_eq!(keep(array, &["1", "2", "4"]), "[ 1,  2,  4\t]");
    assert_eq!(keep(array, &["1"]), "[ 1\t]");
    let moved = value("{\"c\":3,\"b\":2,\"a\":1}");
    let bytes = rewrite(object.as_bytes(), &value(object), &moved).expect("prints");
    assert_eq!(bytes.as_deref(), Some(&b"{ \"c\" :3,  \"b\":2,  \"a\":1\t}"[..]));
    let insert = |at: usize| {
        changed(array, |value| value.as_array_mut().expect("array").insert(at, 9.into()))
    };
    assert_eq!(insert(0), "[ 9,  1,  2 ,3, 4\t]");
    assert_eq!(insert(2), "[ 1,  2,  9,  3, 4\t]");
    assert_eq!(insert(4), "[ 1,  2 ,3, 4,  9\t]");
    // Where both ends look alike, what is new came last.
    let alike = "[\"\\u0061\", \"a\"]";
    let push = |value: &mut Value| value.as_array_mut().expect("array").push("a".into());
    assert_eq!(changed(alike, push), "[\"\\u0061\", \"a\", \"a\"]");
}

#[test]
fn a_new_document_has_two_spaces_and_a_newline() {
    let bytes = print(&value(r#"{"a":[1],"b":{}}"#)).expect("prints");
    assert_eq!(bytes, b"{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}\n");
}

/// A text in a layout of no writer, and where its leaves are.
struct LaidOut<'r> {
    random: &'r mut Random,
    out: String,
    leaves: Vec<(String, std::ops::Range<usize>)>,
}

impl LaidOut<'_> {
    fn space(&mut self) {
        for _ in 0..self.random.below(3) {
            self.out.push_str(self.random.pick(&[" ", "\n", "\t", "\r\n", "  "]));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for letter in text.chars() {
            if letter < ' ' || matches!(letter, '"' | '\\') || self.random.below(8) == 0 {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    let _ = write!(self.out, "\\u{unit:04X}");
                }
            } else {
                self.out.push(letter);
            }
        }
        self.out.push('"');
    }

    fn value(&mut self, value: &Value, pointer: &str) {
        let start = self.out.len();
        match value {
            Value::Array(values) => {
                self.out.push('[');
                for (at, value) in values.iter().enumerate() {
                    self.member(at, None, value, &format!("{pointer}/{at}"));
                }
                self.space();
                self.out.push(']');
            }
            Value::Object(object) => {
                self.out.push('{');
                for (at, (key, value)) in object.iter().enumerate() {
                    let token = key.replace('~', "~0").replace('/', "~1");
                    self.member(at, Some(key), value, &format!("{pointer}/{token}"));
                }
                self.space();
                self.out.push('}');
            }
            Value::String(text) => self.string(text),
            other => self.out.push_str(&text(other)),
        }
        self.leaves.push((pointer.to_owned(), start..self.out.len()));
    }

    fn member(&mut self, at: usize, key: Option<&str>, value: &Value, pointer: &str) {
        self.out.push_str(if at > 0 { "," } else { "" });
        self.space();
        if let Some(key) = key {
            self.string(key);
            self.space();
            self.out.push(':');
            self.space();
        }
        self.value(value, pointer);
        self.space();
    }
}

#[test]
fn a_changed_leaf_changes_nothing_else() {
    let mut random = Random(21);
    for _ in 0..5000 {
        let document = random.value(4);
        let mut laid = LaidOut { random: &mut random, out: String::new(), leaves: Vec::new() };
        laid.space();
        laid.value(&document, "");
        laid.space();
        let LaidOut { out, leaves, .. } = laid;
        let old = value(&out);
        assert_eq!(text(&old), text(&document));
        assert_eq!(rewrite(out.as_bytes(), &old, &document), Ok(None), "{out}");
        let (pointer, range) = &leaves[random.below(leaves.len())];
        let mut expected = out.clone();
        expected.replace_range(range.clone(), "\"new\"");
        assert_eq!(replaced(&out, pointer, "\"new\""), expected, "{pointer} in {out}");
    }
}

/// From any document in any layout to any other: what is printed says exactly the new one.
#[test]
fn a_change_says_what_it_should() {
    let mut random = Random(22);
    for turn in 0..20_000 {
        let document = random.value(3);
        let mut laid = LaidOut { random: &mut random, out: String::new(), leaves: Vec::new() };
        laid.value(&document, "");
        let LaidOut { out, leaves, .. } = laid;
        let mut new = document.clone();
        for _ in 0..=random.below(3) {
            let part = random.value(2);
            let (pointer, _) = &leaves[random.below(leaves.len())];
            match at(&mut new, pointer) {
                Some(Value::Array(values)) if turn % 2 == 0 => {
                    values.insert(random.below(values.len() + 1), part);
                    if random.below(2) == 0 {
                        values.remove(random.below(values.len()));
                    }
                }
                Some(Value::Object(object)) if turn % 2 == 0 => {
                    let mut fields: Vec<_> =
                        object.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect();
                    fields.insert(random.below(fields.len() + 1), (random.string(), part));
                    if random.below(2) == 0 {
                        fields.swap_remove(random.below(fields.len()));
                    }
                    *object = fields.into_iter().collect();
                }
                Some(place) => *place = part,
                None => {}
            }
        }
        match rewrite(out.as_bytes(), &document, &new).expect("prints") {
            Some(bytes) => {
                let read = read(&bytes).unwrap_or_else(|why| panic!("{out} to {new}: {why}"));
                assert_eq!(text(&read), text(&new), "{out}");
                assert_ne!(text(&document), text(&new), "{out}");
            }
            None => assert_eq!(text(&document), text(&new), "{out}"),
        }
    }
}

/// Our own layouts are stable: a document that grows as we print it looks like one printed at once.
#[test]
fn a_document_that_grew_looks_like_a_new_one() {
    let mut random = Random(23);
    for _ in 0..2000 {
        let (first, second) = (random.object(3), random.object(3));
        let mut both = first.clone();
        both["first"] = 1.into();
        let mut bytes = print(&both).expect("prints");
        for (key, value) in second.as_object().into_iter().flat_map(Object::iter) {
            let old = both.clone();
            both[key] = value.clone();
            if let Some(new) = rewrite(&bytes, &old, &both).expect("prints") {
                bytes = new;
            }
        }
        let at_once = print(&both).expect("prints");
        assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&at_once));
    }
}

#[test]
fn the_text_is_the_one_that_serde_json_writes() {
    let by_serde = |value: &Value, pretty: bool| {
        let mut out = Vec::new();
        let written = if pretty {
            let formatter = PrettyFormatter::with_indent(b"  ");
            value.serialize(&mut Serializer::with_formatter(&mut out, formatter))
        } else {
            value.serialize(&mut Serializer::new(&mut out))
        };
        written.expect("a value is always writable");
        String::from_utf8(out).expect("text")
    };
    let mut random = Random(2);
    let every_character: String = (0..0x800).filter_map(char::from_u32).collect();
    let odd = [every_character.as_str(), "", "1234567\"", "12345678\\", "\u{1F600}\u{7F}\u{2028}"];
    let odd = odd.map(|text| json!({ text: [text, {}, [], { "a": [[]] }], "n": [-1, 2.5, true] }));
    for value in odd.into_iter().chain((0..1000).map(|_| whole_numbers(random.value(4)))) {
        assert_eq!(value.to_string(), by_serde(&value, false));
        assert_eq!(format!("{value:#}"), by_serde(&value, true));
        let printed = String::from_utf8(print(&value).expect("prints")).expect("text");
        assert_eq!(printed, format!("{value:#}\n"));
    }
}

/// The value with numbers that serde has, too.
fn whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_str().len().into(),
        Value::Array(values) => values.into_iter().map(whole_numbers).collect(),
        Value::Object(object) => {
            let fields = object.iter().map(|(key, value)| (key, whole_numbers(value.clone())));
            Value::Object(fields.collect())
        }
        other => other,
    }
}
