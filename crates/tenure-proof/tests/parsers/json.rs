//! JSON: values are read back unchanged, a refusal changes nothing, and merges keep their promises.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use tenure::fs::Fs;
use tenure::json::{Object, Rules};
use tenure::options::Durability;
use tenure::{Document, ErrorKind, Value, Wait, WriteOptions, json};
use tenure_proof::inputs::{self, Fate};
use tenure_proof::{Form, Tally};
use tenure_testkit::SimFs;

use crate::runs::try_all;

/// Every number that JSON knows: any length, minus zero, exponents far beyond a float.
const NUMBER: &str = "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,5})?";

pub(crate) fn number() -> impl Strategy<Value = String> {
    prop_oneof![NUMBER, Just("-0".into()), Just("1e400".into()), Just("-1E-400".into())]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number().prop_map(|text| json::parse(text.as_bytes()).expect("a number")),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((any::<String>(), inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Object>())),
        ]
    })
}

pub(crate) fn object() -> impl Strategy<Value = Value> {
    let field = ("[a-e]", value());
    proptest::collection::vec(field, 0..5)
        .prop_map(|fields| Value::Object(fields.into_iter().collect::<Object>()))
}

pub(crate) fn quickly() -> WriteOptions {
    WriteOptions { wait: Wait::No, durability: Durability::NoSync, ..WriteOptions::default() }
}

/// A document with these bytes.
pub(crate) struct Bench {
    sim: SimFs,
    pub(crate) document: Document,
}

impl Bench {
    pub(crate) fn new(bytes: impl AsRef<[u8]>) -> Self {
        let sim = SimFs::new(1);
        sim.add_dir("/d");
        sim.add_file("/d/a.json", bytes);
        let fs: Arc<dyn Fs> = sim.shared();
        let document = Document::open_on(&fs, Path::new("/d/a.json")).expect("a path");
        Self { sim, document }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.sim.peek("/d/a.json").expect("the document")).expect("UTF-8")
    }

    pub(crate) fn value(&self) -> Value {
        self.document.read().expect("readable").expect("there").value
    }

    fn merge(&self, patch: &Value, rules: &Rules) -> tenure::Result<bool> {
        self.document.merge(patch, rules, &quickly()).map(|written| written.changed)
    }
}

#[test]
fn numbers_keep_every_digit_and_fields_their_place() {
    let inputs = (number(), number());
    try_all("numbers_keep_every_digit_and_fields_their_place", 400, inputs, |(one, two)| {
        let text = format!("{{\"z\": {one}, \"unknown\": [{two}], \"a\": 1}}");
        let bench = Bench::new(&text);
        assert!(bench.merge(&json!({ "a": 2 }), &Rules::new()).expect("a merge"));
        assert_eq!(bench.text(), text.replace("\"a\": 1", "\"a\": 2"));
    });
}

#[test]
fn any_value_survives_a_round_trip() {
    try_all("any_value_survives_a_round_trip", 400, value(), |value| {
        assert_eq!(inputs::document(value.to_string().as_bytes()), Fate::Believed);
        let pretty = format!("{value:#}");
        assert_eq!(inputs::document(pretty.as_bytes()), Fate::Believed);
    });
}

/// Bytes near JSON: structure, quotes, escapes, signs, broken UTF-8.
#[test]
fn any_bytes_are_read_or_refused() {
    let near = "[\\[\\]{}\",:0-9eE.+\\-\\\\unltrfasd \u{0}\u{feff}\u{e9}]{0,40}"
        .prop_map(String::into_bytes);
    let bytes = prop_oneof![near, proptest::collection::vec(any::<u8>(), 0..40)];
    // A document that cannot be parsed is retried for 30 ms: the long form has ten times as many.
    let cases = Form::asked().pick(1000, 200);
    try_all("any_bytes_are_read_or_refused", cases, bytes, |bytes| {
        let _ = inputs::document(&bytes);
    });
}

