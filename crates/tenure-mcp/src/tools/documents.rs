//! Shared JSON documents: read, write, merge, patch, with compare-and-set.

use tenure::json::Rules;
use tenure::outcome::Written;
use tenure::{Document, Error, ErrorKind, Result, Value, WriteOptions, json};

use super::reservations::refuse_reserved;
use super::{Call, Tool};
use crate::arguments::{Arguments, wrong};

const PATH: (&str, &str, bool, &str) =
    ("path", "string", true, "The JSON file, relative to the project's root");
const VERSION: (&str, &str, bool, &str) = (
    "if_version",
    "string",
    false,
    "Write only if the document still has this version, as read_document returned it",
);
const WAIT: (&str, &str, bool, &str) =
    ("wait_seconds", "number", false, "How long to wait for another holder; 10 if it is left out");

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "read_document",
        title: "Read a shared document",
        description: "Reads a JSON document and its version. Pass the version to write_document as if_version to \
                      write only if no other agent changed it meanwhile.",
        reads: true,
        arguments: &[
            PATH,
            (
                "pointer",
                "string",
                false,
                "Return only the part at this JSON Pointer, such as /tasks/0",
            ),
        ],
        run: read,
    },
    Tool {
        name: "write_document",
        title: "Replace a shared document",
        description: "Replaces a whole JSON document. Other agents may have changed it since you read it: pass \
                      if_version, or use merge_document for a change of single fields.",
        reads: false,
        arguments: &[PATH, ("value", "any", true, "The new content"), VERSION, WAIT],
        run: write,
    },
    Tool {
        name: "merge_document",
        title: "Merge into a shared document",
        description: "Changes single fields of a JSON document (RFC 7396: null removes a field). Concurrent merges of \
                      different fields all count. Arrays are replaced unless their JSON Pointer is in `union`.",
        reads: false,
        arguments: &[
            PATH,
            ("patch", "object", true, "The fields to change"),
            ("union", "strings", false, "JSON Pointers of arrays to unite instead of replace"),
            ("sum", "strings", false, "JSON Pointers of numbers to add instead of replace"),
            ("max", "strings", false, "JSON Pointers of numbers to keep the larger of"),
            ("min", "strings", false, "JSON Pointers of numbers to keep the smaller of"),
            VERSION,
            WAIT,
        ],
        run: merge,
    },
    Tool {
        name: "patch_document",
        title: "Patch a shared document",
        description: "Applies a JSON Patch (RFC 6902), whole or not at all. A failed test operation changes nothing.",
        reads: false,
        arguments: &[PATH, ("operations", "array", true, "The operations"), VERSION, WAIT],
        run: patch,
    },
];

fn document(call: Call<'_>) -> Result<Document> {
    call.context.root.document(call.arguments.text("path")?)
}

/// The document, if this agent may write it.
fn writable(call: Call<'_>) -> Result<Document> {
    let document = document(call)?;
    refuse_reserved(call, document.path())?;
    Ok(document)
}

fn options(call: Call<'_>) -> Result<WriteOptions> {
    let if_version = call.arguments.optional_text("if_version")?;
    Ok(WriteOptions {
        wait: call.arguments.write_wait()?,
        cancel: Some(call.cancel.clone()),
        if_version: if_version.map(str::parse).transpose()?,
        label: "mcp".to_owned(),
        ..WriteOptions::default()
    })
}

fn said(written: &Written) -> Value {
    json!({ "version": written.version.to_string(), "changed": written.changed })
}

fn read(call: Call<'_>) -> Result<Value> {
    let document = document(call)?;
    let missing = |what: &str| {
        let error = Error::new(ErrorKind::NotFound, "read", what).at(document.path());
        error.hint("create it with write_document")
    };
    let found = document.read()?.ok_or_else(|| missing("there is no document"))?;
    let value = match call.arguments.optional_text("pointer")? {
        None => &found.value,
        Some(pointer) => {
            found.value.pointer(pointer).ok_or_else(|| missing("nothing is at this pointer"))?
        }
    };
    Ok(json!({ "version": found.version.to_string(), "value": value }))
}

fn write(call: Call<'_>) -> Result<Value> {
    let value = call.arguments.required("value")?;
    Ok(said(&writable(call)?.set(value, &options(call)?)?))
}

fn merge(call: Call<'_>) -> Result<Value> {
    let patch = call.arguments.required("patch")?;
    patch.as_object().ok_or_else(|| wrong("patch", "must be an object"))?;
    let rules = rules(call.arguments)?;
    Ok(said(&writable(call)?.merge(patch, &rules, &options(call)?)?))
}

fn rules(arguments: Arguments<'_>) -> Result<Rules> {
    let each = |rules: Rules, name, add: fn(Rules, &str) -> Result<Rules>| {
        arguments.texts(name)?.into_iter().try_fold(rules, add)
    };
    let rules = each(Rules::new().keep_kinds(), "union", Rules::union)?;
    let rules = each(rules, "sum", Rules::sum)?;
    let rules = each(rules, "max", Rules::max)?;
    each(rules, "min", Rules::min)
}

fn patch(call: Call<'_>) -> Result<Value> {
    let operations = call.arguments.required("operations")?;
    operations.as_array().ok_or_else(|| wrong("operations", "must be an array"))?;
    Ok(said(&writable(call)?.patch(operations, &options(call)?)?))
}
