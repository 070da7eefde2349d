//! A crate that uses tenure also uses serde. Its derived types must work as without tenure.
//!
//! serde_json's `arbitrary_precision` hands numbers out as maps, which breaks untagged, flattened
//! and tagged types; `preserve_order` changes what other crates write. Cargo unifies features over
//! a build, so what holds here holds for every crate that depends on tenure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::from_str;
use tenure::{Value, json};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Whole(u64),
    Part(f64),
    Text(String),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Flattened {
    name: String,
    #[serde(flatten)]
    rest: BTreeMap<String, f64>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
enum Tagged {
    Timer { seconds: f64 },
    Counter { n: i64 },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Holding {
    name: String,
    value: Value,
}

#[test]
fn derived_types_read_numbers() {
    let untagged: Vec<Untagged> = from_str(r#"[1, 1.5, "a"]"#).unwrap();
    assert_eq!(untagged, [Untagged::Whole(1), Untagged::Part(1.5), Untagged::Text("a".into())]);
    let flattened: Flattened = from_str(r#"{"name":"a","x":1.5,"y":2}"#).unwrap();
    let rest = [("x".to_owned(), 1.5), ("y".to_owned(), 2.0)].into();
    assert_eq!(flattened, Flattened { name: "a".into(), rest });
    let tagged: Vec<Tagged> =
        from_str(r#"[{"kind":"Timer","seconds":0.5},{"kind":"Counter","n":-3}]"#).unwrap();
    assert_eq!(tagged, [Tagged::Timer { seconds: 0.5 }, Tagged::Counter { n: -3 }]);
    assert_eq!(serde_json::to_string(&tagged[0]).unwrap(), r#"{"kind":"Timer","seconds":0.5}"#);
}

#[test]
fn serde_json_is_as_its_users_know_it() {
    let value: serde_json::Value = from_str(r#"{"b":1.10,"a":1e2}"#).unwrap();
    assert_eq!(value.to_string(), r#"{"a":100.0,"b":1.1}"#);
    assert!(from_str::<serde_json::Value>("1e400").is_err());
}

#[test]
fn a_value_is_a_type_of_serde() {
    let text =
        r#"{"name":"a","value":{"z":[1,-2,2.5,18446744073709551615],"a":null,"b":[true,"t"]}}"#;
    let holding: Holding = from_str(text).unwrap();
    let value = json!({ "z": [1, -2, 2.5, u64::MAX], "a": null, "b": [true, "t"] });
    assert_eq!(holding.value, value);
    assert_eq!(serde_json::to_string(&holding).unwrap(), text, "fields keep their order");
    assert!(from_str::<Value>(r#"{"a":1,"a":2}"#).unwrap_err().to_string().contains("repeats"));
    // What serde cannot carry: the digits of large numbers, and numbers beyond a float.
    let large: Value = "123456789012345678901234567890".parse().unwrap();
    assert_eq!(serde_json::to_string(&large).unwrap(), "1.2345678901234568e+29");
    let beyond: Value = "1e400".parse().unwrap();
    assert!(serde_json::to_string(&beyond).unwrap_err().to_string().contains("1e400"));
}

#[test]
fn values_go_to_serde_json_and_come_back() {
    let text = r#"{"a":[0,-1,2.5,"x",true,null,{}],"b":18446744073709551615}"#;
    let ours = json::parse(text.as_bytes()).unwrap();
    let theirs = serde_json::Value::try_from(&ours).unwrap();
    assert_eq!(theirs, from_str::<serde_json::Value>(text).unwrap());
    assert_eq!(Value::from(&theirs).to_string(), text);
    assert!(ours == theirs);
    let beyond = json::parse(b"[1e400]").unwrap();
    assert!(serde_json::Value::try_from(&beyond).unwrap_err().to_string().contains("1e400"));
}

#[test]
fn a_typed_document_is_a_conversion_away() {
    let typed = Holding { name: "a".into(), value: json!([1]) };
    let value = Value::from(serde_json::to_value(&typed).unwrap());
    assert_eq!(value, json!({ "value": [1], "name": "a" }));
    let back: Holding =
        serde_json::from_value(serde_json::Value::try_from(&value).unwrap()).unwrap();
    assert_eq!(back, typed);
}
