//! Changing settings of other tools: JSON with comments and trailing commas, in place.
//!
//! # Invariants
//!
//! 1. Only what the patch names is changed. Other keys, comments, order and layout stay as they are, to the byte.
//! 2. A merge is idempotent. Objects are merged, lists get the elements that they do not have yet, other values
//!    are replaced, `null` removes a key.
//! 3. A removal takes out what the same patch would add, and the objects and lists that become empty by it.
//! 4. A value of another kind than the patch expects is an error, not a loss: nothing is changed.
//!
//! No file is touched here.

use std::collections::HashSet;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};
use tenure::json::Object;
use tenure::{Error, ErrorKind, Result, Value};

/// What to do with a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Bring it in.
    Merge,
    /// Take it out again.
    Remove,
}

/// The settings with the patch merged or removed; `None` if that changes nothing. Missing or blank settings are
/// an empty object.
pub fn changed(text: &str, patch: &Value, change: Change) -> Result<Option<String>> {
    let Value::Object(patch) = patch else {
        return Err(invalid("the patch is not a JSON object".to_owned()));
    };
    let adds = change == Change::Merge && !patch.is_empty();
    edited(text, adds, |settings| match change {
        Change::Merge => merge_object(settings, patch, ""),
        Change::Remove => {
            remove_object(settings, patch);
            Ok(())
        }
    })
}

/// The settings of an agent without the hooks that `is_unwanted` says, by event and hook; `None` if there are none.
/// Groups and events that become empty by it go, too.
pub(crate) fn without_hooks(
    text: &str,
    is_unwanted: impl Fn(&str, &Value) -> bool,
) -> Result<Option<String>> {
    edited(text, false, |settings| {
        let Some(events) = settings.get("hooks") else { return Ok(()) };
        let Some(all) = events.object_value() else { return Ok(()) };
        let mut is_emptied = false;
        for event in all.properties() {
            let name = event.name().and_then(|name| name.decoded_value().ok()).unwrap_or_default();
            let Some(groups) = event.array_value() else { continue };
            let is_ours = |hook: &CstNode| {
                hook.to_serde_value().is_some_and(|hook| is_unwanted(&name, &Value::from(hook)))
            };
            let removed = groups.elements().into_iter().filter(|group| remove_from(group, is_ours));
            if removed.count() > 0 && groups.elements().is_empty() {
                event.remove();
                is_emptied = all.properties().is_empty();
            }
        }
        if is_emptied {
            events.remove();
        }
        Ok(())
    })
}

/// Takes hooks out of a group, which goes with the last one. `false` if there were none.
fn remove_from(group: &CstNode, is_unwanted: impl Fn(&CstNode) -> bool) -> bool {
    let hooks = group.as_object().and_then(|group| group.get("hooks")?.array_value());
    let hooks = hooks.map(|hooks| hooks.elements()).unwrap_or_default();
    let all = hooks.len();
    let unwanted: Vec<_> = hooks.into_iter().filter(is_unwanted).collect();
    let found = unwanted.len();
    if found > 0 && found == all {
        group.clone().remove();
    } else {
        unwanted.into_iter().for_each(CstNode::remove);
    }
    found > 0
}

/// The text after an edit; `None` if that changes nothing. Blank settings become an object only if the edit adds to it.
fn edited(
    text: &str,
    adds: bool,
    edit: impl FnOnce(&CstObject) -> Result<()>,
) -> Result<Option<String>> {
    let (mark, body) = match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", text),
    };
    let is_blank = body.trim().is_empty();
    if is_blank && !adds {
        return Ok(None);
    }
    let (root, settings) = parse(if is_blank { "{}\n" } else { body })?;
    edit(&settings)?;
    let new = format!("{mark}{root}");
    Ok((new != text).then_some(new))
}

/// What the settings say; an empty object if they are missing or blank.
pub fn read(text: &str) -> Result<Value> {
    let body = text.trim_start_matches('\u{feff}');
    let (_, object) = parse(if body.trim().is_empty() { "{}" } else { body })?;
    Ok(object.to_serde_value().map(Value::from).unwrap_or_default())
}

