//! RFC 6902 JSON Patch, whole or not at all. The json-patch crate does the work, except where it
//! would do what a shared document cannot bear:
//!
//! - it removes a key by swapping the last one into its place; here the order of the rest stays;
//! - its `test` compares numbers as text; RFC 6902 section 4.6 asks for numerically equal.
//!
//! # Invariants
//!
//! 1. All operations are checked for form before the first is applied, so a malformed patch is
//!    [`PatchError::Invalid`] whatever the document holds.
//! 2. [`PatchError::TestFailed`] means: the patch is sound, the document is not as it expects.

use json_patch::jsonptr::PointerBuf;
use json_patch::{
    AddOperation, CopyOperation, MoveOperation, PatchOperation, RemoveOperation, ReplaceOperation,
    TestOperation,
};
use serde_json::{Map, Value};

use super::by_value::{ByValue, type_name};

/// Why a patch was not applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PatchError {
    /// The patch is malformed, or names a place that the document does not have.
    Invalid(String),
    /// A `test` operation does not hold.
    TestFailed(String),
}

/// The document after all operations of `ops`.
pub(crate) fn patch(current: &Value, ops: &Value) -> Result<Value, PatchError> {
    let operations = read_all(ops).map_err(PatchError::Invalid)?;
    let mut document = current.clone();
    for (index, operation) in operations.into_iter().enumerate() {
        match operation {
            PatchOperation::Test(test) => {
                check(&document, &test).map_err(|reason| {
                    PatchError::TestFailed(format!("operation {index} (test): {reason}"))
                })?;
            }
            operation => apply(&mut document, operation).map_err(|reason| {
                PatchError::Invalid(format!("operation {index} cannot be applied: {reason}"))
            })?,
        }
    }
    Ok(document)
}

fn read_all(ops: &Value) -> Result<Vec<PatchOperation>, String> {
    let Value::Array(operations) = ops else {
        return Err(format!("a patch is an array of operations, not {}", type_name(ops)));
    };
    let read_one = |(index, operation)| {
        read(operation).map_err(|reason| format!("operation {index} is malformed: {reason}"))
    };
    operations.iter().enumerate().map(read_one).collect()
}

/// Reads one operation by hand: the derived reader of json-patch cannot tell an object with
/// serde_json's private number key from a number.
fn read(operation: &Value) -> Result<PatchOperation, String> {
    let Value::Object(fields) = operation else {
        return Err(format!("it is {}, not an object", type_name(operation)));
    };
    let path = pointer(fields, "path")?;
    Ok(match text(fields, "op")? {
        "add" => PatchOperation::Add(AddOperation { path, value: value(fields)? }),
        "remove" => PatchOperation::Remove(RemoveOperation { path }),
        "replace" => PatchOperation::Replace(ReplaceOperation { path, value: value(fields)? }),
        "move" => PatchOperation::Move(MoveOperation { from: pointer(fields, "from")?, path }),
        "copy" => PatchOperation::Copy(CopyOperation { from: pointer(fields, "from")?, path }),
        "test" => PatchOperation::Test(TestOperation { path, value: value(fields)? }),
        other => return Err(format!("unknown \"op\" {other:?}")),
    })
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    match fields.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(format!("\"{name}\" is {}, not a string", type_name(other))),
        None => Err(format!("\"{name}\" is missing")),
    }
}

fn pointer(fields: &Map<String, Value>, name: &str) -> Result<PointerBuf, String> {
    let text = text(fields, name)?;
    PointerBuf::parse(text).map_err(|_| format!("\"{name}\" {text:?} is not a JSON Pointer"))
}

fn value(fields: &Map<String, Value>) -> Result<Value, String> {
    fields.get("value").cloned().ok_or_else(|| "\"value\" is missing".to_owned())
}

fn check(document: &Value, test: &TestOperation) -> Result<(), String> {
    let path = test.path.as_str();
    let Some(found) = document.pointer(path) else {
        return Err(format!("there is nothing at {path:?}"));
    };
    if ByValue(found) == ByValue(&test.value) {
        Ok(())
    } else {
        Err(format!("the value at {path:?} differs"))
    }
}

fn apply(document: &mut Value, operation: PatchOperation) -> Result<(), String> {
    match operation {
        PatchOperation::Remove(remove) => take(document, remove.path).map(drop),
        PatchOperation::Move(MoveOperation { from, path }) => relocate(document, from, path),
        PatchOperation::Copy(copy) if document.pointer(copy.from.as_str()).is_none() => {
            Err(format!("there is nothing at {:?}", copy.from.as_str()))
        }
        other => run(document, other),
    }
}

fn run(document: &mut Value, operation: PatchOperation) -> Result<(), String> {
    let place = operation.path().as_str().to_owned();
    json_patch::patch_unsafe(document, &[operation])
        .map_err(|error| format!("{} ({place:?})", error.kind))
}

/// A move is a remove and an add (RFC 6902 section 4.4).
fn relocate(document: &mut Value, from: PointerBuf, path: PointerBuf) -> Result<(), String> {
    let (source, target) = (from.as_str(), path.as_str());
    if document.pointer(source).is_none() {
        return Err(format!("there is nothing at {source:?}"));
    }
    match target.strip_prefix(source) {
        Some("") => return Ok(()),
        Some(rest) if rest.starts_with('/') => {
            return Err(format!("{source:?} cannot be moved into itself"));
        }
        _ => {}
    }
    let value = take(document, from)?;
    run(document, PatchOperation::Add(AddOperation { path, value }))
}

/// Removes the value at `path`; the keys around it keep their order.
fn take(document: &mut Value, path: PointerBuf) -> Result<Value, String> {
    let Some((parent, key)) = path.split_back() else {
        return Err("the whole document cannot be removed".to_owned());
    };
    let missing = || format!("there is nothing at {:?}", path.as_str());
    if let Some(Value::Object(object)) = document.pointer_mut(parent.as_str()) {
        return object.shift_remove(key.decoded().as_ref()).ok_or_else(missing);
    }
    let value = document.pointer(path.as_str()).cloned().ok_or_else(missing)?;
    run(document, PatchOperation::Remove(RemoveOperation { path }))?;
    Ok(value)
}