#[test]
fn what_is_not_strict_json_is_refused() {
    let mut tally = Tally::new("parsers", "what_is_not_strict_json_is_refused");
    let deep = "[".repeat(100_000);
    let long = format!("{{\"a\":1,{}\"a\":2}}", "\"b\":1,".repeat(0));
    let bad = [
        "",
        " ",
        "{}{}",
        "{} x",
        "\u{feff}{}",
        "{\"a\":1,\"a\":1}",
        "{\"a\":1,\"\\u0061\":1}",
        "{\"x\":{\"a\":1,\"a\":1}}",
        "\"\\ud800\"",
        "\"\\udc00\\ud800\"",
        "\"\u{1}\"",
        "[1,]",
        "{,}",
        "01",
        "+1",
        ".5",
        "1.",
        "1e",
        "--1",
        "NaN",
        "Infinity",
        "'a'",
        "// x\n1",
        "\"\\x\"",
        "nul",
        "{}\u{0}",
        "\u{0}",
        "[1 2]",
        "{\"a\" 1}",
        "\"",
        &deep,
        &long,
    ];
    for text in bad {
        let shown: String = text.chars().take(40).collect();
        assert!(json::parse(text.as_bytes()).is_err(), "{shown:?} was read");
        assert_eq!(inputs::document(text.as_bytes()), Fate::Refused, "{shown:?}");
    }
    assert!(json::parse(b"\"\xff\"").is_err() && json::parse(b"\"\xed\xa0\x80\"").is_err());
    for good in ["-0", "1e400", "\"\\ud83d\\ude00\"", "[]", " {} \r\n\t", "\"\u{7f}\u{2028}\""] {
        assert!(json::parse(good.as_bytes()).is_ok(), "{good:?} was refused");
    }
    tally.tried(bad.len() as u64 + 8, "texts on the border of JSON");
}

/// A document or a patch with fields that have rules: usually of the type that the rule takes,
/// seldom of another, and tombstones.
pub(crate) fn ruled() -> impl Strategy<Value = Value> {
    let item = prop_oneof![any::<bool>().prop_map(Value::from), "[a-d]".prop_map(Value::from)];
    let set = proptest::collection::vec(item, 0..5).prop_map(Value::from).boxed();
    let number = || {
        let whole = (-50i64..50).prop_map(Value::from);
        let any = number().prop_map(|text| json::parse(text.as_bytes()).expect("a number"));
        prop_oneof![3 => whole, 1 => any].boxed()
    };
    let field = |name: &'static str, fits: proptest::strategy::BoxedStrategy<Value>| {
        let value = prop_oneof![12 => fits, 3 => Just(Value::Null), 1 => value()];
        proptest::option::of(value).prop_map(move |value| value.map(|value| (name, value)))
    };
    let numbers = ["max", "min", "sum"].map(|name| field(name, number()));
    let fields = (field("union", set), numbers, field("last", value().boxed()), object());
    fields.prop_map(|(union, numbers, last, rest)| {
        let mut fields = rest.as_object().cloned().unwrap_or_default();
        let ruled = numbers.into_iter().chain([union, last]).flatten();
        fields.extend(ruled.map(|(name, value)| (name.to_owned(), value)));
        Value::Object(fields)
    })
}

/// A patch whose parts are all independent of the order.
fn careless() -> impl Strategy<Value = Value> {
    ruled().prop_map(|patch| {
        let rule = |name: &str| ["union", "max", "min", "sum"].contains(&name);
        let fields = patch.as_object().into_iter().flat_map(Object::iter);
        Value::Object(fields.filter(|(name, value)| rule(name) && !value.is_null()).collect())
    })
}

#[test]
fn merges_keep_every_promise_of_their_rules() {
    let patch = prop_oneof![ruled(), careless()];
    let inputs = (ruled(), patch, proptest::option::of(careless()));
    let test = "merges_keep_every_promise_of_their_rules";
    let (done, refused) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    try_all(test, 500, inputs, |(base, patch, other)| {
        let other = other.map_or_else(String::new, |other| format!("\0{other}"));
        let fate = inputs::merge(format!("{base}\0{patch}{other}").as_bytes());
        let count = if fate == Fate::Believed { &done } else { &refused };
        count.set(count.get() + 1);
    });
    assert!(done.get() > refused.get(), "{} merges, {} refusals", done.get(), refused.get());
}

pub(crate) fn patches(rule: &'static str) -> impl Strategy<Value = Vec<Value>> {
    let small = prop_oneof![
        (-1000i64..1000).prop_map(|number| number.to_string()),
        Just("123456789012345678901234567890".to_owned()),
    ];
    let item = match rule {
        "union" => proptest::collection::vec(0u8..6, 0..4).prop_map(|set| json!(set)).boxed(),
        "sum" => small.prop_map(|text| json::parse(text.as_bytes()).expect("a number")).boxed(),
        _ => number().prop_map(|text| json::parse(text.as_bytes()).expect("a number")).boxed(),
    };
    proptest::collection::vec(item.prop_map(|item| json!({ "x": item })), 3)
}

