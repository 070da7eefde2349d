//! The file that `tenure torture --history` writes.

use std::path::Path;

use serde_json::Value;
use tenure_torture::history::{History, Object, Operation};

/// Reads it.
pub fn read_history(path: &Path) -> History {
    let text = std::fs::read_to_string(path).expect("a history");
    let mut history = History::default();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        let round = line["round"].as_u64().expect("a round");
        let operation = parse(&line).filter(Operation::is_known);
        history.add(round, operation.unwrap_or_else(|| panic!("not an operation: {line}")));
    }
    history
}

fn parse(line: &Value) -> Option<Operation> {
    let numbers = |value: &Value| -> Option<Vec<u64>> {
        value.as_array()?.iter().map(Value::as_u64).collect()
    };
    let returned = match &line["return"] {
        Value::Null => None,
        at => Some((numbers(&line["answer"])?, at.as_u64()?)),
    };
    Some(Operation {
        object: Object::parse(line["object"].as_str()?)?,
        action: line["action"].as_str()?.to_owned(),
        arguments: numbers(&line["arguments"])?,
        call: line["call"].as_u64()?,
        returned,
    })
}
