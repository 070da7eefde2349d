//! JSON Patch (RFC 6902), whole or not at all.
//!
//! # Invariants
//!
//! 1. All operations are checked for form before the first is applied, so a malformed patch is
//!    [`PatchError::Invalid`] whatever the document holds.
//! 2. [`PatchError::TestFailed`] means: the patch is sound, the document is not as it expects.
//! 3. Fields beside a place keep their order.

use super::pointer::{self, Tokens, find, find_mut, tokens};
use super::value::{Object, Value};

/// Why a patch was not applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PatchError {
    /// The patch is malformed, or names a place that the document does not have.
    Invalid(String),
    /// A `test` operation does not hold.
    TestFailed(String),
}

/// A place, as it was written and as it is followed.
struct Place<'p> {
    pointer: &'p str,
    tokens: Tokens,
}

enum Operation<'p> {
    Add(&'p Value),
    Remove,
    Replace(&'p Value),
    Move(Place<'p>),
    Copy(Place<'p>),
    Test(&'p Value),
}

/// The document after all operations of `ops`.
pub(crate) fn patch(current: &Value, ops: &Value) -> Result<Value, PatchError> {
    let operations = read_all(ops).map_err(PatchError::Invalid)?;
    let mut document = current.clone();
    for (index, (path, operation)) in operations.into_iter().enumerate() {
        if let Operation::Test(value) = operation {
            test(&document, &path, value).map_err(|reason| {
                PatchError::TestFailed(format!("operation {index} (test): {reason}"))
            })?;
        } else {
            apply(&mut document, &path, operation).map_err(|reason| {
                PatchError::Invalid(format!("operation {index} cannot be applied: {reason}"))
            })?;
        }
    }
    Ok(document)
}

fn read_all(ops: &Value) -> Result<Vec<(Place<'_>, Operation<'_>)>, String> {
    let Value::Array(operations) = ops else {
        return Err(format!("a patch is an array of operations, not {}", ops.type_name()));
    };
    let read_one = |(index, operation)| {
        read(operation).map_err(|reason| format!("operation {index} is malformed: {reason}"))
    };
    operations.iter().enumerate().map(read_one).collect()
}

fn read(operation: &Value) -> Result<(Place<'_>, Operation<'_>), String> {
    let Value::Object(fields) = operation else {
        return Err(format!("it is {}, not an object", operation.type_name()));
    };
    let value = || fields.get("value").ok_or_else(|| "\"value\" is missing".to_owned());
    let path = place(fields, "path")?;
    let operation = match text(fields, "op")? {
        "add" => Operation::Add(value()?),
        "remove" => Operation::Remove,
        "replace" => Operation::Replace(value()?),
        "move" => Operation::Move(place(fields, "from")?),
        "copy" => Operation::Copy(place(fields, "from")?),
        "test" => Operation::Test(value()?),
        other => return Err(format!("unknown \"op\" {other:?}")),
    };
    Ok((path, operation))
}

fn text<'p>(fields: &'p Object, name: &str) -> Result<&'p str, String> {
    match fields.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(format!("\"{name}\" is {}, not a string", other.type_name())),
        None => Err(format!("\"{name}\" is missing")),
    }
}

fn place<'p>(fields: &'p Object, name: &str) -> Result<Place<'p>, String> {
    let pointer = text(fields, name)?;
    let tokens = tokens(pointer).map_err(|why| format!("\"{name}\" {why}"))?;
    Ok(Place { pointer, tokens })
}

fn apply(document: &mut Value, path: &Place<'_>, operation: Operation<'_>) -> Result<(), String> {
    match operation {
        Operation::Add(value) => add(document, path, value.clone()),
        Operation::Remove => take(document, path).map(drop),
        Operation::Replace(value) => {
            let found = find_mut(document, &path.tokens).ok_or_else(|| nothing_at(path))?;
            *found = value.clone();
            Ok(())
        }
        Operation::Copy(from) => {
            let value = find(document, &from.tokens).ok_or_else(|| nothing_at(&from))?.clone();
            add(document, path, value)
        }
        Operation::Move(from) => {
            find(document, &from.tokens).ok_or_else(|| nothing_at(&from))?;
            if path.tokens == from.tokens {
                return Ok(());
            }
            if path.tokens.starts_with(&from.tokens) {
                return Err(format!("{:?} cannot be moved into itself", from.pointer));
            }
            let value = take(document, &from)?;
            add(document, path, value)
        }
        Operation::Test(value) => test(document, path, value),
    }
}

fn test(document: &Value, path: &Place<'_>, value: &Value) -> Result<(), String> {
    let found = find(document, &path.tokens).ok_or_else(|| nothing_at(path))?;
    if found == value { Ok(()) } else { Err(format!("the value at {:?} differs", path.pointer)) }
}

/// Inserts into an array, or sets a field.
fn add(document: &mut Value, path: &Place<'_>, value: Value) -> Result<(), String> {
    let Some((last, parent)) = path.tokens.split_last() else {
        *document = value;
        return Ok(());
    };
    match find_mut(document, parent) {
        Some(Value::Object(object)) => {
            object.insert(last, value);
            Ok(())
        }
        Some(Value::Array(values)) => {
            let end = values.len();
            let index = if last == "-" { Some(end) } else { pointer::index(last) };
            let index = index.filter(|index| *index <= end).ok_or_else(|| {
                format!("{:?} is no place in an array of {end} elements", path.pointer)
            })?;
            values.insert(index, value);
            Ok(())
        }
        _ => Err(format!("there is nothing that could hold {:?}", path.pointer)),
    }
}

fn take(document: &mut Value, path: &Place<'_>) -> Result<Value, String> {
    let Some((last, parent)) = path.tokens.split_last() else {
        return Err("the whole document cannot be removed".to_owned());
    };
    let taken = match find_mut(document, parent) {
        Some(Value::Object(object)) => object.remove(last),
        Some(Value::Array(values)) => {
            let index = pointer::index(last).filter(|index| *index < values.len());
            index.map(|index| values.remove(index))
        }
        _ => None,
    };
    taken.ok_or_else(|| nothing_at(path))
}

fn nothing_at(place: &Place<'_>) -> String {
    format!("there is nothing at {:?}", place.pointer)
}