fn parse(text: &str) -> Result<(CstRootNode, CstObject)> {
    let root = CstRootNode::parse(text, &jsonc())
        .map_err(|err| invalid(format!("the settings cannot be read: {err}")))?;
    match root.object_value() {
        Some(object) => match repeated(&object) {
            None => Ok((root, object)),
            // Which of both counts depends on the reader.
            Some(key) => Err(invalid(format!("the settings have the key `{key}` twice"))),
        },
        None => Err(invalid("the settings are not a JSON object".to_owned())),
    }
}

/// A key that an object, or one inside of it, has twice.
fn repeated(object: &CstObject) -> Option<String> {
    let mut seen = HashSet::new();
    object.properties().into_iter().find_map(|property| {
        let name = property.name().and_then(|name| name.decoded_value().ok())?;
        if seen.contains(&name) {
            return Some(name);
        }
        seen.insert(name);
        property.object_value().and_then(|inner| repeated(&inner))
    })
}

/// JSON, comments and trailing commas: what the settings of agents and editors are written in.
fn jsonc() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn merge_object(object: &CstObject, patch: &Object, at: &str) -> Result<()> {
    for (key, wanted) in patch.iter() {
        let at = format!("{at}/{key}");
        let Some(property) = object.get(key) else {
            if !wanted.is_null() {
                object.append(key, input(wanted));
            }
            continue;
        };
        let found = property.value();
        let found_object = found.as_ref().and_then(CstNode::as_object);
        let found_list = found.as_ref().and_then(CstNode::as_array);
        match (wanted, found_object, found_list) {
            (Value::Null, ..) => property.remove(),
            (Value::Object(wanted), Some(found), _) => merge_object(&found, wanted, &at)?,
            (Value::Array(wanted), _, Some(found)) => merge_list(&found, wanted),
            (_, None, None) => {
                if !found.is_some_and(|found| is(&found, wanted)) {
                    property.set_value(input(wanted));
                }
            }
            (_, found, _) => {
                let there = if found.is_some() { "an object" } else { "a list" };
                return Err(invalid(format!("`{at}` is {there} in the file, and is not replaced")));
            }
        }
    }
    Ok(())
}

fn merge_list(list: &CstArray, wanted: &[Value]) {
    for value in wanted {
        if !list.elements().iter().any(|node| is(node, value)) {
            list.append(input(value));
        }
    }
}

fn remove_object(object: &CstObject, patch: &Object) {
    for (key, unwanted) in patch.iter() {
        let Some(property) = object.get(key) else { continue };
        let Some(found) = property.value() else { continue };
        let is_empty = match (unwanted, found.as_object(), found.as_array()) {
            (Value::Object(unwanted), Some(found), _) => {
                remove_object(&found, unwanted);
                found.properties().is_empty() && !unwanted.is_empty()
            }
            (Value::Array(unwanted), _, Some(found)) => {
                for node in found.elements() {
                    if unwanted.iter().any(|value| is(&node, value)) {
                        node.remove();
                    }
                }
                found.elements().is_empty() && !unwanted.is_empty()
            }
            _ => is(&found, unwanted),
        };
        if is_empty {
            property.remove();
        }
    }
}

/// Whether the settings say this here.
fn is(node: &CstNode, value: &Value) -> bool {
    node.to_serde_value().map(Value::from).as_ref() == Some(value)
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(list) => CstInputValue::Array(list.iter().map(input).collect()),
        Value::Object(object) => {
            let pairs = object.iter().map(|(key, value)| (key.to_owned(), input(value)));
            CstInputValue::Object(pairs.collect())
        }
    }
}

fn invalid(detail: String) -> Error {
    Error::new(ErrorKind::Invalid, "change settings", detail)
        .hint("nothing was changed; correct the file, or the patch")
}

#[cfg(test)]
mod tests {
    use tenure::json;

    use super::*;