/// The elements without their order, and numbers without their notation.
fn as_set(value: &Value) -> Vec<String> {
    let mut items: Vec<String> =
        value["x"].as_array().into_iter().flatten().map(ToString::to_string).collect();
    items.sort();
    items
}

/// Equality of numbers is a `test` of RFC 6902, which compares by value.
fn same_number(bench: &Bench, value: &Value) -> bool {
    let test = json!([{ "op": "test", "path": "/x", "value": value["x"] }]);
    bench.document.patch(&test, &quickly()).is_ok()
}

/// What the table of [`Rules`] promises: union, max, min and sum are independent of the order of
/// patches.
#[test]
fn rules_do_not_care_for_the_order_of_patches() {
    let rule = |name: &str| match name {
        "union" => Rules::new().union("/x"),
        "max" => Rules::new().max("/x"),
        "min" => Rules::new().min("/x"),
        _ => Rules::new().sum("/x"),
    };
    for name in ["union", "max", "min", "sum"] {
        let test = "rules_do_not_care_for_the_order_of_patches";
        try_all(test, 150, patches(name), |patches| {
            let rules = rule(name).expect("a rule");
            let (forward, backward) = (Bench::new("{}"), Bench::new("{}"));
            for (one, other) in patches.iter().zip(patches.iter().rev()) {
                forward.merge(one, &rules).expect("a merge");
                backward.merge(other, &rules).expect("a merge");
            }
            let (one, other) = (forward.value(), backward.value());
            if name == "union" {
                assert_eq!(as_set(&one), as_set(&other));
            } else {
                assert!(same_number(&forward, &other), "{one} is not {other}");
            }
            if name != "sum" {
                assert!(!forward.merge(&patches[0], &rules).expect("a merge"), "again: no change");
            }
        });
    }
}

/// Patches of RFC 6902 that may or may not apply.
pub(crate) fn operations() -> impl Strategy<Value = Vec<Value>> {
    let path = prop_oneof!["(/[a-e~01/-]{0,2}){0,3}", Just(String::new())];
    let name = prop_oneof![
        Just("add"),
        Just("remove"),
        Just("replace"),
        Just("move"),
        Just("copy"),
        Just("test"),
        Just("none"),
    ];
    let operation = (name, path.clone(), path, value()).prop_map(
        |(op, path, from, value)| json!({ "op": op, "path": path, "from": from, "value": value }),
    );
    proptest::collection::vec(operation, 0..4)
}

#[test]
fn patches_are_applied_whole_or_not_at_all() {
    let inputs = (object(), operations());
    try_all("patches_are_applied_whole_or_not_at_all", 1000, inputs, |(base, operations)| {
        let _ = inputs::patch(format!("{base}\0{}", Value::from(operations)).as_bytes());
    });
}

#[test]
fn patches_can_be_undone() {
    let inputs = (object(), "[f-j]", value(), value());
    try_all("patches_can_be_undone", 400, inputs, |(base, key, one, other)| {
        let bench = Bench::new(base.to_string());
        let (before, path) = (bench.text(), format!("/{key}"));
        let run = |operations: Value| bench.document.patch(&operations, &quickly());
        run(json!([{ "op": "add", "path": path, "value": one }])).expect("an add");
        run(json!([{ "op": "test", "path": path, "value": one }])).expect("a test that holds");
        let added = bench.text();
        run(json!([{ "op": "replace", "path": path, "value": other }])).expect("a replace");
        run(json!([{ "op": "replace", "path": path, "value": one }])).expect("a replace");
        assert_eq!(bench.text(), added);
        let wrong = json!([
            { "op": "remove", "path": path },
            { "op": "test", "path": path, "value": one },
        ]);
        assert_eq!(run(wrong).map_err(|error| error.kind()).err(), Some(ErrorKind::Conflict));
        assert_eq!(bench.text(), added, "a failed test undoes the remove before it");
        run(json!([{ "op": "remove", "path": path }])).expect("a remove");
        assert_eq!(bench.text(), before);
    });
}