    const COMMENTED: &str = r#"// Settings of a team.
{
    "model": "fast", // not the slow one
    "hooks": {
        /* ours */
        "PreToolUse": [
            { "matcher": "Bash", "hooks": [{ "type": "command", "command": "check" }] },
        ],
    },
    "unknown": { "deep": [1, 2.50, 1e3] },
}
"#;

    fn ours() -> Value {
        json!({
            "hooks": {
                "PreToolUse": [{ "matcher": "Edit", "hooks": [{ "type": "command", "command": "tenure" }] }],
                "Stop": [{ "hooks": [] }],
            },
        })
    }

    #[test]
    fn a_merge_keeps_comments_layout_and_other_keys() {
        let merged = changed(COMMENTED, &ours(), Change::Merge).unwrap().unwrap();
        for kept in [
            "// Settings of a team.",
            "// not the slow one",
            "/* ours */",
            "[1, 2.50, 1e3]",
            "\"check\"",
        ] {
            assert!(merged.contains(kept), "{kept} is gone from {merged}");
        }
        assert!(merged.contains("\"tenure\"") && merged.contains("\"Stop\""), "{merged}");
        assert_eq!(changed(&merged, &ours(), Change::Merge).unwrap(), None, "not idempotent");
        let back = changed(&merged, &ours(), Change::Remove).unwrap().unwrap();
        assert_eq!(back, COMMENTED);
        assert_eq!(changed(&back, &ours(), Change::Remove).unwrap(), None);
    }

    #[test]
    fn plain_settings_come_back_to_the_byte() {
        for before in [
            "{}",
            "{}\n",
            "{\n  \"a\": 1\n}\n",
            "{\n\t\"a\": 1\n}",
            "{\r\n  \"a\": 1\r\n}\r\n",
            "\u{feff}{\n  \"a\": 1\n}\n",
            "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      1\n    ]\n  }\n}\n",
        ] {
            let merged = changed(before, &ours(), Change::Merge).unwrap().unwrap();
            assert_eq!(changed(&merged, &ours(), Change::Merge).unwrap(), None, "{merged}");
            let back = changed(&merged, &ours(), Change::Remove).unwrap().unwrap();
            assert_eq!(back, before, "{merged}");
        }
    }

    #[test]
    fn missing_settings_are_an_empty_object() {
        for text in ["", " \n", "\u{feff}"] {
            let merged = changed(text, &json!({ "a": [1] }), Change::Merge).unwrap().unwrap();
            let value =
                tenure::json::parse(merged.trim_start_matches('\u{feff}').as_bytes()).unwrap();
            assert_eq!(value, json!({ "a": [1] }));
            assert_eq!(changed(text, &json!({}), Change::Merge).unwrap(), None);
            assert_eq!(changed(text, &json!({ "a": 1 }), Change::Remove).unwrap(), None);
        }
    }

    #[test]
    fn values_are_replaced_and_null_removes() {
        let text = "{\n  \"a\": 1, // one\n  \"b\": true,\n  \"n\": null\n}\n";
        let patch = json!({ "a": 2, "b": null, "c": null, "n": { "x": 1 } });
        let merged = changed(text, &patch, Change::Merge).unwrap().unwrap();
        assert!(merged.contains("\"a\": 2, // one") && !merged.contains("\"b\""), "{merged}");
        assert!(merged.contains("\"x\": 1") && !merged.contains("\"c\""), "{merged}");
    }

    #[test]
    fn what_is_not_understood_is_not_changed() {
        let deep = "[".repeat(100_000);
        for text in ["nonsense", "[1]", "{\"a\":", "7", "{\"a\":1}}", "<xml/>", &deep] {
            let refused = changed(text, &ours(), Change::Merge).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{}", &text[..text.len().min(20)]);
        }
        for text in ["{\"hooks\":[]}", "{\"hooks\":{\"PreToolUse\":{}}}"] {
            assert!(changed(text, &ours(), Change::Merge).is_err(), "{text}");
        }
        assert!(changed("{}", &json!([1]), Change::Merge).is_err());
    }
}
